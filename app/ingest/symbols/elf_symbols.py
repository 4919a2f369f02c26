"""Symbols of ELF files by offset in the file, as perf selects them (perf 6.1, tools/perf/util/symbol-elf.c,
dso__load_sym_internal): functions and data objects, and labels in sections of code and data.

perf 6.1 does not read MiniDebugInfo, and names entries of the procedure linkage table in the section .plt only.
"""

import io
import lzma
from collections.abc import Sequence

import numpy as np

from ...domain.arrays import Array, BoolArray, Int64Array
from ...domain.errors import UnreadableInput
from ..machine_code.elf_image import SHF_ALLOC, SHT_DYNSYM, SHT_SYMTAB, ElfImage, SectionHeader, make_record
from ..machine_code.plt import SECTIONS as PLT_SECTIONS
from ..machine_code.plt import list_plt_entries
from .symbol_table import EMPTY, GLOBAL, SymbolTable, fix_ends

MAX_TABLE_BYTES = 512 << 20
"""Of a symbol table or its names."""
MAX_MINI_BYTES = 64 << 20
"""Of MiniDebugInfo, decompressed."""
MAX_LZMA_MEMORY = 128 << 20
_OBJECT, _FUNCTION, _IFUNC = 1, 2, 10
_HIDDEN, _INTERNAL = 2, 1
_ABSOLUTE = 0xFFF1
_ARM, _AARCH64 = 40, 183
_SYMBOL = {
    True: "name u4, info u1, other u1, section u2, value u8, size u8",
    False: "name u4, value u4, size u4, info u1, other u1, section u2",
}


def read_elf_symbols(code: ElfImage, beside: ElfImage | None = None) -> SymbolTable:
    """The symbols of a binary. beside: the file with its symbol table, if that is another one."""
    symbols = beside or code
    mini = None if _has_symbols(symbols) else _read_mini_debug_info(code)
    return _merge([_read_symbols(mini or symbols, SHT_SYMTAB, code), _read_symbols(symbols, SHT_DYNSYM, code)])


def read_kernel_symbols(vmlinux: ElfImage) -> SymbolTable:
    """The symbols of a kernel, by address."""
    return _read_symbols(vmlinux, SHT_SYMTAB)


def read_module_symbols(module: ElfImage, section: SectionHeader) -> SymbolTable:
    """The symbols in one section of a module of the kernel, by offset in the file."""
    return _read_symbols(module, SHT_SYMTAB, module, section)


def list_undefined(image: ElfImage) -> list[str]:
    """The symbols that object code has from elsewhere."""
    table = next((section for section in image.sections if section.type == SHT_SYMTAB), None)
    if table is None:
        return []
    rows = np.frombuffer(image.read_section(table, MAX_TABLE_BYTES), make_record(_SYMBOL[image.is_64], image.order))
    names = image.read_section(image.sections[table.link], MAX_TABLE_BYTES)
    starts = rows["name"][(rows["section"] == 0) & (rows["name"] > 0)].tolist()
    return [names[start : names.index(b"\0", start)].decode() for start in starts]


def _has_symbols(image: ElfImage) -> bool:
    return any(section.type == SHT_SYMTAB for section in image.sections)


def _read_mini_debug_info(code: ElfImage) -> ElfImage | None:
    """The ELF file in .gnu_debugdata, which has the symbol table of functions (manual of GDB, MiniDebugInfo)."""
    section = code.find_section(b".gnu_debugdata")
    if section is None:
        return None
    try:
        packed = code.read_section(section, MAX_MINI_BYTES)
        data = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_LZMA_MEMORY).decompress(packed, MAX_MINI_BYTES)
        return ElfImage.read(io.BytesIO(data))
    except (lzma.LZMAError, EOFError, MemoryError, UnreadableInput):
        return None


def _read_symbols(
    image: ElfImage, kind: int, code: ElfImage | None = None, section: SectionHeader | None = None
) -> SymbolTable:
    """The symbols of a table, by start, with ends. kind: SHT_SYMTAB or SHT_DYNSYM. code: the binary, if starts are
    offsets in that file and not addresses. section: the only one whose symbols are wanted."""
    table = next((section for section in image.sections if section.type == kind), None)
    if table is None or table.link >= len(image.sections):
        return EMPTY
    record = make_record(_SYMBOL[image.is_64], image.order)
    data = image.read_section(table, MAX_TABLE_BYTES)
    rows = np.frombuffer(data[: len(data) // record.itemsize * record.itemsize], record)
    names = image.read_section(image.sections[table.link], MAX_TABLE_BYTES) + b"\0"
    rows = rows[_select(rows, image, names)]
    if section is not None:
        rows = rows[rows["section"] == section.number]
    start, size = (rows[field].astype(np.uint64) for field in ("value", "size"))
    if image.machine == _ARM:
        # The lowest bit says that it is Thumb code.
        start = np.where(rows["info"] & 15 == _FUNCTION, start & ~np.uint64(1), start)
    if code is not None:
        start = code.find_offsets(start, _shifts_of_sections(image, code)[rows["section"]])
    order = np.argsort(start, kind="stable")
    start, size = start[order], size[order]
    binding = (rows["info"][order] >> 4).astype(np.uint8)
    name = rows["name"][order].astype(np.int64)
    return SymbolTable(start, fix_ends(start, start + size), name, binding, names, is_sized=size > 0)


def _select(rows: Array, image: ElfImage, names: bytes) -> BoolArray:
    kind, section = rows["info"] & 15, rows["section"]
    visible = ~np.isin(rows["other"] & 3, (_HIDDEN, _INTERNAL))
    known = (rows["name"] != 0) & (rows["name"] < len(names)) & (section != 0) & (section < len(image.sections))
    is_loaded = np.array([bool(one.flags & SHF_ALLOC) for one in image.sections] or [False])
    has_labels = np.array([b"text" in one.name or b"data" in one.name for one in image.sections] or [False])
    place = np.where(known, section, 0)
    labels = (kind == 0) & visible & has_labels[place]
    selected: BoolArray = known & is_loaded[place] & (np.isin(kind, (_OBJECT, _FUNCTION, _IFUNC)) | labels)
    if image.machine in (_ARM, _AARCH64):
        selected &= ~_are_mapping_symbols(np.where(selected, rows["name"], 0).astype(np.int64), names)
    return selected


def _are_mapping_symbols(name: Int64Array, names: bytes) -> BoolArray:
    """Whether symbols mark what follows them as code or data: "$x" or "$x.…" (ELF for the Arm Architecture)."""
    text = np.frombuffer(names + b"\0\0", np.uint8)
    first, second, third = (text[name + at] for at in range(3))
    found: BoolArray = (first == ord("$")) & np.isin(second, list(b"adtx")) & np.isin(third, list(b"\0."))
    return found


def _shifts_of_sections(image: ElfImage, code: ElfImage) -> Array:
    """Address - offset in the file of each section. In a file of debug information the offsets are not those of the
    binary."""
    known = code.sections if len(code.sections) >= len(image.sections) else image.sections
    return np.array([(one.addr - one.offset) % 2**64 for one in known] or [0], np.uint64)


def _merge(parts: Sequence[SymbolTable]) -> SymbolTable:
    """Tables in one. A symbol without a size may reach further in one of them alone."""
    parts = [part for part in parts if len(part)]
    if len(parts) < 2:
        return parts[0] if parts else EMPTY
    shifts = np.cumsum([0, *(len(part.names) for part in parts)])
    name = np.concatenate([part.name + shift for part, shift in zip(parts, shifts.tolist()[:-1], strict=True)])
    start, end, binding, is_sized = (
        np.concatenate([getattr(part, field) for part in parts]) for field in ("start", "end", "binding", "is_sized")
    )
    order = np.argsort(start, kind="stable")
    start, end, names = start[order], fix_ends(start[order], end[order]), b"".join(part.names for part in parts)
    return SymbolTable(start, end, name[order], binding[order], names, is_sized=is_sized[order])


def list_plt_sections(code: ElfImage) -> list[SectionHeader]:
    """The sections of the procedure linkage table."""
    return [section for section in code.sections if section.name in PLT_SECTIONS]


def read_plt_symbols(code: ElfImage) -> SymbolTable:
    """The entries of the procedure linkage table: "puts@plt"."""
    # A hostile file may have sections that end past all addresses.
    entries = [entry for entry in list_plt_entries(code) if entry[1] < 2**64]
    low, high = (np.array([entry[at] for entry in entries], np.uint64) for at in (0, 1))
    starts = code.find_offsets(low, np.zeros(len(low), np.uint64))
    order = np.argsort(starts, kind="stable")
    lengths = np.cumsum([0, *(len(name) + 1 for _, _, name in entries)])[:-1]
    names = b"".join(name + b"\0" for _, _, name in entries)
    binding = np.full(len(entries), GLOBAL, np.uint8)
    starts = starts[order]
    return SymbolTable(starts, starts + (high - low)[order], lengths[order].astype(np.int64), binding, names)
