"""Pages that compare two results."""
