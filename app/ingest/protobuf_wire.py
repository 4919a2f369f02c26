"""Protobuf's wire format: fields of a message as (number, value), without knowing their meaning.

The format is that of https://protobuf.dev/programming-guides/encoding/. It is read here and not by generated classes,
so that all fields before the end or damage of a truncated or damaged file are read.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..domain.arrays import Array

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_VARINT_BYTES = 10
"""Maximum bytes of a 64-bit number."""


class MalformedMessage(ValueError):
    """Bytes that are no message. at: their position."""

    def __init__(self, at: int) -> None:
        super().__init__(f"invalid protobuf at byte {at}")
        self.at = at


def encode_varint(value: int) -> bytes:
    """A whole number; a negative one as the unsigned 64-bit number with the same bits."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    values = bytearray()
    while value > 0x7F:
        values.append(value & 0x7F | 0x80)
        value >>= 7
    values.append(value)
    return bytes(values)


def encode_number(field: int, value: int) -> bytes:
    """A field with a whole number; nothing for 0, the default of a missing field."""
    return encode_varint(field << 3 | VARINT) + encode_varint(value) if value else b""


def encode_bytes(field: int, content: bytes) -> bytes:
    """A field with text, bytes, a message, or packed numbers; nothing if it is empty."""
    return encode_varint(field << 3 | BYTES) + encode_varint(len(content)) + content if content else b""


def encode_message(field: int, *parts: bytes) -> bytes:
    """A repeated field with a message; empty ones count."""
    content = b"".join(parts)
    return encode_varint(field << 3 | BYTES) + encode_varint(len(content)) + content


def encode_packed(field: int, values: Iterable[int]) -> bytes:
    """A field with many whole numbers."""
    return encode_bytes(field, b"".join(map(encode_varint, values)))


def read_varint(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """(the number that begins at `at`, its end). Raises Damaged."""
    value = shift = 0
    for place in range(at, min(end, at + MAX_VARINT_BYTES)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, place + 1
        shift += 7
    raise MalformedMessage(at)


def iterate_fields(data: bytes | memoryview, at: int = 0, end: int | None = None) -> Iterator[tuple[int, int, Any]]:
    """The fields of a message in order: (number, kind, value).

    value: of VARINT and the fixed ones an unsigned int, of BYTES a memoryview. Raises Damaged, after all fields before
    the damage were yielded.
    """
    view = memoryview(data)
    end = len(view) if end is None else end
    while at < end:
        start = at
        tag, at = read_varint(view, at, end)
        kind = tag & 7
        if tag >> 3 == 0:
            raise MalformedMessage(start)
        if kind == VARINT:
            value, at = read_varint(view, at, end)
            yield tag >> 3, kind, value
            continue
        size = {FIXED64: 8, FIXED32: 4}.get(kind)
        if size is None:
            if kind != BYTES:
                raise MalformedMessage(start)
            size, at = read_varint(view, at, end)
        if size > end - at:
            raise MalformedMessage(start)
        content = view[at : at + size]
        at += size
        yield tag >> 3, kind, content if kind == BYTES else int.from_bytes(content, "little")


def to_signed(value: int) -> int:
    """The 64-bit number as a signed one."""
    return value - (1 << 64) if value >> 63 else value


def decode_packed(content: bytes | memoryview) -> Array:
    """The numbers of a packed field, as int64. Raises Damaged."""
    data = np.frombuffer(content, np.uint8)
    if not len(data):
        return np.zeros(0, np.int64)
    last = data < 0x80
    if not last[-1]:
        raise MalformedMessage(len(data))
    ends = np.flatnonzero(last)
    begins = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - begins + 1
    if lengths.max() > MAX_VARINT_BYTES:
        raise MalformedMessage(int(begins[lengths.argmax()]))
    place = np.arange(len(data)) - np.repeat(begins, lengths)
    bits = (data & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    found: Array = np.bitwise_or.reduceat(bits, begins).view(np.int64)
    return found
