"""Functions and code locations of a pprof file, as whole tables."""

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array
from ...domain.builder import ProfileBuilder
from ...domain.symbols.columns import find_candidates
from ...domain.symbols.demangler import UNKNOWN_NAMES, format_symbol
from ...domain.tables import SCHEMAS, FrameKind
from ...ingest.jit.hashing import RowIndex, factorize, factorize_pairs
from ...ingest.jit.protobuf_columns import MessageColumns, read_messages
from .format import NO_FUNCTION
from .strings import PprofStrings

UNKNOWN = "[unknown]"
MAX_INLINED = 999
MAX_LINE_NUMBER = (1 << 31) - 1
_KERNEL = re.compile(r"^\[kernel|(?:^|/)vmlinux$|^\[guest\.kernel")


class CodeTables:
    """Locations. frames_of: the frames of all, innermost first; those of row i are begin[i] to begin[i + 1].

    functions, frames: the tables.
    """

    def __init__(
        self,
        builder: ProfileBuilder,
        texts: PprofStrings,
        mappings: MessageColumns,
        locations: MessageColumns,
        read_functions: Callable[[], MessageColumns],
    ) -> None:
        # The messages of a million functions need as much memory as their names.
        self._builder, self._texts, self._read_functions = builder, texts, read_functions
        # Of several with one id the last counts.
        self._rows = RowIndex(locations.get_number(1)[::-1], np.arange(len(locations))[::-1])
        mapping = RowIndex(mappings.get_number(1)[::-1], np.arange(len(mappings))[::-1]).lookup(locations.get_number(2))
        # The last one represents locations without a mapping.
        modules = np.append(texts.get_codes(mappings.get_number(5)), texts.none)
        self._module = modules[mapping]
        self._address = locations.get_number(3)
        self._read_lines(locations)

    def find_rows(self, ids: Array) -> Array:
        """The rows of locations by their ids; -1 if there is none."""
        return self._rows.lookup(ids)

    def _read_lines(self, locations: MessageColumns) -> None:
        places = locations.listed[4].select_contents()
        lines = read_messages(locations.data, places.spans, (1, 2))
        count = np.bincount(places.row, minlength=len(locations))
        # The innermost comes first; all before each of the others are inlined into it.
        depth = np.cumsum(count)[places.row] - 1 - np.arange(len(lines))
        functions = self._read_functions()
        function = RowIndex(functions.get_number(1)[::-1], np.arange(len(functions))[::-1]).lookup(lines.get_number(1))
        lost = np.flatnonzero((function < 0) | (lines.malformed != 0))
        if len(lost):
            self._builder.add_loss(NO_FUNCTION, f"function {int(lines.get_number(1)[lost[0]])}", len(lost))
        kept = np.flatnonzero((function >= 0) & (lines.malformed == 0))
        bare = np.flatnonzero(count == 0)
        row = np.concatenate((places.row[kept], bare))
        names, shown, file, first = self._resolve_names(functions, function[kept], bare)
        del functions, function
        number, rows = factorize_rows(names, self._module[row], file, first)
        self._build_function_table(names[rows], shown[rows], self._module[row[rows]], file[rows], first[rows])
        del names, shown, file, first, rows
        line = np.concatenate((lines.get_number(2)[kept], np.zeros(len(bare), np.int64)))
        line = np.where((line > 0) & (line <= MAX_LINE_NUMBER), line, 0)
        depth = np.concatenate((np.clip(depth[kept], 0, MAX_INLINED), np.zeros(len(bare), np.int64)))
        kind = np.where(depth > 0, int(FrameKind.INLINED), self._classify_modules()[self._module[row]])
        kind[len(kept) :] = int(FrameKind.UNKNOWN)
        address, _ = factorize(self._address[row])
        frame, rows = factorize_rows(number, address, line, depth * len(FrameKind) + kind)
        self._build_frame_table(number[rows], self._address[row[rows]], line[rows], depth[rows], kind[rows])
        order = np.argsort(row, kind="stable")
        self.frames_of = frame[order]
        self.begin = np.append(0, np.cumsum(np.bincount(row, minlength=len(locations))))

    def _resolve_names(self, of: MessageColumns, function: Array, bare: Array) -> tuple[Array, Array, Array, Array]:
        """(name, displayed name, file, first line) of the functions of lines, then of locations without a line."""
        texts = self._texts
        shown, system, file = (texts.get_codes(of.get_number(field)) for field in (2, 3, 4))
        first = of.get_number(5)
        first = np.where((first > 0) & (first <= MAX_LINE_NUMBER), first, 0)
        name = np.where(system != texts.none, system, shown)
        nameless = name == texts.none
        if nameless.any():
            name[nameless] = texts.add_texts([UNKNOWN])[0]
        addresses = self._address[bare].view(np.uint64).tolist()
        more = texts.add_texts([f"0x{address:x}" if address else UNKNOWN for address in addresses])
        nothing = np.full(len(bare), texts.none, np.int32)
        return (
            np.concatenate((name[function], more)),
            np.concatenate((shown[function], nothing)),
            np.concatenate((file[function], nothing)),
            np.concatenate((first[function], np.zeros(len(bare), np.int64))),
        )

    def _classify_modules(self) -> Array:
        """The kind of code in a module, by its code as a text."""
        kinds = np.full(len(self._texts.words), int(FrameKind.USER))
        for code in np.unique(self._module).tolist():
            if _KERNEL.search(self._texts.get_text(code)):
                kinds[code] = int(FrameKind.KERNEL)
        return kinds

    def _build_function_table(self, name: Array, shown: Array, module: Array, file: Array, first: Array) -> None:
        texts = self._texts
        unknown = [texts.get_code(word) for word in UNKNOWN_NAMES]
        by_module = np.flatnonzero((shown == texts.none) & np.isin(name, unknown))
        display = np.where(shown != texts.none, shown, name)
        if len(by_module):
            modules, which = np.unique(module[by_module], return_inverse=True)
            words = [format_symbol("", texts.get_text(code), self._builder.demangler) for code in modules]
            display[by_module] = texts.add_texts(words)[which]
        display = self._demangle(display)
        self.functions = pa.Table.from_arrays(
            [
                texts.build_column(name),
                texts.build_column(display),
                texts.build_column(module),
                texts.build_column(file, null=True),
                pa.array(first.astype(np.int32), mask=first == 0),
            ],
            schema=SCHEMAS["functions"],
        )

    def _demangle(self, names: Array) -> Array:
        """The codes of the readable forms of names, given by their codes."""
        readable = np.arange(len(self._texts.words))
        codes = find_candidates(self._texts.words)
        codes = codes[np.isin(codes, names)]
        words = [self._builder.demangler.format(self._texts.get_text(code)) for code in codes.tolist()]
        readable[codes] = self._texts.add_texts(words)
        return readable[names]

    def _build_frame_table(self, function: Array, address: Array, line: Array, depth: Array, kind: Array) -> None:
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


def factorize_rows(*columns: Array) -> tuple[Array, Array]:
    """Ids of the distinct rows of columns, none below 0 or of more than 31 bits, in the order of first appearance, and
    the first index of each."""
    all_ = np.arange(len(columns[0]))
    number, rows = factorize(columns[0])
    for column in columns[1:]:
        number, rows = factorize_pairs(all_, number, column)
    return number, rows
