"""Recordings and texts of perf that tests make."""
