"""The runs of a history: results of one tag or one name, and the event that they have in common."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from sqlalchemy import select

from ..domain.errors import InvalidRequest, NotFound, UnreadableInput
from ..domain.text import shorten
from .event_total import EventTotal
from .models.jobs import JobRow
from .result import Result
from .results import Results

if TYPE_CHECKING:
    from ..analysis.compare.run_history import RunHistory
    from ..analysis.compare.runs import EarlierRuns
    from ..domain.selection import Selection

MAX_FOUND = 10_000
"""Results that are considered, the newest."""
MAX_SEARCHED, MAX_EARLIER = 100, 12
"""Results of a command that are considered, and that are read, to learn how much its runs vary: the newest."""
MAX_KEPT = 20 * MAX_EARLIER
"""Earlier results whose runs are kept in memory, those used last."""


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


def find_earlier_results(results: Results, compared: Sequence[Result], event: str) -> list[Result]:
    """Complete results of the same command on the same host, recorded before the newest one of `compared`, that sampled
    the event, without warm-up runs and without copies, such as a file that was imported twice: at most `MAX_EARLIER`,
    the newest, the oldest of them first. `results` has only what the user may see.

    None if the compared results are from several hosts, or if command or host are unknown. If they are of several
    commands, those of the first one's.
    """
    first = compared[0]
    if not (first.command and first.host) or any(result.host != first.host for result in compared):
        return []
    newest, taken = max(map(time_of, compared)), {result.id for result in compared}
    found, _ = results.search(command=first.command, host=first.host, limit=MAX_SEARCHED)
    earlier = [
        result
        for result in found
        if result.id not in taken
        and result.complete
        and not result.missing
        and time_of(result) <= newest
        and any(one.name == event and one.samples for one in result.events)
    ]
    jobs = [result.job_id for result in earlier if result.job_id]
    warm_up = JobRow.details["series"]["run"].as_integer() == 0
    with results.database.read() as session:
        left_out = set(session.scalars(select(JobRow.id).where(JobRow.id.in_(jobs), warm_up)))
    once = {_content_of(result) for result in compared}
    distinct: list[Result] = []
    for result in earlier:
        # A copy has no noise between runs, so that it would make every difference evident.
        if result.job_id not in left_out and _content_of(result) not in once:
            once.add(_content_of(result))
            distinct.append(result)
    return sorted(distinct, key=lambda result: (time_of(result), result.created, result.id))[-MAX_EARLIER:]


def read_earlier_results(
    results: Results, compared: Sequence[Result], selection: "Selection", rules: tuple[str, ...] = ()
) -> "Callable[[str], Sequence[EarlierRuns]]":
    """For `compare_runs`: the runs of `find_earlier_results` for an event. Results that cannot be read are left out.
    rules: for names of functions. What was read is kept in this process, because results do not change.
    """

    def read(event: str) -> "Sequence[EarlierRuns]":
        found = []
        for result in find_earlier_results(results, compared, event):
            try:
                found.append(_read_earlier(results, result.id, selection, event, rules))
            except (UnreadableInput, NotFound):
                continue
        return found

    return read


_kept: "OrderedDict[Hashable, EarlierRuns]" = OrderedDict()
_kept_lock = Lock()


def _read_earlier(
    results: Results, id: str, selection: "Selection", event: str, rules: tuple[str, ...]
) -> "EarlierRuns":
    from ..analysis.compare.merged_names import merge_names
    from ..analysis.compare.runs import read_earlier_runs

    key = (results.path(id), selection, event, rules)
    with _kept_lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    # Not with the profiles of pages, which it would displace.
    found = read_earlier_runs(merge_names(results.open_once(id), rules), selection, event)
    with _kept_lock:
        _kept[key] = found
        while len(_kept) > MAX_KEPT:
            _kept.popitem(last=False)
    return found


def time_of(result: Result) -> float:
    """When a result was recorded, else stored: seconds since the epoch."""
    return result.created if result.recorded is None else result.recorded


def _content_of(result: Result) -> Hashable:
    """Equal for copies of a recording; two runs do not have the same totals and the same duration in nanoseconds."""
    totals = tuple((event.name, event.total, event.samples) for event in result.events)
    return totals, result.samples, result.threads, result.duration_ns


def _of_whole(total: EventTotal) -> tuple[float, float]:
    """(total, relative variance of sampling)."""
    return float(total.total or 0), 1 / total.samples if total.samples else 0.0
