"""Every reader exports the reasons of its losses, and reports no other."""

from __future__ import annotations

import io

import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.ingest.truncation import TRUNCATED_LINE
from perfloom.readers import READERS
from tests.support.formats import FILES, is_listed, profile_of

GARBAGE = b'\nnonsense\n{"nonsense": [\xff\n'


def damaged(data: bytes) -> list[bytes]:
    """A file with its end, a middle part or an early part missing, or with random bytes in it."""
    size = len(data)
    places = (size // 3, size // 2, size - size // 8)
    return [
        *(data[:at] for at in places),
        *(data[:at] + GARBAGE + data[at:] for at in places),
        *(data[:at] + data[at + 40 :] for at in places),
    ]


def unlisted(profile: Profile, name: str) -> list[str]:
    """The reasons of a profile that its reader does not export, without that of truncated files."""
    ends = {TRUNCATED_LINE, *(reason.rstrip(".") for reason in profile.meta.reasons)}
    return [
        reason
        for reason in profile.losses.column("reason").to_pylist()
        if reason not in ends and not is_listed(reason, READERS[name].losses)
    ]


@pytest.mark.parametrize("name", sorted({*READERS} - {"profile", "perf-data"}))
@pytest.mark.heavy
def test_readers_report_only_exported_losses(name: str) -> None:
    assert unlisted(profile_of(name), name) == []
    for data in damaged(FILES[name]()):
        try:
            profile = READERS[name].read(io.BytesIO(data), name)
        except UnreadableInput:
            continue
        assert unlisted(profile, name) == []


def test_reasons_are_exported_once() -> None:
    for reader in READERS.values():
        assert len(set(reader.losses)) == len(reader.losses), reader.name
