"""The description of a result by the reader process."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from perfloom.store.description import describe_profile
from perfloom.store.files import columns as stored_columns
from perfloom.workers.read import columns, reading
from perfloom.workers.read.request import Limits, Request
from tests.store.making import small_profile


def make_request(tmp_path: Path) -> Request:
    stored_columns.write(small_profile(), tmp_path / "out")
    limits = Limits(memory_bytes=1 << 30, seconds=60, unpacked_bytes=1 << 30, free_bytes=0, cpu_seconds=None)
    return Request((), str(tmp_path), str(tmp_path), limits, 0, out=str(tmp_path / "out"), describe=True)


def test_it_is_that_of_the_stored_profile(tmp_path: Path) -> None:
    columns._write_description(make_request(tmp_path))
    assert reading._read_description(tmp_path) == describe_profile(small_profile())


def test_a_full_disk_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_half(path: Path, text: str, **_: str) -> int:
        path.write_bytes(text[: len(text) // 2].encode())
        raise OSError(errno.ENOSPC, "No space left on device")

    request = make_request(tmp_path)
    monkeypatch.setattr(Path, "write_text", write_half)
    columns._write_description(request)
    assert reading._read_description(tmp_path) is None
