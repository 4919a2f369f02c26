"""Top-down analysis: which part of a CPU limits a program, from counts of its pipeline slots."""
