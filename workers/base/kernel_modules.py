"""Modules of the kernel, which may be compressed."""

import gzip
import lzma
import zlib
from contextlib import suppress
from typing import BinaryIO

import zstandard

MAX_MODULE_BYTES = 256 << 20
"""Of a module of the kernel, decompressed."""
_ELF = b"\x7fELF"


def read_module(stream: BinaryIO, suffix: str) -> bytes:
    """A module of the kernel. suffix: of its name, which says how it is compressed. Empty if it is damaged."""
    with suppress(OSError, EOFError, lzma.LZMAError, zlib.error, zstandard.ZstdError):
        head = stream.read(len(_ELF))
        stream.seek(0)
        # perf's cache has them decompressed.
        if head == _ELF:
            return stream.read(MAX_MODULE_BYTES)
        match suffix:
            case ".xz":
                return lzma.LZMAFile(stream).read(MAX_MODULE_BYTES)
            case ".gz":
                return gzip.GzipFile(fileobj=stream).read(MAX_MODULE_BYTES)
            case ".zst":
                return zstandard.ZstdDecompressor().stream_reader(stream).read(MAX_MODULE_BYTES)
    return b""
