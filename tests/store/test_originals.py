"""Original files that are compressed while they are read."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import zstandard

from perfloom.domain.errors import UnreadableInput
from perfloom.store.files import originals
from perfloom.store.files.originals import AT_ONCE_BYTES, EarlyCompression, OriginalFile, store_copies

TEXT = b"main;work 1\n" * (AT_ONCE_BYTES // 12 + 1)


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    made = {name: tmp_path / name for name in ("data", "elsewhere", "scratch", "staged")}
    for folder in made.values():
        folder.mkdir()
    return made


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_large_file_is_compressed_once(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    large = write(folders["elsewhere"] / "large.txt", TEXT)
    small = write(folders["elsewhere"] / "small.txt", b"a 1\n")
    own = write(folders["data"] / "own.txt", TEXT)
    with EarlyCompression([large, small, own, Path("missing")], folders["scratch"], folders["data"]) as compression:
        packed = compression.wait()
    assert list(packed) == [large]
    monkeypatch.setattr(originals, "_compress", None)
    stored = store_copies([large, small, own], folders["staged"], folders["data"], packed)
    assert stored == (
        OriginalFile("large.txt", len(TEXT), settled=True),
        OriginalFile("small.txt", 4),
        OriginalFile("own.txt", len(TEXT)),
    )
    found = originals.locate(folders["staged"], stored)
    assert [one.path.name for one in found] == ["large.txt.zst", "small.txt", "own.txt"]
    assert zstandard.ZstdDecompressor().decompress(found[0].path.read_bytes()) == TEXT
    assert [path.stat().st_mode & 0o777 for path in (one.path for one in found)] == [0o600] * 3


def test_the_end_stops_it(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    large = write(folders["elsewhere"] / "large.txt", TEXT)
    begun, stopping = threading.Event(), threading.Event()
    compress = originals._compress

    def slow(path: Path, packed: Path, is_stopped: originals.Callable[[], bool]) -> None:
        begun.set()
        assert stopping.wait(60)
        compress(path, packed, is_stopped)

    monkeypatch.setattr(originals, "_compress", slow)
    with EarlyCompression([large], folders["scratch"], folders["data"]) as compression:
        assert begun.wait(60)
        compression._stopped.set()
        stopping.set()
    assert compression.wait() == {} and list(folders["scratch"].iterdir()) == []


def change_while_compressing(monkeypatch: pytest.MonkeyPatch, path: Path, size: int) -> None:
    """Change the size of a file after its compression began."""
    make = zstandard.ZstdCompressor

    def make_late(**options: int) -> zstandard.ZstdCompressor:
        with open(path, "r+b") as file:
            file.truncate(size)
        return make(**options)

    monkeypatch.setattr(zstandard, "ZstdCompressor", make_late)
    monkeypatch.setattr(originals, "_is_compressed_at_once", lambda path: True)


@pytest.mark.parametrize("early", [False, True])
def test_a_file_that_grows_is_stored_as_it_was(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    large = write(folders["elsewhere"] / "large.txt", TEXT)
    change_while_compressing(monkeypatch, large, len(TEXT) + 5)
    with EarlyCompression([large] if early else [], folders["scratch"], folders["data"]) as compression:
        packed = compression.wait()
    assert list(packed) == [large] * early
    (stored,) = store_copies([large], folders["staged"], folders["data"], packed)
    assert stored == OriginalFile("large.txt", len(TEXT), settled=True)
    (found,) = originals.locate(folders["staged"], [stored])
    assert zstandard.ZstdDecompressor().decompress(found.path.read_bytes()) == TEXT


def test_a_file_that_becomes_shorter_is_refused(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    large = write(folders["elsewhere"] / "large.txt", TEXT)
    change_while_compressing(monkeypatch, large, 5)
    with pytest.raises(UnreadableInput, match="became shorter while it was stored"):
        store_copies([large], folders["staged"], folders["data"])
    assert list(folders["staged"].rglob("*.zst")) == []
