"""A relocatable ELF file, such as a module of the kernel, as if it was linked.

Its symbols are relative to sections, and its debug information has no addresses before relocations are applied (System
V ABI, chapter 4; psABIs of x86-64 and AArch64).
"""

from dataclasses import dataclass, replace

import numpy as np

from ...domain.arrays import Array
from .elf_image import (
    PT_LOAD,
    SHF_EXECINSTR,
    SHT_NOBITS,
    SHT_SYMTAB,
    ElfImage,
    SectionHeader,
    make_record,
    make_segments,
)

ET_REL = 1
SHT_RELA = 4
FIRST_ADDRESS, PAGE = 1 << 20, 4096
MAX_TABLE_BYTES = 256 << 20
"""Of symbols, or of the relocations of a section."""
_WIDTHS = {62: {1: 8, 10: 4, 11: 4}, 183: {257: 8, 258: 4}}
"""By machine, the bytes that a type of relocation sets to an absolute value: R_X86_64_64, _32, _32S;
R_AARCH64_ABS64, _ABS32."""
_SYMBOL = "name u4, info u1, other u1, section u2, value u8, size u8"
_RELOCATION = "offset u8, info u8, addend i8"


@dataclass(frozen=True, eq=False)
class LinkedImage(ElfImage):
    """See above. bases: uint64, the address of each section; 0 of those without code. symbol_table: the number of its
    section, -1 without one. values: uint64, of its symbols."""

    bases: Array
    symbol_table: int
    values: Array

    @classmethod
    def link(cls, image: ElfImage) -> "LinkedImage":
        """Give the sections with code addresses, each at another page."""
        bases, address = np.zeros(len(image.sections), np.uint64), FIRST_ADDRESS
        code = [one for one in image.sections if one.flags & SHF_EXECINSTR]
        # Of a module in memory, .text is the beginning.
        for section in sorted(code, key=lambda one: one.name != b".text"):
            bases[section.number] = address
            address = min(address + section.size + PAGE, 1 << 60) // PAGE * PAGE
        table = next((one for one in image.sections if one.type == SHT_SYMTAB), None)
        values = np.zeros(0, np.uint64)
        if table is not None and image.is_64:
            symbols = _read_rows(image, table, _SYMBOL)
            values = symbols["value"].astype(np.uint64) + _base_of(bases, symbols["section"])
        rows = [
            (PT_LOAD, 1, one.offset, int(bases[one.number]), 0 if one.type == SHT_NOBITS else one.size) for one in code
        ]
        return cls(
            stream=image.stream,
            size=image.size,
            is_64=image.is_64,
            order=image.order,
            machine=image.machine,
            sections=tuple(replace(one, addr=int(bases[one.number])) for one in image.sections),
            segments=make_segments(rows, is_64=image.is_64, order=image.order),
            kind=image.kind,
            bases=bases,
            symbol_table=-1 if table is None else table.number,
            values=values,
        )

    def find_addresses(self, value: Array, section: Array) -> Array:
        """See ElfImage."""
        return value + _base_of(self.bases, section)

    def read_section(self, section: SectionHeader, most: int) -> bytes:
        """Its content, decompressed and relocated; see ElfImage."""
        data = super().read_section(section, most)
        table = next((one for one in self.sections if one.type == SHT_RELA and one.info == section.number), None)
        widths = _WIDTHS.get(self.machine)
        if not data or table is None or widths is None or not self.is_64 or table.link != self.symbol_table:
            return data
        rows = _read_rows(self, table, _RELOCATION)
        kind, symbol = rows["info"] & np.uint64(0xFFFFFFFF), (rows["info"] >> np.uint64(32)).astype(np.int64)
        content = np.frombuffer(data, np.uint8).copy()
        for one, width in widths.items():
            chosen = (kind == one) & (symbol < len(self.values))
            chosen &= (rows["offset"] < len(content)) & (rows["offset"] + np.uint64(width) <= len(content))
            at = rows["offset"][chosen].astype(np.int64)
            value = self.values[symbol[chosen]] + rows["addend"][chosen].astype(np.uint64)
            for place in range(width):
                shift = place if self.order == "<" else width - 1 - place
                content[at + place] = (value >> np.uint64(8 * shift)) & np.uint64(255)
        return content.tobytes()


def _read_rows(image: ElfImage, section: SectionHeader, record: str) -> Array:
    kind = make_record(record, image.order)
    data = ElfImage.read_section(image, section, MAX_TABLE_BYTES)
    return np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)


def _base_of(bases: Array, section: Array) -> Array:
    """The address of sections by their number; 0 for numbers with another meaning."""
    known = section < len(bases)
    found: Array = np.where(known, np.append(bases, np.uint64(0))[np.where(known, section, 0)], np.uint64(0))
    return found
