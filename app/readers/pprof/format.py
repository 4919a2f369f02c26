"""What the format is called, how it is recognized, and what may be lost of it."""

FORMAT = "pprof"
CUT_OFF = "bytes that are no pprof: the file is cut off or damaged there, and what follows is lost"
NO_VALUES = "sample whose values are not one for each type"
NO_LOCATION = "sample whose stack names a location that is not in the file"
NO_FUNCTION = "location whose function is not in the file"
NEGATIVE = "sample with a value below zero"
