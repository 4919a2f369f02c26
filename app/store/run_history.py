"""The runs of a history: results of one tag or one name, and the event that they have in common."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..domain.errors import InvalidRequest, NotFound, UnreadableInput
from ..domain.text import shorten
from .event_total import EventTotal
from .result import Result
from .results import Results

if TYPE_CHECKING:
    from ..analysis.compare.run_history import RunHistory

MAX_FOUND = 2_000
"""Results that are considered, the newest."""
MIN_VARIED, MAX_VARIED = 6, 100
"""Results of a command that tell how much its runs vary, the newest."""


def find_runs(results: Results, *, tag: str = "", name: str = "", command: str = "") -> list[Result]:
    """The results with this tag, name and command, as far as they are given, the oldest first. Raises InvalidRequest
    without any."""
    if not (tag or name or command):
        raise InvalidRequest("A history is of a tag, a name or a command. Choose one.", "tag")
    found, _ = results.search(tag=tag, name=name, command=command, sort="recorded", limit=MAX_FOUND)
    return sorted(found, key=lambda result: (time_of(result), result.id))


def list_common_events(found: Sequence[Result]) -> list[tuple[str, str]]:
    """(event, unit) of these results: those that most of them have, and among these the main events, are first."""
    counts = Counter((event.name, event.unit) for result in found for event in result.events)
    main = Counter((event.name, event.unit) for result in found for event in result.events[:1])
    return sorted(counts, key=lambda event: (-counts[event], -main[event], event))


def collect_history(
    results: Results, found: Sequence[Result], *, event: str = "", function: str = "", measure: str = "total"
) -> "RunHistory":
    """The history of an event, or of a function in it, over these results. event: empty for the one that most have.

    Raises InvalidRequest if none of them has the event.
    """
    from ..analysis.compare.run_history import MAX_RUNS, HistoryRun, build_history, measure_function

    events = list_common_events(found)
    unit = next((unit for name, unit in events if name == event), None) if event else None
    if event and unit is None:
        raise InvalidRequest(
            f"None of these results has the event {shorten(event)!r}. They have "
            f"{', '.join(shorten(name) for name, _ in events[:10]) or 'no events'}.",
            "event",
        )
    if not event:
        event, unit = events[0] if events else ("", "count")
    runs: list[HistoryRun] = []
    absent = unreadable = 0
    # Only as many as are shown are opened.
    for result in list(found)[-MAX_RUNS:] if function else found:
        total = next((one for one in result.events if (one.name, one.unit) == (event, unit)), None)
        if total is None:
            absent += 1
            continue
        value, variance = _of_whole(total)
        if function:
            try:
                value, variance = measure_function(results.open(result.id), event, function, measure)
            except (UnreadableInput, NotFound):
                unreadable += 1
                continue
        runs.append(HistoryRun(result.id, result.name, time_of(result), result.host, result.command, value, variance))
    left_out = []
    if absent:
        left_out.append(f"{absent} without {shorten(event)} are left out.")
    if unreadable:
        left_out.append(f"{unreadable} cannot be read and are left out.")
    if function and len(found) > MAX_RUNS:
        left_out.append(f"Only the newest {MAX_RUNS} of {len(found):,} are read.")
    hosts = {run.host for run in runs if run.host}
    if len(hosts) > 1:
        left_out.append(f"They are from {len(hosts)} hosts, so that changes may be those of the host.")
    return build_history(runs, event, unit or "count", function=function, measure=measure, left_out=left_out)


def find_variation(results: Results, found: Sequence[Result], event: str) -> tuple[float, int] | None:
    """(coefficient of variation between runs, number of results) from all results of the same commands on the same
    hosts: of several commands that which varies most. None if there are fewer than `MIN_VARIED` of any."""
    from ..analysis.compare.history import find_levels

    known: list[tuple[float, int]] = []
    for command, host in {(result.command, result.host) for result in found}:
        runs, _ = results.search(command=command, host=host, sort="recorded", limit=MAX_VARIED) if command else ((), 0)
        totals = [one.total for result in runs for one in result.events if one.name == event]
        values = np.array([total for total in totals if total is not None and total > 0], np.float64)
        if len(values) < MIN_VARIED:
            return None
        known.append((find_levels(values).variation, len(values)))
    return max(known, default=None)


def time_of(result: Result) -> float:
    """When a result was recorded, else stored: seconds since the epoch."""
    return result.created if result.recorded is None else result.recorded


def _of_whole(total: EventTotal) -> tuple[float, float]:
    """(total, relative variance of sampling)."""
    return float(total.total or 0), 1 / total.samples if total.samples else 0.0
