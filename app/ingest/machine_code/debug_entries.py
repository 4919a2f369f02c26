"""Entries of a unit's debug information (DWARF 2 to 5, sections 2 and 7.5 of the DWARF 5 standard).

Most entries are types and variables, which are only skipped here.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .abbreviations import (
    ABSTRACT_ORIGIN,
    ADDR_BASE,
    ADDRESS_INDICES,
    FORM_ADDR,
    FORM_ADDRX,
    FORM_LINE_STRP,
    FORM_REF_ADDR,
    FORM_RNGLISTX,
    FORM_STRP,
    GNU_ADDR_BASE,
    HIGH_PC,
    LINKAGE_NAME,
    LOW_PC,
    MIPS_LINKAGE_NAME,
    NAME,
    RANGES,
    RNGLISTS_BASE,
    SIBLING,
    SPECIFICATION,
    STR_OFFSETS_BASE,
    STRING_INDICES,
    UNIT_REFERENCES,
    Values,
    number_at,
    read_uleb,
)
from .debug_sections import DebugSections, UnitHeader

TAG_SUBPROGRAM, TAG_INLINED = 0x2E, 0x1D
MAX_NAME_BYTES = 16_384
"""Longer names end there."""
_MAX_REFERENCES, _MAX_OTHERS = 8, 1000
_CHECK_EVERY = 256
"""Entries, or ranges, between two calls of `check`."""


class Entry(NamedTuple):
    """An entry. after: where its children, or else the next entry, begin."""

    tag: int
    has_children: bool
    values: Values
    after: int


class DebugUnit:
    """The entries of one unit. check: called now and then, may raise.

    Its methods raise LookupError, ValueError or struct.error for damaged data.
    """

    def __init__(self, sections: DebugSections, header: UnitHeader, check: Callable[[], None]) -> None:
        self._sections, self._check = sections, check
        self._data = sections.info
        self.offset, self.version, self.sizes, self._end = header.offset, header.version, header.sizes, header.end
        self._table = sections.get_abbreviations(header.abbreviations, self.sizes)
        self._ends: dict[int, int] = {}
        """Where the children end that begin at an offset."""
        self._names: dict[int, str] = {}
        self._others: dict[int, DebugUnit] = {}
        """Units that entries refer to, by offset."""
        self.top = self._read_entry(header.entries)

    def iterate_children(self, entry: Entry, tags: frozenset[int], *, with_code: bool = False) -> Iterator[Entry]:
        """The direct children of an entry with one of these tags. with_code: no functions without code."""
        if not entry.has_children:
            return
        at, data, table, count = entry.after, self._data, self._table, 0
        while at < self._end:
            code = data[at]
            if code < 0x80:
                at += 1
            else:
                code, at = read_uleb(data, at)
            if not code:
                break
            count += 1
            if not count % _CHECK_EVERY:
                self._check()
            kind = table[code]
            sibling = None
            if kind.tag in tags and (kind.has_code or not with_code or kind.tag != TAG_SUBPROGRAM):
                self._check()
                values, after = kind.read(data, at)
                yield Entry(kind.tag, kind.has_children, values, after)
                sibling = self._reference(values[SIBLING]) if SIBLING in values else None
            elif kind.has_children and kind.has_sibling:
                values, after = kind.read(data, at)
                sibling = self._reference(values[SIBLING])
            else:
                after = at + kind.size if kind.size >= 0 else kind.skip(data, at)
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
        is_address = form == FORM_ADDR or form in ADDRESS_INDICES
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
        if form in STRING_INDICES:
            base = self._base(STR_OFFSETS_BASE, 8 if self.version >= 5 else 0)
            place = base + number * self.sizes.offset
            number = self._number_at(sections.string_offsets, place, self.sizes.offset)
        elif form not in (FORM_STRP, FORM_LINE_STRP):
            return ""
        data = sections.line_strings if form == FORM_LINE_STRP else sections.strings
        end = data.find(b"\0", number, number + MAX_NAME_BYTES)
        return data[number : end if end >= 0 else number + MAX_NAME_BYTES].decode(errors="replace")

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
        header = self._sections.find_header(offset, self._check)
        if header.offset not in self._others:
            if len(self._others) >= _MAX_OTHERS:
                self._others.clear()
            self._others[header.offset] = DebugUnit(self._sections, header, self._check)
        other = self._others[header.offset]
        return other._name(other._read_entry(offset).values, references)

    def _read_entry(self, at: int) -> Entry:
        code, at = read_uleb(self._data, at)
        kind = self._table[code]
        values, after = kind.read(self._data, at)
        return Entry(kind.tag, kind.has_children, values, after)

    def _skip_children(self, at: int) -> int:
        """Where the children that begin here end, after the null entry."""
        data, table, end = self._data, self._table, self._end
        depth, count = 1, 0
        while depth and at < end:
            code = data[at]
            if code < 0x80:
                at += 1
            else:
                code, at = read_uleb(data, at)
            count += 1
            if not count % _CHECK_EVERY:
                self._check()
            if not code:
                depth -= 1
                continue
            kind = table[code]
            if kind.has_children and kind.has_sibling:
                values, after = kind.read(data, at)
                sibling = self._reference(values[SIBLING])
                if sibling is None or sibling <= after:
                    raise ValueError("a sibling is before its entry")
                at = sibling
            else:
                at = at + kind.size if kind.size >= 0 else kind.skip(data, at)
                depth += kind.has_children
        return at

    def _reference(self, value: tuple[int, Any]) -> int | None:
        """The offset of the entry that an attribute refers to; None in another file."""
        form, number = value
        if form in UNIT_REFERENCES:
            return self.offset + int(number)
        return int(number) if form == FORM_REF_ADDR else None

    def _number_at(self, data: bytes, at: int, size: int) -> int:
        return number_at(data, at, size, self._sections.order)

    def _base(self, attribute: int, default: int) -> int:
        value = self.top.values.get(attribute, (0, default))[1]
        return value if isinstance(value, int) else default

    def _address(self, form: int, value: int) -> int:
        if form not in ADDRESS_INDICES:
            return value
        attribute = ADDR_BASE if ADDR_BASE in self.top.values else GNU_ADDR_BASE
        place = self._base(attribute, 8 if self.version >= 5 else 0) + value * self.sizes.address
        return self._number_at(self._sections.addresses, place, self.sizes.address)

    def _list_ranges(self, form: int, value: int) -> Iterator[tuple[int, int]]:
        top = self.top.values
        base = self._address(*top[LOW_PC]) if LOW_PC in top else 0
        if self.version < 5:
            yield from self._list_old_ranges(value, base)
            return
        if form == FORM_RNGLISTX:
            start = self._base(RNGLISTS_BASE, 12 if self.sizes.offset == 4 else 20)
            place = start + value * self.sizes.offset
            value = start + self._number_at(self._sections.range_lists, place, self.sizes.offset)
        yield from self._list_new_ranges(value, base)

    def _list_old_ranges(self, at: int, base: int) -> Iterator[tuple[int, int]]:
        """.debug_ranges: section 2.17.3 of DWARF 4."""
        size, data = self.sizes.address, self._sections.ranges
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
        size, data = self.sizes.address, self._sections.range_lists
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
                    numbers.append(self._address(FORM_ADDRX, number) if part == _INDEX else number)
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
