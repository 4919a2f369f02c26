"""Targets, where jobs run; what a check of a target found; and the states of batch jobs."""

from .batch import BatchState, BatchStatus
from .facts import BatchQueue, CheckLine, CheckStatus, TargetFacts
from .target import KEEP_HOURS, LOCAL, RESERVED_PREFIXES, TARGET_FIELDS, SchedulerName, Ssh, Target

__all__ = [
    "KEEP_HOURS",
    "LOCAL",
    "RESERVED_PREFIXES",
    "TARGET_FIELDS",
    "BatchQueue",
    "BatchState",
    "BatchStatus",
    "CheckLine",
    "CheckStatus",
    "SchedulerName",
    "Ssh",
    "Target",
    "TargetFacts",
]
