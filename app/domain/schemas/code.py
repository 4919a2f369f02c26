"""Machine code and source lines of a recording's functions: what a page of source and assembly shows.

Made from the binaries when a recording was read, because they may change later. It belongs to one stored profile: its
frames are rows of that profile's table `frames`.
"""

from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

_TEXT = pa.dictionary(pa.int32(), pa.string())


def _make_schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


CODE_SCHEMAS = {
    # A binary. status: CodeStatus. detail: more about it for a person. build_id: hexadecimal, null without one.
    "objects": _make_schema(
        module=pa.string(), build_id=pa.string(), machine=pa.string(), status=pa.string(), detail=pa.string()
    ),
    # A function of the symbol table: [start, end) in addresses of the binary. name: raw.
    "symbols": _make_schema(object=pa.int32(), name=pa.string(), start=pa.uint64(), end=pa.uint64()),
    # All instructions of these functions, by function and address. target: where it jumps to or what it calls, null if
    # it does neither. place: the row of `places` with its innermost line, -1 if unknown.
    "instructions": _make_schema(
        symbol=pa.int32(), address=pa.uint64(), bytes=pa.uint8(), text=_TEXT, target=pa.uint64(), place=pa.int32()
    ),
    # A line in a chain of inlined calls. parent: the row of the line that called the inlined function, -1 for the
    # function of the symbol table itself. function: raw name. line: 0 if unknown.
    "places": _make_schema(parent=pa.int32(), function=_TEXT, file=pa.int32(), line=pa.int32()),
    # A source file. text: null if it was not found; detail says why.
    "files": _make_schema(path=pa.string(), text=pa.large_string(), detail=pa.string()),
    # The address in a binary of a row of `frames` of the profile.
    "frames": _make_schema(frame=pa.int32(), object=pa.int32(), address=pa.uint64()),
}
"""The columns of each table."""


class CodeStatus(StrEnum):
    """What is known of a binary."""

    COMPLETE = "complete"
    NO_LINES = "no-lines"
    """Its functions are known, but it has no debug information."""
    NO_SYMBOLS = "no-symbols"
    MISSING = "missing"
    REBUILT = "rebuilt"
    """The file has another build id than the recording."""
    UNREADABLE = "unreadable"
    KERNEL = "kernel"
    NO_FILE = "no-file"
    """Code that is in no file, such as that of a JIT compiler."""


def empty_code_table(name: str) -> pa.Table:
    """A table of `CODE_SCHEMAS` without rows."""
    return CODE_SCHEMAS[name].empty_table()


@dataclass(frozen=True, eq=False)
class Code:
    """Tables as `CODE_SCHEMAS` defines them. Compared by identity."""

    objects: pa.Table = field(default_factory=lambda: empty_code_table("objects"))
    symbols: pa.Table = field(default_factory=lambda: empty_code_table("symbols"))
    instructions: pa.Table = field(default_factory=lambda: empty_code_table("instructions"))
    places: pa.Table = field(default_factory=lambda: empty_code_table("places"))
    files: pa.Table = field(default_factory=lambda: empty_code_table("files"))
    frames: pa.Table = field(default_factory=lambda: empty_code_table("frames"))

    def tables(self) -> dict[str, pa.Table]:
        """Every table by name."""
        return {name: getattr(self, name) for name in CODE_SCHEMAS}
