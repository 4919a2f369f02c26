"""Trace events and everything derived from them: slices, stacks, samples, devices, memory. Shared by all formats of
traces."""
