"""Names of the format, its files, its losses and limits."""

from ...domain.builder import IMPOSSIBLE_STACK_WEIGHT, IMPOSSIBLE_WEIGHT

FORMAT = "hpctoolkit"
TEXT = "an HPCToolkit database"
MAX_FILE_BYTES = (1 << 31) - 1
"""Of meta.db and of a metric-db file."""
MAX_NAME_CHARS = 10_000

UNREADABLE_FILE = "file of the database that cannot be read"
OTHER_FILE = "file that is not part of the database, not read"
UNREADABLE_PROFILE = "profile of a thread that cannot be read"
UNKNOWN_CONTEXT = "value of a context that is not in the tree"
UNKNOWN_METRIC = "value of a metric that is not described"
TOO_SMALL = "context with less than its callees together"
NO_OWN_VALUES = "metric whose values of single contexts are not stored"
INVALID_ELEMENT = "element of the call tree with an invalid or repeated id"
LOSSES = (
    *(UNREADABLE_FILE, OTHER_FILE, UNREADABLE_PROFILE, UNKNOWN_CONTEXT, UNKNOWN_METRIC, TOO_SMALL, NO_OWN_VALUES),
    *(INVALID_ELEMENT, IMPOSSIBLE_STACK_WEIGHT, IMPOSSIBLE_WEIGHT),
)
