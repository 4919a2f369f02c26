"""The cache of binaries from elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfloom.readers.perf_build_id_list import parse_build_id_list
from perfloom.store.files.binary_cache import FOLDER, FileKind, folder_name, open_incoming, open_origin, trim

BUILD_ID = "0123456789abcdef0123456789abcdef01234567"


def add(data: Path, origin: str, build_id: str, size: int, used: float) -> Path:
    received = data / "received"
    received.write_bytes(b"x" * size)
    folder = open_origin(data, origin)
    folder.add(build_id, FileKind.EXECUTABLE, received)
    path = folder.file(build_id, FileKind.EXECUTABLE)
    os.utime(path.parent, (used, used))
    return path


def test_what_was_not_used_for_the_longest_time_is_removed_first(tmp_path: Path) -> None:
    paths = [add(tmp_path, "target-a", f"{number:040x}", 100_000, 1000.0 + number) for number in (3, 1, 2)]
    stale, fresh = open_incoming(tmp_path).root, open_incoming(tmp_path).root
    os.utime(stale, (0, 0))
    os.utime(fresh, (90_000, 90_000))
    assert trim(tmp_path, 250_000, 100_000.0) >= 100_000
    assert [path.exists() for path in paths] == [True, False, True]
    assert not stale.exists() and fresh.exists()
    open_origin(tmp_path, "target-a").keep(f"{3:040x}")
    trim(tmp_path, 150_000, 100_000.0)
    assert [path.exists() for path in paths] == [True, False, False]


def test_names_stay_in_the_cache(tmp_path: Path) -> None:
    folder = open_origin(tmp_path, "target-a")
    for text in ("../../etc", "", "/etc/passwd", "ab cd", "ABCDEF0123"):
        with pytest.raises(ValueError, match="not a build id"):
            folder_name(text)
    assert folder_name("0123456789abcdef") == "0123456789abcdef".ljust(40, "0")
    source = folder.source(BUILD_ID, "../../../etc/passwd")
    assert source.parent == tmp_path / FOLDER / "target-a" / BUILD_ID / "sources" and "." not in source.name


def test_a_list_of_build_ids_is_read() -> None:
    text = (
        f"{BUILD_ID} /usr/bin/a program\n{' ' * 40} /no/id\n0123456789 [vdso]\nnonsense\n{BUILD_ID} /x\n"
        f"{'0' * 40} /zeros\n"
    )
    found = parse_build_id_list(text.encode() + b"0123456789 /odd\xff\n")
    expected = {"/usr/bin/a program": BUILD_ID, "[vdso]": "0123456789", "/x": BUILD_ID, "/odd\ufffd": "0123456789"}
    assert found == expected
