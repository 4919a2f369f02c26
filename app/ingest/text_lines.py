"""Lines of a text, in bounded chunks."""

from collections.abc import Iterator
from typing import BinaryIO

CHUNK_BYTES = 8 << 20
MAX_LINE_BYTES = 1 << 20
"""The maximum length of a line in bytes."""
MAX_STACK_BYTES = 64 << 20
"""The maximum length in bytes of a line with a whole call stack."""
MAX_WEIGHT = 2**62
MAX_ZERO_SHARE = 0.1


def iterate_chunks(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Whole lines in large chunks, each with the number of its first line. A longer line is cut."""
    rest, number = b"", 1
    while data := stream.read(CHUNK_BYTES):
        data = rest + data
        end = data.rfind(b"\n") + 1
        if not end:
            rest = data if len(data) < MAX_LINE_BYTES else data[:MAX_LINE_BYTES]
            continue
        rest = data[end:]
        piece = data[: end - 1]
        yield number, piece.replace(b"\r", b"") if b"\r" in piece else piece
        number += piece.count(b"\n") + 1
    if rest:
        yield number, rest.rstrip(b"\r")


def is_binary(head: bytes) -> bool:
    """Whether `head` has more zero bytes than a truncated name in a text may leave."""
    return head.count(b"\0") > MAX_ZERO_SHARE * len(head)


def iterate_blocks(stream: BinaryIO, begin: bytes = b"") -> Iterator[tuple[list[bytes], int]]:
    """Lines in lists, each with the number of its first line. A longer line comes in pieces.

    begin: what was already read of the stream.
    """
    rest, number = begin, 1
    while data := stream.read(CHUNK_BYTES):
        data = rest + data
        end = data.rfind(b"\n") + 1
        if not end and len(data) < MAX_STACK_BYTES:
            rest = data
            continue
        rest = data[end:] if end else b""
        lines = data[:end].split(b"\n")[:-1] if end else [data]
        yield lines, number
        number += len(lines)
    if rest:
        # Only `begin` has line ends then.
        yield rest.removesuffix(b"\n").split(b"\n"), number
