"""Metadata that the PyTorch recorder writes into its traces (see recorders/torch_inject.py)."""

import json
from dataclasses import dataclass
from typing import Any

from ...domain.text import sanitize_line

TOP_LEVEL_KEY = "perfloom"
"""Its key next to the events, and in the facts of a profile."""
SCHEDULE_KEYS = ("step", "counted", "schedule")
"""The part that is the same in all traces of a job, and stored as a fact: what a step is, whose steps count, and which
were requested."""
MAX_TEXT_CHARS = 400


@dataclass(frozen=True)
class RecorderInfo:
    """rank: None if unknown. steps_over: how many steps were over when the recording ended; None if there are none.
    reason: why it is incomplete, a sentence; else "". fact: for a profile, "" if there is none."""

    rank: int | None = None
    steps_over: int | None = None
    reason: str = ""
    fact: str = ""

    def is_incomplete(self, step: str) -> bool:
        """Whether a step, "ProfilerStep#3", was not over when the recording ended."""
        digits = step.rpartition("#")[2]
        return self.steps_over is not None and (len(digits) > 18 or int(digits) >= self.steps_over)


def parse_recorder_info(top: dict[str, Any]) -> RecorderInfo:
    """The metadata next to the events of a trace."""
    metadata = top.get(TOP_LEVEL_KEY)
    if not isinstance(metadata, dict):
        return RecorderInfo()
    reason = metadata.get("reason")
    of_all = {
        word: sanitize_line(metadata[word])[:MAX_TEXT_CHARS]
        for word in SCHEDULE_KEYS
        if isinstance(metadata.get(word), str)
    }
    return RecorderInfo(
        rank=to_count(metadata.get("rank")),
        steps_over=to_count(metadata.get("steps_over")),
        reason=sanitize_line(reason)[:MAX_TEXT_CHARS] if isinstance(reason, str) else "",
        fact=json.dumps(of_all) if of_all else "",
    )


def to_count(value: Any) -> int | None:
    """A value that is a count; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None
