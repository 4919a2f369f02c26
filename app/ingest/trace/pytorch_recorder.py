"""What the recorder of PyTorch says in the traces it makes (see recorders/torch_inject.py), if it did."""

import json
from dataclasses import dataclass
from typing import Any

from ...domain.plain import one_line

WORD = "perfloom"
"""Under which it stands beside the events, and in the facts of a profile."""
OF_ALL = ("step", "counted", "schedule")
"""What is the same in all traces of a job, and told as a fact: what a step is, whose steps count, and which were asked
for."""
MOST_TEXT = 400


@dataclass(frozen=True)
class Recorded:
    """rank: None where it is not known. steps_over: how many steps were over when the recording ended; None where there
    are none. reason: why it is not all that was asked for, a sentence; empty where it is. fact: for a profile, empty
    where there is nothing to tell."""

    rank: int | None = None
    steps_over: int | None = None
    reason: str = ""
    fact: str = ""

    def cut_short(self, step: str) -> bool:
        """Whether a step, "ProfilerStep#3", was not over when the recording ended."""
        digits = step.rpartition("#")[2]
        return self.steps_over is not None and (len(digits) > 18 or int(digits) >= self.steps_over)


def recorded(top: dict[str, Any]) -> Recorded:
    """What stands beside the events of a trace."""
    said = top.get(WORD)
    if not isinstance(said, dict):
        return Recorded()
    reason = said.get("reason")
    of_all = {word: one_line(said[word])[:MOST_TEXT] for word in OF_ALL if isinstance(said.get(word), str)}
    return Recorded(
        rank=number(said.get("rank")),
        steps_over=number(said.get("steps_over")),
        reason=one_line(reason)[:MOST_TEXT] if isinstance(reason, str) else "",
        fact=json.dumps(of_all) if of_all else "",
    )


def number(value: Any) -> int | None:
    """A value where it is a number of something; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None
