"""Targets, where jobs run; what a check of a target found; and the states of batch jobs.

The modules are imported at first access: a job on this machine does not need them.
"""

from typing import TYPE_CHECKING

from ...lazy_names import load_on_use
from .local import LOCAL

if TYPE_CHECKING:
    from .batch import BatchState, BatchStatus
    from .facts import BatchQueue, CheckLine, CheckStatus, TargetFacts
    from .target import KEEP_HOURS, RESERVED_PREFIXES, TARGET_FIELDS, SchedulerName, Ssh, Target

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

_MODULES = {
    "KEEP_HOURS": "target",
    "RESERVED_PREFIXES": "target",
    "TARGET_FIELDS": "target",
    "BatchQueue": "facts",
    "BatchState": "batch",
    "BatchStatus": "batch",
    "CheckLine": "facts",
    "CheckStatus": "facts",
    "SchedulerName": "target",
    "Ssh": "target",
    "Target": "target",
    "TargetFacts": "facts",
}

__getattr__ = load_on_use(__name__, _MODULES)
