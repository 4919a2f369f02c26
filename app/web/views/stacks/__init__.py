"""Pages of call stacks: flame graph, call tree, hotspots."""
