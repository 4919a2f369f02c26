"""JSON of trace events: a compiled, parallel scanner, and a decoder for everything that is not strict JSON."""
