"""Entries of a unit's debug information (DWARF 2 to 5, sections 2 and 7.5 of the DWARF 5 standard).

pyelftools opens the sections and reads the headers of units. It takes 60 µs for an entry; most entries are types and
variables, which are only skipped here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

TAG_SUBPROGRAM, TAG_INLINED = 0x2E, 0x1D
SIBLING, NAME, LOW_PC, HIGH_PC, INLINE = 0x01, 0x03, 0x11, 0x12, 0x20
ABSTRACT_ORIGIN, SPECIFICATION, RANGES, CALL_FILE, CALL_LINE = 0x31, 0x47, 0x55, 0x58, 0x59
LINKAGE_NAME, MIPS_LINKAGE_NAME = 0x6E, 0x2007
_STR_OFFSETS_BASE, _ADDR_BASE, _RNGLISTS_BASE, _GNU_ADDR_BASE = 0x72, 0x73, 0x74, 0x2133
_MAX_REFERENCES = 8
_MAX_FIELDS, _MAX_ABBREVIATIONS = 4096, 1 << 20
"""Attributes of an entry, and abbreviations of a unit. A few dozen and a few thousand are usual."""
_CHECK_EVERY = 256
"""Entries, or ranges, between two calls of `check`."""

_FORM_ADDR, _FORM_STRING, _FORM_UDATA, _FORM_SDATA, _FORM_INDIRECT = 0x01, 0x08, 0x0F, 0x0D, 0x16
_FORM_IMPLICIT_CONST, _FORM_RNGLISTX = 0x21, 0x23
_SIZES = {
    form: size
    for size, forms in {
        0: (0x19, _FORM_IMPLICIT_CONST),  # flag_present
        1: (0x0B, 0x0C, 0x11, 0x25, 0x29),  # data1, flag, ref1, strx1, addrx1
        2: (0x05, 0x12, 0x26, 0x2A),  # data2, ref2, strx2, addrx2
        3: (0x27, 0x2B),  # strx3, addrx3
        4: (0x06, 0x13, 0x1C, 0x28, 0x2C),  # data4, ref4, ref_sup4, strx4, addrx4
        8: (0x07, 0x14, 0x20, 0x24),  # data8, ref8, ref_sig8, ref_sup8
        16: (0x1E,),  # data16
    }.items()
    for form in forms
}
_OFFSETS = frozenset({0x0E, 0x17, 0x1F, 0x1D, 0x1F20, 0x1F21})
"""strp, sec_offset, line_strp, strp_sup, GNU_ref_alt, GNU_strp_alt: of 4 or 8 bytes."""
_REF_ADDR = 0x10
_NUMBERS = frozenset({_FORM_UDATA, 0x15, 0x1A, 0x1B, 0x22, _FORM_RNGLISTX, 0x1F01, 0x1F02})
"""udata, ref_udata, strx, addrx, loclistx, rnglistx, GNU_addr_index, GNU_str_index."""
_BLOCKS = {0x0A: -2, 0x03: -3, 0x04: -4, 0x09: -5, 0x18: -5}
"""block1, block2, block4, block, exprloc."""
_STEP_NUMBER, _STEP_STRING, _STEP_INDIRECT = -1, -6, -7
_LENGTH_BYTES = {-2: 1, -3: 2, -4: 4}
_UNIT_REFERENCES = frozenset({0x11, 0x12, 0x13, 0x14, 0x15})
_STRING_INDICES = frozenset({0x1A, 0x25, 0x26, 0x27, 0x28, 0x1F02})
_ADDRESS_INDICES = frozenset({0x1B, 0x29, 0x2A, 0x2B, 0x2C, 0x1F01})
_STRP, _LINE_STRP = 0x0E, 0x1F

Values = dict[int, tuple[int, Any]]
"""Attributes of an entry: (form, value as in the file)."""


class _UnitSizes(NamedTuple):
    """Bytes of addresses, offsets in sections, and references to other units."""

    address: int
    offset: int
    reference: int


class Entry(NamedTuple):
    """An entry. after: where its children, or else the next entry, begin."""

    tag: int
    has_children: bool
    values: Values
    after: int


@dataclass(frozen=True)
class _Abbreviation:
    """How entries are encoded. fields: (attribute, form, constant). steps: how to skip them: bytes, or a _STEP."""

    tag: int
    has_children: bool
    fields: tuple[tuple[int, int, int], ...]
    steps: tuple[int, ...]
    has_sibling: bool


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


def _read_sleb(data: bytes, at: int) -> tuple[int, int]:
    """(signed LEB128 number, where it ends). Raises LookupError."""
    number, after = read_uleb(data, at)
    bits = min(7 * (after - at), 64)
    return (number - (1 << bits) if number >> (bits - 1) & 1 else number), after


class _Abbreviations(dict[int, _Abbreviation]):
    """The abbreviations of a unit by their code, read as far as needed: of most units only the first entry is read."""

    def __init__(self, data: bytes, offset: int, sizes: _UnitSizes) -> None:
        super().__init__()
        self._data, self._at, self._sizes = data, offset, sizes
        self._passed: dict[int, tuple[int, bool, list[tuple[int, int, int]]]] = {}

    def __missing__(self, code: int) -> _Abbreviation:
        while code not in self._passed:
            if self._at < 0:
                raise LookupError(f"no abbreviation {code:,}")
            self._read_next()
        tag, has_children, fields = self._passed[code]
        steps = _list_steps([form for _, form, _ in fields], self._sizes)
        has_sibling = any(attribute == SIBLING for attribute, _, _ in fields)
        self[code] = _Abbreviation(tag, has_children, tuple(fields), steps, has_sibling)
        return self[code]

    def _read_next(self) -> None:
        data = self._data
        code, at = read_uleb(data, self._at)
        if not code:
            self._at = -1
            return
        tag, at = read_uleb(data, at)
        has_children, at = bool(data[at]), at + 1
        fields: list[tuple[int, int, int]] = []
        while True:
            # Most numbers have one byte, and a call takes as long as all else here.
            attribute, form = data[at], data[at + 1]
            if attribute < 0x80 and form < 0x80:
                at += 2
            else:
                attribute, at = read_uleb(data, at)
                form, at = read_uleb(data, at)
            constant = 0
            if form == _FORM_IMPLICIT_CONST:
                constant, at = _read_sleb(data, at)
            if not attribute and not form:
                break
            fields.append((attribute, form, constant))
            if len(fields) > _MAX_FIELDS:
                raise ValueError("an entry has too many attributes")
        if len(self._passed) >= _MAX_ABBREVIATIONS:
            raise ValueError("a unit has too many abbreviations")
        self._passed.setdefault(code, (tag, has_children, fields))
        self._at = at


def _size_of(form: int, sizes: _UnitSizes) -> int | None:
    """The bytes of a form, if they are always the same."""
    if form == _FORM_ADDR:
        return sizes.address
    if form == _REF_ADDR:
        return sizes.reference
    return sizes.offset if form in _OFFSETS else _SIZES.get(form)


def _list_steps(forms: list[int], sizes: _UnitSizes) -> tuple[int, ...]:
    steps: list[int] = []
    for form in forms:
        size = _size_of(form, sizes)
        if size is not None:
            if steps and steps[-1] >= 0:
                steps[-1] += size
            else:
                steps.append(size)
        elif form in _BLOCKS:
            steps.append(_BLOCKS[form])
        elif form in _NUMBERS or form == _FORM_SDATA:
            steps.append(_STEP_NUMBER)
        elif form == _FORM_STRING:
            steps.append(_STEP_STRING)
        elif form == _FORM_INDIRECT:
            steps.append(_STEP_INDIRECT)
        else:
            raise ValueError(f"unknown form {form:#x}")
    return tuple(steps)


def _data_of(section: Any) -> bytes:
    return b"" if section is None else bytes(section.stream.getvalue())


class DebugSections:
    """The sections that entries refer to. dwarf: of pyelftools."""

    def __init__(self, dwarf: Any) -> None:
        self.dwarf = dwarf
        self.info = _data_of(dwarf.debug_info_sec)
        self.abbreviations = _data_of(dwarf.debug_abbrev_sec)
        self.strings = _data_of(dwarf.debug_str_sec)
        self.line_strings = _data_of(dwarf.debug_line_str_sec)
        self.string_offsets = _data_of(dwarf.debug_str_offsets_sec)
        self.addresses = _data_of(dwarf.debug_addr_sec)
        self.ranges = _data_of(dwarf.debug_ranges_sec)
        self.range_lists = _data_of(dwarf.debug_rnglists_sec)
        self.order: str = "little" if dwarf.config.little_endian else "big"
        self._tables: dict[tuple[int, _UnitSizes], _Abbreviations] = {}

    def get_abbreviations(self, offset: int, sizes: _UnitSizes) -> _Abbreviations:
        """The abbreviations at an offset."""
        key = offset, sizes
        if key not in self._tables:
            self._tables[key] = _Abbreviations(self.abbreviations, offset, sizes)
        return self._tables[key]


class DebugUnit:
    """The entries of one unit. unit: its header, of pyelftools. check: called now and then, may raise.

    Its methods raise LookupError or ValueError for damaged data.
    """

    def __init__(self, sections: DebugSections, unit: Any, check: Callable[[], None]) -> None:
        self._sections, self._check = sections, check
        self._data = sections.info
        self.offset, self.version = int(unit.cu_offset), int(unit["version"])
        address, offset = int(unit["address_size"]), 8 if unit.structs.dwarf_format == 64 else 4
        self._sizes = _UnitSizes(address, offset, address if self.version == 2 else offset)
        self._table = sections.get_abbreviations(int(unit["debug_abbrev_offset"]), self._sizes)
        end = self.offset + int(unit["unit_length"]) + int(unit.structs.initial_length_field_size())
        self._end = min(end, len(self._data))
        self._ends: dict[int, int] = {}
        """Where the children end that begin at an offset."""
        self._names: dict[int, str] = {}
        self.top = self._read_entry(int(unit.cu_die_offset))

    def iterate_children(self, entry: Entry, tags: frozenset[int]) -> Iterator[Entry]:
        """The direct children of an entry with one of these tags."""
        if not entry.has_children:
            return
        at, data, table, count = entry.after, self._data, self._table, 0
        while at < self._end:
            code, at = read_uleb(data, at)
            if not code:
                break
            count += 1
            if not count % _CHECK_EVERY:
                self._check()
            kind = table[code]
            if kind.tag in tags:
                self._check()
                values, after = self._read_values(kind, at)
                yield Entry(kind.tag, kind.has_children, values, after)
                sibling = self._reference(values[SIBLING]) if SIBLING in values else None
            else:
                sibling = None
                if kind.has_children and kind.has_sibling:
                    values, after = self._read_values(kind, at)
                    sibling = self._reference(values[SIBLING])
                else:
                    after = self._skip(kind, at)
            at = after
            if kind.has_children:
                if sibling is not None and sibling <= after:
                    raise ValueError("a sibling is before its entry")
                at = sibling or self._ends.get(after) or self._skip_children(after)
        self._ends[entry.after] = at

    def list_ranges(self, entry: Entry) -> list[tuple[int, int]]:
        """The code of an entry, [start, end)."""
        values = entry.values
        if RANGES in values:
            ranges = []
            for count, (low, high) in enumerate(self._list_ranges(*values[RANGES]), 1):
                if not count % _CHECK_EVERY:
                    self._check()
                if low < high < 2**64:
                    ranges.append((low, high))
            return ranges
        if LOW_PC not in values or HIGH_PC not in values:
            return []
        low, (form, high) = self._address(*values[LOW_PC]), values[HIGH_PC]
        is_address = form == _FORM_ADDR or form in _ADDRESS_INDICES
        end = self._address(form, high) if is_address else low + high
        return [(low, end)] if low < end < 2**64 else []

    def name_of(self, entry: Entry) -> str:
        """The linkage name, or else the name, of an entry or of what it refers to; "" without one."""
        return self._name(entry.values, _MAX_REFERENCES)

    def text_of(self, value: tuple[int, Any]) -> str:
        """A string."""
        form, number = value
        if isinstance(number, bytes):
            return number.decode(errors="replace")
        sections = self._sections
        if form in _STRING_INDICES:
            base = self._base(_STR_OFFSETS_BASE, 8 if self.version >= 5 else 0)
            place = base + number * self._sizes.offset
            number = self._number_at(sections.string_offsets, place, self._sizes.offset)
        elif form not in (_STRP, _LINE_STRP):
            return ""
        data = sections.line_strings if form == _LINE_STRP else sections.strings
        if number >= len(data):
            return ""
        return data[number : data.find(b"\0", number)].decode(errors="replace")

    def _name(self, values: Values, references: int) -> str:
        for attribute in (LINKAGE_NAME, MIPS_LINKAGE_NAME, NAME):
            if attribute in values:
                return self.text_of(values[attribute])
        for attribute in (ABSTRACT_ORIGIN, SPECIFICATION):
            if attribute in values and references:
                offset = self._reference(values[attribute])
                if offset is None:
                    return ""
                if offset not in self._names:
                    self._names[offset] = self._name_at(offset, references - 1)
                return self._names[offset]
        return ""

    def _name_at(self, offset: int, references: int) -> str:
        if self.offset <= offset < self._end:
            return self._name(self._read_entry(offset).values, references)
        unit = self._sections.dwarf.get_CU_containing(offset)
        other = DebugUnit(self._sections, unit, self._check)
        return other._name(other._read_entry(offset).values, references)

    def _read_entry(self, at: int) -> Entry:
        code, at = read_uleb(self._data, at)
        kind = self._table[code]
        values, after = self._read_values(kind, at)
        return Entry(kind.tag, kind.has_children, values, after)

    def _read_values(self, kind: _Abbreviation, at: int) -> tuple[Values, int]:
        values: Values = {}
        for attribute, form, constant in kind.fields:
            if form == _FORM_IMPLICIT_CONST:
                values[attribute] = form, constant
            else:
                form, value, at = self._read_form(form, at)
                values[attribute] = form, value
        return values, at

    def _read_form(self, form: int, at: int) -> tuple[int, Any, int]:
        """(form, value, where it ends). Blocks have no value."""
        data = self._data
        if form == _FORM_INDIRECT:
            form, at = read_uleb(data, at)
            if form in (_FORM_INDIRECT, _FORM_IMPLICIT_CONST):
                raise ValueError("an indirect form of another one")
        size = _size_of(form, self._sizes)
        if size is not None:
            if at + size > len(data):
                raise LookupError("the end of the section")
            return form, int.from_bytes(data[at : at + size], self._sections.order), at + size  # type: ignore[arg-type]
        if form in _NUMBERS:
            return form, *read_uleb(data, at)
        if form == _FORM_SDATA:
            return form, *_read_sleb(data, at)
        if form == _FORM_STRING:
            end = data.index(b"\0", at)
            return form, data[at:end], end + 1
        return form, None, self._skip_block(_BLOCKS[form], at)

    def _skip(self, kind: _Abbreviation, at: int) -> int:
        for step in kind.steps:
            if step >= 0:
                at += step
            elif step == _STEP_NUMBER:
                _, at = read_uleb(self._data, at)
            elif step == _STEP_STRING:
                at = self._data.index(b"\0", at) + 1
            elif step == _STEP_INDIRECT:
                _, _, at = self._read_form(_FORM_INDIRECT, at)
            else:
                at = self._skip_block(step, at)
        return at

    def _skip_block(self, step: int, at: int) -> int:
        if step in _LENGTH_BYTES:
            size = _LENGTH_BYTES[step]
            return at + size + self._number_at(self._data, at, size)
        length, at = read_uleb(self._data, at)
        return at + length

    def _skip_children(self, at: int) -> int:
        """Where the children that begin here end, after the null entry."""
        data, table, end = self._data, self._table, self._end
        depth, count = 1, 0
        while depth and at < end:
            code, at = read_uleb(data, at)
            count += 1
            if not count % _CHECK_EVERY:
                self._check()
            if not code:
                depth -= 1
                continue
            kind = table[code]
            if kind.has_children and kind.has_sibling:
                values, after = self._read_values(kind, at)
                sibling = self._reference(values[SIBLING])
                if sibling is None or sibling <= after:
                    raise ValueError("a sibling is before its entry")
                at = sibling
            else:
                at = self._skip(kind, at)
                depth += kind.has_children
        return at

    def _reference(self, value: tuple[int, Any]) -> int | None:
        """The offset of the entry that an attribute refers to; None in another file."""
        form, number = value
        if form in _UNIT_REFERENCES:
            return self.offset + int(number)
        return int(number) if form == _REF_ADDR else None

    def _number_at(self, data: bytes, at: int, size: int) -> int:
        if not 0 <= at <= len(data) - size:
            raise LookupError("the end of the section")
        return int.from_bytes(data[at : at + size], self._sections.order)  # type: ignore[arg-type]

    def _base(self, attribute: int, default: int) -> int:
        value = self.top.values.get(attribute, (0, default))[1]
        return value if isinstance(value, int) else default

    def _address(self, form: int, value: int) -> int:
        if form not in _ADDRESS_INDICES:
            return value
        attribute = _ADDR_BASE if _ADDR_BASE in self.top.values else _GNU_ADDR_BASE
        place = self._base(attribute, 8 if self.version >= 5 else 0) + value * self._sizes.address
        return self._number_at(self._sections.addresses, place, self._sizes.address)

    def _list_ranges(self, form: int, value: int) -> Iterator[tuple[int, int]]:
        top = self.top.values
        base = self._address(*top[LOW_PC]) if LOW_PC in top else 0
        if self.version < 5:
            yield from self._list_old_ranges(value, base)
            return
        if form == _FORM_RNGLISTX:
            start = self._base(_RNGLISTS_BASE, 12 if self._sizes.offset == 4 else 20)
            place = start + value * self._sizes.offset
            value = start + self._number_at(self._sections.range_lists, place, self._sizes.offset)
        yield from self._list_new_ranges(value, base)

    def _list_old_ranges(self, at: int, base: int) -> Iterator[tuple[int, int]]:
        """.debug_ranges: section 2.17.3 of DWARF 4."""
        size, data = self._sizes.address, self._sections.ranges
        most = 256**size - 1
        while True:
            low, high = self._number_at(data, at, size), self._number_at(data, at + size, size)
            at += 2 * size
            if low == most:
                base = high
            elif not low and not high:
                return
            else:
                yield base + low, base + high

    def _list_new_ranges(self, at: int, base: int) -> Iterator[tuple[int, int]]:
        """.debug_rnglists: section 7.25 of DWARF 5."""
        size, data = self._sizes.address, self._sections.range_lists
        while True:
            kind, at = self._number_at(data, at, 1), at + 1
            if kind == 0:
                return
            numbers = []
            for part in _RANGE_PARTS[kind]:
                if part == _ADDRESS:
                    numbers.append(self._number_at(data, at, size))
                    at += size
                else:
                    number, at = read_uleb(data, at)
                    numbers.append(self._address(0x1B, number) if part == _INDEX else number)
            if kind in _BASE_KINDS:
                base = numbers[0]
            elif kind == _OFFSET_PAIR:
                yield base + numbers[0], base + numbers[1]
            elif kind in _LENGTH_KINDS:
                yield numbers[0], numbers[0] + numbers[1]
            else:
                yield numbers[0], numbers[1]


_ADDRESS, _INDEX, _NUMBER = "address", "index", "number"
_RANGE_PARTS = {
    1: (_INDEX,),  # DW_RLE_base_addressx
    2: (_INDEX, _INDEX),  # startx_endx
    3: (_INDEX, _NUMBER),  # startx_length
    4: (_NUMBER, _NUMBER),  # offset_pair
    5: (_ADDRESS,),  # base_address
    6: (_ADDRESS, _ADDRESS),  # start_end
    7: (_ADDRESS, _NUMBER),  # start_length
}
_BASE_KINDS, _LENGTH_KINDS, _OFFSET_PAIR = (1, 5), (3, 7), 4
