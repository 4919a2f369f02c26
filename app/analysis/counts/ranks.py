"""Ranks and runs: participants, how each ended, and load balance."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, get_strings
from ...domain.units import NS_PER_MS
from ..core.common_columns import EVENT, RUN, SAMPLES, UNIT
from ..core.measurements import (
    Measurement,
    best_total,
    list_measurements,
    missing_total_note,
    running_percent,
)
from ..core.sample_selection import event_names, match_places, threads_of
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..formulas.measures import evaluate_groups, measure_parts, selected_formula
from .totals import format_numbers

RANKS = (
    Column("rank", "", "MPI rank; missing without ranks, and for the recording of a whole host.", "Int64"),
    Column("host", "", "The host of the rank."),
    RUN,
    EVENT,
    UNIT,
    SAMPLES,
    Column("value", "event", "Weight of the selected samples, or sum of the counts.", "number"),
    Column("percent", "%", "value in percent of the sum of all ranks for this event and run.", "Float64"),
    Column("of_mean", "", "value divided by the mean over the recorded ranks of this run.", "Float64"),
    Column("threads", "", "Number of threads with samples or counts of this event.", "int64"),
    Column("exit_status", "", "Exit status of its process, if recorded and not ended by a signal.", "Int64"),
    Column("signal", "", "Number of the signal that ended its process.", "Int64"),
    Column("ran_ms", "ms", "Duration of its process, as recorded by the process wrapper.", "Float64"),
    Column("pid", "", "Process id of its recorder.", "Int64"),
    Column("recorded", "", "False for a rank that was not meant to be recorded.", "boolean"),
    Column("losses", "", "Number of losses in its recording.", "Int64"),
    Column("note", "", "Other remarks."),
    Column("running_percent", "%", "Share of the time in which the counted event had a hardware counter.", "Float64"),
)
RUNS = (
    Column("run", "", "Number of the run, from 0.", "int64"),
    Column("command", "", "The executed command."),
    Column("events", "", "The events measured in the run, separated by commas."),
    Column("hosts", "", "The hosts of the run, separated by commas."),
    Column("ranks", "", "The ranks of the run, as in 0-63."),
    Column("start_ns", "ns", "Start time, since the Unix epoch.", "Int64"),
    Column("duration_ms", "ms", "From the first to the last recorded event of the run.", "Float64"),
    Column(
        "exit_status",
        "",
        "Exit status of the command; with ranks, the first that is not 0. For a signal, 128 plus its number.",
        "Int64",
    ),
    SAMPLES,
)

RANK_FIELDS = ("exit_status", "signal", "pid", "recorded", "losses", "note")
RankKey = tuple[int, int | None, str | None]
"""Run, rank, host."""


@table_function
def compute_ranks(profile: Profile, selection: Selection) -> TableRows:
    """One row for each rank, run and event; a rank without measurements has one row without an event. A formula has one
    row for each rank and run, of all runs if its parts are from different ones, without percentages.

    Sorted by run, event and rank.
    """
    rank_facts = _rank_facts(profile, selection)
    found: dict[tuple[int, RankKey], list[Measurement]] = defaultdict(list)
    formula = selected_formula(profile, selection)
    for m in measure_parts(profile, selection, formula) if formula else list_measurements(profile, selection):
        run, rank, host = _key(m)
        if formula:
            found[formula.lead, (0 if formula.across_runs else run, rank, host)].append(m)
        else:
            found[m.event, (run, rank, host)].append(m)
    if not selection.divides_ranks:
        for key in rank_facts.keys() - {key for _, key in found}:
            found[NO_ID, key] = []
    order = sorted(found, key=lambda one: (one[1][0], one[0] == NO_ID, one[0], _order(one[1])))
    if formula is None:
        value = {one: best_total(found[one]) for one in order}
    else:
        value = dict(zip(order, evaluate_groups(profile, formula, [found[one] for one in order]), strict=True))
    # Counts and samples are never added.
    counted = {one: any(m.source == "counted" and m.value is not None for m in found[one]) for one in order}
    whole: dict[tuple[int, int, bool], list[int | float]] = defaultdict(list)
    for event, key in order:
        if event != NO_ID:
            whole[event, key[0], counted[event, key]].append(value[event, key] or 0)
    # Lost ranks have no known values.
    counter = Counter(
        run
        for (run, rank, _), row in rank_facts.items()
        if row["recorded"] and rank is not None and row["start_ns"] is not None
    )
    names, units = [*event_names(profile), None], [*get_strings(profile.events, "unit"), None]
    if formula is not None:
        names[formula.lead], units[formula.lead] = formula.name, formula.formula.unit

    def share(one: tuple[int, RankKey], scale: float) -> float | None:
        if formula is not None:
            return None
        total = sum(whole[one[0], one[1][0], counted[one]])
        return None if value[one] is None or one[0] == NO_ID else scale * (value[one] or 0) / total if total else 0.0

    about = [rank_facts.get(key, {}) for _, key in order]
    return build_rows(
        RANKS,
        {
            "rank": [key[1] for _, key in order],
            "host": [key[2] for _, key in order],
            "run": [key[0] for _, key in order],
            "event": [names[event] for event, _ in order],
            "unit": [units[event] for event, _ in order],
            "samples": [sum(m.samples for m in found[one]) for one in order],
            "value": [value[one] for one in order],
            "percent": [share(one, 100.0) for one in order],
            "of_mean": [
                share(
                    one,
                    max(
                        len(whole[one[0], one[1][0], counted[one]]),
                        0 if selection.divides_ranks else counter[one[1][0]],
                    ),
                )
                for one in order
            ],
            "threads": [len({m.thread for m in found[one] if m.thread >= 0}) for one in order],
            **{name: [row.get(name) for row in about] for name in RANK_FIELDS},
            "note": [
                " ".join(filter(None, (row.get("note"), missing_total_note(found[one])))) or None
                for row, one in zip(about, order, strict=True)
            ],
            "ran_ms": [_ran_ms(row) for row in about],
            "running_percent": [running_percent(found[one]) for one in order],
        },
    )


@table_function
def compute_runs(profile: Profile, selection: Selection) -> TableRows:
    """One row for each execution of the command."""
    names = event_names(profile)
    threads = threads_of(profile)
    found: dict[int, list[Measurement]] = defaultdict(list)
    for m in list_measurements(profile, selection):
        found[_key(m)[0]].append(m)
    every = list(enumerate(profile.runs.to_pylist() or [{}]))
    of_run = profile.threads.column("run").to_pylist()
    hosts: dict[int, dict[str, None]] = defaultdict(dict)
    numbers: dict[int, set[int]] = defaultdict(set)
    for run, host, rank in (
        *((of_run[t], threads.host[t], int(threads.rank[t])) for t in range(len(of_run))),
        *((m.run or 0, m.host, m.rank) for those in found.values() for m in those if m.thread < 0),
        *((row["run"], row["host"], row["rank"]) for row in profile.ranks.to_pylist()),
    ):
        if host:
            hosts[run][host] = None
        if rank is not None and rank >= 0:
            numbers[run].add(rank)
    return build_rows(
        RUNS,
        {
            "run": [n for n, _ in every],
            "events": [", ".join(names[e] for e in sorted({m.event for m in found[n]})) or None for n, _ in every],
            "hosts": [", ".join(hosts[n]) or row.get("host") for n, row in every],
            "ranks": [format_numbers(numbers[n]) or None for n, _ in every],
            "duration_ms": [_ms(row.get("duration_ns")) for _, row in every],
            "samples": [sum(m.samples for m in found[n]) for n, _ in every],
            **{name: [row.get(name) for _, row in every] for name in ("command", "start_ns", "exit_status")},
        },
    )


def _key(m: Measurement) -> RankKey:
    return m.run or 0, m.rank, m.host or None


def _order(key: RankKey) -> tuple[int, str]:
    return -1 if key[1] is None else key[1], key[2] or ""


def _rank_facts(profile: Profile, selection: Selection) -> dict[RankKey, dict[str, Any]]:
    """Properties of the selected ranks other than measurements. A selection of threads excludes other ranks."""
    table = profile.ranks
    if selection.ranks or selection.hosts:
        rank, host = table.column("rank").fill_null(NO_ID).to_numpy(), table.column("host").to_pylist()
        table = table.filter(pa.array(match_places(profile, selection, rank, host)))
    return {(row["run"], row["rank"], row["host"]): row for row in table.to_pylist()}


def _ran_ms(row: Mapping[str, Any]) -> float | None:
    start, end = row.get("start_ns"), row.get("end_ns")
    return None if start is None or end is None or end < start else (end - start) / NS_PER_MS


def _ms(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / NS_PER_MS


TABLES = (
    Table("ranks", "Ranks", RANKS, compute_ranks, takes_formulas=True),
    Table("runs", "Runs", RUNS, compute_runs),
)
"""The tables of this module."""
