"""/healthz, /metrics, the API and errors: what machines and people get when things go well or wrong."""

from __future__ import annotations

import gzip
import io
import logging
import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from perfloom.analysis.core.loss_impact import AFFECTED_FIELD
from perfloom.analysis.tables import TABLES
from perfloom.config import Settings
from perfloom.domain.errors import Conflict, TooLarge, Unavailable
from perfloom.domain.jobs import JobState
from perfloom.readers import nsight_compute, pytorch
from perfloom.store import Store
from tests.support import paths
from tests.web.conftest import TOKEN, Browser

DATA = paths.DATA
BEARER = {"Authorization": f"Bearer {TOKEN}"}
LINE = re.compile(r'[a-z_]+(\{[a-z]+="[^"\\\n]*"(,[a-z]+="[^"\\\n]*")*\})? [0-9.e+]+')


def test_metrics(client: FlaskClient, store: Store, ordinary: str) -> None:
    store.jobs.create("import", {}, "x")
    client.get("/nothing", headers=BEARER)
    text = client.get("/metrics", headers=BEARER).text
    for line in text.splitlines():
        assert line.startswith("# ") or LINE.fullmatch(line), line
    assert 'perfloom_jobs{state="queued"} 1' in text
    assert "perfloom_results 1" in text
    assert f"perfloom_results_bytes {store.results.get(ordinary).bytes}" in text
    assert re.search(r'perfloom_http_requests_total\{method="GET",status="404",process="\d+"\} 1', text)
    for state in JobState:
        assert f'state="{state}"' in text


def test_health_reports_a_missing_database(app: Flask, client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise Unavailable("secret details")

    monkeypatch.setattr(app.extensions["perfloom"].store.jobs, "counts", broken)
    response = client.get("/healthz")
    assert response.status_code == 503 and "secret" not in response.text


class TestApi:
    def get(self, client: FlaskClient, path: str, status: int = 200):  # type: ignore[no-untyped-def]
        response = client.get(f"/api/v1{path}", headers=BEARER)
        assert response.status_code == status, response.text
        return response.json

    def test_results(self, client: FlaskClient, store: Store, ordinary: str, evil: str) -> None:
        listed = self.get(client, "/results?sort=name")
        assert listed["total"] == 2 and [r["id"] for r in listed["results"]] == [evil, ordinary]
        found = self.get(client, f"/results/{ordinary}")
        assert found["name"] == "an ordinary result" and found["meta"]["main_event"] == "cpu-clock"
        totals = {event["event"]: event["value"] for event in found["events"]}
        assert totals == {"cpu-clock": 450 * 5_025_125, "page-faults": 150 * 3}
        assert self.get(client, "/results?limit=1&offset=1")["results"][0]["id"] in (ordinary, evil)
        assert self.get(client, "/results?search=nothing+like+it") == {"total": 0, "results": []}

    def test_tables_have_the_declared_fields(
        self, client: FlaskClient, ordinary: str, stored: Callable[..., str]
    ) -> None:
        """Of every table; most of those of traces have rows for a trace alone."""
        with gzip.open(DATA / "pytorch" / "memory.pt.trace.json.gz") as file:
            traced = stored(pytorch.read(file, "trace"), "traced000000")  # type: ignore[arg-type]
        report = b"\n".join((DATA / "nsight" / f"{page}.csv").read_bytes() for page in ("raw", "details", "source"))
        counted = stored(nsight_compute.read(io.BytesIO(report), "report"), "report000000")
        empty = set()
        for name, table in TABLES.items():
            found = [self.get(client, f"/results/{id}/{name}") for id in (ordinary, traced, counted)]
            rows = found if table.single_row else [row for rows in found for row in rows]
            for row in rows:
                assert [word for word in row if word != AFFECTED_FIELD] == [column.name for column in table.columns], (
                    name
                )
            empty |= {name} if not rows else set()
        # What no device did, and what went well.
        assert empty <= {
            "kernels", "copies", "launches", "graphs", "sequences", "devices", "utilization", "idle", "communication",
            "collectives", "stragglers", "clocks", "count-metrics", "branches", "loops", "memory-events", "critical-path", "losses", "modules", "advice", "ranks",
            "topdown",
        }  # fmt: skip

    def test_tables_are_described(self, client: FlaskClient) -> None:
        described = {table["name"]: table for table in self.get(client, "/tables")}
        assert set(described) == set(TABLES)
        assert all(column["description"] for table in described.values() for column in table["columns"])

    def test_the_selection_narrows(self, client: FlaskClient, ordinary: str) -> None:
        everything = self.get(client, f"/results/{ordinary}/summary?event=page-faults")
        half = self.get(client, f"/results/{ordinary}/summary?event=page-faults&end-ms=300")
        assert everything["value"] == 450 and 0 < half["value"] < 450
        assert {row["name"] for row in self.get(client, f"/results/{ordinary}/hotspots?by=module")} == {
            "/usr/lib/libc.so.6",
            "[kernel.kallsyms]",
        }

    @pytest.mark.parametrize(
        ("path", "status", "says"),
        [
            ("/results/zzzzzzzzzzzz", 404, "No result"),
            ("/results/ordinary0000/passwords", 404, "hotspots"),
            ("/results/ordinary0000/hotspots?event=no", 400, "cpu-clock"),
            ("/results/ordinary0000/hotspots?focus=((", 400, "RE2"),
            ("/results/ordinary0000/hotspots?start-ms=x", 400, "milliseconds"),
            ("/results/ordinary0000/hotspots?by=cow", 400, "function"),
            ("/results?limit=-1", 400, "whole number"),
            ("/results?sort=passwords", 400, "created"),
            ("/nothing", 404, "No such page"),
        ],
    )
    def test_errors_are_json_that_says_what_to_do(
        self, client: FlaskClient, ordinary: str, path: str, status: int, says: str
    ) -> None:
        content = self.get(client, path, status)
        assert says in content["error"] and set(content) == {"error", "field", "id"}

    def test_deleting(self, client: FlaskClient, store: Store, ordinary: str) -> None:
        assert client.delete(f"/api/v1/results/{ordinary}", headers=BEARER).status_code == 204
        assert store.results.find(ordinary) is None
        assert client.delete(f"/api/v1/results/{ordinary}", headers=BEARER).status_code == 404

    def test_another_method_says_which_there_are(self, client: FlaskClient) -> None:
        response = client.patch("/api/v1/results", headers=BEARER)
        assert response.status_code == 405 and "GET" in response.headers["Allow"]


def raising(app: Flask, error: Exception) -> None:
    def view() -> str:
        raise error

    app.add_url_rule("/raise", "raise", view)
    app.add_url_rule("/api/v1/raise", "raise_api", view)


@pytest.mark.parametrize(
    "error", [Conflict("It runs; <b>stop</b> it first."), TooLarge("Too <large>."), Unavailable("x")]
)
def test_known_errors_keep_their_sentence_and_status(app: Flask, error: Conflict) -> None:
    raising(app, error)
    client = Browser(app.test_client()).client
    page = client.get("/raise")
    assert page.status_code == error.http_status
    assert error.message.replace("<", "&lt;").replace(">", "&gt;") in page.text
    assert client.get("/api/v1/raise").json == {"error": error.message, "field": None, "id": None}


def test_a_bug_is_logged_under_an_id_and_never_shown(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    raising(app, ZeroDivisionError("the secret of line 12"))
    client = Browser(app.test_client()).client
    with caplog.at_level(logging.ERROR):
        page = client.get(f"/raise?x={TOKEN}")
        answer = client.get("/api/v1/raise")
    assert page.status_code == answer.status_code == 500
    assert "line 12" not in page.text and "Traceback" not in page.text and "ZeroDivision" not in page.text
    shown = re.search(r"<code>([0-9a-f]{8})</code>", page.text)
    assert shown and any(shown[1] in record.getMessage() and record.exc_info for record in caplog.records)
    assert answer.json["id"] in caplog.text
    assert TOKEN not in caplog.text
    assert "Content-Security-Policy" in page.headers


def test_for_any_wsgi_server(root: Path, settings: Settings, app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFLOOM_DATA", str(settings.data))
    monkeypatch.setenv("PERFLOOM_RUNTIME", str(settings.runtime))
    served = runpy.run_path(str(root / "wsgi.py"))["app"]
    try:
        assert served.test_client().get("/healthz").text == "ok\n"
        assert served.test_client().get("/").status_code == 401
    finally:
        served.extensions["perfloom"].store.close()
