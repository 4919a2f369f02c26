"""Loops over large arrays that are compiled, and where they are kept."""
