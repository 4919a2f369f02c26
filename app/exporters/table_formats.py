"""The rows of a table as a file: CSV, JSON or Parquet. Names, units and types are those of the table."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..analysis.core.loss_impact import AFFECTED_FIELD, mark_affected_rows
from ..analysis.core.schema import Column, records
from ..domain.csv_cells import escape_csv_cell

CHUNK_ROWS = 2_000
GROUP_ROWS = 1 << 20
"""Rows of a row group in Parquet, of which a reader takes one at a time."""


@dataclass(frozen=True)
class TableFormat:
    """A form of tables. suffix: of a file's name. write_chunks: the bytes of a file with these rows; columns: their
    descriptions; facts: metadata of the file, if the format supports it."""

    suffix: str
    media_type: str
    write_chunks: Callable[[pd.DataFrame, Sequence[Column], Mapping[str, str]], Iterator[bytes]]


def write_csv(data: pd.DataFrame, columns: Sequence[Column] = (), facts: Mapping[str, str] = {}) -> Iterator[bytes]:
    """RFC 4180, generated while it is read; missing values are empty.

    Numbers are unchanged. A text that a spreadsheet would interpret as a formula is prefixed with an apostrophe, as
    OWASP advises (CSV Injection): one that begins with = + - @, also full-width, after any white space or control
    characters, or with a tab or line break. Other text is unchanged.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow([escape_csv_cell(name) for name in data.columns])
    for start in range(0, len(data), CHUNK_ROWS):
        part = data.iloc[start : start + CHUNK_ROWS]
        cells = [
            [
                None if missing else escape_csv_cell(value)
                for value, missing in zip(values.tolist(), values.isna(), strict=True)
            ]
            for _, values in part.items()
        ]
        writer.writerows(zip(*cells, strict=True))
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()
    # The heading of an empty table.
    yield buffer.getvalue().encode()


def write_json(data: pd.DataFrame, columns: Sequence[Column] = (), facts: Mapping[str, str] = {}) -> Iterator[bytes]:
    """A list of objects, one per line; null for missing values. Objects whose figures are affected by losses say so."""
    yield b"["
    for start in range(0, len(data), CHUNK_ROWS):
        rows = mark_affected_rows(records(data.iloc[start : start + CHUNK_ROWS]), AFFECTED_FIELD in facts)
        yield ("," if start else "").encode() + ",".join(f"\n {json.dumps(row)}" for row in rows).encode()
    yield b"\n]\n"


def write_parquet(data: pd.DataFrame, columns: Sequence[Column] = (), facts: Mapping[str, str] = {}) -> Iterator[bytes]:
    """Parquet with zstd. A column's unit and description are in its metadata, `facts` in that of the file."""
    sink = io.BytesIO()
    table = arrow_table(data, columns, facts)
    pq.write_table(table, sink, compression="zstd", row_group_size=GROUP_ROWS)
    yield sink.getvalue()


def arrow_table(data: pd.DataFrame, columns: Sequence[Column], facts: Mapping[str, str] = {}) -> pa.Table:
    """The rows as texts, whole numbers, numbers and booleans, null for missing values."""
    known = {column.name: column for column in columns}
    fields, arrays = [], []
    for name, values in data.items():
        kind = _kind(values)
        about = known.get(str(name))
        details = {"unit": about.unit, "description": about.description} if about else {}
        fields.append(pa.field(str(name), kind, metadata={word: text for word, text in details.items() if text}))
        missing = values.isna().to_numpy()
        arrays.append(
            pa.array([None if no else value for value, no in zip(values.tolist(), missing, strict=True)], kind)
        )
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=dict(facts)))


def _kind(values: "pd.Series[Any]") -> pa.DataType:
    """The type of a column in a file."""
    if pd.api.types.is_bool_dtype(values.dtype):
        return pa.bool_()
    if pd.api.types.is_integer_dtype(values.dtype):
        return pa.int64()
    return pa.float64() if pd.api.types.is_float_dtype(values.dtype) else pa.string()


def table_metadata(title: str, words: Sequence[tuple[str, str]], *, is_affected: bool = False) -> dict[str, str]:
    """Metadata of a file: its table and selection, and whether losses affect its figures."""
    metadata = {
        "title": title,
        "exporter": "Perfloom",
        "selection": " ".join(f"{word}={value}" for word, value in words),
    }
    return metadata | {AFFECTED_FIELD: "true"} if is_affected else metadata


TABLE_FORMATS: dict[str, TableFormat] = {
    "csv": TableFormat(".csv", "text/csv; charset=utf-8", write_csv),
    "json": TableFormat(".json", "application/json", write_json),
    "parquet": TableFormat(".parquet", "application/vnd.apache.parquet", write_parquet),
}
"""Formats of tables, by the value of the parameter `format`."""
