"""Perf_text."""
