"""Ratios: flame graphs that formulas color, and functions by two metrics."""
