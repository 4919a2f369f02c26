"""The symbols of one recording in a file beside it, so that it can be read again when the binaries are gone.

A line of JSON with the format and when the recording was last changed, then one for each code object, compressed: the
object, the addresses (each as the difference from the one before), the row of each in `names` (-1 without a symbol),
the names, and where their symbols start. Lines for dumps of just-in-time compilers have "loads" instead: when code was
where (see `JitLoads`).
"""

import io
import json
from dataclasses import asdict
from typing import IO, Any, BinaryIO

import numpy as np
import zstandard

from ...domain.arrays import Array
from ...domain.errors import UnreadableInput
from .code_objects import CodeObject, JitLoads, JitSource, ObjectKind, SymbolNames, SymbolSource

FORMAT, VERSION = "perfloom symbols", 1
MAX_LINE_BYTES = 256 << 20
MAX_OBJECTS = 1 << 20
_LOAD_COLUMNS = ("time", "start", "size", "place")
MAX_TIME = 1 << 36
"""Seconds since the epoch: the year 4147. What is much later cannot be printed as a date."""


_NOTHING = SymbolNames(np.zeros(0, np.int64), [], np.zeros(0, np.uint64))


class SymbolRecorder:
    """A source of symbols that keeps what it was asked for."""

    def __init__(self, source: SymbolSource, jit_source: JitSource = lambda code: None) -> None:
        self._source, self._jit_source = source, jit_source
        self._found: dict[CodeObject, tuple[Array, SymbolNames]] = {}
        self._loads: dict[CodeObject, JitLoads] = {}

    def find(self, code: CodeObject, addresses: Array) -> SymbolNames:
        """See SymbolSource."""
        names = self._source(code, addresses)
        self._found[code] = addresses, names
        return names

    def read_jit(self, code: CodeObject) -> JitLoads | None:
        """See JitSource."""
        loads = self._jit_source(code)
        if loads is not None:
            self._loads[code] = loads
        return loads

    def write(self, file: IO[bytes], changed_at: float) -> None:
        """Write the symbols, not compressed. changed_at: see `StoredSymbols`. Raises OSError."""
        file.write(json.dumps({"format": FORMAT, "version": VERSION, "changed_at": changed_at}).encode() + b"\n")
        for code, (addresses, names) in self._found.items():
            line = {
                "object": asdict(code),
                "addresses": np.diff(addresses, prepend=np.uint64(0)).tolist(),
                "row": names.row.tolist(),
                "names": names.names,
                "starts": names.starts.tolist(),
            }
            file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        for code, loads in self._loads.items():
            columns = {name: getattr(loads, name).tolist() for name in _LOAD_COLUMNS}
            line = {"loads": asdict(code), "has_times": loads.has_times, **columns}
            file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")


class StoredSymbols:
    """The symbols in such a file. changed_at: when the recording was last changed, seconds since the epoch."""

    def __init__(self, stream: BinaryIO) -> None:
        """Raises UnreadableInput for a file that is damaged."""
        self._found: dict[CodeObject, tuple[Array, SymbolNames]] = {}
        self._loads: dict[CodeObject, JitLoads] = {}
        try:
            with zstandard.ZstdDecompressor().stream_reader(stream) as reader, io.BufferedReader(reader) as lines:
                head = json.loads(lines.readline(1000))
                if (head["format"], head["version"]) != (FORMAT, VERSION):
                    raise ValueError("another format")
                self.changed_at = float(head["changed_at"])
                if not 0 <= self.changed_at < MAX_TIME:
                    raise ValueError("an impossible time")
                while (line := lines.readline(MAX_LINE_BYTES)) and len(self._found) < MAX_OBJECTS:
                    self._add(json.loads(line))
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError, zstandard.ZstdError) as error:
            raise UnreadableInput(
                "The file with the symbols of this recording is damaged. Remove it, then read the recording again on "
                "the machine where it was recorded."
            ) from error

    def _add(self, line: dict[str, Any]) -> None:
        fields = line["loads"] if "loads" in line else line["object"]
        code = CodeObject(**{**fields, "kind": ObjectKind(fields["kind"])})
        if "loads" in line:
            columns = [np.array(line[name], np.uint64) for name in _LOAD_COLUMNS]
            if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
                raise ValueError("columns of different lengths")
            self._loads[code] = JitLoads(bool(line["has_times"]), *columns)
            return
        addresses = np.cumsum(np.array(line["addresses"], np.uint64), dtype=np.uint64)
        row, starts = np.array(line["row"], np.int64), np.array(line["starts"], np.uint64)
        names = line["names"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("a name is no text")
        if len(row) != len(addresses) or len(starts) != len(names) or ((row < -1) | (row >= len(names))).any():
            raise ValueError("columns of different lengths")
        self._found[code] = addresses, SymbolNames(row, names, starts)

    def read_jit(self, code: CodeObject) -> JitLoads | None:
        """See JitSource."""
        return self._loads.get(code)

    def find(self, code: CodeObject, addresses: Array) -> SymbolNames:
        """See SymbolSource."""
        known, names = self._found.get(
            code, (np.zeros(0, np.uint64), SymbolNames(np.zeros(0, np.int64), [], addresses))
        )
        if not len(known):
            return SymbolNames(np.full(len(addresses), -1), [], np.zeros(0, np.uint64))
        at = np.minimum(np.searchsorted(known, addresses), len(known) - 1)
        return SymbolNames(np.where(known[at] == addresses, names.row[at], -1), names.names, names.starts)
