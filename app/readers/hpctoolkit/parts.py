"""The files of a database, by their first bytes."""

import re

META, PROFILE, CONTEXTS, TRACE = b"HPCTOOLKITmeta", b"HPCTOOLKITprof", b"HPCTOOLKITctxt", b"HPCTOOLKITtrce"
"""Of meta.db, profile.db, cct.db and trace.db."""
METRICS = b"HPCPROF-metricdb__"
"""Of a metric-db file."""
TREE_FILE, VALUES_FILE, REPEATED_FILE = "tree", "values", "repeated"
_EXPERIMENT = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE\s+HPCToolkitExperiment\b|<HPCToolkitExperiment\b)")


def classify_file(head: bytes) -> str | None:
    """What a file that starts with `head` is in a database: TREE_FILE for experiment.xml and meta.db, VALUES_FILE for
    .metric-db files and profile.db, REPEATED_FILE for cct.db and trace.db, which are not read. None: no file of one."""
    if head.startswith(META) or _EXPERIMENT.match(head):
        return TREE_FILE
    if head.startswith((METRICS, PROFILE)):
        return VALUES_FILE
    return REPEATED_FILE if head.startswith((CONTEXTS, TRACE)) else None
