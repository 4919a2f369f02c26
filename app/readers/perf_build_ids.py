"""The build ids of the binaries of a perf.data file: the feature HEADER_BUILD_ID in tools/perf/util/header.c of Linux.

Each entry is a record header, the process (-1 for the machine), 24 bytes with the id, and the path of the binary.
"""

import struct

from .perf_header import HEADER_BYTES, Data, find_byte_order

_DATA_OFFSET = 5
_FEATURES_AT = 72
_BUILD_ID = 2
"""The bit of the feature."""
_ENTRY_BYTES, _PATH_AT, _ID_AT, _LENGTH_AT = 8, 36, 12, 32
_HAS_LENGTH = 1 << 15
MAX_ENTRIES = 100_000


def read_build_ids(data: Data) -> dict[str, str]:
    """The build id (hexadecimal) of each binary, by its path. Empty without any, or if they cannot be read.

    data: the complete file.
    """
    order = find_byte_order(data)
    if order is None:
        return {}
    words = struct.unpack_from(f"{order}{HEADER_BYTES // 8}Q", data)
    features, start, length = words[_FEATURES_AT // 8], words[_DATA_OFFSET], words[_DATA_OFFSET + 1]
    if not features >> _BUILD_ID & 1 or not length:
        return {}
    # There is one pair of offset and size for each set bit, in order.
    place = start + length + 16 * (features & ((1 << _BUILD_ID) - 1)).bit_count()
    if place + 16 > len(data):
        return {}
    at, size = struct.unpack_from(f"{order}2Q", data, place)
    end = min(at + size, len(data))
    found: dict[str, str] = {}
    for _ in range(MAX_ENTRIES):
        if at + _ENTRY_BYTES > end:
            break
        _, misc, length = struct.unpack_from(f"{order}IHH", data, at)
        if length <= _PATH_AT or at + length > end:
            break
        count = data[at + _LENGTH_AT] if misc & _HAS_LENGTH else 20
        path = bytes(data[at + _PATH_AT : at + length]).split(b"\0")[0].decode(errors="replace")
        build_id = bytes(data[at + _ID_AT : at + _ID_AT + min(count, 20)]).hex()
        if build_id.strip("0"):
            found.setdefault(path, build_id)
        at += length
    return found
