"""How a result was recorded: of each event how it was sampled, and the conditions of the recording.

The facts come from the header of perf.data (`perf script --header`), from what jobs record where they run, and from the
samples. A fact that is not known has no value, and a note on how to get it.
"""

from collections import defaultdict
from statistics import median

import numpy as np

from ...domain.event_names import uses_counter
from ...domain.list_text import abbreviate_names, format_ranges, to_ranges
from ...domain.profile import Profile
from ...domain.rank_state import CPUS_FACT, GOVERNOR_FACT, THROTTLING
from ...domain.selection import Selection
from ...domain.tables import get_column
from ...domain.units import NS_PER_MS, format_bytes, format_duration, format_percent
from ...ingest.perf_text.losses import LOST_IN_KERNEL
from ..core.common_columns import EVENT, SAMPLES, UNIT
from ..core.measurements import Measurement, list_measurements, running_percent
from ..core.memo import memoize
from ..core.sample_selection import event_names, select_events
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from .event_attributes import EventAttributes, list_recorded_events, parse_attributes
from .totals import format_numbers

MAX_HOSTS = 4
SAMPLING = (
    EVENT,
    UNIT,
    Column("sampling", "", "frequency, period, counted (perf stat), or missing if the file does not say it."),
    Column("rate", "", "Samples per second for a frequency, events per sample for a period.", "Float64"),
    Column(
        "precise_level",
        "",
        "How exact the address of a sample is: precise_ip of perf, 0 (any distance) to 3 (none).",
        "Int64",
    ),
    Column("user", "", "Whether the event was measured in user space.", "boolean"),
    Column("kernel", "", "Whether the event was measured in the kernel.", "boolean"),
    Column("call_stacks", "", "How call stacks were recorded: dwarf, lbr, frame pointers, none."),
    SAMPLES,
    Column("runs", "", "The executions of the command that measured it, as in 0-2,4."),
    Column("duration_ms", "ms", "Duration of these runs; of several, the longest.", "Float64"),
    Column("enabled_ms", "ms", "For counts: sum of the times in which it was to be counted.", "Float64"),
    Column("running_ms", "ms", "For counts: sum of the times in which it had a hardware counter.", "Float64"),
    Column(
        "running_percent", "%", "running_ms in percent of enabled_ms; below 100, the event was multiplexed.", "Float64"
    ),
    Column("note", "", "What is not known, and how to get it."),
)
CONDITIONS = (
    Column("condition", "", "What the row is about."),
    Column("value", "", "Its value; missing if it is not known."),
    Column("note", "", "If it is not known: how to get it; else what it means."),
)
BY_HEADER = "Not in this file. perf.data and the output of perf script --header have it."
BY_JOB = "Not in this file. A job records it where the command starts."
NO_MULTIPLEXING = (
    "perf record does not report multiplexing. Count the events at the same time, or use fewer events than counters."
)
GOVERNOR_NOTES = {"none": "The kernel does not control the frequency here, as in most virtual machines."}
NOT_ALWAYS = "Recordings compressed by perf (-z) and texts of perf script do not always contain it."
_HEADER = (
    ("recorder", "cmdline", "The command line of perf."),
    ("kernel", "os release", ""),
    ("CPU", "cpudesc", ""),
    ("CPUs", "nrcpus online", "Number of CPUs that were online."),
    ("memory", "total memory", ""),
    ("perf", "perf version", ""),
)
"""Name, fact in the header of perf.data, and meaning."""


@table_function
def compute_sampling(profile: Profile, selection: Selection) -> TableRows:
    """One row for each event, also for those that were recorded without a sample."""
    recorded = list_recorded_events(profile.meta.facts)
    rows: dict[int, list[Measurement]] = defaultdict(list)
    for m in list_measurements(profile, selection):
        rows[m.event].append(m)
    names = event_names(profile)
    table = profile.events.to_pylist()
    chosen = select_events(profile, selection)
    empty = [] if selection.event else [name for name in recorded if name not in names]
    shown = [names[event] for event in chosen] + empty
    attributes = [_attributes(name, recorded) for name in shown]
    mine = [rows[event] for event in chosen] + [[] for _ in empty]
    sampled = [sum(m.samples for m in one) for one in mine]
    counted = [any(m.source == "counted" for m in one) for one in mine]
    properties = [table[event] for event in chosen]
    properties += [{"sampling": one.sampling, "rate": one.rate} for one in attributes[len(chosen) :]]
    blank = [None] * len(empty)
    enabled = [sum(m.enabled_ns for m in one) for one in mine]
    running = [sum(m.running_ns for m in one) for one in mine]
    percent = [running_percent(one) for one in mine]
    runs = [{m.run for m in one if m.run is not None} for one in mine]
    return build_rows(
        SAMPLING,
        {
            "event": shown,
            "unit": [table[event]["unit"] for event in chosen] + blank,
            "sampling": [
                row.get("sampling") or ("counted" if is_counted and not samples else None)
                for row, is_counted, samples in zip(properties, counted, sampled, strict=True)
            ],
            "rate": [row.get("rate") for row in properties],
            "precise_level": [one.precise for one in attributes],
            "user": [one.user for one in attributes],
            "kernel": [one.kernel for one in attributes],
            "call_stacks": [one.stacks for one in attributes],
            "samples": sampled,
            "runs": [format_numbers(one) or None for one in runs],
            "duration_ms": [_duration_ms(profile, one) for one in runs],
            "enabled_ms": [ns / NS_PER_MS if ns else None for ns in enabled],
            "running_ms": [now / NS_PER_MS if ns else None for now, ns in zip(running, enabled, strict=True)],
            "running_percent": percent,
            "note": [
                NO_MULTIPLEXING if samples and share is None and one.stacks and uses_counter(name) else None
                for name, samples, share, one in zip(shown, sampled, percent, attributes, strict=True)
            ],
        },
    )


@table_function
def compute_conditions(profile: Profile, selection: Selection) -> TableRows:
    """The conditions of the recording, independent of the selection."""
    facts = profile.meta.facts
    has_header = bool(list_recorded_events(facts)) or any(name in facts for _, name, _ in _HEADER)
    hosts = sorted({host for host in profile.threads.column("host").to_pylist() if host})
    host = abbreviate_names(hosts, MAX_HOSTS) or facts.get("hostname")
    governor = facts.get(GOVERNOR_FACT)
    rows: list[tuple[str, str | None, str]] = [
        ("command", profile.meta.command, "" if profile.meta.command else BY_JOB),
        ("host", host or None, "" if host else BY_HEADER),
        *((name, _shown(facts.get(fact)), meaning if fact in facts else BY_HEADER) for name, fact, meaning in _HEADER),
        ("frequency governor", governor, GOVERNOR_NOTES.get(governor or "", "") if governor else BY_JOB),
        (
            "CPU pinning",
            facts.get(CPUS_FACT),
            "The CPUs that the command was allowed to use when it started." if CPUS_FACT in facts else BY_JOB,
        ),
        _find_used_cpus(profile),
        _find_loss(
            profile, "throttling", THROTTLING, has_header, "Times that the kernel stopped an event for a while."
        ),
        _find_loss(profile, "lost samples", LOST_IN_KERNEL, has_header, "Samples that the kernel or perf dropped."),
        _find_overhead(profile),
    ]
    return build_rows(
        CONDITIONS,
        {
            "condition": [name for name, _, _ in rows],
            "value": [value for _, value, _ in rows],
            "note": [note or None for _, _, note in rows],
        },
    )


def find_overhead_percent(profile: Profile) -> tuple[float, float, float] | None:
    """(how much longer the command took with recording, in percent; its duration with and without, in ns). The medians
    of the runs with and without recording; None without both. A run takes as long as its longest process."""
    ran: dict[int, int] = {}
    recorded: set[int] = set()
    for row in profile.ranks.to_pylist():
        if row["recorded"] is not False:
            recorded.add(row["run"])
        if row["start_ns"] is not None and row["end_ns"] is not None:
            ran[row["run"]] = max(ran.get(row["run"], 0), row["end_ns"] - row["start_ns"])
    with_ns = [ns for run, ns in ran.items() if run in recorded]
    without_ns = [ns for run, ns in ran.items() if run not in recorded]
    if not with_ns or not without_ns or not median(without_ns):
        return None
    return 100.0 * (median(with_ns) / median(without_ns) - 1), median(with_ns), median(without_ns)


def _find_overhead(profile: Profile) -> tuple[str, str | None, str]:
    name, found = "overhead of recording", find_overhead_percent(profile)
    if found is None:
        return name, None, "Record with a job that also runs once without recording (--baseline)."
    percent, with_ns, without_ns = found
    text = f"{format_duration(with_ns)} with recording, {format_duration(without_ns)} without"
    return name, format_percent(percent), f"{text}, the start and end of perf included. Single runs differ by chance."


def _find_loss(profile: Profile, name: str, reason: str, has_header: bool, meaning: str) -> tuple[str, str | None, str]:
    reasons, counts = (profile.losses.column(column).to_pylist() for column in ("reason", "count"))
    count = sum(number for one, number in zip(reasons, counts, strict=True) if one == reason)
    if count or not has_header:
        return name, f"{count:,}" if count else None, meaning if count else BY_HEADER
    return name, "none found", NOT_ALWAYS


def _find_used_cpus(profile: Profile) -> tuple[str, str | None, str]:
    def find() -> list[int]:
        return [int(cpu) for cpu in np.unique(get_column(profile.samples, "cpu")) if cpu >= 0]

    known = memoize(profile, ("CPUs of samples",), find) if profile.samples.num_rows else []
    if not known:
        return "CPUs of samples", None, "Record the CPU of each sample (perf record --sample-cpu)."
    return "CPUs of samples", format_ranges(to_ranges(known), "-", ","), "The CPUs on which samples were taken."


def _shown(value: str | None) -> str | None:
    """A fact of the header, sizes in a suitable unit."""
    kilobytes = (value or "").removesuffix(" kB")
    return format_bytes(int(kilobytes) << 10) if kilobytes != value and kilobytes.isdecimal() else value


def _attributes(name: str, recorded: dict[str, tuple[str, str]]) -> EventAttributes:
    return parse_attributes(*recorded.get(name, (name, "")))


def _duration_ms(profile: Profile, runs: set[int]) -> float | None:
    lengths = profile.runs.column("duration_ns").to_pylist()
    known = [lengths[run] for run in runs if run < len(lengths) and lengths[run] is not None]
    longest = max(known) if known else profile.meta.duration_ns
    return None if longest is None else longest / NS_PER_MS


TABLES = (
    Table("sampling", "How events were sampled", SAMPLING, compute_sampling),
    Table("conditions", "Conditions of the recording", CONDITIONS, compute_conditions, uses_selection=False),
)
"""The tables of this module."""
