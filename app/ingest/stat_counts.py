"""Adds counts of a concurrent perf stat to the profile of a recording."""

from dataclasses import replace
from typing import Any

import pyarrow as pa

from ..domain.event_names import NOT_OBSERVABLE
from ..domain.losses import EVENT_WITHOUT_VALUE
from ..domain.profile import Profile
from ..domain.tables import SCHEMAS

COUNTS_FORMAT = "perf-stat"
"""The files of perf stat's output that are read."""
UNREADABLE_COUNTS = "unreadable counts of perf stat"


def add_counts(profile: Profile, counts: Profile) -> Profile:
    """`profile` with the counts of another one, which was recorded at the same time and covers all its threads. Events
    with one name are merged."""
    names = {name: index for index, name in enumerate(profile.events.column("name").to_pylist())}
    events = profile.events.to_pylist()
    for row in counts.events.to_pylist():
        if row["name"] not in names:
            names[row["name"]] = len(events)
            events.append(row)
        elif row["scaling"] is not None:
            events[names[row["name"]]]["scaling"] = row["scaling"]
    column = counts.events.column("name").to_pylist()
    rows = [row | {"event": names[column[row["event"]]], "run": 0, "thread": -1} for row in counts.counts.to_pylist()]
    # The recording marks every event that could not be observed; perf stat does not for tracepoints.
    unseen = {row["event"]: row for row in profile.counts.to_pylist() if row["status"] == NOT_OBSERVABLE}
    rows = [_mark_not_observable(row) if row["event"] in unseen and not row["value"] else row for row in rows]
    counted = {row["event"] for row in rows}
    rows += [row for event, row in unseen.items() if event not in counted]
    known = f"{EVENT_WITHOUT_VALUE}{NOT_OBSERVABLE}" if unseen else None
    losses = [*profile.losses.to_pylist(), *(row for row in counts.losses.to_pylist() if row["reason"] != known)]
    return replace(
        profile,
        events=pa.Table.from_pylist(events, schema=SCHEMAS["events"]),
        counts=pa.Table.from_pylist(rows, schema=SCHEMAS["counts"]),
        losses=pa.Table.from_pylist(losses, schema=SCHEMAS["losses"]),
    )


def add_counts_loss(profile: Profile, why: str) -> Profile:
    """`profile` with a loss for its counts. why: a sentence."""
    losses = [*profile.losses.to_pylist(), {"reason": UNREADABLE_COUNTS, "count": 1, "example": why}]
    return replace(profile, losses=pa.Table.from_pylist(losses, schema=SCHEMAS["losses"]))


def _mark_not_observable(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"value": None, "status": NOT_OBSERVABLE, "deviation_percent": None}
