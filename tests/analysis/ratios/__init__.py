"""Ratios."""
