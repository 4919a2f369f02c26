"""Comparison of two profiles."""
