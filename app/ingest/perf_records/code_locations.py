"""Call chains of samples as lines of text: each distinct chain, location and address once.

The chains hold addresses and markers for whose code they are (PERF_CONTEXT_*). How they are read follows
thread__resolve_callchain_sample in tools/perf/util/machine.c of Linux 6.1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, BoolArray, Int64Array, number_keys, number_values, rank_values, scatter, sort_rows
from .address_maps import AddressSpace, Mapping, find_mappings
from .block_threads import map_blocks
from .code_objects import CodeObject, ObjectKind, SymbolNames, SymbolSource
from .task_records import KERNEL, USER

MAX_DEPTH = 127
"""PERF_MAX_STACK_DEPTH: perf script ignores what is further out."""
_CONTEXT_MAX = np.uint64(2**64 - 4095)
_CONTEXT_MODES = {2**64 - 128: KERNEL, 2**64 - 512: USER, 2**64 - 32: 3}
"""Markers: of the kernel, of the user, and of a hypervisor."""
MARKS = np.array((_CONTEXT_MAX, *_CONTEXT_MODES), np.uint64)
"""The lowest number that is a marker, and the known ones."""
MARKS.flags.writeable = False
_KERNEL_SPACE, _NOWHERE = -1, -2
"""In addition to the numbers of address spaces of processes."""
_PART = 1 << 16
_CHAINS = 1 << 12
"""How many chains are copied at once."""
_SPACE_FACTOR, _LENGTH_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
UNKNOWN, ZERO_OFFSET = "[unknown]", "+0x0"


@dataclass(frozen=True, eq=False)
class CodeTexts:
    """Distinct locations of code, such as perf script prints them in a line below a sample.

    names: (symbol with the offset 0 or UNKNOWN, label of the object). text: the number in `names` of each location.
    address, offset: uint64, of each location.
    """

    names: list[tuple[str, str]]
    text: Int64Array
    address: Array
    offset: Array

    @property
    def texts(self) -> list[bytes]:
        """What follows the address in a line with each of the names, with the offset 0."""
        return [_encode(f"{name} ({label})") for name, label in self.names]

    def format_line(self, location: int) -> bytes:
        """The line of a location."""
        name, label = self.names[self.text[location]]
        if name.endswith(ZERO_OFFSET):
            name = f"{name.removesuffix(ZERO_OFFSET)}+{int(self.offset[location]):#x}"
        return _encode(f"\t{int(self.address[location]):16x} {name} ({label})\n")


@dataclass(frozen=True, eq=False)
class SampleStacks:
    """Distinct stacks. code: the stack of each sample. ends: where each ends in `lines`, which are locations."""

    code: Array
    ends: Int64Array
    lines: Array
    locations: CodeTexts


@dataclass(frozen=True, eq=False)
class ChainColumns:
    """Of each sample: `key`, `mode`, `code` and `length` as RecordedSamples has them, and the number of its process's
    address space."""

    key: Array
    mode: Array
    space: Array
    code: Array
    length: Array


@dataclass(frozen=True, eq=False)
class _Locations:
    """Addresses in address spaces. relative: whether perf prints addresses in files as offsets."""

    address: Array
    space: Array
    relative: BoolArray

    def take(self, rows: Int64Array) -> "_Locations":
        return _Locations(self.address[rows], self.space[rows], self.relative[rows])


def build_stacks(
    words: Array,
    columns: ChainColumns,
    spaces: Sequence[AddressSpace],
    kernel: AddressSpace,
    symbols: SymbolSource,
    release: Callable[[], object],
    *,
    compiled: bool = False,
) -> SampleStacks:
    """The stacks of samples. symbols: looks up the symbols of addresses. release: called when the words that were read
    are needed no more, or only few of them. compiled: whether a compiled loop numbers the chains."""
    code, first = _distinguish(columns, compiled=compiled)
    flatten = _flatten_compiled if compiled else _flatten

    def read_chains(at: int) -> tuple[Int64Array, Array, _Locations]:
        length, locations = flatten(words, columns, first[at : at + _CHAINS])
        release()
        codes, rows = _distinguish_locations(locations, compiled=compiled)
        return length, codes, locations.take(rows)

    lengths, lines, parts, count = [], [], [], 0
    for length, codes, part in map_blocks(read_chains, range(0, max(1, len(first)), _CHAINS)):
        lengths.append(length)
        codes += np.int32(count)
        lines.append(codes)
        parts.append(part)
        count += len(part.address)
    locations = _Locations(
        np.concatenate([part.address for part in parts]),
        np.concatenate([part.space for part in parts]),
        np.concatenate([part.relative for part in parts]),
    )
    codes, rows = _distinguish_locations(locations)
    found = _Formatter(locations.take(rows)).format(spaces, kernel, symbols)
    return SampleStacks(code, np.cumsum(np.concatenate(lengths)), codes[np.concatenate(lines)], found)


def _distinguish(columns: ChainColumns, *, compiled: bool) -> tuple[Array, Int64Array]:
    """(number of each sample's stack, a sample that has it)."""
    keys = columns.key.copy()
    for start in range(0, len(keys), _PART):
        part = slice(start, start + _PART)
        keys[part] += columns.space[part].astype(np.uint64) * _SPACE_FACTOR
        keys[part] += columns.length[part].astype(np.uint64) * _LENGTH_FACTOR
    return _number_keys_compiled(keys) if compiled else number_keys(keys)


def _number_keys_compiled(keys: Array) -> tuple[Array, Int64Array]:
    """Like `number_keys`."""
    from ..jit.hashing import factorize

    codes, rows = factorize(keys.view(np.int64))
    return codes, rows.astype(np.int64)


def _flatten(words: Array, columns: ChainColumns, rows: Int64Array) -> tuple[Int64Array, _Locations]:
    """(how many locations the stack of each of these samples has, the locations of all)."""
    length, alone = np.maximum(columns.length[rows].astype(np.int64), 0), columns.length[rows] < 0
    stack = np.repeat(np.arange(len(rows)), length)
    begin = np.cumsum(length) - length
    depth = np.arange(len(stack)) - begin[stack]
    address = words[columns.code[rows].astype(np.int64)[stack] + depth]
    marker = address >= _CONTEXT_MAX
    mode, corrupt = _find_modes(address, marker, stack, depth)
    ordinal = np.cumsum(~marker)
    ordinal -= (np.concatenate(([0], ordinal)))[begin[stack]]
    kept = ~marker & (ordinal <= MAX_DEPTH)
    # perf reads a chain up to its MAX_DEPTH-th address, and drops all of it for an invalid marker.
    bad = np.zeros(len(rows), bool)
    bad[stack[corrupt & (ordinal < MAX_DEPTH)]] = True
    kept &= ~bad[stack]
    space = np.where(mode == KERNEL, _KERNEL_SPACE, np.where(mode == USER, columns.space[rows][stack], _NOWHERE))
    own_mode = columns.mode[rows][alone]
    own_space = np.where(
        own_mode == KERNEL, _KERNEL_SPACE, np.where(own_mode == USER, columns.space[rows][alone], _NOWHERE)
    )
    # Samples without a chain have one location: their own.
    where = np.concatenate((stack[kept], np.flatnonzero(alone)))
    order = np.argsort(where, kind="stable")
    relative = np.concatenate((np.ones(int(kept.sum()), bool), np.zeros(len(own_mode), bool)))
    locations = _Locations(
        np.concatenate((address[kept], words[columns.code[rows][alone]]))[order],
        np.concatenate((space[kept], own_space))[order].astype(np.int32),
        relative[order],
    )
    return np.bincount(where, minlength=len(rows)), locations


def _find_modes(address: Array, marker: BoolArray, stack: Int64Array, depth: Int64Array) -> tuple[Array, BoolArray]:
    """(mode of each entry of chains: that of the last marker before it, whether it is an invalid marker)."""
    mode = np.full(len(address), -1)
    for value, meaning in _CONTEXT_MODES.items():
        mode[marker & (address == np.uint64(value))] = meaning
    corrupt = marker & (mode < 0)
    mode[(depth == 0) & (mode < 0)] = USER
    last = np.maximum.accumulate(np.where(mode >= 0, np.arange(len(mode)), 0))
    return mode[last] if len(mode) else mode, corrupt


def _flatten_compiled(words: Array, columns: ChainColumns, rows: Int64Array) -> tuple[Int64Array, _Locations]:
    """Like `_flatten`."""
    from .record_loops import flatten_chains

    length = columns.length[rows]
    size = int(np.clip(length, 1, None).sum())
    address, owner, relative = np.empty(size, np.uint64), np.empty(size, np.int32), np.empty(size, bool)
    count = np.empty(len(rows), np.int64)
    limits = (MAX_DEPTH, KERNEL, USER, _KERNEL_SPACE, _NOWHERE)
    own = (columns.code[rows].astype(np.int64), length, columns.mode[rows], columns.space[rows])
    total = flatten_chains(words, *own, MARKS, limits, address, owner, relative, count)
    return count, _Locations(address[:total], owner[:total], relative[:total])


def _distinguish_locations(locations: _Locations, *, compiled: bool = False) -> tuple[Array, Int64Array]:
    """(number of each location, a row with it). compiled: faster for not too many."""
    columns = locations.address, locations.space, locations.relative
    return _number_keys_compiled(scatter(columns)) if compiled else number_values(*columns)


class _Formatter:
    """Finds the code at locations."""

    def __init__(self, locations: _Locations) -> None:
        count = len(locations.address)
        self._locations = locations
        self._texts: dict[tuple[str, str], int] = {}
        self._text = np.zeros(count, np.int64)
        self._address = locations.address.copy()
        self._offset = np.zeros(count, np.uint64)

    def format(self, spaces: Sequence[AddressSpace], kernel: AddressSpace, symbols: SymbolSource) -> CodeTexts:
        """What is at the locations."""
        locations = self._locations
        others = {_KERNEL_SPACE: kernel, _NOWHERE: AddressSpace()}
        numbers, number = rank_values(locations.space)
        found, mappings = find_mappings(
            [others[one] if one in others else spaces[one] for one in numbers.tolist()], number, locations.address
        )
        rows = np.flatnonzero(found >= 0)
        if len(rows) < len(found):
            self._text[found < 0] = self._intern(UNKNOWN, UNKNOWN)
        which = found[rows]
        objects: dict[CodeObject, int] = {}
        of_mapping = np.array([objects.setdefault(one.object, len(objects)) for one in mappings], np.int64)
        code = of_mapping[which]
        order = sort_rows(code)
        parts = np.split(order, np.cumsum(np.bincount(code, minlength=len(objects)))[:-1])
        for code_object, part in zip(objects, parts, strict=False):
            self._format_object(code_object, rows[part], which[part], mappings, symbols)
        return CodeTexts(list(self._texts), self._text, self._address, self._offset)

    def _intern(self, name: str, label: str) -> int:
        return self._texts.setdefault((name, label), len(self._texts))

    def _format_object(
        self,
        code_object: CodeObject,
        rows: Int64Array,
        which: Int64Array,
        mappings: Sequence[Mapping],
        symbols: SymbolSource,
    ) -> None:
        """Find the locations in one object. which: of `mappings`, for each row."""
        own, number = rank_values(which)
        own_mappings = [mappings[one] for one in own.tolist()]
        shifts = np.array([mapping.shift % 2**64 for mapping in own_mappings], np.uint64)
        address = self._locations.address[rows] + shifts[number]
        distinct, inverse = rank_values(address)
        if (name := own_mappings[0].symbol) is not None:
            found = SymbolNames(np.zeros(len(distinct), np.int64), [name], np.zeros(1, np.uint64))
        else:
            found = symbols(code_object, distinct)
        symbol = found.row[inverse]
        known = symbol >= 0
        self._offset[rows[known]] = address[known] - found.starts[symbol[known]]
        if not code_object.is_in_kernel:
            # An address of a JIT_DUMP may be of several functions, one after another, but not a place in the file.
            relative = self._locations.relative[rows] | (code_object.kind is ObjectKind.JIT_DUMP)
            self._address[rows[relative]] = address[relative]
        labels: dict[str, int] = {}
        label = np.array([labels.setdefault(mapping.label, len(labels)) for mapping in own_mappings])[number]
        width = len(found.names) + 1
        pairs, pair = rank_values(label * width + symbol + 1)
        names, texts = list(labels), []
        for of_label, of_symbol in zip((pairs // width).tolist(), (pairs % width - 1).tolist(), strict=True):
            name = f"{found.names[of_symbol]}{ZERO_OFFSET}" if of_symbol >= 0 else UNKNOWN
            texts.append(self._intern(name, names[of_label]))
        self._text[rows] = np.array(texts, np.int64)[pair]


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
