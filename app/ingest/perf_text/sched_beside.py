"""What the scheduler's events tell in a text of other samples: how long threads ran and waited, beside all else."""

import re

from ...domain.builder import ProfileBuilder
from .scheduling import SKIPPED, WHOLE, Collected

_SWITCH = re.compile(rb"^(?!#)[^\n]{20,200}? sched:sched_switch: ++prev_comm=", re.MULTILINE)


def tells_switches(text: bytes) -> bool:
    """Whether a text of perf script has, among other things, switches with what they tell."""
    return _SWITCH.search(text) is not None


class Beside:
    """Collects the events of the scheduler in a text, whose samples are another's."""

    def __init__(self) -> None:
        self._found = Collected()

    def take(self, text: bytes) -> None:
        """Take in whole lines with the call stacks that belong to them."""
        found = self._found
        _, found.last_ns = found.sched.most(text, found.last_ns)

    def add(self, builder: ProfileBuilder) -> None:
        """Add samples of how long threads ran and waited; none where not every switch was recorded."""
        found = self._found
        if found.sched.skipped:
            builder.lost(SKIPPED, WHOLE, min(found.sched.skipped, 1 << 62))
            return
        found.sched.finish()
        if found.scheduling:
            found.scheduling.beside(builder, found.last_ns, found.frames)
        for reason, count, example in found.losses():
            builder.lost(reason, example, count)
