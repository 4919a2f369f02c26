"""The target that always exists."""

LOCAL = "local"
"""Its name: the machine of the worker."""
