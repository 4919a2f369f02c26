"""Reader of the stored form as one file (`convert --to profile`): the profile is bit-identical.

The file is untrusted: every name, length and checksum is compared with the manifest, and the invariants between the
tables are checked before anything is used. Nothing is written under a name that the file contains.
"""

from typing import BinaryIO

import pyarrow as pa

from ..domain.errors import UnreadableInput
from ..domain.profile import Profile
from ..domain.tables import SCHEMAS
from ..domain.validation import find_error
from ..ingest import archive
from ..ingest.profile_upgrade import upgrade_profile
from ..ingest.storage_format import (
    FOLDER,
    MANIFEST_LIMIT_BYTES,
    Manifest,
    compute_digest,
    get_file_name,
    parse_manifest,
    read_table,
)
from ..ingest.storage_names import MANIFEST

FORMAT = "profile"
LOSSES: tuple[str, ...] = ()
"""Its own losses; the profile also has those of the file that it was converted from."""
EXPORT_ADVICE = "Export it again."


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a stored profile."""
    return archive.is_archive(head, FOLDER + MANIFEST)


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a file. `source` names it in messages.

    Raises UnreadableInput if it is damaged, truncated, of a newer version, or violates the invariants of tables.
    """
    manifest: Manifest | None = None
    buffers: dict[str, pa.Buffer] = {}
    for member in archive.iterate_members(stream, source):
        if manifest is None:
            manifest = _read_manifest(stream, member, source)
            continue
        table = _read_table(member, manifest, buffers, source)
        data = pa.py_buffer(archive.read_exactly(stream, member.size, source))
        if compute_digest(data) != manifest.tables[table].sha256:
            raise UnreadableInput(f"{source} is damaged: the checksum of {table} differs. {EXPORT_ADVICE}")
        buffers[table] = data
    if manifest is None:
        raise UnreadableInput(f"{source} is an empty archive. {EXPORT_ADVICE}")
    profile = Profile(meta=manifest.meta, **{name: read_table(buffers.get(name), name, manifest) for name in SCHEMAS})
    wrong = find_error(profile)
    if wrong is not None:
        raise UnreadableInput(f"{source} cannot be used: {wrong}. {EXPORT_ADVICE}")
    return upgrade_profile(profile, manifest.schema_version)


def _read_manifest(stream: BinaryIO, member: archive.Member, source: str) -> Manifest:
    if member.name != FOLDER + MANIFEST:
        raise UnreadableInput(f"{source} does not start with the manifest of a stored profile. {EXPORT_ADVICE}")
    if member.size > MANIFEST_LIMIT_BYTES:
        raise UnreadableInput(f"{source} has a manifest that is too long. {EXPORT_ADVICE}")
    return parse_manifest(bytes(archive.read_exactly(stream, member.size, source)))


def _read_table(member: archive.Member, manifest: Manifest, met: dict[str, pa.Buffer], source: str) -> str:
    """The table that a file of the archive holds."""
    for name in SCHEMAS:
        if member.name == FOLDER + get_file_name(name) and name in manifest.tables and name not in met:
            if member.size != manifest.tables[name].bytes:
                raise UnreadableInput(f"{source} is damaged: the length of {name} differs. {EXPORT_ADVICE}")
            return name
    raise UnreadableInput(f"{source} contains an unexpected file {member.name[:60]!r}. {EXPORT_ADVICE}")
