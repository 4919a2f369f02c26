"""The stored form as one file: the manifest and the tables, in an archive. Importing it again gives the same profile.

Under a selection it holds the samples and counts that the selection leaves; all the rest stays as it is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ..analysis.measured import counts_selected
from ..analysis.picking import event_id, samples_kept, weights_in
from ..domain import archive
from ..domain.errors import InvalidRequest
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.stored import FOLDER, MANIFEST, NOTHING, TableFile, digest, encode, file_name, manifest_json
from ..domain.tables import column, empty

Array = np.ndarray[Any, Any]
OPTIONS: Mapping[str, str] = {}
PIECE_BYTES = 1 << 20


def write(profile: Profile, selection: Selection, options: Mapping[str, bool]) -> Iterator[bytes]:
    """The bytes of the archive: the same for the same profile. Raises InvalidRequest for what reshapes stacks."""
    profile = _narrowed(profile, selection)
    files: dict[str, pa.Buffer] = {}
    entries: dict[str, TableFile] = {}
    for name, table in profile.tables().items():
        if not table.num_rows:
            entries[name] = NOTHING
            continue
        sink = pa.BufferOutputStream()
        encode(table, name, sink)
        files[name] = sink.getvalue()
        entries[name] = TableFile(table.num_rows, files[name].size, digest(files[name]))
    yield from _file(MANIFEST, manifest_json(profile.meta, entries))
    for name in list(files):
        yield from _file(file_name(name), files.pop(name))
    yield archive.end()


def _file(name: str, content: Any) -> Iterator[bytes]:
    view = memoryview(content)
    yield archive.header(FOLDER + name, len(view))
    for start in range(0, len(view), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])
    yield archive.padding(len(view))


def _narrowed(profile: Profile, selection: Selection) -> Profile:
    if selection == Selection():
        return profile
    for word, given in (("hide", selection.hide), ("invert", selection.invert), ("recursion", selection.recursion)):
        if given:
            raise InvalidRequest(
                f"The stored form keeps stacks as they were recorded; leave {word} out, and use it when looking.", word
            )
    event = None if selection.event is None else event_id(profile, selection.event)
    rows = samples_kept(profile, selection, event)
    samples = profile.samples.slice(rows.start, rows.stop - rows.start) if isinstance(rows, slice) else None
    samples = profile.samples.take(pa.array(rows)) if samples is None else samples
    words = " ".join(f"{word}={value}" for word, value in selection.to_query())
    return replace(
        profile,
        meta=replace(
            profile.meta,
            main_event=selection.event or profile.meta.main_event,
            facts=profile.meta.facts | {"selection": words},
        ),
        samples=_cut(samples, weights_in(profile, selection, rows), selection.start_ns),
        counts=_counts(profile, selection),
    )


def _cut(samples: pa.Table, weight: Array, start_ns: int | None) -> pa.Table:
    """The samples with what of their weights is selected; those that last begin in the window, too."""
    columns: dict[str, Array] = {"weight": weight}
    if start_ns is not None:
        columns["time_ns"] = np.maximum(column(samples, "time_ns"), start_ns)
    for name, values in columns.items():
        samples = samples.set_column(samples.schema.get_field_index(name), samples.schema.field(name), pa.array(values))
    return samples


def _counts(profile: Profile, selection: Selection) -> pa.Table:
    if selection.focus is not None or selection.ignore is not None:
        # What was counted has no stack.
        return empty("counts")
    return profile.counts.filter(pa.array(counts_selected(profile, selection)))
