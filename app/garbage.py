"""Garbage collection, which delays commands and pages."""

import gc

LOADING_THRESHOLD = 500_000
"""New objects between two collections while modules are loaded, which have fewer. Python's default is 700."""
SERVING_THRESHOLD = 50_000


def collect_rarely() -> None:
    """For a process that creates many objects, of which few are garbage."""
    gc.set_threshold(LOADING_THRESHOLD)


def exclude_existing() -> None:
    """For a server after its start: exclude what exists now from collections, modules and what is made once."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(SERVING_THRESHOLD)
