"""Compressed files: recognized by content, decompressed in chunks, and limited in size."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from perfloom.domain.errors import TooLarge, UnreadableInput
from perfloom.ingest.compression import PACKED_BYTES, detect_compression, open_decompressed

TEXT = b"".join(b"a;b;%d 1\n" % i for i in range(60_000))
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "Zstandard": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
    "xz": lzma.compress,
}
LIMIT = 10**9
# In a separate process, because the peak of pytest's own process includes memory of other tests.
READ_BOMB = """
import io, json, resource, sys
from perfloom.domain.errors import TooLarge
from perfloom.ingest.compression import open_decompressed

def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

bomb = sys.stdin.buffer.read()
before_kib = peak_kib()
stream = open_decompressed(io.BytesIO(bomb), 50_000_000)
try:
    while stream.read(1 << 20):
        pass
except TooLarge as error:
    print(json.dumps([str(error), peak_kib() - before_kib]))
"""
packed = pytest.mark.parametrize("name", PACKERS)


@pytest.mark.parametrize("pack", [bytes, *PACKERS.values()])
def test_byte_order_mark_is_skipped(pack: Callable[[bytes], bytes]) -> None:
    mark = b"\xef\xbb\xbf"
    for content in (TEXT, b"a", b"", mark + b"a", mark[:2]):
        stream = open_decompressed(io.BytesIO(pack(mark + content)), LIMIT)
        assert stream.peek(2) == content[:2]
        assert stream.read() == content
    stream = open_decompressed(io.BytesIO(pack(mark + TEXT)), LIMIT)
    buffer = bytearray(len(TEXT) + 9)
    assert stream.readinto(buffer) == len(TEXT) and buffer[: len(TEXT)] == TEXT
    stream = open_decompressed(io.BytesIO(pack(mark[:2] + TEXT)), LIMIT)
    assert stream.read() == mark[:2] + TEXT


@packed
def test_compression_is_detected_by_content(name: str) -> None:
    data = PACKERS[name](TEXT)
    assert detect_compression(data) == name
    stream = open_decompressed(io.BytesIO(data), LIMIT)
    assert stream.peek(10) == TEXT[:10]
    assert stream.read(5) == TEXT[:5]
    parts = []
    while part := stream.read(7_001):
        parts.append(part)
    assert b"".join(parts) == TEXT[5:]
    assert (stream.packed, stream.defect, stream.read_bytes) == (name, None, len(data))


def test_uncompressed_file_is_unchanged() -> None:
    stream = open_decompressed(io.BytesIO(TEXT), LIMIT)
    assert (stream.packed, stream.read(), stream.defect) == (None, TEXT, None)
    for short in (b"", b"\x1f", b"\xfd7z"):
        assert open_decompressed(io.BytesIO(short), LIMIT).read() == short


@pytest.mark.parametrize("data", [TEXT[:5000], gzip.compress(TEXT[:5000])])
def test_peek_does_not_consume(data: bytes) -> None:
    stream, buffer = open_decompressed(io.BytesIO(data), LIMIT), bytearray(9_000)
    assert stream.peek(10_000) == TEXT[:5000]
    assert (stream.readinto(buffer), bytes(buffer[:5000])) == (5000, TEXT[:5000])
    assert stream.readinto(buffer) == 0


@packed
def test_concatenated_streams(name: str) -> None:
    pack = PACKERS[name]
    data = pack(TEXT[:1000]) + pack(b"") + pack(TEXT[1000:])
    stream = open_decompressed(io.BytesIO(data), LIMIT)
    assert stream.read() == TEXT
    assert stream.defect is None


def test_block_that_spans_two_pieces_of_the_file() -> None:
    noise = random.Random(1).randbytes(1_200_000).hex().encode()
    stream = open_decompressed(io.BytesIO(PACKERS["Zstandard"](noise)), LIMIT)
    assert stream.read() == noise
    assert stream.defect is None


@pytest.mark.parametrize("name", PACKERS)
def test_frames_that_span_pieces_of_the_input(name: str) -> None:
    noise = random.Random(2).randbytes(30_000)
    packed = b"".join(PACKERS[name](noise[start:]) for start in range(0, 10_000, 700))
    assert len(packed) > 2 * PACKED_BYTES
    stream = open_decompressed(io.BytesIO(packed), LIMIT)
    assert stream.read() == b"".join(noise[start:] for start in range(0, 10_000, 700))
    assert (stream.defect, stream.read_bytes) == (None, len(packed))
    cut = open_decompressed(io.BytesIO(packed[:-1]), LIMIT)
    assert noise in cut.read()
    assert cut.defect is not None and "truncated" in cut.defect


def test_padding_is_ignored() -> None:
    stream = open_decompressed(io.BytesIO(gzip.compress(TEXT) + bytes(2048)), LIMIT)
    assert (stream.read(), stream.defect) == (TEXT, None)


@packed
def test_truncated_at_every_kilobyte(name: str) -> None:
    data = PACKERS[name](TEXT)
    for end in range(10, len(data), 1024):
        stream = open_decompressed(io.BytesIO(data[:end]), LIMIT)
        assert TEXT.startswith(stream.read())
        assert stream.defect == f"The {name} data is truncated; the end of the file is missing."


@packed
def test_damage_is_reported(name: str) -> None:
    data = bytearray(PACKERS[name](TEXT))
    data[len(data) // 2 : len(data) // 2 + 8] = b"damaged!"
    stream = open_decompressed(io.BytesIO(bytes(data)), LIMIT)
    stream.read()
    assert stream.defect is not None
    assert stream.defect.startswith(f"The {name} data is damaged (")


@pytest.mark.slow
@pytest.mark.heavy
@packed
def test_decompression_bomb_is_refused(name: str) -> None:
    bomb = PACKERS[name](bytes(300_000_000))
    child = subprocess.run([sys.executable, "-c", READ_BOMB], input=bomb, capture_output=True, timeout=60)
    assert child.returncode == 0, child.stderr.decode()
    message, growth_kib = json.loads(child.stdout)
    assert "exceeds the limit of 50,000,000 bytes" in message
    assert growth_kib < 150_000


def test_limit_is_exact() -> None:
    assert len(open_decompressed(io.BytesIO(TEXT), len(TEXT)).read()) == len(TEXT)
    with pytest.raises(TooLarge):
        open_decompressed(io.BytesIO(TEXT), len(TEXT) - 1).read()


def test_sparse_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, 5_000_000_000)
    start = time.monotonic()
    with pytest.raises(UnreadableInput, match="contains only zero bytes"):
        open_decompressed(path, LIMIT)
    assert time.monotonic() - start < 1


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(UnreadableInput, match=why):
            open_decompressed(path, LIMIT)
