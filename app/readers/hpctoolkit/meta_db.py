"""meta.db of database version 4: names of identifiers, metrics, and the tree of calling contexts."""

import struct
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.tables import NO_ID, FrameKind
from ...ingest.perf_text.grammar import classify_frame
from .binary_file import BinaryFile
from .contexts import LINE, LOOP, PROCEDURE, UNKNOWN_PROCEDURE, ContextTree, make_tree
from .metrics import MetricEvent, parse_metric
from .parts import META
from .prefixed_stream import PrefixedStream
from .symbols import CodeNames

FOOTER = b"_meta.db"
GENERAL, IDENTIFIERS, METRICS, TREE, _STRINGS, MODULES, FILES, FUNCTIONS = range(8)
POINT, EXECUTION, TRANSITIVE = 1, 2, 3
"""Scopes: a value is that of a context alone, includes all below it, or includes those below it that pass it on."""
_PREFERENCE = (EXECUTION, TRANSITIVE, POINT)
"""The tree does not have instructions in lines with debug information. Their values are in those of their lines, except
with POINT."""
HAS_FUNCTION, HAS_LINE, HAS_POINT = 1, 2, 4
INLINED_CALL = 2
_CONTEXT = struct.Struct("<QQIBBBBH")
_CONTEXT_BYTES = 32
_COPIED = 1
_GPU_NAMES = ("<gpu kernel>", "gpu kernel")


@dataclass(frozen=True)
class MetricScope:
    """One of the values that are stored of a metric. id: in profile.db. scope: POINT, EXECUTION or TRANSITIVE.
    bit: of `ContextTree.passes`, for TRANSITIVE."""

    id: int
    metric: MetricEvent
    scope: int
    bit: int


@dataclass(frozen=True)
class MetaDb:
    """The content of a meta.db. identifiers: names of the kinds of identifiers. scopes: the value of each metric from
    which those of single contexts are computed. known: ids of all values. unknown: names of metrics without such a
    value. passes: for each row of the tree the bits of scopes in which its value is part of that of its parent."""

    title: str
    version: str
    complete: bool
    identifiers: tuple[str, ...]
    scopes: tuple[MetricScope, ...]
    known: frozenset[int]
    unknown: tuple[str, ...]
    tree: ContextTree
    passes: Int64Array


def read_meta(stream: PrefixedStream, builder: ProfileBuilder, source: str) -> MetaDb:
    """The content of a meta.db. Raises UnreadableInput if it is damaged."""
    file = BinaryFile(stream, source, META, FOOTER, FUNCTIONS + 1)
    title = file.text(file.unpack("<Q", file.section(GENERAL))[0])
    pointer, count = file.unpack("<QB", file.section(IDENTIFIERS))
    identifiers = tuple(file.text(int(at)) for at in file.array("<u8", count, pointer))
    scopes, known, unknown = _read_metrics(file)
    tree, passes = _TreeReader(file, builder).read()
    return MetaDb(title, file.version, file.complete, identifiers, scopes, known, unknown, tree, passes)


def _read_metrics(file: BinaryFile) -> tuple[tuple[MetricScope, ...], frozenset[int], tuple[str, ...]]:
    pointer, count, size, size_of_value = file.unpack("<QIBB", file.section(METRICS))
    metrics = file.structures([("name", "<u8", 0), ("values", "<u8", 8), ("count", "<u2", 24)], count, size, pointer)
    best: list[MetricScope] = []
    known: set[int] = set()
    unknown = []
    for name_at, values_at, values_count in metrics.tolist():
        name = file.text(name_at)
        values = file.structures(
            [("scope", "<u8", 0), ("id", "<u2", 8)], values_count, size_of_value, values_at
        ).tolist()
        found = []
        for scope_at, id in values:
            known.add(id)
            scope, bit = file.unpack("<BB", scope_at + 8)
            if scope in (POINT, EXECUTION) or (scope == TRANSITIVE and bit < 16):
                found.append(MetricScope(id, parse_metric(name), scope, bit))
        if found:
            best.append(min(found, key=lambda one: _PREFERENCE.index(one.scope)))
        else:
            unknown.append(name)
    return tuple(best), frozenset(known), tuple(unknown)


class _TreeReader:
    def __init__(self, file: BinaryFile, builder: ProfileBuilder) -> None:
        self._file = file
        self._names = CodeNames(builder)
        self._modules = _Texts(file, MODULES)
        self._files = _Texts(file, FILES)
        pointer, count, size = file.unpack("<QIH", file.section(FUNCTIONS))
        self._functions_at, self._function_bytes = pointer, size
        fields = [("name", "<u8", 0), ("module", "<u8", 8), ("file", "<u8", 24), ("line", "<u4", 32)]
        self._functions = file.structures(fields, count, size, pointer)
        # Function, name, module, path and kind of each function, as they are first used.
        self._known: dict[int, tuple[int, str, str, str, FrameKind]] = {}
        self._rows: list[tuple[int, ...]] = []
        # Name, module and path of the procedure that each row is in.
        self._inside: list[tuple[str, str, str]] = []

    def read(self) -> tuple[ContextTree, Int64Array]:
        """The tree, and the bits of each row (see `MetaDb`)."""
        file = self._file
        pointer, count, size = file.unpack("<QHB", file.section(TREE))
        entries = file.structures(
            [("bytes", "<u8", 0), ("children", "<u8", 8), ("id", "<u4", 16), ("name", "<u8", 24)], count, size, pointer
        )
        limit = file.section_bytes(TREE) // _CONTEXT_BYTES + count
        passes: list[int] = []
        blocks = []
        for bytes_, children, id, name_at in entries.tolist():
            name = file.text(name_at)
            function = self._names.intern_function(name, "", "", 0)
            self._add((id, NO_ID, PROCEDURE, function, int(FrameKind.RUNTIME), NO_ID, 0, NO_ID), (name, "", ""))
            passes.append(0)
            if bytes_:
                blocks.append((children, children + bytes_, len(self._rows) - 1))
        while blocks:
            at, end, parent = blocks.pop()
            if end > len(file.data):
                raise file.damaged(end)
            while at < end:
                bytes_, children, id, flags, relation, kind, words, bits = self._unpack(at)
                if len(self._rows) >= limit:
                    raise UnreadableInput(
                        f"{file.name} is damaged: its tree of contexts has more contexts than bytes for them, as if "
                        "one were below itself. Copy it again."
                    )
                self._add_context(at + _CONTEXT_BYTES, words, parent, id, flags, relation, kind)
                passes.append(bits)
                if bytes_:
                    blocks.append((children, children + bytes_, len(self._rows) - 1))
                at += _CONTEXT_BYTES + 8 * words
        tree = make_tree(self._rows)
        if len(np.unique(tree.id)) != len(tree):
            raise UnreadableInput(f"{file.name} is damaged: two of its contexts have the same number. Copy it again.")
        return tree, np.array(passes, np.int64)

    def _unpack(self, at: int) -> tuple[int, ...]:
        try:
            return _CONTEXT.unpack_from(self._file.data, at)
        except struct.error:
            raise self._file.damaged(at) from None

    def _add(self, row: tuple[int, ...], inside: tuple[str, str, str]) -> None:
        self._rows.append(row)
        self._inside.append(inside)

    def _add_context(self, at: int, words: int, parent: int, id: int, flags: int, relation: int, lexical: int) -> None:
        """Add the context whose flexible fields are at `at`, in the order of FORMATS.md."""
        file = self._file
        function_at = source_at = line = module_at = 0
        offset, size = NO_ID, 0
        if flags & HAS_FUNCTION:
            (function_at,) = file.unpack("<Q", at + size)
            size += 8
        if flags & HAS_LINE:
            source_at, line = file.unpack("<QI", at + size)
            size += 16
        if flags & HAS_POINT:
            module_at, offset = file.unpack("<QQ", at + size)
            size += 16
        if size > 8 * words:
            raise UnreadableInput(f"{file.name} is damaged: a context has fewer fields than announced. Copy it again.")
        name, module, path = self._inside[parent]
        own_path = self._files.get(source_at) if source_at else path
        own_module = self._modules.get(module_at) if module_at else module
        address = offset if 0 <= offset < 1 << 63 else NO_ID
        line = line if line < 1 << 31 else 0
        if lexical == 0 or relation != 0:
            # A line or an instruction that was called is in a procedure that is not known.
            known = self._get_function(function_at) if function_at else None
            if known is not None:
                function, name, module, path, kind = known
            else:
                name, module, path = UNKNOWN_PROCEDURE, own_module, own_path
                function = self._names.intern_function(name, module, path, 0)
                kind = FrameKind.UNKNOWN
            if relation == INLINED_CALL:
                kind = FrameKind.INLINED
            row = (id, parent, PROCEDURE, function, int(kind), self._names.number_file(path), line, address)
            self._add(row, (name, module, path))
        elif lexical == 1:
            function = self._names.intern_loop(name, module, own_path, line)
            row = (id, parent, LOOP, function, int(FrameKind.USER), self._names.number_file(own_path), line, NO_ID)
            self._add(row, (name, module, path))
        else:
            # The statement has the line, and the instruction in it the address.
            above = self._rows[parent]
            if not source_at and above[2] == LINE:
                number, line = above[5], above[6]
            else:
                number = self._names.number_file(own_path)
            self._add((id, parent, LINE, NO_ID, int(FrameKind.USER), number, line, address), (name, module, path))

    def _get_function(self, at: int) -> tuple[int, str, str, str, FrameKind]:
        known = self._known.get(at)
        if known is None:
            name_at, module_at, file_at, line = self._functions[
                _find_row(self._file, at, self._functions_at, self._function_bytes, len(self._functions))
            ].tolist()
            name = self._file.text(name_at) if name_at else UNKNOWN_PROCEDURE
            module = self._modules.get(module_at) if module_at else ""
            path = self._files.get(file_at) if file_at else ""
            function = self._names.intern_function(name, module, path, line if line < 1 << 31 else 0)
            kind = self._names.get_kind(function) or (
                FrameKind.GPU_KERNEL if name in _GPU_NAMES else classify_frame(name, module)
            )
            known = self._known[at] = (function, name, module, path, kind)
        return known


class _Texts:
    """The paths of a section with modules or source files."""

    def __init__(self, file: BinaryFile, section: int) -> None:
        self._file = file
        self._section = section
        self._at, count, self._bytes = file.unpack("<QIH", file.section(section))
        self._rows: Array = file.structures([("flags", "<u4", 0), ("path", "<u8", 8)], count, self._bytes, self._at)
        self._known: dict[int, str] = {}

    def get(self, at: int) -> str:
        """The path of the structure at an offset."""
        path = self._known.get(at)
        if path is None:
            row = _find_row(self._file, at, self._at, self._bytes, len(self._rows))
            flags, path_at = self._rows[row].tolist()
            path = self._file.text(path_at)
            if self._section == FILES and flags & _COPIED:
                path = f"./{path}"
            self._known[at] = path
        return path


def _find_row(file: BinaryFile, at: int, first: int, size: int, count: int) -> int:
    """The index of the structure at an offset."""
    row, rest = divmod(at - first, size) if size else (NO_ID, 0)
    if rest or not 0 <= row < count:
        raise file.damaged(at)
    return row
