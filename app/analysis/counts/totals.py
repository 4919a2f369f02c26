"""Counts, threads, events, summary and losses: totals, and their parts by thread and rank.

Sampled values (rows of `samples`) and counts (rows of `counts`, from `perf stat`) are in the same tables. A counted
interval belongs to the window in which it starts; a count of a complete run belongs to no window and is omitted if a
window is selected. focus, ignore and hide select stacks, which counts do not have.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array
from ...domain.event_names import SAMPLED_ONLY
from ...domain.list_text import format_ranges, to_ranges
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, get_strings
from ...domain.units import NS_PER_MS
from ..core.common_columns import DEVIATION, EVENT, HOST, MPI_RANK, RUN, SAMPLES, UNIT
from ..core.measurements import (
    Measurement,
    best_total,
    find_share_only_events,
    list_idle_threads,
    list_measurements,
    measure_counts,
    measure_samples,
    missing_total_note,
    running_percent,
    sort_measurements,
)
from ..core.sample_selection import (
    ThreadColumns,
    event_id,
    event_names,
    select_events,
    select_threads,
    threads_of,
)
from ..core.schema import Column, Table, TableRows, build_rows, memoize_table, records, table_function
from ..core.slice_selection import has_clock, select_slices
from ..core.thread_sums import sum_threads
from ..formulas.measures import measure_formula, name_table, selected_formula, use_lead_event
from ..formulas.resolution import ResolvedFormula
from ..ml.devices import compute_devices
from ..ml.steps import select_steps, sum_token_rates
from ..ml.tokens import KINDS

_PID = Column("pid", "", "Process id.", "Int64")
_TID = Column("tid", "", "Thread id.", "Int64")
_RUNNING = Column(
    "running_percent",
    "%",
    "For counts of perf stat: share of the time in which the event had a hardware counter; below 100, value is "
    "scaled up.",
    "Float64",
)


def _share(name: str, description: str) -> Column:
    return Column(name, "%", f"Of the device: {description}; missing if there is none, or more than one.", "Float64")


_NOTE = Column("note", "", f"Why the value is missing, as in: {SAMPLED_ONLY}.")
SUMMARY = (
    Column("format", "", "The format the profile was read from."),
    Column("duration_ms", "ms", "From the first to the last recorded event; missing without times.", "Float64"),
    Column("threads", "", "Number of selected threads.", "int64"),
    SAMPLES,
    Column("slices", "", "Number of slices (events with a start and an end).", "int64"),
    Column("events", "", "Number of measured events.", "int64"),
    Column("losses", "", "Number of losses: items that could not be read.", "int64"),
    Column("counts", "", "Number of counts (perf stat).", "int64"),
    Column("processes", "", "Number of processes of the selected threads.", "int64"),
    Column("main_event", "", "The event that pages show first."),
    Column("unit", "", "The unit of the main event."),
    Column("value", "event", "The count of the main event, or else the weight of the selected samples.", "number"),
    _NOTE,
    Column("command", "", "The recorded command."),
    Column("complete", "", "False if the recording is incomplete.", "bool"),
    Column("reasons", "", "Why it is incomplete."),
    _RUNNING,
    Column("ranks", "", "Number of selected ranks.", "int64"),
    Column("hosts", "", "Number of hosts of the selected threads and counts.", "int64"),
    Column("runs", "", "Number of executions of the command.", "int64"),
    Column("steps", "", "Number of selected steps, without those that the table `steps` omits.", "int64"),
    Column("devices", "", "Number of devices that did any work, on all ranks.", "int64"),
    _share("gpu_utilization_percent", "share of the time of steps in which a kernel ran"),
    _share(
        "sm_efficiency_percent",
        "estimated share of the time of steps in which a multiprocessor had a block of a kernel to run",
    ),
    _share("occupancy_percent", "estimated achieved occupancy of its kernels"),
    _share("tensor_core_time_percent", "share of kernel time in kernels that use tensor cores"),
    Column(
        "prefill_tokens_per_s",
        "",
        "For a language model: prompt tokens per second; missing if their number is unknown.",
        "Float64",
    ),
    Column(
        "decode_tokens_per_s",
        "",
        "For a language model: generated tokens per second; missing without such steps.",
        "Float64",
    ),
)
_AS_RECORDED = ("sampling", "rate", "weighted", "scaling", "attributes")
EVENTS = (
    EVENT,
    UNIT,
    Column("sampling", "", "Sampling mode: period or frequency."),
    Column("rate", "", "The sampling period (events per sample) or frequency (samples per second).", "Float64"),
    Column("weighted", "", "False if no period was recorded, so that every sample weighs 1.", "boolean"),
    Column("scaling", "", "The factor by which multiplexed counts were scaled up.", "Float64"),
    Column("attributes", "", "Other terms of the event as recorded, such as freq=997."),
    SAMPLES,
    Column("value", "event", "Total count, or else the weight of the selected samples.", "number"),
    _NOTE,
    _RUNNING,
    DEVIATION,
    Column("runs", "", "The executions of the command that measured it, as in 0-2,4."),
)
COUNTS = (
    EVENT,
    UNIT,
    Column("process", "", "Name of the process; missing for a count of all processes."),
    Column("thread", "", "Name of the thread; missing for a count of all threads."),
    MPI_RANK,
    Column(
        "value",
        "event",
        "Weight of the selected samples, or the count; missing if the event could not be counted.",
        "number",
    ),
    HOST,
    _PID,
    _TID,
    Column("cpu", "", "CPU of the count; missing for all CPUs.", "Int64"),
    RUN,
    Column("source", "", "sampled, or counted (perf stat)."),
    Column("status", "", "For a count: ok, or why the value is missing; for samples: why they give no total."),
    _RUNNING,
    DEVIATION,
    Column(
        "missing",
        "",
        "For a count: number of its intervals or CPUs without a value (not counted, not supported); value is the "
        "sum of the others.",
        "Int64",
    ),
)
THREADS = (
    HOST,
    MPI_RANK,
    _PID,
    _TID,
    Column("process", "", "Name of the process."),
    Column("name", "", "Last name of the thread; for counts: CPU n, or (all threads)."),
    Column("kind", "", "thread, gpu_stream or cpu."),
    EVENT,
    UNIT,
    SAMPLES,
    Column("value", "event", "Weight of the selected samples, or the count.", "number"),
    _NOTE,
    Column("percent", "%", "value in percent of the whole selection of this event.", "Float64"),
    Column(
        "key",
        "",
        "The stable key rank/pid/tid, as accepted by the filter --thread; missing for a count of all threads.",
    ),
    RUN,
    _RUNNING,
)
LOSSES = (
    Column("reason", "", "What could not be read, and why."),
    Column("count", "", "Number of occurrences.", "int64"),
    Column("example", "", "The first occurrence, with its location in the file."),
)


def _threads_of(threads: ThreadColumns, inside: Iterable[int], rows: Iterable[Measurement]) -> int:
    """Number of threads, including those known only by a track of their states."""
    own = [i for i in inside if threads.kind[i] != "track"]
    tracks = {threads.key[m.thread] for m in rows if m.thread >= 0 and threads.kind[m.thread] == "track"}
    return len(own) + len(tracks.difference(threads.key[i] for i in own))


def _processes_of(threads: ThreadColumns, inside: Iterable[int]) -> int:
    """Number of processes of the threads. If any thread has a pid, entries without one, such as tracks, do not
    count."""
    known = {(threads.host[i], int(threads.rank[i]), threads.pid[i]) for i in inside}
    return len({one for one in known if one[2] is not None} or known)


@table_function
def compute_summary(profile: Profile, selection: Selection) -> TableRows:
    """One row about the whole selection."""
    return memoize_table("summary", profile, selection, lambda: _summary(profile, selection))


def _summary(profile: Profile, selection: Selection) -> TableRows:
    threads, chosen = threads_of(profile), select_threads(profile, selection)
    inside = range(len(threads.key)) if chosen is None else np.flatnonzero(chosen).tolist()
    main = event_id(profile, selection.event)
    rows = list_measurements(profile, selection)
    mine = [m for m in rows if m.event == main]
    hosts = {threads.host[i] for i in inside} | {m.host for m in rows}
    ranks = {int(threads.rank[i]) for i in inside} | {m.rank for m in rows if m.rank is not None}
    meta = profile.meta
    return build_rows(
        SUMMARY,
        {
            "format": [meta.format],
            "duration_ms": [_duration_ms(profile, selection)],
            "threads": [_threads_of(threads, inside, rows)],
            "samples": [sum(m.samples for m in rows)],
            "slices": [_slices(profile, selection)],
            "events": [len(select_events(profile, selection))],
            "losses": [sum(profile.losses.column("count").to_pylist())],
            "counts": [sum(m.source == "counted" for m in rows)],
            "processes": [_processes_of(threads, inside)],
            "main_event": [event_names(profile)[main] if main != NO_ID else None],
            "unit": [get_strings(profile.events, "unit")[main] if main != NO_ID else None],
            "value": [best_total(mine)],
            "note": [missing_total_note(mine)],
            "command": [meta.command],
            "complete": [meta.complete],
            "reasons": ["; ".join(meta.reasons) or None],
            "running_percent": [running_percent(mine)],
            "ranks": [len(ranks - {-1})],
            "hosts": [len(hosts - {None, ""})],
            "runs": [max(1, profile.runs.num_rows)],
            **_device_facts(profile, selection),
            **_tokens(profile, selection),
        },
    )


def _slices(profile: Profile, selection: Selection) -> int:
    slices = select_slices(profile, selection) if profile.slices.num_rows else None
    return profile.slices.num_rows if slices is None else int(slices.sum())


def _device_facts(profile: Profile, selection: Selection) -> dict[str, list[Any]]:
    """Figures of steps and, if there is only one, of the device."""
    used = (
        [row for row in records(compute_devices.rows(profile, selection)) if row["work"]] if has_clock(profile) else []
    )
    row = used[0] if len(used) == 1 else {}
    return {
        "steps": [len(select_steps(profile, selection)) if profile.steps.num_rows else 0],
        "devices": [len(used)],
        "gpu_utilization_percent": [row.get("utilization_percent")],
        **{
            name: [row.get(name)] for name in ("sm_efficiency_percent", "occupancy_percent", "tensor_core_time_percent")
        },
    }


def _tokens(profile: Profile, selection: Selection) -> dict[str, list[float | None]]:
    token_rates = sum_token_rates(profile, selection)
    return {f"{kind}_tokens_per_s": [token_rates[kind].per_s if kind in token_rates else None] for kind in KINDS}


@table_function
def compute_losses(profile: Profile, selection: Selection) -> TableRows:
    """What could not be read, most frequent first. Independent of the selection."""
    data = {c.name: profile.losses.column(c.name).to_pylist() for c in LOSSES}
    order = sorted(range(len(data["count"])), key=lambda i: (-data["count"][i], i))
    return build_rows(LOSSES, {name: [values[i] for i in order] for name, values in data.items()})


@table_function
def compute_events(profile: Profile, selection: Selection) -> TableRows:
    """One row for each event, in the order of the recording."""
    return memoize_table("events", profile, selection, lambda: _events(profile, selection))


def _events(profile: Profile, selection: Selection) -> TableRows:
    events = select_events(profile, selection)
    rows: dict[int, list[Measurement]] = {event: [] for event in events}
    for m in list_measurements(profile, selection):
        rows[m.event].append(m)
    table = profile.events.take(pa.array(events, pa.int64()))
    return build_rows(
        EVENTS,
        {
            "event": get_strings(table, "name"),
            "unit": get_strings(table, "unit"),
            **{name: table.column(name).to_pylist() for name in _AS_RECORDED},
            "samples": [sum(m.samples for m in rows[event]) for event in events],
            "value": [best_total(rows[event]) for event in events],
            "note": [missing_total_note(rows[event]) for event in events],
            "running_percent": [running_percent(rows[event]) for event in events],
            "deviation_percent": [
                rows[event][0].deviation_percent if len(rows[event]) == 1 else None for event in events
            ],
            "runs": [format_numbers(m.run for m in rows[event]) or None for event in events],
        },
    )


@table_function
def compute_counts(profile: Profile, selection: Selection) -> TableRows:
    """One row for each event and thread with samples, and one for each count. Of a formula one for each place where a
    part was measured.

    Sorted by event, then by value, descending.
    """
    formula = selected_formula(profile, selection)
    if formula is None and not profile.counts.num_rows:
        return _sampled_counts(profile, selection)
    rows = sort_measurements(
        measure_formula(profile, selection, formula) if formula else list_measurements(profile, selection)
    )
    table = threads_of(profile)
    return build_rows(
        COUNTS,
        {
            **_common(profile, rows, formula),
            "thread": [table.name[m.thread] or None if m.thread >= 0 else None for m in rows],
            "cpu": [m.cpu for m in rows],
            "source": [m.source for m in rows],
            "status": [m.status for m in rows],
            "deviation_percent": [m.deviation_percent for m in rows],
            "missing": [m.missing if m.source == "counted" else None for m in rows],
        },
    )


def _sampled_counts(profile: Profile, selection: Selection) -> TableRows:
    """The rows of a result without counts, of arrays: there can be some for each of thousands of threads."""
    share_only, threads = find_share_only_events(profile), threads_of(profile)
    events, rows, values = select_events(profile, selection), [], []
    for number in events:
        sums = sum_threads(profile, selection, number)
        busy = np.flatnonzero(sums.count)
        order = np.arange(len(busy)) if number in share_only else np.argsort(-sums.weight[busy], kind="stable")
        rows.append(busy[order])
        values.append(np.full(len(busy), None) if number in share_only else sums.weight[busy[order]])
    thread = np.concatenate([np.zeros(0, np.int64), *rows])
    event = np.repeat(np.array(events, np.int64), [len(part) for part in rows])
    missing = np.full(len(thread), np.nan)

    def texts(words: Iterable[str | None], places: Array) -> Array:
        found: Array = np.array([word or None for word in words], object)[places]
        return found

    def numbers(known: Iterable[int | None]) -> Array:
        """As int64 if all are known."""
        kept = list(known)
        found: Array = np.array(kept, object if None in kept else np.int64)[thread]
        return found

    number_type = object if share_only.intersection(events) else np.int64
    return build_rows(
        COUNTS,
        {
            "event": texts(event_names(profile), event),
            "unit": texts(get_strings(profile.events, "unit"), event),
            "process": texts(threads.process, thread),
            "thread": texts(threads.name, thread),
            "pid": numbers(threads.pid),
            "tid": numbers(threads.tid),
            "host": texts(threads.host, thread),
            "rank": numbers(rank if rank >= 0 else None for rank in threads.rank.tolist()),
            "run": numbers(profile.threads.column("run").to_pylist()),
            "value": np.concatenate([np.zeros(0, number_type), *(part.astype(number_type) for part in values)]),
            "source": np.full(len(thread), "sampled", object),
            "status": texts((SAMPLED_ONLY if n in share_only else None for n in range(profile.events.num_rows)), event),
            **dict.fromkeys(("cpu", "running_percent", "deviation_percent", "missing"), missing),
        },
    )


@table_function
def compute_threads(profile: Profile, selection: Selection) -> TableRows:
    """One row for each thread and event with samples or counts; a thread with neither has one row with zeros. A formula
    has no percentages.

    Sorted by event, then by value, descending.
    """
    name = name_table("threads", profile, selection)
    return memoize_table(name, profile, selection, lambda: _threads(profile, selection))


def _threads(profile: Profile, selection: Selection) -> TableRows:
    formula = selected_formula(profile, selection)
    if formula is None:
        rows = measure_samples(profile, selection) + measure_counts(profile, selection, each_cpu=False)
    else:
        rows = measure_formula(profile, selection, formula, each_cpu=False)
    idle = list_idle_threads(profile, use_lead_event(profile, selection), {m.thread for m in rows})
    rows = sort_measurements(rows + ([m._replace(value=None, status=None) for m in idle] if formula else idle))
    table = threads_of(profile)
    whole: dict[tuple[int, str], int | float] = {}
    for m in rows:
        whole[m.event, m.source] = whole.get((m.event, m.source), 0) + (m.value or 0)

    def of_counter(m: Measurement, all_threads: str, one_cpu: str) -> str:
        return all_threads if m.cpu is None else one_cpu.format(m.cpu)

    return build_rows(
        THREADS,
        {
            **_common(profile, rows, formula),
            "name": [
                table.name[m.thread] or None if m.thread >= 0 else of_counter(m, "(all threads)", "CPU {}")
                for m in rows
            ],
            "kind": [table.kind[m.thread] or None if m.thread >= 0 else of_counter(m, "thread", "cpu") for m in rows],
            "samples": [m.samples for m in rows],
            "percent": [
                None if m.value is None or formula else 100 * m.value / total if total else 0.0
                for m in rows
                for total in (whole[m.event, m.source],)
            ],
            "note": [m.status if m.value is None else None for m in rows],
            "key": [table.key[m.thread] if m.thread >= 0 else None for m in rows],
        },
    )


def format_numbers(numbers: Iterable[int | None]) -> str:
    """Numbers as ranges, such as 0-2,4."""
    known = {number for number in numbers if number is not None and number >= 0}
    return format_ranges(to_ranges(sorted(known)), "-", ",")


def _common(profile: Profile, rows: list[Measurement], formula: ResolvedFormula | None) -> dict[str, list[Any]]:
    """The columns common to counts and threads. formula: whose values these are, None for events."""
    table, names, units = threads_of(profile), event_names(profile), get_strings(profile.events, "unit")
    return {
        "event": [formula.name if formula else names[m.event] if m.event >= 0 else None for m in rows],
        "unit": [formula.formula.unit if formula else units[m.event] if m.event >= 0 else None for m in rows],
        "process": [table.process[m.thread] or None if m.thread >= 0 else None for m in rows],
        "pid": [table.pid[m.thread] if m.thread >= 0 else None for m in rows],
        "tid": [table.tid[m.thread] if m.thread >= 0 else None for m in rows],
        "host": [m.host or None for m in rows],
        "rank": [m.rank for m in rows],
        "run": [m.run for m in rows],
        "value": [m.value for m in rows],
        "running_percent": [None if m.source == "sampled" else m.running_percent for m in rows],
    }


def selected_ns(profile: Profile, selection: Selection) -> int | None:
    """The length of the part of the window inside the profile; None without times."""
    whole = profile.meta.duration_ns
    if whole is None:
        return None
    start = max(selection.start_ns or 0, 0)
    end = whole if selection.end_ns is None else min(selection.end_ns, whole)
    return max(end - start, 0)


def _duration_ms(profile: Profile, selection: Selection) -> float | None:
    length = selected_ns(profile, selection)
    return None if length is None else length / NS_PER_MS


TABLES = (
    Table("summary", "Summary", SUMMARY, compute_summary, single_row=True),
    Table("losses", "What could not be read", LOSSES, compute_losses, uses_selection=False),
    Table("counts", "Event counts", COUNTS, compute_counts, takes_formulas=True),
    Table("threads", "Threads", THREADS, compute_threads, takes_formulas=True),
    Table("events", "Events", EVENTS, compute_events),
)
"""The tables of this module."""
