"""Headers of line programs: their parameters and files (DWARF 2 to 5, section 6.2.4 of the DWARF 5 standard)."""

import posixpath
import struct
from dataclasses import dataclass

from .abbreviations import FORM_LINE_STRP, FORM_STRP, STRING_INDICES, UnitSizes, read_form, read_uleb
from .debug_entries import DebugUnit
from .debug_sections import DebugSections, read_initial_length

MAX_FILES = 1 << 20
"""And directories. Programs of a million lines have thousands."""
_PATH, _DIRECTORY = 1, 2
"""DW_LNCT_path, DW_LNCT_directory_index."""


@dataclass(frozen=True)
class LineHeader:
    """The header of a line program. operand_counts: of the standard opcodes, from 1 on. code: the program. files: paths
    by their number in the program less `first_file`, absolute if the compiler recorded its directory."""

    min_instruction_bytes: int
    line_base: int
    line_range: int
    opcode_base: int
    operand_counts: tuple[int, ...]
    code: bytes = b""
    files: tuple[str, ...] = ()
    first_file: int = 1


def read_line_header(sections: DebugSections, offset: int, unit: DebugUnit, directory: str) -> LineHeader:
    """The header at an offset of .debug_line. directory: that of the compilation.

    Raises LookupError, ValueError or struct.error if it is damaged.
    """
    data, order = sections.lines, sections.order
    length, at = read_initial_length(data, offset, order)
    size = 8 if at - offset == 12 else 4
    end = min(at + length, len(data))
    (version,) = struct.unpack_from(f"{order}H", data, at)
    if not 2 <= version <= 5:
        raise ValueError(f"a line program of version {version}")
    at += 2
    address = unit.sizes.address
    if version >= 5:
        address, at = data[at], at + 2
    (header_length,) = struct.unpack_from(f"{order}{'Q' if size == 8 else 'I'}", data, at)
    at += size
    begin = at + header_length
    min_bytes = data[at]
    # Before version 4 there are no bundles of operations.
    at += 2 if version >= 4 else 1
    _, line_base, line_range, opcode_base = struct.unpack_from("BbBB", data, at)
    at += 4
    counts = tuple(data[at : at + opcode_base - 1])
    at += max(0, opcode_base - 1)
    if version >= 5:
        sizes = UnitSizes(address, size, size, order)
        folders, at = _read_entries(data, at, sizes, unit)
        entries, at = _read_entries(data, at, sizes, unit)
        directories = [name for name, _ in folders]
    else:
        # Directory 0 is that of the compilation and not listed.
        directories, at = [directory], at
        while data[at]:
            name, at = _read_string(data, at)
            directories.append(name)
            _check_count(directories)
        entries, at = _read_old_files(data, at + 1)
    files = tuple(_join_path(directory, directories, name, number) for name, number in entries)
    # The standard says where the program begins, in case a compiler adds to the header.
    first = 0 if version >= 5 else 1
    return LineHeader(min_bytes, line_base, line_range, opcode_base, counts, data[max(at, begin) : end], files, first)


def _read_old_files(data: bytes, at: int) -> tuple[list[tuple[str, int]], int]:
    """(names and numbers of directories, where they end), before version 5."""
    found: list[tuple[str, int]] = []
    while data[at]:
        name, at = _read_string(data, at)
        number, at = read_uleb(data, at)
        _, at = read_uleb(data, at)
        _, at = read_uleb(data, at)
        found.append((name, number))
        _check_count(found)
    return found, at + 1


def _read_entries(data: bytes, at: int, sizes: UnitSizes, unit: DebugUnit) -> tuple[list[tuple[str, int]], int]:
    """(names and numbers of directories, where they end) of a list of files or directories of version 5."""
    formats: list[tuple[int, int]] = []
    format_count, at = data[at], at + 1
    for _ in range(format_count):
        content, at = read_uleb(data, at)
        form, at = read_uleb(data, at)
        formats.append((content, form))
    count, at = read_uleb(data, at)
    found: list[tuple[str, int]] = []
    for _ in range(count if formats else 0):
        name, number, before = "", 0, at
        for content, form in formats:
            form, value, at = read_form(data, form, at, sizes)
            if content == _PATH:
                name = unit.text_of((form, value)) if _is_text(form, value) else ""
            elif content == _DIRECTORY and isinstance(value, int):
                number = value
        if at == before:
            raise ValueError("files without content")
        found.append((name, number))
        _check_count(found)
    return found, at


def _is_text(form: int, value: object) -> bool:
    return isinstance(value, bytes) or form in (FORM_STRP, FORM_LINE_STRP) or form in STRING_INDICES


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(errors="replace"), end + 1


def _check_count(found: list[str] | list[tuple[str, int]]) -> None:
    if len(found) > MAX_FILES:
        raise ValueError("a line program has too many files")


def _join_path(directory: str, directories: list[str], name: str, number: int) -> str:
    inside = directories[number] if 0 <= number < len(directories) else ""
    return posixpath.normpath(posixpath.join(directory, inside, name))
