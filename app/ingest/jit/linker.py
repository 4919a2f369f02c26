"""Links the object code of compiled functions.

Format: System V ABI, AMD64 supplement, 4.4 (relocation), for the large code model, in which LLVM compiles for a
just-in-time compiler.
"""

import io
import mmap

import numpy as np

from ..machine_code.elf_image import SHF_ALLOC, SHF_EXECINSTR, SHT_SYMTAB, ElfImage, make_record
from .linked_code import WORD_BYTES, LinkedCode

_X86_64 = 62
_RELOCATIONS = 4
"""The type of a section, SHT_RELA."""
_ADDRESS, _DISTANCE = 1, 24
"""R_X86_64_64 and R_X86_64_PC64."""
_COMMON = 0xFFF2
"""The section of symbols of variables that the linker places, SHN_COMMON."""
_ALIGNMENT = 64
"""Of all sections: that of the widest vectors."""
_MAX_BYTES = 64 << 20
_UNWINDING = b".eh_frame"
_SYMBOL = make_record("name u4, info u1, other u1, section u2, value u8, size u8", "<")
_RELOCATION = make_record("offset u8, info u8, addend i8", "<")


def link(code: bytes) -> LinkedCode | None:
    """The code of an object file; None if it contains something that is not known here."""
    image = ElfImage.read(io.BytesIO(code))
    table = next((section for section in image.sections if section.type == SHT_SYMTAB), None)
    if image.machine != _X86_64 or table is None:
        return None
    content = bytearray()
    places: dict[int, int] = {}
    for is_code in (True, False):
        for section in image.sections:
            # No exception passes through compiled code.
            if not section.flags & SHF_ALLOC or section.name == _UNWINDING:
                continue
            if bool(section.flags & SHF_EXECINSTR) == is_code:
                places[section.number] = _append(content, image.read_section(section, _MAX_BYTES), section.size)
        if is_code:
            content += bytes(-len(content) % mmap.PAGESIZE)
            data_at = len(content)
    symbols: list[int | None] = []
    names: list[str] = []
    texts = image.read_section(image.sections[table.link], _MAX_BYTES)
    for row in np.frombuffer(image.read_section(table, _MAX_BYTES), _SYMBOL).tolist():
        name, _, _, section, value, size = row
        names.append(texts[name : texts.index(b"\0", name)].decode())
        if section == _COMMON:
            symbols.append(_append(content, b"", size))
        else:
            symbols.append(places[section] + value if section in places else None)
    own: list[int] = []
    outside: dict[str, tuple[int, ...]] = {}
    for section in image.sections:
        if section.type != _RELOCATIONS or section.info not in places:
            continue
        for offset, info, addend in np.frombuffer(image.read_section(section, _MAX_BYTES), _RELOCATION).tolist():
            at, kind, number = places[section.info] + offset, info & 0xFFFFFFFF, info >> 32
            symbol = symbols[number]
            if kind == _ADDRESS and symbol is not None:
                own.append(at)
                value = symbol + addend
            elif kind == _ADDRESS and names[number]:
                outside[names[number]] = (*outside.get(names[number], ()), at)
                value = addend
            elif kind == _DISTANCE and symbol is not None:
                value = symbol + addend - at
            else:
                return None
            content[at : at + WORD_BYTES] = (value % 2**64).to_bytes(WORD_BYTES, "little")
    functions = {name: place for name, place in zip(names, symbols, strict=True) if name and place is not None}
    return LinkedCode(bytes(content), data_at, functions, tuple(own), outside)


def _append(content: bytearray, data: bytes, size: int) -> int:
    """Append data, filled up with zeros. Returns where it begins."""
    content += bytes(-len(content) % _ALIGNMENT)
    place = len(content)
    content += data.ljust(size, b"\0")
    return place
