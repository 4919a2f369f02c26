"""The name of the format, how it is recognized, and its losses."""

from ...domain.builder import IMPOSSIBLE_WEIGHT
from ...domain.losses import SAMPLE_LABELS

FORMAT = "pprof"
CUT_OFF = "bytes that are not pprof: the file is truncated or damaged there, and the rest is lost"
NO_STRING = "name that is not in the string table"
NO_VALUES = "sample without exactly one value for each type"
NO_LOCATION = "sample with a location that is not in the file"
NO_FUNCTION = "location with a function that is not in the file"
NEGATIVE = "sample with a negative value"
BAD_TYPE = "type of value that is no message"
BAD_SAMPLE = "sample that is no message"
BAD_MAPPING = "mapping that is no message"
BAD_LOCATION = "location that is no message"
BAD_FUNCTION = "function that is no message"
BAD_PERIOD_TYPE = "type of the period that is no message"
BAD_LABEL = "label that is no message"
LOSSES = (
    *(CUT_OFF, NO_STRING, NO_VALUES, NO_LOCATION, NO_FUNCTION, NEGATIVE, SAMPLE_LABELS, IMPOSSIBLE_WEIGHT),
    *(BAD_TYPE, BAD_SAMPLE, BAD_MAPPING, BAD_LOCATION, BAD_FUNCTION, BAD_PERIOD_TYPE, BAD_LABEL),
)
