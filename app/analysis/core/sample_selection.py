"""From a Selection to rows and weights: which samples are selected, and their weights by stack, call and thread.

Samples are sorted by time, so a window is two binary searches, plus a few rows of samples with a duration that reach
into it (`windows`). Of samples at its edges only the part inside counts: use `clip_weights`. Sums are of
int64, so all results are exact up to 2**63.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, BoolArray
from ...domain.errors import InvalidRequest, UnreadableInput
from ...domain.event_names import find_event
from ...domain.list_text import abbreviate_names
from ...domain.profile import Profile
from ...domain.selection import UNKNOWN_HOST, Selection, format_process_key, format_thread_key
from ...domain.tables import NO_ID, get_column, get_strings
from ...domain.text import shorten
from ...domain.validation import sum_overflows
from .frame_filter import shown_calls
from .functions import match_functions
from .memo import memoize
from .trees import mark_subtrees
from .windows import (
    MAX_TIME_NS,
    ClippedSamples,
    DurationEvents,
    clip_to_window,
    find_crossing_samples,
    find_duration_events,
    resolve_step,
    select_step_samples,
)

Rows = Array | slice


@dataclass(frozen=True, eq=False)
class SampleColumns:
    """The columns of `samples` as arrays, with values that are often derived from them.

    count_by_event: number of samples of each event. call: of each row of `stacks`. weight: not clipped, see
    `clip_weights`.
    """

    time_ns: Array
    thread: Array
    event: Array
    stack: Array
    weight: Array
    count_by_event: Array
    call: Array


@dataclass(frozen=True, eq=False)
class ThreadColumns:
    """The table `threads` as Python objects. names: all names of each thread over time. rank: -1 if unknown."""

    key: list[str]
    process_key: list[str]
    names: list[set[str]]
    name: list[str]
    process: list[str]
    host: list[str]
    rank: Array
    pid: list[int | None]
    tid: list[int | None]
    kind: list[str]


def samples_of(profile: Profile) -> SampleColumns:
    """The samples' columns, mapped and not copied. Raises UnreadableInput if their sum exceeds 2**63."""

    def build() -> SampleColumns:
        table = profile.samples
        weight, event = get_column(table, "weight"), get_column(table, "event")
        if sum_overflows(weight):
            raise UnreadableInput(
                "The weights of this result add up to more than 2^63, which cannot be correct. Import it again "
                "from a file with valid counts."
            )
        return SampleColumns(
            time_ns=get_column(table, "time_ns"),
            thread=get_column(table, "thread"),
            event=event,
            stack=get_column(table, "stack"),
            weight=weight,
            count_by_event=np.bincount(event, minlength=profile.events.num_rows),
            call=get_column(profile.stacks, "call"),
        )

    return memoize(profile, "samples", build, pin=True)


def threads_of(profile: Profile) -> ThreadColumns:
    """The threads of a profile; built once."""

    def build() -> ThreadColumns:
        table = profile.threads
        rank, pid, tid = (table.column(name).to_pylist() for name in ("rank", "pid", "tid"))
        name = get_strings(table, "name")
        names = [{n} if n else set() for n in name]
        thread_names = profile.thread_names
        for thread, text in zip(
            thread_names.column("thread").to_pylist(), get_strings(thread_names, "name"), strict=True
        ):
            names[thread].add(text)
        return ThreadColumns(
            key=[format_thread_key(*ids) for ids in zip(rank, pid, tid, strict=True)],
            process_key=[format_process_key(*ids) for ids in zip(rank, pid, strict=True)],
            names=names,
            name=name,
            process=get_strings(table, "process"),
            host=get_strings(table, "host"),
            rank=np.array([-1 if r is None else r for r in rank], np.int64),
            pid=pid,
            tid=tid,
            kind=get_strings(table, "kind"),
        )

    return memoize(profile, "threads", build, pin=True)


def ranks_of(profile: Profile) -> Array:
    """The ranks, ascending: of threads, of counts, and those without measurements."""

    def build() -> Array:
        tables = (profile.threads, profile.counts, profile.ranks)
        return np.unique(np.concatenate([table.column("rank").drop_null().to_numpy() for table in tables]))

    return memoize(profile, "ranks", build, pin=True)


def hosts_of(profile: Profile) -> list[str]:
    """The hosts: those of ranks, then those of threads and counts."""

    def build() -> list[str]:
        tables = (profile.ranks, profile.threads, profile.counts)
        return list(
            dict.fromkeys(host for table in tables for host in table.column("host").unique().to_pylist() if host)
        )

    return memoize(profile, "hosts", build, pin=True)


def event_names(profile: Profile) -> list[str]:
    """The names of the events, by id."""
    return memoize(profile, "event names", lambda: get_strings(profile.events, "name"), pin=True)


def event_id(profile: Profile, name: str | None) -> int:
    """The id of event `name`; for None that of the main event; NO_ID if the profile has no event.

    Raises InvalidRequest with the available events.
    """
    names = event_names(profile)
    if name is None:
        main = profile.meta.main_event
        if main in names:
            return names.index(main)
        return 0 if names else NO_ID
    place = find_event(name, names, get_strings(profile.events, "attributes"))
    if place is not None:
        return place
    known = abbreviate_names([shorten(name) for name in names], 20)
    raise InvalidRequest(
        f"This result has no event {shorten(name)!r}; choose one of: {known}."
        if names
        else f"This result has no event {shorten(name)!r}, nor any other; omit the event.",
        "event",
    )


def resolve_event_name(profile: Profile, selection: Selection) -> Selection:
    """`selection` with the event named as in the profile; the request may name it as typed when recording
    (`cpu-clock/freq=997/`). Raises InvalidRequest with the available events."""
    if selection.event is None:
        return selection
    return selection.replace(event=event_names(profile)[event_id(profile, selection.event)])


def select_events(profile: Profile, selection: Selection) -> list[int]:
    """The ids of the events a table shows: the one selected, else all."""
    if selection.event is not None:
        return [event_id(profile, selection.event)]
    return list(range(profile.events.num_rows))


def check_selection(profile: Profile, selection: Selection) -> None:
    """Raise InvalidRequest if a selection refers to something that the profile does not have, or has an invalid
    pattern."""
    select_events(profile, selection)
    select_threads(profile, selection)
    filter_calls(profile, selection)


def select_threads(profile: Profile, selection: Selection) -> Array | None:
    """Which threads are selected, as bools by id; None for all of them.

    Raises InvalidRequest for a thread, process, rank, host or step that does not exist.
    """
    if selection.step is not None:
        resolve_step(profile, selection.step)
    if not selection.has_places:
        return None
    threads = threads_of(profile)
    chosen = np.ones(len(threads.key), bool)
    if selection.threads:
        wanted = set(selection.threads)
        chosen = np.array(
            [
                key in wanted or not wanted.isdisjoint(names)
                for key, names in zip(threads.key, threads.names, strict=True)
            ],
            bool,
        )
        known = set(threads.key).union(*threads.names)
        for missing in (t for t in selection.threads if t not in known):
            raise InvalidRequest(
                f"This result has no thread {shorten(missing)!r}; the threads page lists names and keys.", "thread"
            )
    if selection.processes:
        chosen &= _match_processes(profile, selection)
    if selection.ranks:
        ranks = ranks_of(profile)
        if not match_ranks(ranks, selection).any():
            have = f"its ranks are {ranks.min()} to {ranks.max()}" if len(ranks) else "it has no ranks"
            raise InvalidRequest(f"This result has none of these ranks; {have}.", "rank")
        chosen &= match_ranks(threads.rank, selection)
    if selection.hosts:
        known = set(hosts_of(profile)) | ({UNKNOWN_HOST} if not all(threads.host) else set())
        for missing in (host for host in selection.hosts if host not in known):
            names = abbreviate_names(hosts_of(profile), 20)
            have = f"its hosts are {names}" if names else "it names no hosts"
            raise InvalidRequest(f"This result has no host {shorten(missing)!r}; {have}.", "host")
        chosen &= match_hosts(threads.host, selection)
    return chosen


def _match_processes(profile: Profile, selection: Selection) -> BoolArray:
    """Which threads are of the selected processes. Raises InvalidRequest."""
    threads, rows = threads_of(profile), process_rows(profile)
    chosen = np.zeros(len(threads.key), bool)
    for name in selection.processes:
        if name not in rows:
            raise InvalidRequest(
                f"This result has no process {shorten(name)!r}; give its name, or its key: rank/pid, or -/pid without "
                "ranks.",
                "process",
            )
        chosen[rows[name]] = True
    return chosen


def process_rows(profile: Profile) -> dict[str, list[int]]:
    """The threads by key and by name of their process."""

    def build() -> dict[str, list[int]]:
        threads = threads_of(profile)
        found: dict[str, list[int]] = {}
        for thread, names in enumerate(zip(threads.process_key, threads.process, strict=True)):
            for name in dict.fromkeys(filter(None, names)):
                found.setdefault(name, []).append(thread)
        return found

    return memoize(profile, "threads by process", build, pin=True)


def match_ranks(rank: Array, selection: Selection) -> BoolArray:
    """Which of these ranks (-1: none) are in the ranges of a selection, as bools."""
    inside = np.zeros(len(rank), bool)
    for low, high in selection.ranks:
        inside |= (rank >= low) & (rank <= high)
    return inside


def match_hosts(host: Sequence[str | None], selection: Selection) -> BoolArray:
    """Which of these hosts (None, "": unknown) are selected by name, as bools."""
    wanted = set(selection.hosts)
    return np.array([(name or UNKNOWN_HOST) in wanted for name in host], bool)


def match_places(
    profile: Profile, selection: Selection, rank: Array, host: Sequence[str | None] | None = None
) -> BoolArray:
    """Which data of whole ranks (-1: none) are selected by rank and host, as bools.

    host: where each was measured; without it, a rank is on every host where any of its data was measured.
    """
    inside = match_ranks(rank, selection) if selection.ranks else np.ones(len(rank), bool)
    if not selection.hosts:
        return inside
    if host is not None:
        return inside & match_hosts(host, selection)
    by_host = ranks_by_host(profile)
    on_hosts = set[int]().union(*(by_host.get("" if name == UNKNOWN_HOST else name, ()) for name in selection.hosts))
    return inside & np.isin(rank, list(on_hosts))


def ranks_by_host(profile: Profile) -> dict[str, set[int]]:
    """The ranks by host ("": unknown); -1: data without a rank."""

    def build() -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for table in (profile.threads, profile.counts, profile.ranks):
            known = table.select(["host", "rank"]).group_by(["host", "rank"]).aggregate([])
            for row in known.to_pylist():
                found.setdefault(row["host"] or "", set()).add(-1 if row["rank"] is None else row["rank"])
        return found

    return memoize(profile, "ranks by host", build, pin=True)


def window_rows(profile: Profile, selection: Selection) -> slice:
    """The rows of `samples` that begin in the window of time [start, end)."""
    time_ns = samples_of(profile).time_ns
    start, stop = 0, len(time_ns)
    if selection.start_ns is not None:
        start = int(np.searchsorted(time_ns, selection.start_ns, "left"))
    if selection.end_ns is not None:
        stop = int(np.searchsorted(time_ns, selection.end_ns, "left"))
    return slice(start, max(start, stop))


def select_samples(profile: Profile, selection: Selection, event: int | None) -> Rows:
    """The rows of `samples` that overlap the window and step, of the selected threads and one event (None: all).

    A slice if the rows are contiguous, else ascending row numbers. Patterns concern stacks and are not applied: see
    `filter_calls`. Weights of the rows: see `clip_weights`.
    """
    samples = samples_of(profile)
    threads = select_threads(profile, selection)
    rows: Rows
    if selection.step is not None:
        rows = _clip_to_step(profile, selection).row
        if event is not None:
            rows = rows[samples.event[rows] == event]
    else:
        if event is None or (event != NO_ID and samples.count_by_event[event] == len(samples.event)):
            before, rows = select_crossing_rows(profile, selection.start_ns), window_rows(profile, selection)
        else:
            before, of_event, low, high = select_event_rows(profile, selection, event)
            rows = of_event[low:high]
        if len(before):
            rows = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
            rows = np.concatenate((before, rows))
    if threads is None or threads.all():
        return rows
    chosen = np.flatnonzero(threads.take(samples.thread[rows]))
    return chosen + rows.start if isinstance(rows, slice) else rows[chosen]


def clip_weights(profile: Profile, selection: Selection, rows: Rows) -> Array:
    """The weights of these selected rows in the window and step: of samples with a duration, the part inside."""
    samples = samples_of(profile)
    if selection.step is not None:
        parts = _clip_to_step(profile, selection)
        asked = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        of_step: Array = parts.weight[np.searchsorted(parts.row, asked)]
        return of_step
    weight: Array = samples.weight[rows]
    last = _lasting(profile)
    edges = [at for at in (selection.start_ns, selection.end_ns) if at is not None]
    if last is None or not edges:
        return weight
    cut = np.zeros(len(samples.event), bool)
    for at in edges:
        cut[find_crossing_samples(profile, last, at)] = True
    place = np.flatnonzero(cut[rows])
    if len(place):
        weight = weight.copy() if isinstance(rows, slice) else weight
        at_edge = place + rows.start if isinstance(rows, slice) else rows[place]
        weight[place] = clip_to_window(profile, last, at_edge, *_edges(selection))
    return weight


def has_durations(profile: Profile) -> bool:
    """Whether any sample has a duration, of which a window can contain a part."""
    return _lasting(profile) is not None


def _edges(selection: Selection) -> tuple[int, int]:
    start, end = selection.start_ns, selection.end_ns
    return -MAX_TIME_NS if start is None else start, MAX_TIME_NS if end is None else end


def _lasting(profile: Profile) -> DurationEvents | None:
    return memoize(profile, "lasting", lambda: find_duration_events(profile), pin=True)


def select_crossing_rows(profile: Profile, at_ns: int | None) -> Array:
    """The rows of `samples` that begin before a time and end after it, ascending; none for None."""
    last = _lasting(profile)
    return np.zeros(0, np.int64) if last is None or at_ns is None else find_crossing_samples(profile, last, at_ns)


def select_event_rows(profile: Profile, selection: Selection, event: int) -> tuple[Array, Array, int, int]:
    """(rows that begin before the window and reach into it, all rows of `samples` of an event, the bounds among them of
    those that begin in the window)."""
    samples, span = samples_of(profile), window_rows(profile, selection)
    before = select_crossing_rows(profile, selection.start_ns)
    rows = memoize(
        profile, ("of event", event), lambda: np.flatnonzero(samples_of(profile).event == event).astype(np.int32)
    )
    # In the same type, else numpy would convert the whole array.
    low, high = np.searchsorted(rows, np.array([span.start, span.stop], rows.dtype)).tolist()
    return before[samples.event[before] == event], rows, low, high


def _clip_to_step(profile: Profile, selection: Selection) -> ClippedSamples:
    """The part of the samples in the step and window of a selection."""
    name = resolve_step(profile, selection.step or "")
    edges = _edges(selection)
    return memoize(
        profile, ("step", name, *edges), lambda: select_step_samples(profile, _lasting(profile), name, *edges)
    )


def filter_calls(profile: Profile, selection: Selection) -> Array | None:
    """Which nodes of `calls` keep the samples that end there, as bools; None without patterns.

    As in pprof (profile/filter.go, FilterSamplesByName): focus keeps the stacks with a matching frame, ignore drops
    those with a matching frame; stacks without a frame that is shown are dropped (`core.frame_filter`). With any
    pattern, samples without a stack are dropped.
    """
    if not selection.has_patterns:
        return None
    focuses, ignore, frames = selection.focuses, selection.ignore, selection.frame_filter

    def build() -> Array:
        kept = np.ones(profile.calls.num_rows, bool)
        kept[:1] = False
        for focus in focuses:
            kept &= calls_below(profile, match_functions(profile, focus, "focus"))
        if ignore is not None:
            kept &= ~calls_below(profile, match_functions(profile, ignore, "ignore"))
        shown = shown_calls(profile, frames)
        if shown is not None:
            kept &= mark_subtrees(get_column(profile.calls, "end"), shown)
        return kept

    return memoize(profile, ("kept", focuses, ignore, frames), build)


def calls_below(profile: Profile, functions: Array, shown: Array | None = None) -> Array:
    """Which nodes of `calls` are, or are called below, one of `functions` (bools by function id).

    shown: only the frames at these nodes count (bools by node); None: all.
    """
    function = get_column(profile.calls, "function")
    hit = np.zeros(len(function), bool)
    if len(functions):
        hit = functions[function] if shown is None else functions[function] & shown
        hit[:1] = False
    return mark_subtrees(get_column(profile.calls, "end"), hit)


def sum_by_index(index: Array, values: Array, size: int) -> Array:
    """Sum of int64 values by index, exact if their total is below 2**63: int64[size]."""
    sums = np.zeros(size, np.int64)
    # Twice as fast as bincount, which converts indices and values. Of other types than int64 it is slow.
    np.add.at(sums, index, values.astype(np.int64, copy=False))
    return sums


def filter_samples(profile: Profile, selection: Selection, event: int | None) -> Rows:
    """The selected rows of `samples`, with patterns applied."""
    rows = select_samples(profile, selection, event)
    kept = filter_calls(profile, selection)
    if kept is None:
        return rows
    samples = samples_of(profile)
    inside = np.flatnonzero(kept.take(samples.call.take(samples.stack[rows])))
    left: Array = inside + rows.start if isinstance(rows, slice) else rows[inside]
    return left
