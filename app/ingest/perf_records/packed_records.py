"""Decompresses the records that `perf record -z` packed with zstd."""

from typing import IO, cast

import zstandard

_TWO_BLOCKS = 1 << 18
"""Bytes of two decompressed blocks of zstd, at most (RFC 8878, 3.1.1.2.4)."""


class RecordUnpacker:
    """Writes what packed records hold to `sink`, which may raise to end it. The stream continues in the next record."""

    def __init__(self, sink: object) -> None:
        """sink: has `write(bytes)`."""
        self._writer = zstandard.ZstdDecompressor().stream_writer(
            cast("IO[bytes]", sink), write_size=_TWO_BLOCKS, closefd=False
        )

    def write(self, packed: bytes | bytearray | memoryview) -> None:
        """Unpack the content of a record. Raises zstandard.ZstdError, and what the sink raises."""
        # A write ends when zstd has taken its bytes, while it may keep output for which there was no room. With the
        # last byte there is room for what it kept, and for the block that this byte ends.
        self._writer.write(packed[:-1])
        self._writer.write(packed[-1:])
