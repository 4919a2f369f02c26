"""Uploads: to disk, under safe names, with limits, and gone where they are not kept."""

from __future__ import annotations

import errno
import io
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import create_environ, run_wsgi_app

from perfloom.config import Settings
from perfloom.store import Store
from perfloom.web import uploads
from perfloom.web.app import create_app
from tests.web.conftest import HOSTILE, TOKEN, Browser

BEARER = {"Authorization": f"Bearer {TOKEN}"}
TEXT = b"python3 100 1.000001: 10 cycles: \n\t7f00 main (/bin/x)\n\n"


def multipart(fields: dict[str, str], files: tuple[tuple[str, bytes], ...]) -> bytes:
    """A form as a browser sends it (HTML, multipart/form-data encoding algorithm)."""
    escapes = str.maketrans({'"': "%22", "\n": "%0A", "\r": "%0D"})
    parts = [f'name="{name}"\r\n\r\n{value}'.encode() for name, value in fields.items()]
    for name, content in files:
        parts.append(f'name="file"; filename="{name.translate(escapes)}"\r\n\r\n'.encode() + content)
    return b"".join(b"--b\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts) + b"--b--\r\n"


def send(client: FlaskClient, *files: tuple[str, bytes], path: str = "/api/v1/imports", **fields: str) -> Any:
    body = multipart(fields, files)
    return client.post(path, data=body, headers=BEARER, content_type="multipart/form-data; boundary=b")


def left(settings: Settings) -> list[str]:
    return os.listdir(settings.data / "uploads")


def test_a_file_becomes_a_job(client: FlaskClient, store: Store, settings: Settings) -> None:
    response = send(client, ("run.perf.txt", TEXT))
    assert response.status_code == 200
    [job] = response.json["jobs"]
    kept = store.jobs.get(job["id"])
    assert (kept.kind, kept.name, job["url"]) == ("import", "run.perf.txt", f"/jobs/{kept.id}")
    assert kept.spec == {"files": ["run.perf.txt"]}
    file = store.jobs.directory(kept.id) / "artefacts" / "run.perf.txt"
    assert file.read_bytes() == TEXT
    assert file.stat().st_mode & 0o777 == 0o600
    assert left(settings) == []


def test_several_files_are_several_jobs(client: FlaskClient, store: Store) -> None:
    response = send(client, ("a", b"1"), ("b", b"2"), name="both")
    assert [job["name"] for job in response.json["jobs"]] == ["both (1)", "both (2)"]
    assert len(store.jobs.list(active=True)) == 2


def test_or_one_where_they_are_one_run(client: FlaskClient, store: Store) -> None:
    response = send(client, ("rank.0", b"1"), ("rank.0", b"2"), together="1")
    [job] = response.json["jobs"]
    assert store.jobs.get(job["id"]).spec["files"] == ["rank.0", "rank-2.0"]
    artefacts = store.jobs.directory(job["id"]) / "artefacts"
    assert [(artefacts / name).read_bytes() for name in ("rank.0", "rank-2.0")] == [b"1", b"2"]


def test_ranks_are_recognized_by_their_names(client: FlaskClient, store: Store) -> None:
    [job] = send(client, ("t.rank1.json", b"1"), ("t.rank0.json", b"0"), together="auto").json["jobs"]
    kept = store.jobs.get(job["id"])
    assert (kept.name, kept.spec["files"]) == ("t.rank*.json", ["t.rank0.json", "t.rank1.json"])
    folders = send(client, ("run/rank1/perf.data", b"1"), ("run/rank0/perf.data", b"0"), together="auto", name="mine")
    [job] = folders.json["jobs"]
    kept = store.jobs.get(job["id"])
    artefacts = store.jobs.directory(job["id"]) / "artefacts"
    assert kept.name == "mine" and [(artefacts / name).read_bytes() for name in kept.spec["files"]] == [b"0", b"1"]
    others = send(client, ("before.data", b"1"), ("after.data", b"2"), together="auto")
    assert [job["name"] for job in others.json["jobs"]] == ["before.data", "after.data"]
    mixed = send(client, ("notes", b"n"), ("rank1", b"1"), ("rank0", b"0"), together="auto")
    assert [store.jobs.get(job["id"]).spec["files"] for job in mixed.json["jobs"]] == [["rank0", "rank1"], ["notes"]]
    assert len(send(client, ("rank0", b"1"), ("rank1", b"2"), together="0").json["jobs"]) == 2
    assert len(send(client, ("rank0", b"1"), ("rank1", b"2")).json["jobs"]) == 2, "as before for other programs"


def test_files_of_a_result_set_become_one_result(client: FlaskClient, store: Store) -> None:
    files = (("D_proc0_a", b"1"), ("D.results", b"2"), ("D_proc0_b", b"3"), ("x.data", b"4"))
    for fields in ({"together": "auto"}, {}):
        jobs = send(client, *files, **fields).json["jobs"]
        assert [job["name"] for job in jobs] == ["D.results", "x.data"]
        assert store.jobs.get(jobs[0]["id"]).spec["files"] == ["D.results", "D_proc0_a", "D_proc0_b"]
    named = send(client, *files, together="auto", name="mine").json["jobs"]
    assert [job["name"] for job in named] == ["mine (1)", "mine (2)"]
    [job] = send(client, *files[:3], together="auto", name="mine").json["jobs"]
    assert job["name"] == "mine"
    assert len(send(client, *files, together="0").json["jobs"]) == 4


def test_files_of_a_database_become_one_result(client: FlaskClient, store: Store) -> None:
    files = (("d/profile.db", b"1"), ("d/src/x.c", b"2"), ("d/meta.db", b"3"), ("d/cct.db", b"4"), ("x.data", b"5"))
    jobs = send(client, *files, together="auto").json["jobs"]
    assert [job["name"] for job in jobs] == ["d", "x.data"], "copies of source files are not imported"
    assert store.jobs.get(jobs[0]["id"]).spec["files"] == ["meta.db", "profile.db"]
    flat = (("a.metric-db", b"1"), ("experiment.xml", b"2"))
    assert [job["name"] for job in send(client, *flat).json["jobs"]] == ["experiment.xml"]
    assert len(send(client, *flat, together="0").json["jobs"]) == 2


def test_files_of_one_recording_become_one_result(client: FlaskClient, store: Store) -> None:
    files = (("perf.data.2026112723063881", b"2"), ("x.data", b"4"), ("perf.data.2026112723063768.zst", b"1"))
    jobs = send(client, *files, together="auto").json["jobs"]
    assert [job["name"] for job in jobs] == ["perf.data", "x.data"]
    assert store.jobs.get(jobs[0]["id"]).spec["files"] == [files[2][0], files[0][0]]
    assert len(send(client, *files, together="0").json["jobs"]) == 3


def test_the_page_asks_whether_files_are_ranks(browser_client: Browser) -> None:
    def ask(content: object) -> Any:
        headers = {"X-CSRF-Token": browser_client.csrf, "Origin": "http://localhost"}
        return browser_client.client.post("/import/ranks", json=content, headers=headers)

    ranks = ask({"names": ["rank1", "rank0"]}).json["ranks"]
    assert (ranks["count"], ranks["order"], ranks["certain"]) == (2, [1, 0], True) and "rank 0" in ranks["reason"]
    assert ask({"names": ["a", "b"]}).json == {"ranks": None, "sets": []}
    assert ask({"names": ["D_proc0_x", "D_proc1_x", "D.results"]}).json == {"ranks": None, "sets": [[2, 0, 1]]}
    assert ask({"names": ["d/profile.db", "d/src/x.c", "d/meta.db"]}).json["sets"] == [[2, 0, 1]]
    assert ask({"names": ["p.2026112723063881", "p.2026112723063768"]}).json["sets"] == [[1, 0]]
    for wrong in ({}, [], ["rank0"], {"names": "rank0"}, {"names": [1]}, {"names": ["x"] * 5001}):
        assert ask(wrong).status_code == 400, wrong


def test_the_clock_of_files_without_a_unit(client: FlaskClient, store: Store) -> None:
    [job] = send(client, ("perf.json", b"{}"), clock="ms").json["jobs"]
    assert store.jobs.get(job["id"]).spec == {"files": ["perf.json"], "clock": "ms"}
    assert send(client, ("perf.json", b"{}"), clock="min").status_code == 400


def test_as_a_plain_form(browser_client: Browser, store: Store) -> None:
    data = {"csrf": browser_client.csrf, "name": "", "file": (io.BytesIO(TEXT), "x.txt")}
    response = browser_client.client.post("/import", data=data, content_type="multipart/form-data")
    assert response.status_code == 303
    [job] = store.jobs.list(active=True)
    assert response.headers["Location"] == f"/jobs/{job.id}"


def test_nothing_chosen_keeps_the_form(browser_client: Browser, store: Store) -> None:
    data = {"csrf": browser_client.csrf, "name": "kept <b>", "together": "1", "file": (io.BytesIO(b""), "")}
    response = browser_client.client.post("/import", data=data, content_type="multipart/form-data")
    assert response.status_code == 400
    assert "select at least one" in response.text and "kept &lt;b&gt;" in response.text and " checked" in response.text
    assert store.jobs.list() == ()


def test_an_empty_file(client: FlaskClient, store: Store, settings: Settings) -> None:
    response = send(client, ("full", TEXT), ("empty", b""))
    assert response.status_code == 400 and "empty is empty" in response.json["error"]
    assert store.jobs.list() == () and left(settings) == []


@pytest.mark.parametrize("name", [*HOSTILE, "..", ".", "/etc/passwd", "C:\\x\\y", "-rf", ".hidden", "a\nb", "é" * 300])
def test_hostile_file_names(client: FlaskClient, store: Store, name: str) -> None:
    response = send(client, (name, TEXT))
    assert response.status_code == 200, response.text
    id = response.json["jobs"][0]["id"]
    artefacts = store.jobs.directory(id) / "artefacts"
    assert os.listdir(artefacts) == store.jobs.get(id).spec["files"]
    [kept] = os.listdir(artefacts)
    assert "/" not in kept and not kept.startswith((".", "-")) and len(kept.encode()) < 200
    assert (artefacts / kept).resolve().is_relative_to(store.jobs.directory(id).resolve())


@pytest.fixture
def small(settings: Settings) -> Settings:
    return replace(settings, upload_limit_bytes=3_000_000)


def test_more_than_the_limit_is_refused_before_it_is_read(small: Settings) -> None:
    client = create_app(small).test_client()
    response = send(client, ("big", b"x" * 5_000_000))
    assert response.status_code == 413
    assert "perfloom import" in response.json["error"] and "PERFLOOM_UPLOAD_LIMIT_BYTES" in response.json["error"]
    assert left(small) == []


def test_more_than_a_forms_worth_arrives_where_files_may(client: FlaskClient, store: Store) -> None:
    content = os.urandom(6_000_000)
    id = send(client, ("big", content)).json["jobs"][0]["id"]
    assert (store.jobs.directory(id) / "artefacts" / "big").read_bytes() == content


def test_and_nowhere_else(client: FlaskClient, ordinary: str, settings: Settings) -> None:
    response = send(client, ("big", b"x" * 6_000_000), path=f"/results/{ordinary}/edit", name="x")
    assert response.status_code == 413
    assert left(settings) == []


def test_a_full_disk_is_detected_in_advance(settings: Settings) -> None:
    client = create_app(replace(settings, reserve_bytes=10**18)).test_client()
    response = send(client, ("x", TEXT))
    assert response.status_code == 413 and "Delete results" in response.json["error"]


def test_a_disk_that_fills_up_meanwhile(
    client: FlaskClient, store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = open("/dev/full", "w+b", buffering=0)  # noqa: SIM115 - closed by the upload
    monkeypatch.setattr(os, "fdopen", lambda handle, mode: os.close(handle) or full)
    response = send(client, ("x", b"x" * 1_000_000))
    monkeypatch.undo()
    assert response.status_code == 503 and "is full" in response.json["error"]
    assert store.jobs.list() == () and left(settings) == []


class Body(io.RawIOBase):
    """What a client sends: these parts, then the connection is reset."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = list(parts)
        self.reads = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.reads += 1
        if not self.parts:
            raise OSError(errno.ECONNRESET, "reset")
        part = self.parts.pop(0)
        buffer[: len(part)] = part
        return len(part)


def post_body(app: Flask, body: Body, headers: dict[str, str]) -> str:
    environ = create_environ("/api/v1/imports", method="POST", headers=headers)
    environ |= {"CONTENT_TYPE": "multipart/form-data; boundary=b", "CONTENT_LENGTH": "1000000", "wsgi.input": body}
    content, status, _ = run_wsgi_app(app.wsgi_app, environ, buffered=True)
    list(content)
    return status


def test_a_connection_that_breaks_off_leaves_nothing(app: Flask, store: Store, settings: Settings) -> None:
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    body = Body(head + b"x" * 1000, b"x" * 1000)
    assert post_body(app, body, BEARER).startswith("400")
    assert body.reads == 3
    assert store.jobs.list() == () and left(settings) == []


def test_uploads_need_the_csrf_token(browser_client: Browser, store: Store, settings: Settings) -> None:
    response = browser_client.client.post("/import", data={"file": (io.BytesIO(TEXT), "x")})
    assert response.status_code == 403
    assert store.jobs.list() == () and left(settings) == []


def test_without_the_token_nothing_is_even_read(app: Flask) -> None:
    body = Body(b"--b\r\n")
    assert post_body(app, body, {}).startswith("401")
    assert body.reads == 0


def test_leftovers_of_a_crash_are_removed_after_a_day(tmp_path: Path) -> None:
    old, new, other = tmp_path / "upload-a.part", tmp_path / "upload-b.part", tmp_path / "mine.txt"
    for path in (old, new, other):
        path.write_text("x")
    now = old.stat().st_mtime
    os.utime(old, (now - 2 * 86400,) * 2)
    os.utime(other, (now - 2 * 86400,) * 2)
    assert uploads.remove_stale(tmp_path, now) == 1
    assert sorted(os.listdir(tmp_path)) == ["mine.txt", "upload-b.part"]


def test_the_page_lists_readable_formats(browser_client: Browser) -> None:
    page = browser_client.page("/import")
    assert "perf script" in page and "collapsed" in page and "GiB" in page
