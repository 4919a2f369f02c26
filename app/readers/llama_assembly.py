"""From the lines of a text trace to a Profile: begins and ends paired, operators told apart, steps of decoding."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ..domain.profile import Profile
from ..domain.tables import NO_ID, FrameKind, column, texts
from .llama_names import told_by
from .pytorch_assembly import Dialect
from .pytorch_assembly import assembled as of_events
from .trace_made import MadeEvents
from .trace_slices import Meaning, What
from .trace_tables import table

END = "end_"
SHOWN = 160
LAST_TENSORS = ("result_output", "lm_head", "output.weight")
"""What an evaluation of a language model computes last: how likely each token is."""
_NUMBERED = re.compile(r"(.+)_(\d+)", re.DOTALL)
_OPERATOR, _MARK = What("operator", FrameKind.OPERATOR), What("annotation", FrameKind.ANNOTATION)


class Collected:
    """What stands in a trace, while it is read."""

    def __init__(self) -> None:
        self.events = MadeEvents()
        self.edges: dict[str, int] = {}
        self._open: dict[tuple[str, str], list[int]] = {}
        self._lost: dict[str, tuple[int, str]] = {}
        self._arguments: dict[str, int] = {}

    @property
    def anything(self) -> bool:
        """Whether there is anything to show."""
        return bool(len(self.events))

    def lost(self, reason: str, number: int, line: bytes) -> None:
        """Note what could not be read."""
        count, first = self._lost.get(reason, (0, f"line {number}: {line[:SHOWN].decode('utf-8', 'replace')}"))
        self._lost[reason] = (count + 1, first)

    def takes(self, name: str, thread: str, time_ns: int) -> bool:
        """Take in a line with a name; False for the end of something that is not open on that thread."""
        if name.startswith(END):
            begun = self._open.get((thread, name[len(END) :]))
            if begun:
                self.events.end(begun.pop(), time_ns)
                return True
            # What is called so itself has a number of its own, and an end.
            if not _NUMBERED.fullmatch(name) or name.count(END) == 1:
                return False
        bare = _NUMBERED.fullmatch(name)
        shown = bare[1] if bare else name
        if shown not in self._arguments:
            self._arguments[shown] = self.events.arguments(told_by(shown))
        given = self._arguments[shown]
        category = "operator" if given >= 0 else "mark"
        row = self.events.begin(shown, thread, time_ns, category=category, arguments=given)
        self._open.setdefault((thread, name), []).append(row)
        return True

    def losses(self) -> list[tuple[str, int, str]]:
        """What could not be read."""
        return [(reason, count, first) for reason, (count, first) in self._lost.items()]


def _what(category: str, name: str) -> What:
    return _OPERATOR if category == "operator" else _MARK


def assembled(found: Collected, source: str, defect: str | None) -> Profile:
    """The profile of all that was collected."""
    from .llama_trace import CUT_OFF, FORMAT

    lost = found.losses()
    cut = None if "end_time" in found.edges else CUT_OFF
    if dropped := found.edges.get("lost", 0) // 1000:
        lost.append(("event that the tracer had no room for", dropped, "as the file says"))
    dialect = Dialect(FORMAT, Meaning(_what), "")
    profile = of_events(found.events.finish(lost), source, defect or cut, dialect)
    return replace(profile, steps=_steps(profile))


def _steps(profile: Profile) -> pa.Table:
    """Evaluations of the model: the marks of one name that took most of the time, outside of everything else; where
    there are none, from one computation of the last tensor to the next. The first is of the whole prompt, each other of
    one token."""
    slices = profile.slices
    start, length, thread, function = (
        column(slices, name) for name in ("start_ns", "duration_ns", "thread", "function")
    )
    names = texts(profile.functions, "name")
    outer = np.flatnonzero((column(slices, "depth") == 0) & (column(slices, "category") == _category(profile, "mark")))
    longest = np.bincount(function[outer], length[outer], len(names)) * (
        np.bincount(function[outer], None, len(names)) > 1
    )
    if len(longest) and longest.max() > 0:
        rows = outer[function[outer] == int(longest.argmax())]
        rows = rows[thread[rows] == thread[rows[0]]]
        begin, end = start[rows], start[rows] + length[rows]
    else:
        last = [number for number, name in enumerate(names) if told_by(name).get("tensor") in LAST_TENSORS]
        rows = np.flatnonzero(np.isin(function, last))
        rows = rows[thread[rows] == thread[rows[0]]] if len(rows) else rows
        end = start[rows] + length[rows]
        begin = np.concatenate(([int(start.min())], end[:-1])) if len(rows) else end
    order = np.argsort(begin, kind="stable") if len(rows) > 1 else rows[:0]
    name = names[int(function[rows[0]])] if len(order) else ""
    return table(
        "steps",
        rank=[None] * len(order),
        name=[f"{name} {number}" for number in range(1, len(order) + 1)],
        start_ns=begin[order],
        end_ns=end[order],
        thread=thread[rows][order],
    )


def _category(profile: Profile, name: str) -> int:
    return texts(profile.categories, "name").index(name) if name in texts(profile.categories, "name") else NO_ID
