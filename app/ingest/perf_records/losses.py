"""Why records of perf.data could not be used."""

UNKNOWN_RECORD = "record of an unknown type"
UNKNOWN_EVENT = "sample of an unknown event"
UNTIMED_CODE = "code of a JIT compiler without times"
RECORD_LOSSES = (UNKNOWN_RECORD, UNKNOWN_EVENT, UNTIMED_CODE)
"""What is reported in addition to the losses of perf's text."""
