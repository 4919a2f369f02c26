"""Names of the format, its losses and limits."""

from ...domain.builder import IMPOSSIBLE_STACK_WEIGHT, IMPOSSIBLE_WEIGHT
from ...domain.losses import SUMS_OF_FILES
from ...ingest.losses import UNRECOGNIZED_LINE

FORMAT = "perfanalyzer"
TEXT = "a result of PerfAnalyzer"
MISSING_FILE = "data file that is listed but was not given"
UNLISTED_FILE = "file that is not listed in the .results file, not read"
UNSAFE_NAME = "listed name with a directory, not read"
UNREADABLE_FILE = "data file that cannot be read"
TRACE_FILE = "trace file of PerfAnalyzer, not read"
NO_COUNTER = "event without a counter in a .results file: every sample counts 1"
NO_LAST_TIME = "data file without the time at its end"
TIME_BACK = "time before that of the previous slice"
UNREADABLE_SETTINGS = "settings that cannot be read"
LOSSES = (
    *(MISSING_FILE, UNLISTED_FILE, UNSAFE_NAME, UNREADABLE_FILE, TRACE_FILE, SUMS_OF_FILES, NO_COUNTER, NO_LAST_TIME),
    *(TIME_BACK, UNREADABLE_SETTINGS, UNRECOGNIZED_LINE, IMPOSSIBLE_STACK_WEIGHT, IMPOSSIBLE_WEIGHT),
)
MAX_INDEX_BYTES = 16 << 20
MAX_SETTINGS_BYTES = 1 << 20
