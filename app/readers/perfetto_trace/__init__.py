"""Reader of Perfetto's own traces, in protobuf: of Android, Chrome, Perfetto's SDK, and other writers.

Definition: protos/perfetto/trace of Perfetto's sources. A trace consists of packets; those with track events become
slices, instants and counters, those with kernel events thread states and CPU tracks.
"""

import re
from typing import BinaryIO

from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
from ...ingest.protobuf_wire import BYTES, VARINT, MalformedMessage, iterate_fields
from .format import FORMAT, LOSSES

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]

MAX_BYTES = 4 << 30
LAST_FIELD = 2000
NUMBERS, MESSAGES = frozenset({3, 8, 10, 13, 58, 79}), frozenset({1, 2, 6, 7, 11, 12, 33, 36, 45, 50, 59, 60, 89})
"""Fields of a packet by which one is recognized: its time, sequence, flags, clock, process; and its possible
contents."""

_BINARY = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
"""Bytes that no text contains, but the tags and sizes of every trace."""
SNIFFED_BYTES = 4 << 10


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a trace of Perfetto: all its fields are plausible packets."""
    # A text that begins with an empty line has the same first byte.
    if head[:1] != b"\n" or not _BINARY.search(head, 0, SNIFFED_BYTES):
        return False
    good = 0
    at = 0
    try:
        for number, kind, packet in iterate_fields(head):
            if number != 1 or kind != BYTES:
                return False
            good += _is_packet(packet)
            at += 1
            if at == 20:
                break
        return good > 0 and 2 * good >= at
    except MalformedMessage as error:
        # The first packet may be longer than `head`.
        return good > 0 or (at == 0 and _is_packet(memoryview(head)[error.at + 2 :], cut=True))


def _is_packet(packet: memoryview, cut: bool = False) -> bool:
    found = False
    try:
        for number, kind, _ in iterate_fields(packet):
            if number > LAST_FIELD or (number in NUMBERS and kind != VARINT) or (number in MESSAGES and kind != BYTES):
                return False
            found = found or number in NUMBERS
    except MalformedMessage:
        return cut and found
    return found


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a trace. `source` names it in messages. Raises UnreadableInput if it has nothing to show."""
    # Compiled code is imported only when a file is read.
    from .profile import build_profile

    # No other reference to the bytes remains, so that they can be freed.
    return build_profile(_read_all(stream, source), source, getattr(stream, "defect", None))


def _read_all(stream: BinaryIO, source: str) -> bytes:
    from .packets import PAD

    data = stream.read(MAX_BYTES)
    if stream.read(1):
        raise UnreadableInput(f"{source} is larger than 4 GiB. Record for a shorter time, or fewer data sources.")
    return b"".join((data, bytes(PAD)))
