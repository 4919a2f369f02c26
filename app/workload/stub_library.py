"""Shared libraries of small pieces of machine code, each with its symbol and its unwind table.

Formats: System V ABI, gABI chapters 4 and 5 (ELF); DWARF 4, section 6.4, and LSB 5.0, chapter 10.6 (.eh_frame).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

# Where in code that begins with `endbr64; push %rbp; mov %rsp,%rbp; call *…; pop %rbp; ret` the stack is laid out how.
# CFA: rsp+8; after push rsp+16, rbp saved; after mov rbp+16; after pop rsp+8.
FRAME_RULES = bytes.fromhex("45 0e10 8602 43 0d06 43 0c0708 c6".replace(" ", ""))
ALIGNMENT = 16
"""Of each stub in the library, in bytes."""
# Version 1, "zR", code alignment 1, data alignment -8, return address in 16, pointers pcrel sdata4; CFA = rsp + 8.
_CIE = bytes.fromhex("00000000 01 7a5200 01 78 10 01 1b 0c0708 9001".replace(" ", ""))
_PAGE = 0x1000
_NOP = b"\x90"


@dataclass(frozen=True)
class Stub:
    """A piece of code for x86-64. symbol: its name; bytes 0 are permitted, and end it. rules: its call frame
    instructions, with the CFA of a function's first instruction in effect."""

    symbol: str
    code: bytes
    rules: bytes


@dataclass(frozen=True)
class Layout:
    """Where a library has its parts, in bytes from its begin, in the file and in memory. starts: of each stub.
    names: of the name of each stub."""

    starts: tuple[int, ...]
    names: tuple[int, ...]
    hash_at: int
    symbols_at: int
    names_at: int
    text_at: int
    text_bytes: int


def lay_out(stubs: Sequence[Stub]) -> Layout:
    """The layout of the library of these stubs."""
    # One after the other from behind the headers.
    hash_at = 64 + 5 * 56
    symbols_at = _align(hash_at + 4 * (4 + len(stubs)), 8)
    names_at = symbols_at + 24 * (1 + len(stubs))
    names, name = [], names_at + 1
    for stub in stubs:
        names.append(name)
        name += len(stub.symbol.encode()) + 1
    text_at = _align(name, ALIGNMENT)
    starts, end = [], text_at
    for stub in stubs:
        starts.append(end)
        end = _align(end + len(stub.code), ALIGNMENT)
    return Layout(tuple(starts), tuple(names), hash_at, symbols_at, names_at, text_at, end - text_at)


def _align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def _record(body: bytes, alignment: int = 8) -> bytes:
    """A CIE or FDE with its length before it, filled up with DW_CFA_nop."""
    size = _align(len(body) + 4, alignment)
    return struct.pack("<I", size - 4) + body.ljust(size - 4, b"\0")


def _unwind_tables(stubs: Sequence[Stub], layout: Layout, header: int) -> tuple[bytes, bytes]:
    """(.eh_frame_hdr, .eh_frame) of the stubs, for the header at address `header`."""
    frames_at = header + 12 + 8 * len(stubs)
    frames, index = bytearray(_record(_CIE)), bytearray()
    for stub, code in zip(stubs, layout.starts, strict=True):
        here = frames_at + len(frames)
        index += struct.pack("<ii", code - header, here - header)
        # To the CIE backwards; the code's place relative to this field; its size; no augmentation; the rules.
        start = struct.pack("<IiI", len(frames) + 4, code - (here + 8), _align(len(stub.code), ALIGNMENT))
        frames += _record(start + b"\0" + stub.rules)
    # Encodings of the pointer to .eh_frame (pcrel sdata4), of the count (udata4), of the table (datarel sdata4).
    encodings = bytes([1, 0x1B, 0x03, 0x3B])
    before = encodings + struct.pack("<iI", frames_at - (header + 4), len(stubs))
    return before + bytes(index), bytes(frames) + bytes(4)


def shared_library(stubs: Sequence[Stub]) -> bytes:
    """An ELF shared object for x86-64 with these stubs, laid out as `lay_out` says."""
    count, layout = len(stubs), lay_out(stubs)
    hash_at, symbols_at, names_at, text_at = layout.hash_at, layout.symbols_at, layout.names_at, layout.text_at
    names = b"\0" + b"".join(stub.symbol.encode() + b"\0" for stub in stubs)
    text = b"".join(stub.code.ljust(_align(len(stub.code), ALIGNMENT), _NOP) for stub in stubs)
    section_names = b"\0.hash\0.dynsym\0.dynstr\0.text\0.eh_frame_hdr\0.eh_frame\0.dynamic\0.shstrtab\0"
    header_at = text_at + len(text)
    header, frames = _unwind_tables(stubs, layout, header_at)
    frames_at = header_at + len(header)
    dynamic_at = _align(frames_at + len(frames), _PAGE)

    # A hash table of one bucket: a chain through all symbols, 0 being the end.
    table = struct.pack(
        f"<{4 + count}I", 1, 1 + count, 1 if count else 0, 0, *(range(2, count + 1)), *([0] if count else [])
    )
    entries = bytearray(24)
    for stub, name, start in zip(stubs, layout.names, layout.starts, strict=True):
        # Name, global function, default visibility, section 4, address, size.
        size = _align(len(stub.code), ALIGNMENT)
        entries += struct.pack("<IBBHQQ", name - names_at, 0x12, 0, 4, start, size)
    tags = [(4, hash_at), (5, names_at), (6, symbols_at), (10, len(names)), (11, 24), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)

    image = bytearray(dynamic_at)
    for at, content in [
        (hash_at, table),
        (symbols_at, entries),
        (names_at, names),
        (text_at, text),
        (header_at, header),
        (frames_at, frames),
    ]:
        image[at : at + len(content)] = content
    code_end = frames_at + len(frames)
    section_names_at = dynamic_at + len(dynamic)
    sections_at = _align(section_names_at + len(section_names), 8)
    image += (dynamic + section_names).ljust(sections_at - dynamic_at, b"\0")
    # Type, flags (1 write, 2 memory, 4 code), place, size, link, info, alignment, size of an entry.
    for section, kind, flags, at, size, link, info, alignment, entry in [
        ("", 0, 0, 0, 0, 0, 0, 0, 0),
        (".hash", 5, 2, hash_at, len(table), 2, 0, 8, 4),
        (".dynsym", 11, 2, symbols_at, len(entries), 3, 1, 8, 24),
        (".dynstr", 3, 2, names_at, len(names), 0, 0, 1, 0),
        (".text", 1, 6, text_at, len(text), 0, 0, 16, 0),
        (".eh_frame_hdr", 1, 2, header_at, len(header), 0, 0, 4, 0),
        (".eh_frame", 1, 2, frames_at, len(frames), 0, 0, 8, 0),
        (".dynamic", 6, 3, dynamic_at, len(dynamic), 3, 0, 8, 16),
        (".shstrtab", 3, 0, section_names_at, len(section_names), 0, 0, 1, 0),
    ]:
        index = section_names.index(section.encode() + b"\0")
        address = at if flags else 0
        image += struct.pack("<IIQQQQIIQQ", index, kind, flags, address, at, size, link, info, alignment, entry)

    identity = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    image[:64] = identity + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, sections_at, 0, 64, 56, 5, 64, 9, 8)
    # Type, flags (4 read, 2 write, 1 run), place in the file, address twice, size twice, alignment.
    segments = [
        (1, 5, 0, code_end, _PAGE),
        (1, 6, dynamic_at, len(dynamic), _PAGE),
        (2, 6, dynamic_at, len(dynamic), 8),
        (0x6474E550, 4, header_at, len(header), 4),
        (0x6474E551, 6, 0, 0, 16),
    ]
    image[64:hash_at] = b"".join(struct.pack("<IIQQQQQQ", k, f, at, at, at, n, n, a) for k, f, at, n, a in segments)
    return bytes(image)
