"""Call stacks: call trees, flame graphs and hotspots."""
