"""How entries of debug information are encoded (DWARF 2 to 5, section 7.5 of the DWARF 5 standard).

A unit has hundreds of abbreviations, and refers to most of them never. So they are passed over first, and decoded when
an entry needs them: into structures that are unpacked at once, without attributes that are not used.
"""

import struct
from typing import Any, NamedTuple

SIBLING, NAME, STMT_LIST, LOW_PC, HIGH_PC, COMP_DIR = 0x01, 0x03, 0x10, 0x11, 0x12, 0x1B
ABSTRACT_ORIGIN, SPECIFICATION, RANGES, CALL_FILE, CALL_LINE = 0x31, 0x47, 0x55, 0x58, 0x59
LINKAGE_NAME, MIPS_LINKAGE_NAME = 0x6E, 0x2007
STR_OFFSETS_BASE, ADDR_BASE, RNGLISTS_BASE, GNU_ADDR_BASE = 0x72, 0x73, 0x74, 0x2133
KNOWN = frozenset(
    (
        *(SIBLING, NAME, STMT_LIST, LOW_PC, HIGH_PC, COMP_DIR, ABSTRACT_ORIGIN, SPECIFICATION, RANGES, CALL_FILE),
        *(CALL_LINE, LINKAGE_NAME, MIPS_LINKAGE_NAME, STR_OFFSETS_BASE, ADDR_BASE, RNGLISTS_BASE, GNU_ADDR_BASE),
    )
)
"""The attributes that are read."""
MAX_FIELDS, MAX_ABBREVIATIONS = 4096, 1 << 18
"""Attributes of an entry, and abbreviations of a unit. A few dozen and a few thousand are usual."""
MAX_UNIT_BYTES, MAX_ALL_FIELDS = 1 << 18, 1 << 18
"""Of the abbreviations of a unit that are used, and attributes of those that are kept. A few thousand are usual."""

FORM_ADDR, FORM_STRING, FORM_UDATA, FORM_SDATA, FORM_INDIRECT = 0x01, 0x08, 0x0F, 0x0D, 0x16
FORM_IMPLICIT_CONST, FORM_RNGLISTX, FORM_ADDRX, FORM_REF_ADDR = 0x21, 0x23, 0x1B, 0x10
FORM_STRP, FORM_LINE_STRP = 0x0E, 0x1F
UNIT_REFERENCES = frozenset({0x11, 0x12, 0x13, 0x14, 0x15})
STRING_INDICES = frozenset({0x1A, 0x25, 0x26, 0x27, 0x28, 0x1F02})
ADDRESS_INDICES = frozenset({FORM_ADDRX, 0x29, 0x2A, 0x2B, 0x2C, 0x1F01})
_SIZES = {
    form: size
    for size, forms in {
        0: (0x19, FORM_IMPLICIT_CONST),  # flag_present
        1: (0x0B, 0x0C, 0x11, 0x25, 0x29),  # data1, flag, ref1, strx1, addrx1
        2: (0x05, 0x12, 0x26, 0x2A),  # data2, ref2, strx2, addrx2
        3: (0x27, 0x2B),  # strx3, addrx3
        4: (0x06, 0x13, 0x1C, 0x28, 0x2C),  # data4, ref4, ref_sup4, strx4, addrx4
        8: (0x07, 0x14, 0x20, 0x24),  # data8, ref8, ref_sig8, ref_sup8
        16: (0x1E,),  # data16
    }.items()
    for form in forms
}
_OFFSETS = frozenset({FORM_STRP, 0x17, FORM_LINE_STRP, 0x1D, 0x1F20, 0x1F21})
"""strp, sec_offset, line_strp, strp_sup, GNU_ref_alt, GNU_strp_alt: of 4 or 8 bytes."""
_NUMBERS = frozenset({FORM_UDATA, 0x15, 0x1A, FORM_ADDRX, 0x22, FORM_RNGLISTX, 0x1F01, 0x1F02})
"""udata, ref_udata, strx, addrx, loclistx, rnglistx, GNU_addr_index, GNU_str_index."""
_BLOCKS = {0x0A: 1, 0x03: 2, 0x04: 4, 0x09: 0, 0x18: 0}
"""block1, block2, block4, block, exprloc: the bytes of their length, 0 for a LEB128 number."""
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}

Values = dict[int, tuple[int, Any]]
"""Attributes of an entry: (form, value as in the file). Blocks have no value."""


class UnitSizes(NamedTuple):
    """Bytes of addresses, offsets in sections, and references to other units; "<" or ">"."""

    address: int
    offset: int
    reference: int
    order: str


def read_uleb(data: bytes, at: int) -> tuple[int, int]:
    """(unsigned LEB128 number, where it ends). Raises LookupError."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 2**64 - 1, at + 1
        shift += 7
        if shift > 140:
            raise ValueError("a number is too long")


def read_sleb(data: bytes, at: int) -> tuple[int, int]:
    """(signed LEB128 number, where it ends). Raises LookupError."""
    number, after = read_uleb(data, at)
    bits = min(7 * (after - at), 64)
    return (number - (1 << bits) if number >> (bits - 1) & 1 else number), after


def size_of(form: int, sizes: UnitSizes) -> int | None:
    """The bytes of a form, if they are always the same."""
    if form == FORM_ADDR:
        return sizes.address
    if form == FORM_REF_ADDR:
        return sizes.reference
    return sizes.offset if form in _OFFSETS else _SIZES.get(form)


def read_form(data: bytes, form: int, at: int, sizes: UnitSizes) -> tuple[int, Any, int]:
    """(form, value, where it ends). Raises LookupError, ValueError."""
    if form == FORM_INDIRECT:
        form, at = read_uleb(data, at)
        if form in (FORM_INDIRECT, FORM_IMPLICIT_CONST):
            raise ValueError("an indirect form of another one")
    size = size_of(form, sizes)
    if size is not None:
        return form, number_at(data, at, size, sizes.order), at + size
    if form in _NUMBERS:
        return form, *read_uleb(data, at)
    if form == FORM_SDATA:
        return form, *read_sleb(data, at)
    if form == FORM_STRING:
        end = data.index(b"\0", at)
        return form, data[at:end], end + 1
    if form not in _BLOCKS:
        raise ValueError(f"unknown form {form:#x}")
    size = _BLOCKS[form]
    length, at = (number_at(data, at, size, sizes.order), at + size) if size else read_uleb(data, at)
    return form, None, at + length


def number_at(data: bytes, at: int, size: int, order: str) -> int:
    """An unsigned number of `size` bytes. Raises LookupError."""
    if not 0 <= at <= len(data) - size:
        raise LookupError("the end of the section")
    return int.from_bytes(data[at : at + size], "little" if order == "<" else "big")


class _Part(NamedTuple):
    """Attributes that follow each other: a structure with these of `KNOWN`, or one (`form`) of changing size."""

    structure: struct.Struct | None
    size: int
    fields: tuple[tuple[int, int], ...]
    form: int = 0


class Abbreviation:
    """How entries are encoded. size: bytes of an entry, -1 if they differ. has_code: whether they name addresses.
    fields: (attribute, form, constant)."""

    __slots__ = ("_constants", "_parts", "_sizes", "has_children", "has_code", "has_sibling", "size", "tag")

    def __init__(self, tag: int, has_children: bool, fields: list[tuple[int, int, int]], sizes: UnitSizes) -> None:
        self.tag, self.has_children, self._sizes = tag, has_children, sizes
        names = {attribute for attribute, _, _ in fields}
        self.has_sibling, self.has_code = SIBLING in names, LOW_PC in names or RANGES in names
        self._constants: Values = {
            attribute: (form, constant)
            for attribute, form, constant in fields
            if form == FORM_IMPLICIT_CONST and attribute in KNOWN
        }
        self._parts = _list_parts([(attribute, form) for attribute, form, _ in fields], sizes)
        self.size = -1 if any(part.structure is None for part in self._parts) else sum(p.size for p in self._parts)

    def read(self, data: bytes, at: int) -> tuple[Values, int]:
        """(the known attributes of the entry whose attributes begin at `at`, where they end). Raises LookupError,
        ValueError, struct.error."""
        values = self._constants.copy()
        for structure, size, fields, form in self._parts:
            if structure is None:
                form, value, at = read_form(data, form, at, self._sizes)
                if fields:
                    values[fields[0][0]] = form, value
                continue
            if fields:
                numbers = structure.unpack_from(data, at)
                for (attribute, kind), number in zip(fields, numbers, strict=True):
                    values[attribute] = kind, number
            at += size
        return values, at

    def skip(self, data: bytes, at: int) -> int:
        """Where the attributes end that begin at `at`. Raises LookupError, ValueError."""
        for structure, size, _, form in self._parts:
            at = at + size if structure is not None else read_form(data, form, at, self._sizes)[2]
        return at


def _list_parts(fields: list[tuple[int, int]], sizes: UnitSizes) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    codes, size, read = sizes.order, 0, list[tuple[int, int]]()
    for attribute, form in (*fields, (0, FORM_INDIRECT)):
        bytes_of = size_of(form, sizes)
        if bytes_of is not None and (attribute not in KNOWN or bytes_of in _CODES or form == FORM_IMPLICIT_CONST):
            if attribute in KNOWN and bytes_of:
                codes += _CODES[bytes_of]
                read.append((attribute, form))
            else:
                codes += f"{bytes_of}x"
            size += bytes_of
            continue
        if size:
            parts.append(_Part(struct.Struct(codes), size, tuple(read)))
            codes, size, read = sizes.order, 0, []
        parts.append(_Part(None, 0, ((attribute, form),) if attribute in KNOWN else (), form))
    return tuple(parts[:-1])


class AbbreviationCache:
    """Decoded abbreviations by their bytes: most units of a program have the same ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, UnitSizes], Abbreviation] = {}
        self._field_count = 0

    def decode(self, data: bytes, sizes: UnitSizes) -> Abbreviation:
        """The abbreviation in these bytes, without its code. Raises LookupError, ValueError."""
        key = data, sizes
        if key not in self._known:
            tag, has_children, fields = _read_abbreviation(data)
            self._field_count += len(fields)
            if self._field_count > MAX_ALL_FIELDS:
                self._known.clear()
                self._field_count = len(fields)
            self._known[key] = Abbreviation(tag, has_children, fields, sizes)
        return self._known[key]


class Abbreviations(dict[int, Abbreviation]):
    """The abbreviations of a unit by their code, passed over as far as needed: of most units only the first entry is
    read."""

    def __init__(self, data: bytes, offset: int, sizes: UnitSizes, cache: AbbreviationCache) -> None:
        super().__init__()
        self._data, self._at, self._sizes, self._cache = data, offset, sizes, cache
        self._passed: dict[int, tuple[int, int]] = {}
        self._bytes = 0

    def __missing__(self, code: int) -> Abbreviation:
        while code not in self._passed:
            if self._at < 0:
                raise LookupError(f"no abbreviation {code:,}")
            self._pass()
        begin, end = self._passed[code]
        self._bytes += end - begin
        if self._bytes > MAX_UNIT_BYTES:
            raise ValueError("the abbreviations of a unit are too long")
        self[code] = self._cache.decode(self._data[begin:end], self._sizes)
        return self[code]

    def _pass(self) -> None:
        """Find the next abbreviation."""
        code, at = read_uleb(self._data, self._at)
        if not code:
            self._at = -1
            return
        if len(self._passed) >= MAX_ABBREVIATIONS:
            raise ValueError("a unit has too many abbreviations")
        _, after = read_uleb(self._data, at)
        self._at = _pass_fields(self._data, after + 1)
        self._passed.setdefault(code, (at, self._at))


def _read_abbreviation(data: bytes) -> tuple[int, bool, list[tuple[int, int, int]]]:
    """(tag, whether entries have children, (attribute, form, constant) of each attribute)."""
    tag, at = read_uleb(data, 0)
    has_children, at = bool(data[at]), at + 1
    fields: list[tuple[int, int, int]] = []
    while True:
        attribute, at = read_uleb(data, at)
        form, at = read_uleb(data, at)
        constant = 0
        if form == FORM_IMPLICIT_CONST:
            constant, at = read_sleb(data, at)
        if not attribute and not form:
            return tag, has_children, fields
        fields.append((attribute, form, constant))


def _pass_fields(data: bytes, at: int) -> int:
    """Where a list of attributes ends. Raises LookupError, ValueError."""
    for _ in range(MAX_FIELDS + 1):
        # Most numbers have one byte, and a call takes as long as all else here.
        attribute, form = data[at], data[at + 1]
        if attribute < 0x80 and form < 0x80:
            at += 2
        else:
            attribute, at = read_uleb(data, at)
            form, at = read_uleb(data, at)
        if form == FORM_IMPLICIT_CONST:
            _, at = read_sleb(data, at)
        if not attribute and not form:
            return at
    raise ValueError("an entry has too many attributes")
