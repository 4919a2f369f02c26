"""The database columns of a result that are computed from its profile."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from ..analysis.core.measurements import find_share_only_events
from ..domain.arrow import functions as pc
from ..domain.profile import Profile
from ..domain.tables import get_column, get_strings
from ..domain.units import NS_PER_S
from .event_total import EventTotal


def describe_profile(profile: Profile) -> dict[str, Any]:
    """The columns of `results` that are computed from the profile."""
    meta = profile.meta
    hosts = [*get_strings(profile.runs, "host"), *_distinct(profile.threads, "host"), meta.facts.get("hostname", "")]
    return {
        "format": meta.format,
        "meta": meta.to_json(),
        "events": [asdict(total) for total in event_totals(profile)],
        "samples": profile.samples.num_rows,
        "threads": profile.threads.num_rows,
        "duration_ns": meta.duration_ns,
        "recorded": recorded_at(profile),
        "host": next((host for host in hosts if host), ""),
        "command": meta.command or next((command for command in get_strings(profile.runs, "command") if command), ""),
        "complete": meta.complete,
        "reasons": list(meta.reasons),
    }


def recorded_at(profile: Profile) -> float | None:
    """When the recording started, in seconds since the epoch; None if the profile does not contain it."""
    starts = [profile.meta.start_epoch_ns]
    for table in (profile.runs, profile.ranks):
        starts += table.column("start_ns").to_pylist()
    known = [start for start in starts if start is not None and start > 0]
    return min(known) / NS_PER_S if known else None


def event_totals(profile: Profile) -> tuple[EventTotal, ...]:
    """Total and number of samples of each event, in the order of `events`; sums are exact."""
    events = profile.events.num_rows
    event = get_column(profile.samples, "event")
    weight = get_column(profile.samples, "weight")
    samples = np.bincount(event, minlength=events) if events != 1 else np.array([len(event)])
    # Sums of 32-bit halves are exact in bincount's float64 up to 2**21 samples; more samples are summed in chunks.
    sums = [0] * events
    for start in range(0, len(event), 1 << 21):
        part, chunk = event[start : start + (1 << 21)], weight[start : start + (1 << 21)]
        if events == 1:
            sums[0] += (int((chunk >> 32).sum()) << 32) + int((chunk & 0xFFFFFFFF).sum())
            continue
        high = np.bincount(part, chunk >> 32, minlength=events)
        low = np.bincount(part, chunk & 0xFFFFFFFF, minlength=events)
        for i in range(events):
            sums[i] += (int(high[i]) << 32) + int(low[i])
    counted, guessed = _sum_counts(profile.counts, events), find_share_only_events(profile)

    def total(i: int) -> int | float | None:
        """The totals of events; counts take precedence over sums of samples."""
        sampled = None if i in guessed else sums[i]
        if not samples[i] or counted.get(i) is not None:
            return counted.get(i, 0)
        return sampled

    return tuple(
        EventTotal(name, unit, total(i), int(samples[i]), scaling)
        for i, (name, unit, scaling) in enumerate(
            zip(
                get_strings(profile.events, "name"),
                get_strings(profile.events, "unit"),
                profile.events.column("scaling").to_pylist(),
                strict=True,
            )
        )
    )


def _distinct(table: pa.Table, name: str) -> list[str]:
    return [value for value in pc.unique(table.column(name)).to_pylist() if value]


def _sum_counts(counts: pa.Table, events: int) -> dict[int, int | float | None]:
    """Sums of counts by event; null if all counts of an event are null."""
    if not counts.num_rows:
        return {}
    event = get_column(counts, "event")
    value = counts.column("value").to_numpy()
    known = ~np.isnan(value)
    sums = np.bincount(event[known], value[known], minlength=events)
    some = np.bincount(event[known], minlength=events)
    present = np.bincount(event, minlength=events)
    found: dict[int, int | float | None] = {}
    for i in np.flatnonzero(present):
        total = float(sums[i])
        found[int(i)] = None if not some[i] else int(total) if total.is_integer() else total
    return found
