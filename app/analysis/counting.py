"""Counts, threads, events, summary and losses: what was measured in all, and by whom.

What was sampled (rows of `samples`) and what was counted (rows of `counts`, as `perf stat` gives) stand in the same
tables. A counted interval belongs to the window in which it starts; a count of a whole run belongs to no window and
is left out where one is chosen. focus, ignore and hide are about stacks, which a count has none of.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from ..domain.profile import Profile
from ..domain.selection import NS_PER_MS, Selection
from ..domain.tables import NO_ID, texts
from .grouping import Group, groups_of
from .picking import (
    event_id,
    event_names,
    events_selected,
    samples_kept,
    samples_of,
    threads_of,
    threads_selected,
    weights_on,
)
from .schema import Column, frame

Array = np.ndarray[Any, Any]

_EVENT = Column("event", "", "What was measured.")
_UNIT = Column("unit", "", "The unit of value: count, ns or bytes.")
_HOST = Column("host", "", "The machine, where the recording names it.")
_RANK = Column("rank", "", "The MPI rank; missing where there are no ranks.", "Int64")
_PID = Column("pid", "", "Process id.", "Int64")
_TID = Column("tid", "", "Thread id.", "Int64")
_RUN = Column("run", "", "Which execution of the command, from 0.", "Int64")
_SAMPLES = Column("samples", "", "How many samples were taken.", "int64")

SUMMARY = (
    Column("format", "", "The format the profile was read from."),
    Column(
        "duration_ms", "ms", "From the first to the last thing observed; missing where there is no time.", "Float64"
    ),
    Column("threads", "", "How many threads are selected.", "int64"),
    _SAMPLES,
    Column("slices", "", "How many slices (things with a start and an end) there are.", "int64"),
    Column("events", "", "How many events were measured.", "int64"),
    Column("losses", "", "How many things could not be read.", "int64"),
    Column("counts", "", "How many counted values (perf stat) there are.", "int64"),
    Column("processes", "", "How many processes the selected threads belong to.", "int64"),
    Column("main_event", "", "The event a page shows first."),
    Column("unit", "", "The unit of the main event."),
    Column(
        "value", "event", "Weight of the selected samples of the main event, or the sum of what was counted.", "number"
    ),
    Column("command", "", "The command that was recorded."),
    Column("complete", "", "False where the recording was cut short.", "bool"),
    Column("reasons", "", "Why it is not complete."),
)
EVENTS = (
    _EVENT,
    _UNIT,
    Column("sampling", "", "How it was sampled: period or frequency."),
    Column("rate", "", "The number that goes with sampling: events per sample, or samples per second.", "Float64"),
    Column("weighted", "", "False where no period was recorded and every sample weighs 1.", "boolean"),
    Column("scaling", "", "The factor by which multiplexed counts were scaled up.", "Float64"),
    _SAMPLES,
    Column("value", "event", "Weight of the selected samples, or the sum of what was counted.", "number"),
)
COUNTS = (
    _EVENT,
    _UNIT,
    Column("process", "", "The name of the process; missing for a count of all processes."),
    Column("thread", "", "The name of the thread; missing for a count of all threads."),
    _RANK,
    Column(
        "value",
        "event",
        "Weight of the selected samples, or what the counter counted; missing where it could not count.",
        "number",
    ),
    _HOST,
    _PID,
    _TID,
    Column("cpu", "", "The CPU that was counted on; missing for all of them.", "Int64"),
    _RUN,
    Column("source", "", "sampled, or counted (perf stat)."),
    Column("status", "", "For a count: ok, or why there is no value."),
    Column("running_percent", "%", "For a count: share of the time in which the event had a counter.", "Float64"),
    Column(
        "deviation_percent",
        "%",
        "For a count that perf stat repeated: the standard deviation of its mean, as a share of it.",
        "Float64",
    ),
)
THREADS = (
    _HOST,
    _RANK,
    _PID,
    _TID,
    Column("process", "", "The name of the process."),
    Column("name", "", "The thread's name, the last one it had; for counts: CPU n, or (all threads)."),
    Column("kind", "", "thread, gpu_stream or cpu."),
    _EVENT,
    _UNIT,
    _SAMPLES,
    Column("value", "event", "Weight of the selected samples, or what was counted.", "number"),
    Column("percent", "%", "value as a share of all the selection holds of this event.", "Float64"),
    Column("key", "", "The stable key rank/pid/tid, as the filter --thread takes it; missing for a count of all."),
    _RUN,
)
LOSSES = (
    Column("reason", "", "What could not be read, or why not."),
    Column("count", "", "How often.", "int64"),
    Column("example", "", "The first of them, with its place in the file."),
)


class _Key(NamedTuple):
    """What the intervals of one counter have in common."""

    event: int
    thread: int
    host: str | None
    rank: int | None
    run: int | None
    cpu: int | None


class _Measured(NamedTuple):
    """Something measured, before names are put to its ids. thread -1: of all threads. cpu None: on all CPUs.

    value None: the counter could not count. source: sampled or counted.
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
    running_percent: float | None = None
    deviation_percent: float | None = None


def summary(profile: Profile, selection: Selection) -> pd.DataFrame:
    """One row about the whole selection."""
    threads, chosen = threads_of(profile), threads_selected(profile, selection)
    inside = range(len(threads.key)) if chosen is None else np.flatnonzero(chosen).tolist()
    main = event_id(profile, selection.event)
    measured = _measured(profile, selection)
    meta = profile.meta
    return frame(
        SUMMARY,
        {
            "format": [meta.format],
            "duration_ms": [_duration_ms(profile, selection)],
            "threads": [len(inside)],
            "samples": [sum(m.samples for m in measured)],
            "slices": [0],
            "events": [len(events_selected(profile, selection))],
            "losses": [sum(profile.losses.column("count").to_pylist())],
            "counts": [sum(m.source == "counted" for m in measured)],
            "processes": [len({(threads.host[i], int(threads.rank[i]), threads.pid[i]) for i in inside})],
            "main_event": [event_names(profile)[main] if main != NO_ID else None],
            "unit": [texts(profile.events, "unit")[main] if main != NO_ID else None],
            "value": [_sum(m.value for m in measured if m.event == main)],
            "command": [meta.command],
            "complete": [meta.complete],
            "reasons": ["; ".join(meta.reasons) or None],
        },
    )


def losses(profile: Profile, selection: Selection) -> pd.DataFrame:
    """What could not be read, the most frequent first. The same whatever is selected."""
    data = {c.name: profile.losses.column(c.name).to_pylist() for c in LOSSES}
    order = sorted(range(len(data["count"])), key=lambda i: (-data["count"][i], i))
    return frame(LOSSES, {name: [values[i] for i in order] for name, values in data.items()})


def events(profile: Profile, selection: Selection) -> pd.DataFrame:
    """One row for each event, in the order of the recording."""
    chosen = events_selected(profile, selection)
    measured = _measured(profile, selection)
    table = profile.events.take(pa.array(chosen, pa.int64()))
    return frame(
        EVENTS,
        {
            "event": texts(table, "name"),
            "unit": texts(table, "unit"),
            **{name: table.column(name).to_pylist() for name in ("sampling", "rate", "weighted", "scaling")},
            "samples": [sum(m.samples for m in measured if m.event == event) for event in chosen],
            "value": [_sum(m.value for m in measured if m.event == event) for event in chosen],
        },
    )


def counts(profile: Profile, selection: Selection) -> pd.DataFrame:
    """One row for each event and thread with samples, and one for each thing counted.

    Sorted by event, then the greatest value first.
    """
    rows = _sorted(_measured(profile, selection))
    table = threads_of(profile)
    return frame(
        COUNTS,
        {
            **_common(profile, rows),
            "thread": [table.name[m.thread] or None if m.thread >= 0 else None for m in rows],
            "cpu": [m.cpu for m in rows],
            "source": [m.source for m in rows],
            "status": [m.status for m in rows],
            "running_percent": [m.running_percent for m in rows],
            "deviation_percent": [m.deviation_percent for m in rows],
        },
    )


def threads(profile: Profile, selection: Selection) -> pd.DataFrame:
    """One row for each thread and event with samples or counts; a thread with neither has one row with zeros.

    Sorted by event, then the greatest value first.
    """
    rows = _sampled(profile, selection) + _counted(profile, selection, each_cpu=False)
    rows = _sorted(rows + _idle(profile, selection, {m.thread for m in rows}))
    table = threads_of(profile)
    whole: dict[int, int | float] = {}
    for m in rows:
        whole[m.event] = whole.get(m.event, 0) + (m.value or 0)

    def of_counter(m: _Measured, all_threads: str, one_cpu: str) -> str:
        return all_threads if m.cpu is None else one_cpu.format(m.cpu)

    return frame(
        THREADS,
        {
            **_common(profile, rows),
            "name": [
                table.name[m.thread] or None if m.thread >= 0 else of_counter(m, "(all threads)", "CPU {}")
                for m in rows
            ],
            "kind": [table.kind[m.thread] or None if m.thread >= 0 else of_counter(m, "thread", "cpu") for m in rows],
            "samples": [m.samples for m in rows],
            "percent": [
                None if m.value is None else 100 * m.value / whole[m.event] if whole[m.event] else 0.0 for m in rows
            ],
            "key": [table.key[m.thread] if m.thread >= 0 else None for m in rows],
        },
    )


def measured_values(profile: Profile, selection: Selection, event: int, by: str) -> dict[str, int | float]:
    """What was counted (not sampled) of an event, by the label of its process or thread; "(all)" for all of them."""
    groups = groups_of(profile, Group.PROCESS if by == "process" else Group.THREAD)
    found: dict[str, int | float] = {}
    for m in _counted(profile, selection, each_cpu=False):
        if m.event == event and m.value is not None:
            label = groups.labels[groups.of_thread[m.thread]] if m.thread >= 0 else "(all)"
            label = label if m.cpu is None else f"CPU {m.cpu}"
            found[label] = found.get(label, 0) + m.value
    return found


def _common(profile: Profile, rows: list[_Measured]) -> dict[str, list[Any]]:
    """The columns that counts and threads share."""
    table, names, units = threads_of(profile), event_names(profile), texts(profile.events, "unit")
    return {
        "event": [names[m.event] if m.event >= 0 else None for m in rows],
        "unit": [units[m.event] if m.event >= 0 else None for m in rows],
        "process": [table.process[m.thread] or None if m.thread >= 0 else None for m in rows],
        "pid": [table.pid[m.thread] if m.thread >= 0 else None for m in rows],
        "tid": [table.tid[m.thread] if m.thread >= 0 else None for m in rows],
        "host": [m.host or None for m in rows],
        "rank": [m.rank for m in rows],
        "run": [m.run for m in rows],
        "value": [m.value for m in rows],
    }


def _measured(profile: Profile, selection: Selection) -> list[_Measured]:
    return _sampled(profile, selection) + _counted(profile, selection)


def _sampled(profile: Profile, selection: Selection) -> list[_Measured]:
    samples, chosen = samples_of(profile), events_selected(profile, selection)
    rows = samples_kept(profile, selection, chosen[0] if len(chosen) == 1 else None)
    size = profile.threads.num_rows
    where = samples.event[rows].astype(np.int64) * size + samples.thread[rows]
    cells = size * profile.events.num_rows
    weight = weights_on(where, samples.weight[rows], cells, samples.peak)
    number = np.bincount(where, minlength=cells)
    shown = np.flatnonzero(number)
    event, thread = np.divmod(shown, max(size, 1))
    threads, run = threads_of(profile), profile.threads.column("run").to_pylist()
    return [
        _Measured(
            event=e,
            thread=t,
            host=threads.host[t],
            rank=int(threads.rank[t]) if threads.rank[t] >= 0 else None,
            run=run[t],
            cpu=None,
            samples=n,
            value=w,
            source="sampled",
        )
        for e, t, n, w in zip(
            event.tolist(), thread.tolist(), number[shown].tolist(), weight[shown].tolist(), strict=True
        )
    ]


def _counted(profile: Profile, selection: Selection, each_cpu: bool = True) -> list[_Measured]:
    """What was counted, the intervals of one counter summed. each_cpu false: threads' counts summed over CPUs."""
    if not profile.counts.num_rows:
        return []
    wanted, chosen = set(events_selected(profile, selection)), threads_selected(profile, selection)
    cells: dict[_Key, list[dict[str, Any]]] = {}
    for row in profile.counts.to_pylist():
        if row["event"] in wanted and _inside(row, selection, chosen):
            by_cpu = row["cpu"] is not None and row["cpu"] >= 0 and (each_cpu or row["thread"] < 0)
            cpu = row["cpu"] if by_cpu else None
            key = _Key(row["event"], row["thread"], row["host"], row["rank"], row["run"], cpu)
            cells.setdefault(key, []).append(row)
    return [
        _Measured(
            event=key.event,
            thread=key.thread,
            host=key.host,
            rank=key.rank,
            run=key.run,
            cpu=key.cpu,
            samples=0,
            value=_sum(row["value"] for row in rows),
            source="counted",
            status="ok" if any(row["value"] is not None for row in rows) else rows[0]["status"],
            running_percent=_running_percent(rows),
            deviation_percent=rows[0]["deviation_percent"] if len(rows) == 1 else None,
        )
        for key, rows in cells.items()
    ]


def _inside(row: dict[str, Any], selection: Selection, chosen: Array | None) -> bool:
    if chosen is not None:
        if row["thread"] >= 0:
            if not chosen[row["thread"]]:
                return False
        elif selection.threads or not any(
            row["rank"] is not None and low <= row["rank"] <= high for low, high in selection.ranks
        ):
            return False
    if selection.start_ns is None and selection.end_ns is None:
        return True
    start = row["start_ns"]
    if start is None:
        return False
    return (selection.start_ns is None or start >= selection.start_ns) and (
        selection.end_ns is None or start < selection.end_ns
    )


def _idle(profile: Profile, selection: Selection, busy: set[int]) -> list[_Measured]:
    threads, chosen = threads_of(profile), threads_selected(profile, selection)
    event, run = event_id(profile, selection.event), profile.threads.column("run").to_pylist()
    return [
        _Measured(
            event=event,
            thread=t,
            host=threads.host[t],
            rank=int(threads.rank[t]) if threads.rank[t] >= 0 else None,
            run=run[t],
            cpu=None,
            samples=0,
            value=0,
            source="sampled",
        )
        for t in range(len(threads.key))
        if t not in busy and (chosen is None or chosen[t])
    ]


def _sorted(rows: list[_Measured]) -> list[_Measured]:
    return sorted(rows, key=lambda m: (m.event, m.value is None, -(m.value or 0)))


def _sum(values: Iterable[int | float | None]) -> int | float | None:
    """Σ of those that are known, exact for integers; None where none is."""
    known = [value for value in values if value is not None]
    return sum(int(value) if float(value).is_integer() else value for value in known) if known else None


def _running_percent(rows: list[dict[str, Any]]) -> float | None:
    known = [row for row in rows if row["enabled_ns"] is not None and row["running_ns"] is not None]
    enabled = sum(row["enabled_ns"] for row in known)
    return 100.0 * sum(row["running_ns"] for row in known) / enabled if enabled else None


def _duration_ms(profile: Profile, selection: Selection) -> float | None:
    """The length of the window, as far as it lies in the profile."""
    whole = profile.meta.duration_ns
    if whole is None:
        return None
    start = max(selection.start_ns or 0, 0)
    end = whole if selection.end_ns is None else min(selection.end_ns, whole)
    return max(end - start, 0) / NS_PER_MS
