"""The records of perf.data files, read as columns: no process of perf, no text."""
