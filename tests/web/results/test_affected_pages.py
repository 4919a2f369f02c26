"""Pages of a recording that was not read to its end say so beside their figures."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from dataclasses import replace

import pytest

from perfloom.domain.tables import SCHEMAS
from perfloom.readers import detect_format
from tests.support import paths
from tests.web.conftest import TOKEN, Browser, profile

DATA = paths.DATA
BEARER = {"Authorization": f"Bearer {TOKEN}"}
CUT, LOST, WHOLE = "cutoff000000", "onelost00000", "whole0000000"


@pytest.fixture
def results(stored: Callable[..., str]) -> None:
    trace = gzip.decompress((DATA / "pytorch" / "training.pt.trace.json.gz").read_bytes())[:-1000]
    stored(detect_format(trace[:1000]).read(io.BytesIO(trace), "cut"), CUT, name="cut off")
    made = profile()
    none = SCHEMAS["losses"].empty_table()
    whole = replace(made, losses=none, meta=replace(made.meta, complete=True, reasons=()))
    stored(whole, WHOLE, name="whole")
    row = {"reason": "line of another program", "count": 3, "example": "line 1: x"}
    losses = SCHEMAS["losses"].empty_table().from_pylist([row], schema=SCHEMAS["losses"])
    stored(replace(whole, losses=losses), LOST, name="with losses")


def test_figures_are_marked(browser_client: Browser, results: None) -> None:
    for page in ("", "/operators", "/steps", "/timeline", "/threads"):
        text = browser_client.page(f"/results/{CUT}{page}")
        assert "ends in the middle of its JSON" in text and "Figures cover only what was recorded and read." in text
        assert f'href="/results/{CUT}/losses"' in text
    assert "3 items in the recording could not be read" in browser_client.page(f"/results/{LOST}/hotspots")
    for page in ("", "/hotspots"):
        assert "What could not be read" not in browser_client.page(f"/results/{WHOLE}{page}")
    assert "Nothing was lost" not in browser_client.page(f"/results/{CUT}/losses")


def test_advice_is_withheld(browser_client: Browser, results: None) -> None:
    page = browser_client.page(f"/results/{CUT}/advice")
    assert "Advice is withheld" in page and "cannot be computed from a part" in page
    (row,) = browser_client.client.get(f"/api/v1/results/{CUT}/advice", headers=BEARER).json
    assert row["rule"] == "withheld" and "ends in the middle" in row["evidence"]
    assert "withheld" in browser_client.page(f"/results/{CUT}/advice.csv")


def test_json_is_marked(browser_client: Browser, results: None) -> None:
    def rows(id: str, table: str):  # type: ignore[no-untyped-def]
        return browser_client.client.get(f"/api/v1/results/{id}/{table}", headers=BEARER).json

    assert all(row["affected_by_losses"] is True for row in rows(LOST, "hotspots"))
    assert rows(CUT, "summary")["affected_by_losses"] is True
    for page in ("hotspots", "threads", "counts", "operators", "kernels", "steps", "tables/summary", "critical-path"):
        downloaded = browser_client.client.get(f"/results/{CUT}/{page}.json", headers=BEARER).get_json(force=True)
        assert all(row["affected_by_losses"] is True for row in downloaded), page
    compared = browser_client.client.get(f"/compare.json?base={WHOLE}&other={LOST}", headers=BEARER).get_json(
        force=True
    )
    assert compared and all(row["affected_by_losses"] is True for row in compared)
    assert "affected_by_losses" not in rows(WHOLE, "summary") and "affected_by_losses" not in rows(LOST, "losses")[0]
