"""Rows of tables as files: whatever the form, the same names, units, types and values."""

import csv
import io
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perfloom.analysis.tables import TABLES, records
from perfloom.domain.csv_cells import escape_csv_cell
from perfloom.domain.errors import PerfloomError
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.exporters.table_formats import TABLE_FORMATS, table_metadata
from tests.support.traced import Trace

TYPES = {"str": pa.string(), "bool": pa.bool_(), "int64": pa.int64(), "float64": pa.float64()}


def a_trace() -> Profile:
    trace = Trace()
    host, stream = trace.thread(11, "=main", rank=0), trace.thread(7, rank=0, stream=True)
    trace.slice(host, 0, 9_000, "ProfilerStep#1", "annotation")
    launch = trace.slice(host, 1_000, 2_000, "aten::mm\n")
    trace.slice(stream, 3_000, 9_000, "gemm", "kernel", launch)
    return trace.finish()


def test_every_table_in_every_form() -> None:
    profile, filled = a_trace(), set()
    for name, table in TABLES.items():
        try:
            data = table.frame(profile, Selection())
        except PerfloomError:
            continue
        rows = records(data)
        made = {form: b"".join(kind.write_chunks(data, table.columns, {})) for form, kind in TABLE_FORMATS.items()}
        found = pq.read_table(io.BytesIO(made["parquet"]))
        assert found.to_pylist() == json.loads(made["json"]) == rows, name
        for column, field in zip(table.columns, found.schema, strict=True):
            assert field.metadata.get(b"unit", b"").decode() == column.unit, (name, column.name)
            if column.dtype != "number":
                assert field.type == TYPES[column.dtype.lower().replace("boolean", "bool")], (name, column.name)
        lines = list(csv.reader(io.StringIO(made["csv"].decode(), newline="")))
        assert lines[0] == [column.name for column in table.columns] and len(lines) == 1 + len(rows)
        filled |= {name} if rows else set()
    assert filled >= {"summary", "hotspots", "operators", "kernels", "steps", "threads", "devices"}


def test_what_csv_does_to_a_formula_it_does_to_nothing_else() -> None:
    data = pd.DataFrame({"name": ["=1+1", None, 'a "b"\n'], "value": [-1.5, None, 2.0]})
    text = b"".join(TABLE_FORMATS["csv"].write_chunks(data, (), {})).decode()
    assert text == 'name,value\r\n\'=1+1,-1.5\r\n,\r\n"a ""b""\n",2.0\r\n'
    assert json.loads(b"".join(TABLE_FORMATS["json"].write_chunks(data, (), {})))[0] == {"name": "=1+1", "value": -1.5}


@pytest.mark.parametrize(
    "text",
    [
        "=1",
        "+1",
        "-1",
        "@A",
        "\t=1",
        "\r=1",
        "\n=1",
        "\tx",
        "\nx",
        " =1",
        "\u3000=1",
        "\u200b=1",
        "\ufeff@A",
        "\x00=1",
        "＝1",
        "＋1",
        " －1",
        "＠A",
        "\x0b\x0c =1",
        "\N{SMALL EQUALS SIGN}1",
        "\N{SMALL PLUS SIGN}1",
        "\N{SMALL HYPHEN-MINUS}1",
        "\N{SMALL COMMERCIAL AT}A",
        "\N{MINUS SIGN}1",
        "\N{HANGUL FILLER}=1",
        "\N{HALFWIDTH HANGUL FILLER} =1",
        "\N{COMBINING GRAPHEME JOINER}=1",
        "\N{VARIATION SELECTOR-16}=1",
        "\N{VARIATION SELECTOR-17}=1",
        "\N{KHMER VOWEL INHERENT AQ}=1",
        "\N{MONGOLIAN FREE VARIATION SELECTOR ONE}=1",
        "\N{BRAILLE PATTERN BLANK}=1",
    ],
)
def test_a_text_like_a_formula_gets_an_apostrophe(text: str) -> None:
    assert escape_csv_cell(text) == "'" + text
    heading, row = (
        b"".join(TABLE_FORMATS["csv"].write_chunks(pd.DataFrame({text: [text]}), (), {})).decode().split("'", 2)[1:]
    )
    assert heading.startswith(text[0]) and row.startswith(text[0])


@pytest.mark.parametrize(
    "text", ["", "a=1", "operator+", "1-1", " x", "\u00a0", "–1", "\u3164x", "한=1", "_Z3fooi", "std::a<b>"]
)
def test_any_other_text_is_unchanged(text: str) -> None:
    assert escape_csv_cell(text) == text


def test_a_file_says_what_it_is_of() -> None:
    facts = table_metadata("Steps", Selection(ranks=((0, 3),), start_ns=1_000_000).to_query())
    found = pq.read_schema(
        io.BytesIO(b"".join(TABLE_FORMATS["parquet"].write_chunks(pd.DataFrame({"a": [1]}), (), facts)))
    )
    assert (found.metadata[b"title"], found.metadata[b"selection"]) == (b"Steps", b"rank=0-3 start-ms=1")
