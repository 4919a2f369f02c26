"""Why records of perf.data could not be used."""

UNKNOWN_RECORD = "record of an unknown type"
UNKNOWN_EVENT = "sample of an unknown event"
RECORD_LOSSES = (UNKNOWN_RECORD, UNKNOWN_EVENT)
"""What is reported in addition to the losses of perf's text."""
