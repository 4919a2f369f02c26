"""Notes on events that depend on the runs of the command in which they were measured."""

from collections import Counter
from typing import Any

from ....analysis.tables import TABLES, records
from ....domain.list_text import abbreviate_names
from ....domain.profile import Profile
from ....domain.selection import Selection
from ....ingest.facts import STACKS_FACT
from ....recording.recorders.events import event_type
from .missing_data import explain_flat_stacks

MAX_NAMED = 6
MIN_COUNTERS = 4
"""Every CPU counts this many events at once."""


def list_run_notes(profile: Profile, selection: Selection) -> tuple[str, ...]:
    """Of events that were measured in different runs, or in several; and of many that were sampled in one."""
    if profile.runs.num_rows < 2 and profile.events.num_rows <= MIN_COUNTERS:
        return ()
    rows = [row for row in records(TABLES["events"].rows(profile, selection)) if row["runs"]]
    notes = _multiplexing_notes(rows)
    if profile.runs.num_rows < 2:
        return tuple(notes)
    of_runs: dict[str, list[str]] = {}
    for row in rows:
        of_runs.setdefault(row["runs"], []).append(row["event"])
    if len(of_runs) > 1:
        measured = "; ".join(
            f"{abbreviate_names(events, MAX_NAMED)} in run {runs}" for runs, events in list(of_runs.items())[:MAX_NAMED]
        )
        more = f"; and {len(of_runs) - MAX_NAMED} more" if len(of_runs) > MAX_NAMED else ""
        notes.append(
            f"Not all events were measured in the same run of the command: {measured}{more}. A ratio of events of "
            "different runs, such as instructions per cycle, combines two executions."
        )
    if any(not runs.isdecimal() for runs in of_runs) and _repeats_a_rank(profile):
        notes.append("Values of events that were measured in several runs are sums over these runs.")
    return tuple(notes)


def _repeats_a_rank(profile: Profile) -> bool:
    """Whether anything was measured in several runs; the files of the ranks of one run are not."""
    tables = (profile.threads, profile.counts)
    known = {(row["rank"], row["run"]) for table in tables for row in table.select(["rank", "run"]).to_pylist()}
    return any(count > 1 for count in Counter(rank for rank, _ in known).values())


def list_stack_notes(profile: Profile) -> tuple[str, ...]:
    """Notes on call stacks that were not recorded."""
    fact = profile.meta.facts.get(STACKS_FACT)
    return (f"Call stacks were not recorded. They are {fact}.",) if fact else explain_flat_stacks(profile)


def _multiplexing_notes(rows: list[dict[str, Any]]) -> list[str]:
    """On many events that were sampled together: perf record reports less about multiplexing than perf stat."""
    together = Counter(
        row["runs"] for row in rows if row["samples"] and event_type(row["event"], None) in ("hardware", "cache", "raw")
    )
    if max(together.values(), default=0) <= MIN_COUNTERS:
        return []
    return [
        f"{max(together.values())} hardware events were sampled in one run. If the CPU has fewer counters, they were "
        "multiplexed: samples then cover only the time in which their event was counted, and perf record does not "
        "report this time. So these numbers are not scaled up. Split the events over several runs to be sure."
    ]
