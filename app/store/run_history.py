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

MAX_FOUND = 10_000
"""Results that are considered, the newest."""
MIN_VARIED, MAX_VARIED = 6, 100
"""Results of a command that tell how much its runs vary, the newest."""


def find_runs(results: Results, *, tag: str = "", name: str = "", command: str = "") -> list[Result]:
    """The results with this tag, name and command, as far as they are given, the oldest first. Raises InvalidRequest
    without any."""
    if not (tag or name or command):
        raise InvalidRequest("A history is of a tag, a name or a command. Choose one.", "tag")
    found, _ = results.search(tag=tag, name=name, command=command, limit=MAX_FOUND)
    return sorted(found, key=lambda result: (time_of(result), result.created, result.id))


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
    known = [result for result in found if not result.missing]
    absent = unreadable = 0
    # Only as many as are shown are opened.
    for result in known[-MAX_RUNS:] if function else known:
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
        runs.append(HistoryRun(result.id, result.name, time_of(result), result.host, value, variance))
    left_out = []
    if len(known) < len(found):
        left_out.append(f"{len(found) - len(known)} whose files are missing are left out.")
    if absent:
        left_out.append(f"{absent} without {shorten(event)} in {unit} are left out.")
    if unreadable:
        left_out.append(f"{unreadable} cannot be read and are left out.")
    if function and len(known) > MAX_RUNS:
        left_out.append(f"Only the newest {MAX_RUNS} of {len(known):,} are read.")
    hosts = {run.host for run in runs[-MAX_RUNS:] if run.host}
    if len(hosts) > 1:
        left_out.append(f"They are from {len(hosts)} hosts, so that changes may be those of the host.")
    return build_history(runs, event, unit or "count", function=function, measure=measure, left_out=left_out)


def find_variation(results: Results, result: Result, event: str) -> tuple[float, int] | None:
    """(coefficient of variation of the total of an event, number of results) of all results of the same command on the
    same host. None if there are fewer than `MIN_VARIED`, or if command or host are unknown."""
    from ..analysis.compare.history import find_levels

    total = next((one for one in result.events if one.name == event), None)
    if total is None or not (result.command and result.host):
        return None
    found, _ = results.search(command=result.command, host=result.host, limit=MAX_VARIED)
    totals = [
        one.total
        for other in found
        if not other.missing
        for one in other.events
        if (one.name, one.unit, bool(one.samples)) == (event, total.unit, bool(total.samples)) and one.total
    ]
    values = np.array([value for value in totals if value > 0], np.float64)[::-1]
    return (find_levels(values).variation, len(values)) if len(values) >= MIN_VARIED else None


def time_of(result: Result) -> float:
    """When a result was recorded, else stored: seconds since the epoch."""
    return result.created if result.recorded is None else result.recorded


def _of_whole(total: EventTotal) -> tuple[float, float]:
    """(total, relative variance of sampling)."""
    return float(total.total or 0), 1 / total.samples if total.samples else 0.0
