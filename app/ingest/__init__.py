"""Shared by readers: trace events, JSON, perf text, compiled loops, compression, and merging of ranks."""
