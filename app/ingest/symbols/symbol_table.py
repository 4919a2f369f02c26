"""Tables of symbols, and which symbol perf prints for an address.

The rules are those of perf 6.1, tools/perf/util/symbol.c: a symbol without a size reaches to the next one
(symbols__fixup_end), and of several that start at the same address one is chosen (choose_best_symbol). One thing
differs: where symbols overlap, perf prints one that depends on the shape of a search tree. Here it is the innermost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...domain.arrays import Array, BoolArray, Int64Array

MAX_NAME_BYTES = 16_384
"""Longer names end there."""
PAGE = 4096
MAX_ALIASES = 1000
"""How many symbols with the same start are compared."""
MAX_STEPS = 256
"""How many symbols before an address are asked whether they reach to it."""
WEAK, GLOBAL, LOCAL = 2, 1, 0
"""Bindings of symbols. Elf format: STB_WEAK, STB_GLOBAL, STB_LOCAL."""


@dataclass(frozen=True, eq=False)
class SymbolTable:
    """Symbols by start; those with the same start in the order of their file.

    start, end: uint64, [start, end). name: int64, where a name begins in `names`, in which names end with a NUL byte or
    a character of `stops`. binding: uint8. is_sized: whether the file says where they end.
    """

    start: Array
    end: Array
    name: Array
    binding: Array
    names: bytes
    stops: bytes = b"\0"
    is_sized: BoolArray | None = None
    _reach: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_reach", np.maximum.accumulate(self.end))

    def __len__(self) -> int:
        return len(self.start)

    def name_of(self, row: int) -> bytes:
        """The raw name."""
        begin = int(self.name[row])
        piece = self.names[begin : begin + MAX_NAME_BYTES]
        return min((piece.partition(stop.to_bytes())[0] for stop in self.stops), key=len)

    def address_of(self, names: Sequence[bytes]) -> int | None:
        """Where the first of these symbols that exists starts; None without one."""
        for name in names:
            at = self.names.find(b"\0" + name + b"\0") + 1
            rows: Int64Array = np.flatnonzero(self.name == at) if at else np.zeros(0, np.int64)
            if len(rows):
                return int(self.start[rows[0]])
        return None

    def find(self, addresses: Array, format_name: Callable[[bytes], str]) -> Int64Array:
        """The row of the symbol of each address, -1 for none. addresses: uint64. format_name: gives the name that is
        printed, because the choice among names depends on their length."""
        if not len(self):
            return np.full(len(addresses), -1, np.int64)
        last: Int64Array = np.searchsorted(self.start, addresses, "right") - 1
        first = np.searchsorted(self.start, self.start[np.maximum(last, 0)], "left")
        row: Int64Array = last.astype(np.int64)
        choices: dict[int, int] = {}
        for at in np.flatnonzero((last >= 0) & (first != last)).tolist():
            row[at] = self._choose(int(first[at]), choices, format_name)
        known = np.maximum(row, 0)
        inside = (row >= 0) & ((addresses < self.end[known]) | (addresses == self.start[known]))
        # An earlier symbol may reach further than the nearest one.
        for at in np.flatnonzero(~inside & (row >= 0)).tolist():
            row[at] = self._find_around(int(addresses[at]), int(first[at]), choices, format_name)
        if self.is_sized is not None:
            # A label without a size within a function does not end the function.
            reached = self._reach[np.maximum(first - 1, 0)]
            guessed = inside & ~self.is_sized[known] & (first > 0) & (reached > addresses)
            for at in np.flatnonzero(guessed).tolist():
                around = self._find_around(int(addresses[at]), int(first[at]), choices, format_name)
                row[at] = around if around >= 0 and self.is_sized[around] else row[at]
        return row

    def _choose(self, first: int, choices: dict[int, int], format_name: Callable[[bytes], str]) -> int:
        """The row that is chosen of those with the same start as the row `first`, which is the first of them."""
        if first not in choices:
            best = first
            after = int(np.searchsorted(self.start, self.start[first], "right"))
            for row in range(first + 1, min(after, first + MAX_ALIASES)):
                if self._is_better(row, best, format_name):
                    best = row
            choices[first] = best
        return choices[first]

    def _is_better(self, other: int, row: int, format_name: Callable[[bytes], str]) -> bool:
        """Whether perf's choose_best_symbol takes the symbol `other`, the later one, instead of `row`."""
        for test in (lambda at: self.end[at] > self.start[at], lambda at: self.binding[at] != WEAK):
            if test(row) != test(other):
                return bool(test(other))
        if (self.binding[row] == GLOBAL) != (self.binding[other] == GLOBAL):
            return bool(self.binding[other] == GLOBAL)
        raw, raw_other = self.name_of(row), self.name_of(other)
        if raw == raw_other or _are_variants(raw, raw_other):
            return False
        name, another = format_name(raw), format_name(raw_other)
        lines, more_lines = (len(text) - len(text.lstrip("_")) for text in (name, another))
        if lines != more_lines:
            return more_lines < lines
        size, more_size = len(name.encode()), len(another.encode())
        # arch__choose_best_symbol: system calls of old kernels have names that begin like these.
        return more_size > size or (more_size == size and name.startswith(("SyS", "compat_SyS")))

    def _find_around(
        self, address: int, first: int, choices: dict[int, int], format_name: Callable[[bytes], str]
    ) -> int:
        """The nearest of the symbols before the row `first` that reaches to an address, -1 for none."""
        for _ in range(MAX_STEPS):
            if first <= 0 or int(self._reach[first - 1]) <= address:
                break
            first = int(np.searchsorted(self.start, self.start[first - 1], "left"))
            row = self._choose(first, choices, format_name)
            if address < int(self.end[row]):
                return row
        return -1


_NONE = np.zeros(0, np.uint64)
EMPTY = SymbolTable(_NONE, _NONE, _NONE.astype(np.int64), _NONE.astype(np.uint8), b"")


def _are_variants(name: bytes, other: bytes) -> bool:
    """Whether two mangled names are variants of one constructor or destructor, which perf prints alike: "C1" and "C2".
    Compared like this, because demangling is slow."""
    if len(name) != len(other) or name[:2] != b"_Z":
        return False
    differing = [at for at, (one, two) in enumerate(zip(name, other, strict=True)) if one != two]
    if len(differing) != 1:
        return False
    at = differing[0]
    return name[at - 1 : at] in (b"C", b"D") and name[at : at + 1].isdigit() and other[at : at + 1].isdigit()


def fix_ends(start: Array, end: Array) -> Array:
    """The ends of symbols, sorted by start: those without a size end where the next symbol starts, the last one at the
    end of the page after its own. A sum that overflowed counts as no size."""
    if not len(start):
        return end
    page = np.uint64(PAGE)
    after_last = (start[-1:] + page - np.uint64(1)) // page * page + page
    following = np.append(start[1:], after_last)
    fixed: Array = np.where(end <= start, following, end)
    return np.maximum(fixed, start)
