"""Checks of targets: the probe script, and the parsers of its output.

Pure. `perfloom.workers.remote.checks` runs the script.
"""
