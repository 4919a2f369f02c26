"""Stored results of earlier versions, converted to what readers yield for the same files today."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..domain.event_names import (
    FIRST_EVENT_FACT,
    NOT_OBSERVABLE,
    choose_main_event,
    explain_unobservable,
    get_unit,
    is_unobservable,
    name_events,
)
from ..domain.losses import EVENT_WITHOUT_VALUE
from ..domain.meta import Meta

if TYPE_CHECKING:
    from ..domain.profile import Profile

PLAIN_NAMES_VERSION = 5
"""The first schema version in which events are named by what they measure, and not as they were typed."""
_FROM_TEXT = "perf-script"


def upgrade_profile(profile: "Profile", version: int) -> "Profile":
    """A profile that was stored with this schema version, as it would be stored today."""
    if not has_perf_events(profile.meta):
        return profile
    return _drop_unobserved_zeros(profile if version >= PLAIN_NAMES_VERSION else _rename_events(profile))


def _rename_events(profile: "Profile") -> "Profile":
    # Imported here, because listing results does not need it.
    import pyarrow as pa

    from ..domain.tables import SCHEMAS

    rows = profile.events.to_pylist()
    names = normalize_event_names(profile.meta, [row["name"] for row in rows])
    for row, (name, attributes) in zip(rows, names, strict=True):
        unit = get_unit(name, row["weighted"])
        row |= {"name": name, "attributes": attributes or None, "unit": unit if unit == "ns" else row["unit"]}
    events = pa.Table.from_pylist(rows, schema=SCHEMAS["events"])
    return replace(profile, events=events, meta=set_main_event(profile.meta, [row["name"] for row in rows]))


def _drop_unobserved_zeros(profile: "Profile") -> "Profile":
    """Without the values 0 of events that happen in the kernel, if that was not observed."""
    hidden = [index for index, name in enumerate(profile.events.column("name").to_pylist()) if is_unobservable(name)]
    if not hidden or not profile.counts.num_rows:
        return profile
    # Imported here, because few results need it.
    import pyarrow as pa

    from ..domain.arrow import functions as pc

    counts = profile.counts
    of_them = pc.is_in(counts.column("event"), pa.array(hidden, counts.schema.field("event").type))
    zero = pc.and_(of_them, pc.fill_null(pc.equal(counts.column("value"), 0), False))
    for name, instead in (("value", None), ("deviation_percent", None), ("status", NOT_OBSERVABLE)):
        field = counts.schema.field(name)
        values = pc.if_else(zero, pa.scalar(instead, field.type), counts.column(name))
        counts = counts.set_column(counts.schema.get_field_index(name), field, values)
    found = counts.filter(zero).column("event").unique().to_pylist()
    lost = [
        {
            "reason": f"{EVENT_WITHOUT_VALUE}{NOT_OBSERVABLE}",
            "count": 1,
            "example": explain_unobservable(profile.events.column("name")[e].as_py()),
        }
        for e in found
    ]
    losses = pa.concat_tables([profile.losses, pa.Table.from_pylist(lost, schema=profile.losses.schema)])
    return replace(profile, counts=counts, losses=losses)


def has_perf_events(meta: Meta) -> bool:
    """Whether the names of its events are perf's."""
    return meta.format.startswith("perf-")


def normalize_event_names(meta: Meta, recorded: list[str]) -> list[tuple[str, str]]:
    """The names of events by their names as perf prints them, and their attributes."""
    return name_events((name, meta.facts.get(f"event {name}", "")) for name in recorded)


def set_main_event(meta: Meta, names: list[str]) -> Meta:
    """`meta` of an earlier version with the main event that would be chosen today. It was the first one of a text."""
    if FIRST_EVENT_FACT in meta.facts:
        return meta
    main_event = meta.main_event
    main = normalize_event_names(meta, [main_event])[0][0] if main_event else None
    if meta.format != _FROM_TEXT or main not in names or len(names) < 2:
        return replace(meta, main_event=main if main in names else main_event)
    asked = [name.removeprefix("event ") for name in meta.facts if name.startswith("event ")]
    first = normalize_event_names(meta, asked[:1])[0][0] if asked else None
    return replace(meta, main_event=choose_main_event(names, first), facts=meta.facts | {FIRST_EVENT_FACT: main})
