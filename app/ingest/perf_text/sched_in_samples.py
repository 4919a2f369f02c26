"""Scheduler events in a text with other samples: how long threads ran and waited."""

import re

from ...domain.profile import Profile
from .losses import SAMPLED_SWITCHES
from .sched_profile import ONLY_SWITCH_OUT, RECORD_ALL_ADVICE, SchedTextParser
from .script_builder import ThreadedProfileBuilder
from .state_rows import StateRows

_SWITCH = re.compile(rb"^(?!#)[^\n]{20,200}? sched:sched_switch: ++prev_comm=", re.MULTILINE)


def text_has_switches(text: bytes) -> bool:
    """Whether a text of perf script has context switches with their fields."""
    return _SWITCH.search(text) is not None


class SchedInSamples:
    """Collects the scheduler events of a text whose samples another parser reads."""

    def __init__(self) -> None:
        self._found = SchedTextParser()
        self._states: StateRows | None = None

    def feed(self, text: bytes) -> None:
        """Add whole lines with the call stacks that belong to them."""
        found = self._found
        _, found.last_ns = found.sched.feed_lines(text, found.last_ns)

    def add_samples(self, builder: ThreadedProfileBuilder) -> str:
        """Add samples of how long threads ran and waited; none where not every switch was recorded.

        Returns why there are none, if that is so because of what was recorded; else "".
        """
        found = self._found
        if found.sched.skipped:
            builder.add_loss(SAMPLED_SWITCHES, RECORD_ALL_ADVICE, min(found.sched.skipped, 1 << 62))
            return ""
        found.sched.finish()
        if found.scheduling:
            intervals = found.scheduling.add_samples(builder, found.last_ns, found.get_frames)
            self._states = StateRows(builder, intervals) if len(intervals.task) else None
        for reason, count, example in found.get_losses():
            builder.add_loss(reason, example, count)
        return ONLY_SWITCH_OUT if found.scheduling.lacks_runtimes else ""

    def add_states(self, profile: Profile) -> Profile:
        """The finished profile with the states of its threads over time, as slices of tracks."""
        return profile if self._states is None else self._states.add_to(profile)
