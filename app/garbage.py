"""Garbage collection, which delays commands and pages."""

import gc

THRESHOLD = 50_000
"""New objects between two collections. Python's default is 700."""


def collect_rarely() -> None:
    """For a process that creates many objects, of which few are garbage."""
    gc.set_threshold(THRESHOLD)


def exclude_existing() -> None:
    """Never look again at what exists now: loaded modules, and what is made once."""
    gc.collect()
    gc.freeze()
