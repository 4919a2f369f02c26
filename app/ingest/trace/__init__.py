"""Trace events, and what is made of them: slices, stacks, samples, devices, memory. All formats that trace share it."""
