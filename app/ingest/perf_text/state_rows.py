"""Rows of the states of threads for a profile of samples."""

from dataclasses import replace

import numpy as np

from ...domain.profile import Profile
from ...domain.tables import ROOT
from ..trace.event_builder import NONE
from ..trace.phases import MAX_TIME_NS
from ..trace.scheduler import STATE, classify_state
from ..trace.tables import build_table
from ..trace.thread_states import STATES, StateIntervals
from .script_builder import ThreadedProfileBuilder


class StateRows:
    """The states of threads as slices, each thread on a track below it. Their times count from the first sample.

    Threads that the builder does not have are left out."""

    def __init__(self, builder: ThreadedProfileBuilder, intervals: StateIntervals) -> None:
        self._zero = (builder.get_time_span_ns() or (0, 0))[0]
        functions = [builder.intern_function(name) for name in STATES]
        for name, function in zip(STATES, functions, strict=True):
            builder.intern_frame(function, kind=classify_state(name))
        known = list(builder.get_threads("thread"))
        possible = (intervals.start_ns >= self._zero) & (intervals.stop_ns - self._zero < 2 * MAX_TIME_NS)
        intervals = intervals.take(np.flatnonzero(possible & np.isin(intervals.task, known)))
        tasks, inverse = np.unique(intervals.task, return_inverse=True)
        thread = np.array(builder.intern_tracks(tasks.tolist()), np.int64)[inverse]
        self._intervals = intervals.take(order := np.lexsort((intervals.start_ns, thread)))
        self._thread, self._function = thread[order], np.array(functions, np.int64)[self._intervals.state]

    def add_to(self, profile: Profile) -> Profile:
        """The finished profile with these slices."""
        count, length = len(self._thread), self._intervals.stop_ns - self._intervals.start_ns
        slices = build_table(
            "slices",
            start_ns=self._intervals.start_ns - self._zero,
            duration_ns=length,
            self_ns=length,
            thread=self._thread,
            function=self._function,
            category=np.zeros(count, np.int64),
            depth=np.zeros(count, np.int64),
            parent=np.full(count, NONE),
            end=np.arange(1, count + 1),
            stack=np.full(count, ROOT),
            arguments=np.full(count, NONE),
        )
        return replace(profile, slices=slices, categories=build_table("categories", name=[STATE], kind=["other"]))
