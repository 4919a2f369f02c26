"""The name of the format, how it is recognized, and its losses."""

MAGIC = b"NVR\0"
DAMAGED = "damaged part of a report"
UNNAMED_METRIC = "metric whose name is not in the report"
UNKNOWN_LAUNCH = "launch without a kernel name"
COUNTS_OUTSIDE = "counts outside the functions of a launch"
TOO_LONG = "list of values of more than 32 MiB"
RANGE_RESULT = "result of a range, which has no individual launches"
REPORT_LOSSES = (DAMAGED, UNNAMED_METRIC, UNKNOWN_LAUNCH, COUNTS_OUTSIDE, TOO_LONG, RANGE_RESULT)
