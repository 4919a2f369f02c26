"""Counts of events, totals, ranks and runs."""
