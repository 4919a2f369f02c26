"""Targets: what their values may be, how one is asked what it has, and what its answers mean.

Pure: scripts to run there and the reading of what they print. They are run by `perfloom.workers.remote.checks`.
"""
