"""Source lines and instructions: which of them samples were taken in."""
