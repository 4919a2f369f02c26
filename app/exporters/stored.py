"""The stored form as one file: the manifest and the tables, in an archive. Importing it again gives the same profile.

Under a selection it holds the samples and counts that the selection leaves; all the rest stays as it is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ..analysis.picking import event_id, samples_kept, threads_selected
from ..domain import archive
from ..domain.errors import InvalidRequest
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.stored import FOLDER, MANIFEST, TableFile, digest, encode, file_name, manifest_json
from ..domain.tables import column

OPTIONS: Mapping[str, str] = {}
PIECE_BYTES = 1 << 20


def write(profile: Profile, selection: Selection, options: Mapping[str, bool]) -> Iterator[bytes]:
    """The bytes of the archive: the same for the same profile. Raises InvalidRequest for what reshapes stacks."""
    profile = _narrowed(profile, selection)
    files: dict[str, pa.Buffer] = {}
    entries: dict[str, TableFile] = {}
    for name, table in profile.tables().items():
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
    words = " ".join(f"{word}={value}" for word, value in selection.to_query())
    return replace(
        profile,
        meta=replace(
            profile.meta,
            main_event=selection.event or profile.meta.main_event,
            facts=profile.meta.facts | {"selection": words},
        ),
        samples=profile.samples.take(pa.array(rows)) if samples is None else samples,
        counts=_counts(profile, selection, event),
    )


def _counts(profile: Profile, selection: Selection, event: int | None) -> pa.Table:
    counts = profile.counts
    kept = np.ones(counts.num_rows, bool)
    if event is not None:
        kept &= column(counts, "event") == event
    threads = threads_selected(profile, selection)
    if threads is not None:
        thread = counts.column("thread").fill_null(-1).to_numpy()
        of_rank = np.zeros(counts.num_rows, bool)
        if not selection.threads:
            rank = counts.column("rank").fill_null(-1).to_numpy()
            for low, high in selection.ranks:
                of_rank |= (rank >= low) & (rank <= high)
        # A count of all threads says nothing of some, but it may be of one rank.
        kept &= np.where(thread >= 0, np.append(threads, False)[thread], of_rank)
    for bound, below in ((selection.start_ns, False), (selection.end_ns, True)):
        if bound is not None:
            # What has no interval is of the whole run.
            start = counts.column("start_ns").fill_null(-1).to_numpy()
            kept &= (start >= 0) & ((start < bound) if below else (start >= bound))
    if selection.focus is not None or selection.ignore is not None:
        # What was counted has no stack.
        kept[:] = False
    return counts.filter(pa.array(kept))
