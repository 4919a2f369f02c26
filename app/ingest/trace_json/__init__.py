"""Trace_json."""
