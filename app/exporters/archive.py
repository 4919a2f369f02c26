"""The storage format as one file: manifest and tables in an archive. Importing it gives the same profile.

Under a selection it has only the selected samples and counts; everything else is unchanged.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from ..domain.errors import InvalidRequest
from ..domain.profile import Profile
from ..domain.selection import RESHAPING_PARAMETERS, Selection
from ..ingest import archive
from ..ingest.storage_format import (
    EMPTY_FILE,
    FOLDER,
    TableFile,
    compute_digest,
    format_manifest,
    get_file_name,
    write_table,
)
from ..ingest.storage_names import MANIFEST
from .filter import filter_profile

OPTIONS: Mapping[str, str] = {}
CHUNK_BYTES = 1 << 20


def write(profile: Profile, selection: Selection, options: Mapping[str, bool]) -> Iterator[bytes]:
    """The bytes of the archive, which are reproducible. Raises InvalidRequest for a selection that reshapes stacks."""
    profile = _apply_selection(profile, selection)
    files: dict[str, pa.Buffer] = {}
    entries: dict[str, TableFile] = {}
    for name, table in profile.tables().items():
        if not table.num_rows:
            entries[name] = EMPTY_FILE
            continue
        sink = pa.BufferOutputStream()
        write_table(table, name, sink)
        files[name] = sink.getvalue()
        entries[name] = TableFile(table.num_rows, files[name].size, compute_digest(files[name]))
    yield from _file(MANIFEST, format_manifest(profile.meta, entries))
    for name in list(files):
        yield from _file(get_file_name(name), files.pop(name))
    yield archive.make_end()


def _file(name: str, content: Any) -> Iterator[bytes]:
    view = memoryview(content)
    yield archive.make_header(FOLDER + name, len(view))
    for start in range(0, len(view), CHUNK_BYTES):
        yield bytes(view[start : start + CHUNK_BYTES])
    yield archive.make_padding(len(view))


def _apply_selection(profile: Profile, selection: Selection) -> Profile:
    if selection == Selection():
        return profile
    for word, _ in selection.to_query():
        if word in RESHAPING_PARAMETERS:
            raise InvalidRequest(
                f"The stored format keeps stacks as recorded; omit {word}, and apply it when viewing.", word
            )
    return filter_profile(profile, selection)
