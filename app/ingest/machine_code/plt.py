"""Calls of functions in other binaries: entries of the procedure linkage table (PLT), which have no symbols.

Each entry jumps to an address that it loads from a slot of the global offset table; a relocation says which function
the dynamic linker stores there. They are named as perf and objdump name them: `puts@plt`. Sections: System V ABI, AMD64
supplement 5.2; ELF for the Arm 64-bit Architecture.
"""

import struct
from collections.abc import Iterable, Iterator

import numpy as np

from ...domain.arrays import Array, is_among
from .elf_image import SHT_NOBITS, ElfImage

SECTIONS = (b".plt", b".plt.sec", b".plt.got", b".plt.bnd")
SUFFIX = b"@plt"
MAX_BYTES = 64 << 20
"""Of a section."""
MAX_ENTRIES = 200_000
MAX_CODE_BYTES = 16 * MAX_ENTRIES
"""Of a section with entries."""
MAX_NAME_BYTES = 4096
_X86_64, _AARCH64 = 62, 183
_RELOCATION = np.dtype([("slot", "<u8"), ("info", "<u8"), ("addend", "<i8")])
_SYMBOL_BYTES = 24
_JUMP = b"\xff\x25"
"""x86-64: jmp *distance(%rip)."""
_ADDRESS_OF_PAGE, _LOAD, _LANDING = (0x9F00001F, 0x90000010), (0xFFC003FF, 0xF9400211), 0xD503245F
"""Arm64, (mask, value): adrp x16; ldr x17, [x16, offset]. Before them may be bti c."""

PltEntry = tuple[int, int, bytes]
"""(start, end, name) in addresses of the binary."""


def list_plt_entries(image: ElfImage) -> list[PltEntry]:
    """The entries of a binary for x86-64 or Arm64; other code of these sections is named as its section."""
    if image.machine not in (_X86_64, _AARCH64) or not image.is_64 or image.order != "<":
        return []
    places: list[tuple[bytes, int, int, list[tuple[int, int, int]]]] = []
    count = 0
    for name in SECTIONS:
        section = image.find_section(name)
        if section is None or section.type == SHT_NOBITS or count > MAX_ENTRIES:
            continue
        start, data = section.addr, image.read_section(section, MAX_CODE_BYTES)
        is_x86 = image.machine == _X86_64
        slots = list(_list_x86(start, data, section.entsize) if is_x86 else _list_arm(start, data))
        places.append((name, start, len(data), slots))
        count += len(places[-1][3])
    names = _name_slots(image, {slot for _, _, _, slots in places for _, _, slot in slots})
    found: list[PltEntry] = []
    for name, start, size, slots in places:
        entries = [(low, high, names[slot] + SUFFIX) for low, high, slot in slots if slot in names]
        found += entries
        if size and (not entries or entries[0][0] > start):
            found.append((start, entries[0][0] if entries else start + size, name))
    return found


def _name_slots(image: ElfImage, slots: Iterable[int]) -> dict[int, bytes]:
    """The function that each of these slots of the global offset table gets."""
    wanted = np.array(sorted(slots), np.uint64)
    found: dict[int, bytes] = {}
    for name in (b".rela.dyn", b".rela.plt"):
        section = image.find_section(name)
        if section is None or section.link >= len(image.sections):
            continue
        symbols = image.sections[section.link]
        if symbols.link >= len(image.sections):
            continue
        data = image.read_section(section, MAX_BYTES)
        rows = np.frombuffer(data[: len(data) // _RELOCATION.itemsize * _RELOCATION.itemsize], _RELOCATION)
        rows = rows[is_among(rows["slot"], wanted)][:MAX_ENTRIES]
        table, texts = (
            image.read_section(symbols, MAX_BYTES),
            image.read_section(image.sections[symbols.link], MAX_BYTES),
        )
        # A relocation without a symbol has the address of the function that chooses one (IFUNC).
        for slot, info, addend in rows.tolist():
            number = info >> 32
            if not number:
                found[slot] = b"*ABS*+%#x" % (addend % 2**64)
            elif (number + 1) * _SYMBOL_BYTES <= len(table):
                (at,) = struct.unpack_from("<I", table, number * _SYMBOL_BYTES)
                found[slot] = texts[at : at + MAX_NAME_BYTES].partition(b"\0")[0]
    return found


def _list_x86(start: int, data: bytes, size: int) -> Iterator[tuple[int, int, int]]:
    """(start, end, slot) of each entry. size: of an entry, 0 if it is not known."""
    size = size if 8 <= size <= 64 else 16
    for at in range(0, len(data) - size + 1, size):
        place = data.find(_JUMP, at, at + size - 4)
        if place >= 0:
            (distance,) = struct.unpack_from("<i", data, place + 2)
            yield start + at, start + at + size, (start + place + 6 + distance) % 2**64


def _list_arm(start: int, data: bytes) -> Iterator[tuple[int, int, int]]:
    """(start, end, slot) of each entry."""
    words = np.frombuffer(data[: len(data) // 4 * 4], "<u4").astype(np.int64)
    places: Array = np.flatnonzero(_matches(words[:-1], *_ADDRESS_OF_PAGE) & _matches(words[1:], *_LOAD))
    for place in places.tolist():
        page, load = int(words[place]), int(words[place + 1])
        pages = (page >> 5 & 0x7FFFF) << 2 | page >> 29 & 3
        pages -= (pages & 1 << 20) << 1
        slot = (start + 4 * place & ~0xFFF) + (pages << 12) + (load >> 10 & 0xFFF) * 8
        lands = place > 0 and int(words[place - 1]) == _LANDING
        low = start + 4 * (place - lands)
        yield low, low + (24 if lands else 16), slot % 2**64


def _matches(words: Array, mask: int, value: int) -> Array:
    found: Array = words & mask == value
    return found
