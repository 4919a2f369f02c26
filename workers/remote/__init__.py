"""Jobs that scripts run: copied to a directory at their target, started there, polled, and collected.

    staging      the directory, its files and inputs; each submission started at most once
    polling      all jobs of a target together: one query to its batch system, one script for the rest
    collecting   fetch what was recorded, and remove the directory

All state is in two places: the job's row (its directory, the ids of its submissions, requests to end it), and the files
at the target. So any worker can continue from there.
"""
