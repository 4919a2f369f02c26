"""Functions and places in code of a pprof file, as whole tables."""

import re

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array
from ...domain.builder import UNKNOWN_NAMES, ProfileBuilder, display_name
from ...domain.tables import SCHEMAS, FrameKind
from ...ingest.loops.hashing import Index, coded, numbered
from ...ingest.loops.wire_columns import Messages, messages
from .format import NO_FUNCTION
from .texts import Texts

UNKNOWN = "[unknown]"
MOST_INLINED = 999
MOST_LINE = (1 << 31) - 1
_KERNEL = re.compile(r"^\[kernel|(?:^|/)vmlinux$|^\[guest\.kernel")


class Code:
    """What locations are. frames_of: the frames of all, innermost first; those of row i are begin[i] to begin[i + 1].

    functions, frames: the tables.
    """

    def __init__(
        self, builder: ProfileBuilder, texts: Texts, mappings: Messages, locations: Messages, functions: Messages
    ) -> None:
        self._builder, self._texts, self._functions = builder, texts, functions
        # Of several with one id the last counts.
        self._rows = Index(locations.number(1)[::-1], np.arange(len(locations))[::-1])
        mapping = Index(mappings.number(1)[::-1], np.arange(len(mappings))[::-1]).of(locations.number(2))
        # The last one stands for locations of no mapping.
        modules = np.append(texts.codes(mappings.number(5)), texts.none)
        self._module = modules[mapping]
        self._address = locations.number(3)
        self._lines(locations)

    def rows_of(self, ids: Array) -> Array:
        """The rows of locations by their ids; -1 where there is none."""
        return self._rows.of(ids)

    def _lines(self, locations: Messages) -> None:
        places = locations.listed[4].contents()
        lines = messages(locations.data, places.spans, (1, 2))
        count = np.bincount(places.row, minlength=len(locations))
        # The innermost comes first; each of the others has all before it inlined.
        depth = np.cumsum(count)[places.row] - 1 - np.arange(len(lines))
        function = Index(self._functions.number(1)[::-1], np.arange(len(self._functions))[::-1]).of(lines.number(1))
        lost = np.flatnonzero((function < 0) | (lines.bad != 0))
        if len(lost):
            self._builder.lost(NO_FUNCTION, f"function {int(lines.number(1)[lost[0]])}", len(lost))
        kept = np.flatnonzero((function >= 0) & (lines.bad == 0))
        bare = np.flatnonzero(count == 0)
        row = np.concatenate((places.row[kept], bare))
        names, shown, file, first = self._named(function[kept], bare)
        number, rows = distinct(names, self._module[row], file, first)
        self._function_table(names[rows], shown[rows], self._module[row[rows]], file[rows], first[rows])
        line = np.concatenate((lines.number(2)[kept], np.zeros(len(bare), np.int64)))
        line = np.where((line > 0) & (line <= MOST_LINE), line, 0)
        depth = np.concatenate((np.clip(depth[kept], 0, MOST_INLINED), np.zeros(len(bare), np.int64)))
        kind = np.where(depth > 0, int(FrameKind.INLINED), self._kinds()[self._module[row]])
        kind[len(kept) :] = int(FrameKind.UNKNOWN)
        address, _ = coded(self._address[row])
        frame, rows = distinct(number, address, line, depth * len(FrameKind) + kind)
        self._frame_table(number[rows], self._address[row[rows]], line[rows], depth[rows], kind[rows])
        order = np.argsort(row, kind="stable")
        self.frames_of = frame[order]
        self.begin = np.append(0, np.cumsum(np.bincount(row, minlength=len(locations))))

    def _named(self, function: Array, bare: Array) -> tuple[Array, Array, Array, Array]:
        """(name, name that is shown, file, first line) of the functions of lines, then of locations without a line."""
        texts, of = self._texts, self._functions
        shown, system, file = (texts.codes(of.number(field)) for field in (2, 3, 4))
        first = of.number(5)
        first = np.where((first > 0) & (first <= MOST_LINE), first, 0)
        name = np.where(system != texts.none, system, shown)
        nameless = name == texts.none
        if nameless.any():
            name[nameless] = texts.more([UNKNOWN])[0]
        addresses = self._address[bare].view(np.uint64).tolist()
        more = texts.more([f"0x{address:x}" if address else UNKNOWN for address in addresses])
        nothing = np.full(len(bare), texts.none)
        return (
            np.concatenate((name[function], more)),
            np.concatenate((shown[function], nothing)),
            np.concatenate((file[function], nothing)),
            np.concatenate((first[function], np.zeros(len(bare), np.int64))),
        )

    def _kinds(self) -> Array:
        """What sort of code is in a module, by its code as a text."""
        found = np.full(len(self._texts.words), int(FrameKind.USER))
        for code in np.unique(self._module).tolist():
            if _KERNEL.search(self._texts.word(code)):
                found[code] = int(FrameKind.KERNEL)
        return found

    def _function_table(self, name: Array, shown: Array, module: Array, file: Array, first: Array) -> None:
        texts = self._texts
        unknown = [texts.code(word) for word in UNKNOWN_NAMES]
        by_module = np.flatnonzero((shown == texts.none) & np.isin(name, unknown))
        display = np.where(shown != texts.none, shown, name)
        if len(by_module):
            modules, which = np.unique(module[by_module], return_inverse=True)
            display[by_module] = texts.more([display_name("", texts.word(code)) for code in modules])[which]
        self.functions = pa.Table.from_arrays(
            [
                texts.column(name),
                texts.column(display),
                texts.column(module),
                texts.column(file, null=True),
                pa.array(first.astype(np.int32), mask=first == 0),
            ],
            schema=SCHEMAS["functions"],
        )

    def _frame_table(self, function: Array, address: Array, line: Array, depth: Array, kind: Array) -> None:
        self.frames = pa.Table.from_arrays(
            [
                pa.array(function.astype(np.int32)),
                pa.array(address.view(np.uint64), mask=address == 0),
                pa.nulls(len(function), pa.uint64()),
                pa.array(line.astype(np.int32), mask=line == 0),
                pa.array(depth.astype(np.int16)),
                pa.array(kind.astype(np.int8)),
            ],
            schema=SCHEMAS["frames"],
        )


def distinct(*columns: Array) -> tuple[Array, Array]:
    """Numbers of the distinct rows of columns, none below 0 or of more than 31 bits, in the order in which they first
    come, and where each first comes."""
    all_ = np.arange(len(columns[0]))
    number, rows = coded(columns[0])
    for column in columns[1:]:
        number, rows = numbered(all_, number, column)
    return number, rows
