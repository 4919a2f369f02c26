"""Memory: blocks, curves and allocations."""
