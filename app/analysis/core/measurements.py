"""What was measured, sampled or counted, by event, thread, rank and run: the input of the tables of totals."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array, BoolArray
from ...domain.arrow import functions as pc
from ...domain.event_names import NOT_OBSERVABLE, SAMPLED_ONLY, is_occurrence
from ...domain.profile import Profile
from ...domain.rank_state import THROTTLING
from ...domain.selection import Selection
from ...domain.tables import get_column
from ...ingest.perf_text.losses import LOST_IN_KERNEL
from .memo import memoize
from .sample_selection import (
    event_id,
    match_places,
    select_events,
    select_threads,
    threads_of,
)
from .thread_sums import sum_threads

MAX_EXACT_FLOAT_INT = 1 << 53


class Measurement(NamedTuple):
    """A measured value, with ids instead of names. thread -1: all threads. cpu None: all CPUs.

    value None: the event could not be counted. source: sampled or counted. enabled_ns, running_ns: how long the event
    was enabled and how long it had a hardware counter, 0 if unknown; then `scaling` is that of its event. missing:
    number of its intervals or CPUs without a value.
    """

    event: int
    thread: int
    host: str | None
    rank: int | None
    run: int | None
    cpu: int | None
    samples: int
    value: int | float | None
    source: str
    status: str | None = None
    enabled_ns: int = 0
    running_ns: int = 0
    scaling: float | None = None
    deviation_percent: float | None = None
    missing: int = 0

    @property
    def running_percent(self) -> float | None:
        """Share of the time in which the event had a hardware counter."""
        return running_percent([self])


def find_share_only_events(profile: Profile) -> frozenset[int]:
    """The events whose samples give no total: occurrences (see `is_occurrence`) and was sampled by
    frequency, so that perf guessed how many each sample represents, or by period with samples lost or sampling
    throttled."""

    def build() -> frozenset[int]:
        rows = profile.events.select(["name", "sampling", "weighted"]).to_pylist()
        event = get_column(profile.samples, "event")
        lost = not {LOST_IN_KERNEL, THROTTLING}.isdisjoint(profile.losses.column("reason").to_pylist())

        def guessed(n: int) -> bool:
            row = rows[n]
            if not is_occurrence(row["name"]) or not (mine := event == n).any():
                return False
            if row["sampling"] is not None or not row["weighted"]:
                return lost or row["sampling"] == "frequency"
            # The file does not record how it was sampled. A fixed period would be constant.
            weight = get_column(profile.samples, "weight")[mine]
            return lost or bool((weight != weight[0]).any())

        return frozenset(n for n in range(len(rows)) if guessed(n))

    return memoize(profile, "guessed events", build, pin=True)


def find_unobservable_events(profile: Profile) -> frozenset[int]:
    """The events that occur where perf could not observe."""
    return _events_of_counts(profile, lambda counts: pc.equal(counts.column("status"), NOT_OBSERVABLE))


def find_counted_events(profile: Profile) -> frozenset[int]:
    """The events for which a counter has a value."""
    return _events_of_counts(profile, lambda counts: pc.is_valid(counts.column("value")))


def _events_of_counts(profile: Profile, condition: Callable[[pa.Table], Any]) -> frozenset[int]:
    """The events of the rows of `counts` that meet a condition."""
    if not profile.counts.num_rows:
        return frozenset()
    return frozenset(pc.keep(profile.counts, condition(profile.counts)).column("event").to_pylist())


def weight_unit(profile: Profile, event: int) -> str:
    """The unit of an event's weights; SAMPLED_ONLY if they give only shares."""
    return (
        SAMPLED_ONLY if event in find_share_only_events(profile) else str(profile.events.column("unit")[event].as_py())
    )


def event_title(profile: Profile, event: int) -> str:
    """The name of an event in a file for other tools, with a note if its samples give only shares."""
    name: str = profile.events.column("name")[event].as_py()
    return f"{name} ({SAMPLED_ONLY})" if event in find_share_only_events(profile) else name


def absolute_totals(profile: Profile, event: int, weights: Array) -> list[int | None]:
    """Weights of samples of an event as absolute values, None if its samples give no total."""
    return [None] * len(weights) if event in find_share_only_events(profile) else weights.tolist()


def best_total(rows: Iterable[Measurement]) -> int | float | None:
    """The sum of the counts if there are any, else of the samples; None if neither gives a total."""
    rows = list(rows)
    counts = [m.value for m in rows if m.source == "counted" and m.value is not None]
    return sum_known(counts) if counts else sum_known(m.value for m in rows)


def missing_total_note(rows: Iterable[Measurement]) -> str | None:
    """The note where `best_total` is None: only samples exist, or why nothing was counted."""
    rows = list(rows)
    if best_total(rows) is not None:
        return None
    statuses = [m.status for m in rows if m.status not in (None, "ok")]
    return SAMPLED_ONLY if SAMPLED_ONLY in statuses else next(iter(statuses), None)


def list_measurements(profile: Profile, selection: Selection) -> list[Measurement]:
    """Everything that was measured of a selection."""
    return measure_samples(profile, selection) + measure_counts(profile, selection)


def running_percent(rows: Iterable[Measurement]) -> float | None:
    """The share of the time in which a counter ran, over all of these; None if unknown."""
    enabled = running = 0
    scaling: float | None = None
    for row in rows:
        enabled, running = enabled + row.enabled_ns, running + row.running_ns
        scaling = scaling or row.scaling
    return 100.0 * running / enabled if enabled else 100.0 / scaling if scaling else None


def measure_samples(profile: Profile, selection: Selection) -> list[Measurement]:
    """Sampled values, by event and thread."""
    threads, run = threads_of(profile), profile.threads.column("run").to_pylist()
    rank = [r if r >= 0 else None for r in threads.rank.tolist()]
    share_only_events = find_share_only_events(profile)
    found = []
    for e in select_events(profile, selection):
        sums = sum_threads(profile, selection, e)
        status = SAMPLED_ONLY if e in share_only_events else None
        busy = np.flatnonzero(sums.count)
        for t, n, w in zip(busy.tolist(), sums.count[busy].tolist(), sums.weight[busy].tolist(), strict=True):
            value = None if status else w
            found.append(Measurement(e, t, threads.host[t], rank[t], run[t], None, n, value, "sampled", status))
    return found


@dataclass(frozen=True, eq=False)
class _Counts:
    """The table `counts` as arrays. -1 for null in ints; value NaN where there is none. host, status: numbers of the
    texts in `hosts` and `statuses`. timed: whether it has enabled and running."""

    event: Array
    thread: Array
    host: Array
    rank: Array
    run: Array
    cpu: Array
    start_ns: Array
    value: Array
    enabled_ns: Array
    running_ns: Array
    timed: Array
    deviation: Array
    status: Array
    hosts: list[str | None]
    statuses: list[str | None]


def _counts_of(profile: Profile) -> _Counts:
    def build() -> _Counts:
        table = profile.counts
        numbers = {
            name: pc.fill_null(table.column(name), -1).to_numpy()
            for name in ("thread", "rank", "run", "cpu", "start_ns", "enabled_ns", "running_ns")
        }
        host = pc.dictionary_encode(table.column("host").combine_chunks())
        status = pc.dictionary_encode(table.column("status").combine_chunks())
        return _Counts(
            event=get_column(table, "event"),
            value=table.column("value").to_numpy(),
            timed=(numbers["enabled_ns"] >= 0) & (numbers["running_ns"] >= 0),
            deviation=table.column("deviation_percent").to_numpy(),
            host=pc.fill_null(host.indices, len(host.dictionary)).to_numpy(),
            status=pc.fill_null(status.indices, len(status.dictionary)).to_numpy(),
            hosts=[*host.dictionary.to_pylist(), None],
            statuses=[*status.dictionary.to_pylist(), None],
            **numbers,
        )

    return memoize(profile, "counts", build, pin=True)


def measure_counts(profile: Profile, selection: Selection, each_cpu: bool = True) -> list[Measurement]:
    """Counted values, summed over the intervals of a counter. each_cpu false: counts of threads are summed over
    CPUs."""
    rows = np.flatnonzero(select_counts(profile, selection))
    if not len(rows):
        return []
    table = _counts_of(profile)
    cpu = table.cpu[rows]
    if not each_cpu:
        cpu = np.where(table.thread[rows] < 0, cpu, -1)
    keys = (table.event[rows], table.thread[rows], table.host[rows], table.rank[rows], table.run[rows], cpu)
    order = np.lexsort(keys)
    edge = np.ones(len(rows), bool)
    edge[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    starts = np.flatnonzero(edge)
    rows, lengths = rows[order], np.diff(np.append(starts, len(rows)))
    first = rows[starts]
    value, timed = table.value[rows], table.timed[rows]
    known = ~np.isnan(value)
    sums, some = (np.add.reduceat(v, starts) for v in (np.where(known, value, 0.0), known.astype(np.int64)))
    enabled, running = (
        np.add.reduceat(np.where(timed, times[rows], 0), starts) for times in (table.enabled_ns, table.running_ns)
    )
    counts = []
    scaling = profile.events.column("scaling").to_pylist()
    # In the order of their first count.
    for n in np.argsort(np.minimum.reduceat(rows, starts), kind="stable").tolist():
        row = int(first[n])
        inside = slice(int(starts[n]), int(starts[n]) + int(lengths[n]))
        # Sums of floats are exact for small enough integers.
        exact = lengths[n] > 1 and abs(sums[n]) >= MAX_EXACT_FLOAT_INT
        total = sum_known(value[inside][known[inside]].tolist() if exact else [float(sums[n])] if some[n] else [])
        alone = table.deviation[row] if lengths[n] == 1 else np.nan
        counts.append(
            Measurement(
                event=int(table.event[row]),
                thread=int(table.thread[row]),
                host=table.hosts[int(table.host[row])],
                rank=_or_none(table.rank[row]),
                run=_or_none(table.run[row]),
                cpu=_or_none(cpu[order][starts[n]]),
                samples=0,
                value=total,
                source="counted",
                status="ok" if some[n] else table.statuses[int(table.status[row])],
                enabled_ns=int(enabled[n]),
                running_ns=int(running[n]),
                scaling=scaling[int(table.event[row])],
                deviation_percent=None if np.isnan(alone) else float(alone),
                missing=int(lengths[n] - some[n]),
            )
        )
    return counts


def _or_none(number: Any) -> int | None:
    return int(number) if number >= 0 else None


def select_counts(profile: Profile, selection: Selection) -> Array:
    """Which rows of `counts` are selected, as bools. A count of all threads is of its rank, and of no single thread;
    a count without an interval is of the whole run. Patterns concern stacks and are not applied."""
    wanted, chosen = select_events(profile, selection), select_threads(profile, selection)
    if not profile.counts.num_rows:
        return np.zeros(0, bool)
    table = _counts_of(profile)
    inside: BoolArray = np.isin(table.event, wanted)
    if chosen is not None:
        host = np.array(table.hosts, object)[table.host].tolist() if selection.hosts else None
        of_all = False if selection.divides_ranks else match_places(profile, selection, table.rank, host)
        inside &= np.where(table.thread >= 0, np.append(chosen, False)[table.thread], of_all)
    if selection.start_ns is not None or selection.end_ns is not None:
        inside &= table.start_ns >= 0
        if selection.start_ns is not None:
            inside &= table.start_ns >= selection.start_ns
        if selection.end_ns is not None:
            inside &= table.start_ns < selection.end_ns
    return inside


def list_idle_threads(profile: Profile, selection: Selection, busy: set[int]) -> list[Measurement]:
    """Zero values for selected threads that are not in `busy` (no value for an event with guessed weights); without
    lanes of slices that run on no thread."""
    threads, chosen = threads_of(profile), select_threads(profile, selection)
    event, run = event_id(profile, selection.event), profile.threads.column("run").to_pylist()
    status = SAMPLED_ONLY if event in find_share_only_events(profile) else None
    if event in find_unobservable_events(profile):
        status = NOT_OBSERVABLE
    return [
        Measurement(
            event=event,
            thread=t,
            host=threads.host[t],
            rank=int(threads.rank[t]) if threads.rank[t] >= 0 else None,
            run=run[t],
            cpu=None,
            samples=0,
            value=0 if status is None else None,
            source="sampled",
            status=status,
        )
        for t in range(len(threads.key))
        if t not in busy and threads.kind[t] != "track" and (chosen is None or chosen[t])
    ]


def sort_measurements(rows: list[Measurement]) -> list[Measurement]:
    """Sorted by event, then by value, descending; missing values last."""
    # Two stable sorts, whose keys are faster to compare than tuples.
    by_value = sorted(rows, key=lambda m: math.inf if m.value is None else -m.value)
    return sorted(by_value, key=lambda m: m.event)


def sum_known(values: Iterable[int | float | None]) -> int | float | None:
    """Σ of the values that are not null, exact for integers; None if all are null."""
    known = [value for value in values if value is not None]
    return sum(int(value) if float(value).is_integer() else value for value in known) if known else None
