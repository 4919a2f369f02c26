"""What the format is called, how it is recognized, and what may be lost of it."""

from ...domain.builder import IMPOSSIBLE_WEIGHT
from ...domain.losses import SAMPLE_LABELS

FORMAT = "pprof"
CUT_OFF = "bytes that are no pprof: the file is cut off or damaged there, and what follows is lost"
NO_VALUES = "sample whose values are not one for each type"
NO_LOCATION = "sample whose stack names a location that is not in the file"
NO_FUNCTION = "location whose function is not in the file"
NEGATIVE = "sample with a value below zero"
BAD_TYPE = "type of value that is no message"
BAD_SAMPLE = "sample that is no message"
BAD_MAPPING = "mapping that is no message"
BAD_LOCATION = "location that is no message"
BAD_FUNCTION = "function that is no message"
BAD_PERIOD_TYPE = "type of the period that is no message"
BAD_LABEL = "label that is no message"
LOSSES = (
    *(CUT_OFF, NO_VALUES, NO_LOCATION, NO_FUNCTION, NEGATIVE, SAMPLE_LABELS, IMPOSSIBLE_WEIGHT),
    *(BAD_TYPE, BAD_SAMPLE, BAD_MAPPING, BAD_LOCATION, BAD_FUNCTION, BAD_PERIOD_TYPE, BAD_LABEL),
)
