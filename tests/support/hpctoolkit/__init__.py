"""A database of HPCToolkit for tests."""
