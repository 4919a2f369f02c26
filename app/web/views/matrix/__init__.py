"""The page of the matrix."""
