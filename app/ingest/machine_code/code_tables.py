"""Selects functions of `Code`, and joins that of several binaries."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array
from ...domain.schemas.code import CODE_SCHEMAS, Code
from ...domain.tables import get_column


def make_table(name: str, columns: Sequence[Any]) -> pa.Table:
    """A table of `CODE_SCHEMAS` from its columns."""
    schema = CODE_SCHEMAS[name]
    arrays = []
    for column, kind in zip(columns, schema.types, strict=True):
        if pa.types.is_dictionary(kind) and not isinstance(column, pa.DictionaryArray):
            arrays.append(pa.array(column, pa.string()).dictionary_encode())
        else:
            arrays.append(pa.array(column, kind, from_pandas=False))
    return pa.table(arrays, schema=schema)


def transpose(rows: Sequence[tuple[Any, ...]], count: int) -> list[Any]:
    """The columns of rows. count: how many there are."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]


def count_instructions(code: Code) -> Array:
    """How many instructions each of `symbols` has."""
    return np.bincount(get_column(code.instructions, "symbol"), minlength=code.symbols.num_rows)


def select_functions(code: Code, symbols: Array) -> Code:
    """The code of some functions, in this order: rows of `symbols`. Objects remain, frames do not."""
    counts = count_instructions(code)
    first = np.cumsum(counts) - counts
    chosen = counts[symbols]
    behind = np.cumsum(chosen) - chosen
    rows = np.arange(int(chosen.sum())) + np.repeat(first[symbols] - behind, chosen)
    place = get_column(code.instructions, "place")[rows]
    parent, file = get_column(code.places, "parent"), get_column(code.places, "file")
    is_used = np.zeros(code.places.num_rows, bool)
    level = np.unique(place[place >= 0])
    while len(level):
        is_used[level] = True
        above = parent[level]
        above = np.unique(above[above >= 0])
        level = above[~is_used[above]]
    places = np.flatnonzero(is_used)
    files = np.unique(file[places])
    files = files[files >= 0]
    instructions = code.instructions
    return Code(
        objects=code.objects,
        symbols=code.symbols.take(pa.array(symbols)),
        instructions=make_table(
            "instructions",
            [
                np.repeat(np.arange(len(symbols)), chosen),
                get_column(instructions, "address")[rows],
                get_column(instructions, "bytes")[rows],
                _select_texts(instructions.column("text"), rows),
                instructions.column("target").combine_chunks().take(pa.array(rows)),
                _renumber(place, places, len(is_used)),
            ],
        ),
        places=make_table(
            "places",
            [
                _renumber(parent[places], places, len(is_used)),
                _select_texts(code.places.column("function"), places),
                _renumber(file[places], files, code.files.num_rows),
                get_column(code.places, "line")[places],
            ],
        ),
        files=code.files.take(pa.array(files)),
    )


def join_code(parts: Sequence[Code], *, same_object: bool = False) -> Code:
    """The code of several binaries, or of functions of one. Files with the same path become one. Frames are not
    joined."""
    if len(parts) == 1:
        return parts[0]
    paths: dict[str, int] = {}
    kept: list[int] = []
    columns: dict[str, list[pa.Table]] = {name: [] for name in CODE_SCHEMAS}
    objects = symbols = places = files = 0
    for part in parts:
        own = part.files.column("path").to_pylist()
        for row, path in enumerate(own):
            if path not in paths:
                paths[path] = len(paths)
                kept.append(files + row)
        file_of = np.array([paths[path] for path in own], np.int32)
        columns["objects"].append(part.objects)
        columns["symbols"].append(_shift(part.symbols, "object", 0 if same_object else objects))
        moved = _shift(_shift(part.instructions, "symbol", symbols), "place", places)
        columns["instructions"].append(moved)
        file = get_column(part.places, "file")
        moved = _shift(part.places, "parent", places)
        columns["places"].append(_replace(moved, "file", np.where(file >= 0, np.append(file_of, -1)[file], -1)))
        columns["files"].append(part.files)
        objects, symbols = objects + part.objects.num_rows, symbols + part.symbols.num_rows
        places, files = places + part.places.num_rows, files + part.files.num_rows
    tables = {
        name: pa.concat_tables(found or [CODE_SCHEMAS[name].empty_table()]).unify_dictionaries().combine_chunks()
        for name, found in columns.items()
    }
    if same_object and parts:
        tables["objects"] = parts[-1].objects
    return Code(**{**tables, "files": tables["files"].take(pa.array(kept, pa.int64()))})


def _shift(table: pa.Table, column: str, by: int) -> pa.Table:
    """Add to the rows that a column refers to; -1 remains."""
    rows = get_column(table, column)
    return _replace(table, column, np.where(rows >= 0, rows + by, rows)) if by else table


def _replace(table: pa.Table, column: str, rows: Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(column), column, pa.array(rows, pa.int32()))


def _renumber(rows: Array, kept: Array, count: int) -> Array:
    """References to rows as references to the rows that are kept; -1 remains. count: of all rows."""
    number = np.full(count + 1, -1, np.int32)
    number[kept] = np.arange(len(kept))
    return number[rows]


def _select_texts(texts: pa.ChunkedArray, rows: Array) -> pa.DictionaryArray:
    """Some texts, without those of others in the dictionary."""
    whole = texts.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], texts.type)
    index = whole.indices.to_numpy(zero_copy_only=False)[rows]
    is_used = np.zeros(len(whole.dictionary), bool)
    is_used[index] = True
    used = np.flatnonzero(is_used)
    return pa.DictionaryArray.from_arrays(
        pa.array(_renumber(index, used, len(is_used)), pa.int32()), whole.dictionary.take(pa.array(used))
    )
