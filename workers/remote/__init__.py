"""Planned jobs: laid down in a directory at their target, started there, looked at, and brought back.

    staging      the directory, its files and inputs; each submission started at most once
    polling      all jobs of a target looked at together: one question to its batch system, one script for the rest
    collecting   what was recorded brought here, and nothing left behind

Everything that lasts lies in two places: the job's row (its directory there, what its submissions are called, what was
asked of it), and the files at the target. So whoever goes on, goes on from there.
"""
