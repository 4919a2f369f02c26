"""Files in one stream, as the POSIX archive `tar` has them, limited to the needs of a stored profile.

Written and read sequentially in blocks of 512 bytes. The reader accepts only plain files, and never names a file on
disk: it hands over name and length of each file, which the caller accepts or refuses.
"""

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ..domain.errors import UnreadableInput

BLOCK_BYTES = 512
_PLAIN = (b"0", b"\0")


@dataclass(frozen=True)
class Member:
    """A file in an archive. size: bytes."""

    name: str
    size: int


def make_header(name: str, size: int) -> bytes:
    """The header of a file. It depends only on name and size, not on user and time."""
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o600
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8")


def make_padding(size: int) -> bytes:
    """The padding after a content of `size` bytes."""
    return bytes(-size % BLOCK_BYTES)


def make_end() -> bytes:
    """The end of an archive."""
    return bytes(2 * BLOCK_BYTES)


def is_archive(head: bytes, name: str) -> bool:
    """Whether a stream that starts with `head` is an archive whose first file is `name`."""
    try:
        header = _parse_header(head[:BLOCK_BYTES])
    except ValueError:
        return False
    return header is not None and header.name == name


def iterate_members(stream: BinaryIO, source: str) -> Iterator[Member]:
    """The files of an archive. The caller reads the whole content of each before the next.

    `source` names it in messages. Raises UnreadableInput if it is damaged, truncated, or contains anything but plain
    files.
    """
    while True:
        block = read_exactly(stream, BLOCK_BYTES, source)
        try:
            member = _parse_header(block)
        except ValueError as error:
            raise UnreadableInput(
                f"{source} is not an archive of a stored profile: {error}. Export it again."
            ) from None
        if member is None:
            return
        yield member
        read_exactly(stream, -member.size % BLOCK_BYTES, source)


def read_exactly(stream: BinaryIO, size: int, source: str) -> bytearray:
    """The next `size` bytes; memory is allocated only as they arrive. Raises UnreadableInput if there are fewer."""
    data = bytearray()
    while len(data) < size:
        piece = stream.read(min(size - len(data), 1 << 20))
        if not piece:
            raise UnreadableInput(f"{source} is truncated. Export or copy it again.")
        data += piece
    return data


def _parse_header(block: bytes | bytearray) -> Member | None:
    """The file that a header block announces, None at the end. Raises ValueError with a reason if it is invalid."""
    if len(block) != BLOCK_BYTES:
        raise ValueError("a block is missing")
    if not any(block):
        return None
    checksum = _parse_number(bytes(block[148:156]))
    if sum(block[:148]) + 8 * 32 + sum(block[156:]) != checksum:
        raise ValueError("a checksum differs")
    if block[257:262] != b"ustar" or bytes(block[156:157]) not in _PLAIN:
        raise ValueError("it contains entries other than plain files")
    name = bytes(block[:100]).split(b"\0", 1)[0]
    return Member(name.decode("ascii", "replace"), _parse_number(bytes(block[124:136])))


def _parse_number(field: bytes) -> int:
    if field[0] == 0x80:
        # GNU's notation for sizes of 8 GiB and more.
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not digits or not all(0x30 <= digit <= 0x37 for digit in digits):
        raise ValueError("a number is invalid")
    return int(digits, 8)
