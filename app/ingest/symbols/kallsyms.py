"""Symbols of the kernel from the text of /proc/kallsyms: "ffffffff81000000 T _text", of a module with "\\t[name]".

As perf 6.1 selects them (tools/perf/util/symbol.c, map__process_kallsym_symbol, symbols__fixup_end).
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, BoolArray
from .symbol_table import GLOBAL, LOCAL, PAGE, WEAK, SymbolTable, fix_ends

TEXT_STARTS = (b"_text", b"_stext")
"""The symbols whose address perf record notes, of which the first that exists."""
_KINDS = b"TWDB"
_DIGITS = np.full(256, 255, np.uint8)
for _value, _digit in enumerate(b"0123456789abcdef"):
    _DIGITS[_digit] = _value
_NEWLINE, _SPACE, _TAB = 10, 32, 9
_MAX_MODULE = 64


@dataclass(frozen=True, eq=False)
class KernelSymbols:
    """Symbols of a kernel and its modules. table: in the kernel alone. text_start: the address of its first
    instruction, None if addresses are hidden."""

    table: SymbolTable
    text_start: int | None
    _all: SymbolTable
    _in_module: BoolArray

    def select_module(self, name: bytes) -> SymbolTable:
        """The symbols of a module, as in "[snd]"."""
        rows = np.flatnonzero(self._in_module)
        names = self._all.names
        mark = b"\t" + name
        chosen = []
        for row, at in zip(rows.tolist(), self._all.name[rows].tolist(), strict=True):
            end = names.find(b"\n", at)
            if names[at : end if end >= 0 else None].endswith(mark):
                chosen.append(row)
        return _take(self._all, np.array(chosen, np.int64))


def parse_kallsyms(text: bytes) -> KernelSymbols:
    """The symbols of a text. Lines of another form are skipped."""
    chars = np.frombuffer(text + b"\n" * 32, np.uint8)
    ends = np.flatnonzero(chars[: len(text) + 1] == _NEWLINE)
    begins = np.append(0, ends[:-1] + 1)
    width = max(0, text.find(b" "))
    if not 8 <= width <= 16:
        width = 16
    is_long = ends - begins > width + 3
    begins, ends = begins[is_long], ends[is_long]
    digits = np.zeros((len(begins), 16), np.uint8)
    digits[:, 16 - width :] = _DIGITS[np.lib.stride_tricks.sliding_window_view(chars, width)[begins]]
    kind = chars[begins + width + 1]
    name = begins + width + 3
    valid = (digits.max(1, initial=0) != 255) & (chars[begins + width] == _SPACE) & (chars[name - 1] == _SPACE)
    valid &= np.isin(kind, list(_KINDS + _KINDS.lower())) & (chars[name] != ord("$"))
    start = (digits[:, 0::2] << 4 | digits[:, 1::2] & 15).view(">u8")[:, 0].astype(np.uint64)
    # A name of a module ends with a bracket.
    in_module = chars[ends - 1] == ord("]")
    binding = np.where(kind >= ord("a"), LOCAL, GLOBAL).astype(np.uint8)
    binding[np.isin(kind, list(b"wW"))] = WEAK
    order = np.flatnonzero(valid)
    order = order[np.argsort(start[order], kind="stable")]
    start, name, in_module, binding = start[order], name[order], in_module[order], binding[order]
    end = fix_ends(start, start)
    # Between the kernel and modules is a gap, which the last symbol does not fill.
    edge = np.append(in_module[1:] != in_module[:-1], False) & (end > start)
    end = np.where(edge, (start + np.uint64(2 * PAGE - 1)) // np.uint64(PAGE) * np.uint64(PAGE), end)
    end = np.maximum(end, start)
    whole = SymbolTable(start, end, name.astype(np.int64), binding, text, b"\n\t")
    return KernelSymbols(_take(whole, np.flatnonzero(~in_module)), _find_start(text, width), whole, in_module)


def _find_start(text: bytes, width: int) -> int | None:
    for name in TEXT_STARTS:
        at = text.find(b" T " + name + b"\n") - width
        if at >= 0:
            try:
                return int(text[at : at + width], 16) or None
            except ValueError:
                return None
    return None


def _take(table: SymbolTable, rows: Array) -> SymbolTable:
    start, end, name, binding = (getattr(table, field)[rows] for field in ("start", "end", "name", "binding"))
    return SymbolTable(start, end, name, binding, table.names, table.stops)
