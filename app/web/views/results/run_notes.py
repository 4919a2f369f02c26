"""What has to be said of events because of the runs of the command in which they were measured."""

from collections import Counter
from typing import Any

from ....analysis.tables import TABLES, records
from ....domain.profile import Profile
from ....domain.selection import Selection
from ....ingest.facts import STACKS_FACT
from ....recording.recorders.events import event_type

MAX_NAMED = 6
MIN_COUNTERS = 4
"""So many events every CPU counts at once."""


def list_run_notes(profile: Profile, selection: Selection) -> tuple[str, ...]:
    """Of events that were measured in different runs, or in several; and of many that were sampled in one."""
    if profile.runs.num_rows < 2 and profile.events.num_rows <= MIN_COUNTERS:
        return ()
    rows = [row for row in records(TABLES["events"].rows(profile, selection)) if row["runs"]]
    notes = _turns(rows)
    if profile.runs.num_rows < 2:
        return tuple(notes)
    of_runs: dict[str, list[str]] = {}
    for row in rows:
        of_runs.setdefault(row["runs"], []).append(row["event"])
    if len(of_runs) > 1:
        told = "; ".join(
            f"{', '.join(events[:MAX_NAMED])}{' …' if len(events) > MAX_NAMED else ''} in run {runs}"
            for runs, events in list(of_runs.items())[:MAX_NAMED]
        )
        more = f"; and {len(of_runs) - MAX_NAMED} more" if len(of_runs) > MAX_NAMED else ""
        notes.append(
            f"Not all events were measured in the same run of the command: {told}{more}. A number made of events of "
            "different runs, such as instructions per cycle, is of two executions."
        )
    if any(not runs.isdecimal() for runs in of_runs):
        notes.append("What was measured in several runs is the sum of them.")
    return tuple(notes)


def list_stack_notes(profile: Profile) -> tuple[str, ...]:
    """What has to be said of call stacks that were not recorded."""
    made = profile.meta.facts.get(STACKS_FACT)
    return (f"Call stacks were not recorded. They are {made}.",) if made else ()


def _turns(rows: list[dict[str, Any]]) -> list[str]:
    """Of many events that were sampled together: perf record tells less of them than perf stat."""
    together = Counter(
        row["runs"] for row in rows if row["samples"] and event_type(row["event"], None) in ("hardware", "cache", "raw")
    )
    if max(together.values(), default=0) <= MIN_COUNTERS:
        return []
    return [
        f"{max(together.values())} events of the CPU were sampled in one run. Where it has fewer counters they took "
        "turns: a sample then stands for what was counted and not for the time between, and perf record does not say "
        "how long that was. So these numbers are not scaled up. Split the events over several runs to be sure."
    ]
