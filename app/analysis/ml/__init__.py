"""Machine learning: steps, operators, kernels, modules, devices."""
