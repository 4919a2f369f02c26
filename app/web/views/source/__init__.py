"""Source lines and instructions of functions."""
