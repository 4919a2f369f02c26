"""Which instructions and lines the frames of a profile are."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.schemas.code import Code
from ...domain.tables import get_column, take_values
from ..core.functions import functions_of
from ..core.memo import memoize

OFFSET_BITS = 24
"""More than the offset of any instruction in its function."""


@dataclass(frozen=True, eq=False)
class CodeIndex:
    """executing, calling: for each row of `frames` the row of `instructions` at its address, as that of the sample
    itself and as that of a call in progress, whose address is behind the call; -1 if unknown. address: of each
    instruction. symbol, place: of each instruction. first: the first instruction of each symbol, and the number of all
    instructions. caller: for each row of `places` the line in the function of the symbol table from which it was
    inlined, or itself. line, file: of each row of `places`."""

    executing: Array
    calling: Array
    address: Array
    symbol: Array
    place: Array
    first: Array
    caller: Array
    line: Array
    file: Array


def has_addresses(profile: Profile) -> bool:
    """Whether samples have addresses of machine code."""
    if not profile.samples.num_rows:
        return False
    return bool(profile.frames.column("address").null_count < profile.frames.num_rows)


def index_code(profile: Profile, code: Code) -> CodeIndex:
    """The index of a profile's code; built once."""

    def build() -> CodeIndex:
        symbol, address = get_column(code.instructions, "symbol"), get_column(code.instructions, "address")
        start, end = get_column(code.symbols, "start"), get_column(code.symbols, "end")
        owner = get_column(code.symbols, "object")
        key = symbol.astype(np.int64) << OFFSET_BITS
        key += (address - start[symbol]).astype(np.int64)
        frame, frame_object = get_column(code.frames, "frame"), get_column(code.frames, "object")
        at = get_column(code.frames, "address")

        def find(wanted: Array) -> Array:
            """The row of the instruction that contains each address."""
            found = np.full(len(wanted), -1, np.int64)
            for number in np.unique(frame_object).tolist():
                rows = np.flatnonzero(owner == number)
                if not len(rows):
                    continue
                of_object = np.flatnonzero(frame_object == number)
                inside = np.searchsorted(start[rows], wanted[of_object], "right") - 1
                of_object, inside = of_object[inside >= 0], inside[inside >= 0]
                own = rows[inside]
                known = wanted[of_object] < end[own]
                of_object, own = of_object[known], own[known]
                wanted_key = (own.astype(np.int64) << OFFSET_BITS) + (wanted[of_object] - start[own]).astype(np.int64)
                row = np.searchsorted(key, wanted_key, "right") - 1
                fits = (row >= 0) & (symbol[np.maximum(row, 0)] == own)
                found[of_object[fits]] = row[fits]
            by_frame = np.full(profile.frames.num_rows + 1, -1, np.int64)
            by_frame[frame] = found
            return by_frame

        parent = get_column(code.places, "parent")
        return CodeIndex(
            executing=find(at),
            calling=find(at - np.uint64(1)),
            address=address,
            symbol=symbol,
            place=get_column(code.instructions, "place"),
            first=np.searchsorted(symbol, np.arange(len(start) + 1)),
            caller=_find_roots(parent),
            line=get_column(code.places, "line"),
            file=get_column(code.places, "file"),
        )

    return memoize(profile, ("code index", id(code)), build)


def list_symbols(profile: Profile, index: CodeIndex, functions: Array) -> Array:
    """The rows of `symbols` with code of these functions (rows of `functions`, each the first of its kind)."""
    canonical = functions_of(profile).canonical
    own = np.isin(canonical[get_column(profile.frames, "function")], functions)
    executed = np.where(index.executing >= 0, index.executing, index.calling)[:-1][own]
    return np.unique(index.symbol[executed[executed >= 0]])


def _find_roots(parent: Array) -> Array:
    """The outermost ancestor of each node; parents precede their children."""
    root = np.arange(len(parent))
    above = np.where(parent >= 0, parent, root)
    while (above[above] != above).any():
        above = above[above]
    return above


def locate_functions(profile: Profile, code: Code) -> dict[int, tuple[str, int]]:
    """(file, line) where functions begin, by row of `functions` (the first of its kind), as far as known."""

    def build() -> dict[int, tuple[str, int]]:
        index = index_code(profile, code)
        canonical = functions_of(profile).canonical
        function = canonical[get_column(profile.frames, "function")]
        executed = np.where(index.executing >= 0, index.executing, index.calling)[:-1]
        known = np.flatnonzero(executed >= 0)
        paths = code.files.column("path").to_pylist()
        found: dict[int, tuple[str, int]] = {}
        for row, number in zip(function[known].tolist(), index.symbol[executed[known]].tolist(), strict=True):
            if row not in found and index.first[number] < index.first[number + 1]:
                place = int(index.place[index.first[number]])
                if place >= 0 and index.line[place] > 0:
                    outer = int(index.caller[place])
                    found[row] = (paths[index.file[outer]], int(index.line[outer]))
        return found

    return memoize(profile, ("places of functions", id(code)), build)


def find_places(profile: Profile, code: Code | None, functions: Array) -> list[tuple[str | None, int | None]]:
    """(file, line) where rows of `functions` begin: as recorded, else of their debug information."""
    files = take_values(profile.functions, "file", functions)
    lines = take_values(profile.functions, "start_line", functions)
    places = {} if code is None else locate_functions(profile, code)
    canonical = functions_of(profile).canonical
    return [
        (file, line) if file is not None else places.get(int(canonical[row]), (None, None))
        for row, file, line in zip(functions.tolist(), files, lines, strict=True)
    ]


def add_places(profile: Profile, code: Code) -> Profile:
    """The profile with file and line of functions that were recorded without, from their debug information."""
    functions = profile.functions
    places = find_places(profile, code, np.arange(functions.num_rows))
    for name, values in (("file", [file for file, _ in places]), ("start_line", [line for _, line in places])):
        field = functions.schema.field(name)
        functions = functions.set_column(functions.schema.get_field_index(name), field, pa.array(values, field.type))
    return replace(profile, functions=functions)
