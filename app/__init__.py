"""Perfloom records performance anywhere and explains it in the browser."""

__version__ = "0.1.0"
