"""A profile filtered by a selection: its samples, counts and slices, and the data attached to those slices.

Tables of the filtered profile equal those of the original under the selection: samples are clipped at the edges of the
window, slices belong to the window in which they begin.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from ..analysis.core.measurements import select_counts
from ..analysis.core.sample_selection import clip_weights, event_id, filter_samples, resolve_event_name
from ..analysis.core.slice_selection import device_work_of, select_device_work, select_slices
from ..analysis.stacks.branches import select_branches
from ..domain.arrays import Array
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import NO_ID, SCHEMAS, empty_table, get_column
from ..domain.validation import REFERENCES

TIME_TABLES = ("instants", "counters")
"""Tables of data at single times."""


def filter_profile(profile: Profile, selection: Selection) -> Profile:
    """The selected part of a profile. Raises InvalidRequest for a selection that the profile does not have."""
    selection = resolve_event_name(profile, selection)
    event = None if selection.event is None else event_id(profile, selection.event)
    rows = filter_samples(profile, selection, event)
    samples = profile.samples.slice(rows.start, rows.stop - rows.start) if isinstance(rows, slice) else None
    samples = profile.samples.take(pa.array(rows)) if samples is None else samples
    words = " ".join(f"{word}={value}" for word, value in selection.to_query())
    changed: dict[str, pa.Table] = {
        "samples": _cut(samples, clip_weights(profile, selection, rows), selection.start_ns),
        "counts": _counts(profile, selection),
    }
    if profile.branches.num_rows:
        changed["branches"] = profile.branches.filter(pa.array(select_branches(profile, selection)))
    meta = replace(
        profile.meta,
        main_event=selection.event or profile.meta.main_event,
        facts=profile.meta.facts | {"selection": words},
    )
    for name in TIME_TABLES:
        changed[name] = _filter_window(profile.tables()[name], selection)
    kept = _slices_kept(profile, selection)
    if kept is not None:
        changed |= _filter_slices({**profile.tables(), **changed}, kept)
    return replace(profile, meta=meta, **changed)


def _slices_kept(profile: Profile, selection: Selection) -> Array | None:
    """Which slices are kept, as bools; None for all."""
    selection = selection.replace(event=None)
    kept, works = select_slices(profile, selection), select_device_work(profile, selection)
    if kept is None and works is None:
        return None
    kept = np.ones(profile.slices.num_rows, bool) if kept is None else kept.copy()
    kept[device_work_of(profile).slice] = True if works is None else works
    return kept


def _filter_slices(tables: dict[str, pa.Table], kept: Array) -> dict[str, pa.Table]:
    """The kept slices, and the tables that refer to slices, without rows that refer to others; optional references to
    others become null."""
    place = np.where(kept, np.cumsum(kept) - 1, NO_ID)
    before = np.concatenate(([0], np.cumsum(kept)))
    found = {}
    for name, references in REFERENCES.items():
        if name != "slices" and "slices" not in {target for target, _ in references.values()}:
            continue
        table = tables[name]
        stays = kept if name == "slices" else np.ones(table.num_rows, bool)
        changed: dict[str, Array] = {}
        for of, (target, none_allowed) in references.items():
            if target == "slices":
                row = get_column(table, of)
                changed[of] = np.where(row >= 0, place[row], NO_ID) if len(place) else row
                if not none_allowed:
                    stays = stays & (changed[of] >= 0)
        if name == "slices":
            changed["end"] = before[get_column(table, "end")]
        found[name] = _replace_columns(table, name, changed).filter(pa.array(stays))
        if name == "device_work":
            left = np.append(np.where(stays, np.cumsum(stays) - 1, NO_ID), NO_ID)
            profiled_kernels = tables["profiled_kernels"]
            found["profiled_kernels"] = _replace_columns(
                profiled_kernels, "profiled_kernels", {"work": left[get_column(profiled_kernels, "work")]}
            )
    return found


def _replace_columns(table: pa.Table, name: str, changed: dict[str, Array]) -> pa.Table:
    """The table `name` with some columns of integers replaced."""
    for of, values in changed.items():
        field = SCHEMAS[name].field(of)
        array = pa.array(values.astype(field.type.to_pandas_dtype()), field.type)
        table = table.set_column(table.schema.get_field_index(of), field, array)
    return table


def _filter_window(table: pa.Table, selection: Selection) -> pa.Table:
    time_ns = get_column(table, "time_ns")
    inside = np.ones(len(time_ns), bool)
    if selection.start_ns is not None:
        inside &= time_ns >= selection.start_ns
    if selection.end_ns is not None:
        inside &= time_ns < selection.end_ns
    return table if inside.all() else table.filter(pa.array(inside))


def _cut(samples: pa.Table, weight: Array, start_ns: int | None) -> pa.Table:
    """The samples with clipped weights; samples with a duration begin in the window, too."""
    columns: dict[str, Array] = {"weight": weight}
    if start_ns is not None:
        columns["time_ns"] = np.maximum(get_column(samples, "time_ns"), start_ns)
    for name, values in columns.items():
        samples = samples.set_column(samples.schema.get_field_index(name), samples.schema.field(name), pa.array(values))
    return samples


def _counts(profile: Profile, selection: Selection) -> pa.Table:
    if selection.focuses or selection.ignore is not None or selection.show_from is not None:
        # Counts have no stack.
        return empty_table("counts")
    return profile.counts.filter(pa.array(select_counts(profile, selection)))
