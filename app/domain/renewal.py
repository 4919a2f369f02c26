"""Stored results of earlier versions, brought to what readers make of the same files today."""

from dataclasses import replace
from typing import TYPE_CHECKING

from .event_names import FIRST_EVENT, distinct, main_of, unit_of
from .meta import Meta

if TYPE_CHECKING:
    from .profile import Profile

PLAIN_NAMES = 5
"""The first schema version in which events are named by what they measure, and not as they were typed."""
_FROM_TEXT = "perf-script"


def renewed(profile: "Profile", version: int) -> "Profile":
    """A profile that was stored with this schema version, as it would be stored today."""
    if version >= PLAIN_NAMES or not of_perf(profile.meta):
        return profile
    # Here, as who only lists results does not need it.
    import pyarrow as pa

    from .tables import SCHEMAS

    rows = profile.events.to_pylist()
    names = plain_names(profile.meta, [row["name"] for row in rows])
    for row, (name, attributes) in zip(rows, names, strict=True):
        unit = unit_of(name, row["weighted"])
        row |= {"name": name, "attributes": attributes or None, "unit": unit if unit == "ns" else row["unit"]}
    events = pa.Table.from_pylist(rows, schema=SCHEMAS["events"])
    return replace(profile, events=events, meta=with_main_event(profile.meta, [row["name"] for row in rows]))


def of_perf(meta: Meta) -> bool:
    """Whether the names of its events are perf's."""
    return meta.format.startswith("perf-")


def plain_names(meta: Meta, recorded: list[str]) -> list[tuple[str, str]]:
    """What events with these names, as perf prints them, are called, and their attributes."""
    return distinct((name, meta.facts.get(f"event {name}", "")) for name in recorded)


def with_main_event(meta: Meta, names: list[str]) -> Meta:
    """`meta` of an earlier version with the main event that is chosen today. It was the first one of a text."""
    if FIRST_EVENT in meta.facts:
        return meta
    recorded = meta.main_event
    main = plain_names(meta, [recorded])[0][0] if recorded else None
    if meta.format != _FROM_TEXT or main not in names or len(names) < 2:
        return replace(meta, main_event=main if main in names else recorded)
    asked = [name.removeprefix("event ") for name in meta.facts if name.startswith("event ")]
    first = plain_names(meta, asked[:1])[0][0] if asked else None
    return replace(meta, main_event=main_of(names, first), facts=meta.facts | {FIRST_EVENT: main})
