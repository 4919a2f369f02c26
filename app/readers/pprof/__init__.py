"""Reader of pprof files, which Go, gperftools, Pyroscope, Parca and others write. Definition: proto/profile.proto.

The file has values and no times: each becomes a sample with that weight, all of them at time 0. Each type of value is
an event. Labels that name a thread (`thread`, `tid`, `process`, `pid`, `host`, `rank`) distinguish threads; others are
not stored, and are reported as losses.
"""

from typing import Any, BinaryIO

from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
from ...ingest.protobuf_wire import BYTES, VARINT, MalformedMessage, iterate_fields, read_varint
from .format import FORMAT, LOSSES

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]

MAX_BYTES = (1 << 31) - 1

_Shape = dict[int, tuple[int, ...]]
_NUMBER, _CONTENT, _PACKED = (VARINT,), (BYTES,), (VARINT, BYTES)
_TYPE: _Shape = dict.fromkeys((1, 2), _NUMBER)
_SAMPLE: _Shape = {1: _PACKED, 2: _PACKED, 3: _CONTENT}
_MAPPING: _Shape = dict.fromkeys(range(1, 11), _NUMBER)
_LOCATION: _Shape = {**dict.fromkeys((1, 2, 3, 5), _NUMBER), 4: _CONTENT}
_FUNCTION: _Shape = dict.fromkeys(range(1, 6), _NUMBER)
_MESSAGES: dict[int, _Shape] = {1: _TYPE, 2: _SAMPLE, 3: _MAPPING, 4: _LOCATION, 5: _FUNCTION, 11: _TYPE}
_STRING = 6
_PROFILE: _Shape = {
    **dict.fromkeys(_MESSAGES, _CONTENT),
    _STRING: _CONTENT,
    **dict.fromkeys((7, 8, 9, 10, 12, 14, 15), _NUMBER),
    13: _PACKED,
}
"""The fields of a Profile, and of the messages in it, with the possible wire types of each."""
_MAX_FIELDS, _ENOUGH = 500, 10


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a Profile of pprof, by its structure.

    Its fields may come in any order: Go's runtime writes the type of the period or the time first. Each must be a field
    of a Profile, with its wire type; likewise those of its messages; and the first string must be empty.
    """
    count = messages = strings = 0
    try:
        for number, kind, value in iterate_fields(head):
            if kind not in _PROFILE.get(number, ()):
                return False
            if number in _MESSAGES:
                if not _are_fields_valid(value, _MESSAGES[number]):
                    return False
                messages += len(value) > 0
            elif number == _STRING:
                if not strings and len(value):
                    return False
                strings += 1
            count += 1
            if count == _MAX_FIELDS:
                break
    except MalformedMessage as error:
        if count < _ENOUGH and not _cut(head, error.at):
            return False
    # If the strings come first, `head` may contain nothing else.
    return count > 1 and (messages > 0 or (strings == count and _is_text(head)))


def _are_fields_valid(content: memoryview, known: _Shape) -> bool:
    """Whether all fields of a message are valid."""
    try:
        return all(kind in known.get(number, ()) for number, kind, _ in iterate_fields(content))
    except MalformedMessage:
        return False


def _cut(head: bytes, at: int) -> bool:
    """Whether the field that begins at `at` may be one of a Profile that `head` truncates."""
    try:
        tag, at = read_varint(head, at, len(head))
        if tag & 7 not in _PROFILE.get(tag >> 3, ()):
            return False
        size, at = read_varint(head, at, len(head))
    except MalformedMessage as error:
        return error.at + 10 > len(head)
    return tag & 7 == BYTES and size > len(head) - at


def _is_text(head: bytes) -> bool:
    try:
        return all(bytes(value).decode() is not None for _, _, value in iterate_fields(head))
    except MalformedMessage:
        return True
    except UnicodeDecodeError:
        return False


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a file of pprof. `source` names it in messages. Raises UnreadableInput if it has no samples."""
    # Compiled code is imported only when a file is read.
    from .profile import build_profile

    data: Any = stream.read(MAX_BYTES)
    if stream.read(1):
        raise UnreadableInput(f"{source} is larger than 2 GiB. Record for a shorter time, or export a part of it.")
    return build_profile(data, source, getattr(stream, "defect", None))
