"""Named arrays in one file, memory-mapped when read. For data that is computed from a result, as a cache.

A file has a line with its type and version, the length of a JSON table (name, type, length, offset), that table, and
the arrays. Files are written atomically; a damaged file, or one of another version, counts as missing.
"""

import json
import math
import mmap
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ...domain.arrays import Array
from .disk import disk_errors

MAGIC = b"perfloom arrays 1\n"
ALIGNED = 64
TYPES = {"<i8", "<i4", "<i2", "|i1", "|u1", "<f8", "|b1"}


def write(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write one-dimensional arrays to a file, which replaces an existing one. Raises Unavailable (disk full)."""
    if any(array.ndim != 1 for array in arrays.values()):
        raise ValueError("arrays in a file have one dimension")
    head = [(name, array.dtype.str, len(array)) for name, array in arrays.items()]
    table = json.dumps(head).encode()
    staged = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    with disk_errors(path):
        try:
            with open(staged, "wb") as file:
                file.write(MAGIC + len(table).to_bytes(8, "little") + table)
                for array in arrays.values():
                    file.write(bytes(-file.tell() % ALIGNED))
                    file.write(np.ascontiguousarray(array).data)
            # Not flushed to disk: a cache may be lost in a crash.
            os.replace(staged, path)
        finally:
            staged.unlink(missing_ok=True)


def read(path: Path) -> dict[str, Array] | None:
    """The arrays in a file, memory-mapped; None without a usable file."""
    try:
        with open(path, "rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if content[: len(MAGIC)] != MAGIC:
            return None
        begin = len(MAGIC) + 8
        place = begin + int.from_bytes(content[len(MAGIC) : begin], "little")
        found = {}
        for name, kind, length in json.loads(content[begin:place]):
            if kind not in TYPES or length < 0:
                return None
            place = math.ceil(place / ALIGNED) * ALIGNED
            found[str(name)] = np.frombuffer(content, np.dtype(kind), length, place) if length else np.empty(0, kind)
            place += length * np.dtype(kind).itemsize
        return found if place == len(content) else None
    except (OSError, ValueError, TypeError):
        return None
