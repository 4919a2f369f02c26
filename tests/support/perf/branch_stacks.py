"""Texts with branch stacks of a program that is simulated: what is true of its loops is known.

The syntax is that of perf's source. `add_branch_stacks` puts branch stacks into a recording of perf, because virtual
machines cannot record them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

INNER_ITERATIONS, OUTER_ITERATIONS = 5, 40
DEPTH = 16
"""Entries of a branch stack."""


@dataclass(frozen=True)
class Taken:
    """A branch that was taken: function and offset of both ends, type, and cycles since the one before."""

    source: str
    source_offset: int
    target: str
    target_offset: int
    kind: str
    cycles: int
    mispredicted: bool = False


INNER = Taken("work", 0x30, "work", 0x20, "COND", 4)
"""The backward branch of the inner loop, which takes 4 + 6 + 2 cycles: it calls `help`."""
OUTER = Taken("work", 0x50, "work", 0x10, "COND", 7, mispredicted=True)
CALL = Taken("work", 0x28, "help", 0x0, "CALL", 6)
RETURN = Taken("help", 0x9, "work", 0x2D, "RET", 2)


def run_program() -> Iterator[Taken]:
    """main calls work again and again: an outer loop of 40 iterations, each with an inner loop of 5."""
    while True:
        yield Taken("main", 0x14, "work", 0x0, "CALL", 9)
        for outer in range(OUTER_ITERATIONS):
            for inner in range(INNER_ITERATIONS):
                yield CALL
                yield RETURN
                if inner < INNER_ITERATIONS - 1:
                    yield INNER
            if outer < OUTER_ITERATIONS - 1:
                yield OUTER
        yield Taken("work", 0x60, "main", 0x19, "RET", 3)
        yield Taken("main", 0x20, "main", 0x8, "COND", 5)


def sample_stacks(samples: int, every: int = 37) -> list[list[Taken]]:
    """The branch stacks of samples after every so many branches, the newest first."""
    program, last, found = run_program(), [], []
    for _ in range(DEPTH):
        last.append(next(program))
    while len(found) < samples:
        for _ in range(every):
            last = [*last[1:], next(program)]
        found.append(last[::-1])
    return found


def format_place(name: str, offset: int, form: str, module: str) -> str:
    """An end of a branch. form: brstack, brstacksym or brstackoff."""
    address = {"main": 0x1100, "work": 0x1200, "help": 0x1300}.get(name, 0x2000) + offset
    place = f"{name}+0x{offset:x}" if form == "brstacksym" else f"0x{address:x}"
    return f"{place}({module})" if module else place


def format_entry(one: Taken, form: str = "brstacksym", module: str = "/opt/my app/work", flags: int = 6) -> str:
    """An entry as perf writes it, with its last space. flags: 4, 5 with type, 6 with speculation."""
    source = format_place(one.source, one.source_offset, form, module)
    target = format_place(one.target, one.target_offset, form, module)
    parts = ["M" if one.mispredicted else "P", "-", "-", str(one.cycles), one.kind, "-"][:flags]
    lead = "" if form == "brstacksym" else " "
    return f"{lead}{source}/{target}/{'/'.join(parts)} "


def format_text(
    stacks: Sequence[Sequence[Taken]],
    *,
    form: str = "brstacksym",
    module: str = "/opt/my app/work",
    flags: int = 6,
    chain: bool = True,
    entry: Callable[[Taken], str] | None = None,
) -> str:
    """The text of samples with these branch stacks, on two threads in turn, 1 ms apart. chain: with call stacks."""
    write = entry or (lambda one: format_entry(one, form, module, flags))
    lines = []
    for at, stack in enumerate(stacks):
        top = stack[0]
        frame = f"{0x1200 + top.target_offset:x} {top.target}+0x{top.target_offset:x} ({module or '/opt/work'})"
        head = f"work 100/{101 + at % 2} {5 + at / 1000:.6f}:     100003 cycles:u:"
        entries = "".join(map(write, stack))
        lines.append(f"{head} \n\t            {frame}\n{entries}\n" if chain else f"{head:>60}      {frame}{entries}\n")
    return "".join(lines)


BRANCH_STACK = 1 << 11
USER_ANY = 1 << 0 | 1 << 3
_SAMPLE, _EVENT_DESC = 9, 12
_WORDS = (16, 0, 1, 2, 3, 6, 9, 7, 8)
"""Bits of a sample's fields of 8 bytes before its call stack: identifier, ip, tid, time, address, id, stream, CPU,
period."""


def add_branch_stacks(recording: bytes, entries: Sequence[tuple[int, int]], branches: int = USER_ANY) -> bytes:
    """A perf.data file (little-endian, one event) with a branch stack in every sample. entries: (from, to) relative to
    the address of the sample. branches: its branch_sample_type."""
    words = list(struct.unpack_from("<13Q", recording))
    attribute_bytes, attributes, length, start, size = words[2:7]
    header = bytearray(recording[:start])
    (sample_type,) = struct.unpack_from("<Q", header, attributes + 24)
    assert length == attribute_bytes, "one event"
    _set_branches(header, attributes, branches)
    records = b"".join(_extend_records(recording[start : start + size], sample_type, entries))
    tail = bytearray(recording[start + size :])
    features = [bit for bit in range(256) if words[9 + bit // 64] >> bit % 64 & 1]
    for place, bit in enumerate(features):
        (at,) = struct.unpack_from("<Q", tail, 16 * place)
        struct.pack_into("<Q", tail, 16 * place, at + len(records) - size)
        if bit == _EVENT_DESC:
            _set_branches(tail, at - start - size + 8, branches)
    words[6] = len(records)
    struct.pack_into("<13Q", header, 0, *words)
    return bytes(header) + records + bytes(tail)


def _set_branches(data: bytearray, at: int, branches: int) -> None:
    (sample_type,) = struct.unpack_from("<Q", data, at + 24)
    struct.pack_into("<Q", data, at + 24, sample_type | BRANCH_STACK)
    struct.pack_into("<Q", data, at + 72, branches)


def _extend_records(data: bytes, sample_type: int, entries: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        kind, misc, length = struct.unpack_from("<IHH", data, at)
        record = data[at : at + length]
        at += length
        if kind == _SAMPLE:
            (address,) = struct.unpack_from("<Q", record, 8 + 8 * (sample_type >> 16 & 1))
            end = 8 + 8 * sum(sample_type >> bit & 1 for bit in _WORDS)
            if sample_type >> 5 & 1:
                end += 8 + 8 * struct.unpack_from("<Q", record, end)[0]
            predicted, cycles, conditional = 1 << 1, 5 << 4, 1 << 20
            stack = struct.pack("<Q", len(entries)) + b"".join(
                struct.pack("<3Q", address + source, address + target, predicted | cycles | conditional)
                for source, target in entries
            )
            record = record[:end] + stack + record[end:]
            record = struct.pack("<IHH", kind, misc, len(record)) + record[8:]
        yield record
