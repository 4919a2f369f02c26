"""Pages of traces: steps, operators, kernels, modules, memory, communication."""
