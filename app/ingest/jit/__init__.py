"""Compiled loops over large arrays, and their cache."""
