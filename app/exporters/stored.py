"""The stored form as one file: the manifest and the tables, in an archive. Importing it again gives the same profile.

Under a selection it holds the samples and counts that the selection leaves; all the rest stays as it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from ..domain.errors import InvalidRequest
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..ingest import archive
from ..ingest.stored import FOLDER, MANIFEST, NOTHING, TableFile, digest, encode, file_name, manifest_json
from .narrowing import narrowed

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
    return narrowed(profile, selection)
