"""Tables as JSON: in blocks, and with values that only the slower encoder writes."""

from __future__ import annotations

import json
import math

import pytest
from flask import Flask

from perfloom.analysis.core.schema import Column, build_rows, records
from perfloom.web.views.results import tables

COLUMNS = (Column("name", "", "A text."), Column("value", "", "A value.", "number"))
ODD = ["a", 'quoted "<é"', None, "not Unicode \udcff", ""]


@pytest.mark.parametrize("names", [ODD, ODD[:3], ODD[:2], []])
def test_blocks_are_one_list(app: Flask, monkeypatch: pytest.MonkeyPatch, names: list[str | None]) -> None:
    monkeypatch.setattr(tables, "BLOCK_ROWS", 2)
    rows = build_rows(COLUMNS, {"name": names, "value": [None, 1, 1 << 53, 1.5, 1 << 70][: len(names)]})
    with app.test_request_context("/"):
        found = [tables.table_response("name", rows)]
        found += [tables.table_response("name", rows.to_frame())] if "not Unicode \udcff" not in names else []
    for response in found:
        assert response.mimetype == "application/json"
        assert json.loads(response.get_data()) == records(rows)


@pytest.mark.parametrize("name", ["Unicode", "not Unicode \udcff"])
def test_infinite_values_are_null(app: Flask, name: str) -> None:
    rows = build_rows(COLUMNS, {"name": [name] * 3, "value": [math.inf, -math.inf, 1.5]})
    with app.test_request_context("/"):
        text = tables.table_response("name", rows).get_data(as_text=True)
    assert "Infinity" not in text
    assert [row["value"] for row in json.loads(text)] == [None, None, 1.5]
