"""Jobs, presets, hosts, checks and leases, on both databases."""

from __future__ import annotations

import contextlib
import gc
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event, text

from perfloom.config import Settings
from perfloom.domain.errors import Conflict, InvalidRequest, NotFound, Unavailable
from perfloom.domain.host_facts import HostFacts, PerfEvent
from perfloom.domain.jobs import JobSpec, JobState, Outcome
from perfloom.store import Store, open_store

from .making import store_result

SPEC = JobSpec(name="try", command=("./a.out", "--x", 'a "b"\n'), events=("cycles:u",), environment={"A": "ä"})
HOSTILE = "nul\0 half\udc80 <script> ' \" \\ % _ \\u0000 \U0001f525"
STORED = "nul\ufffd half? <script> ' \" \\ % _ \\u0000 \U0001f525"


def test_job_is_stored_unchanged(store: Store) -> None:
    before = time.time()
    job = store.jobs.create("record", SPEC.to_json(), "try")
    assert store.jobs.get(job.id) == job == store.jobs.find(job.id)
    assert job.job_spec == SPEC
    assert (job.kind, job.name, job.state, job.attempt, job.cancel_requested) == ("record", "try", "queued", 0, False)
    assert before <= job.created == job.changed == job.due_at <= time.time()
    assert job.argv is job.outcome is job.result_id is job.progress is job.started is job.ended is None


def test_text_may_be_anything(store: Store) -> None:
    job = store.jobs.create("record", {"command": [HOSTILE], HOSTILE: {"x": HOSTILE}}, HOSTILE)
    assert job.name == STORED and job.spec == {"command": [STORED], STORED: {"x": STORED}}
    store.jobs.update(job.id, argv=(HOSTILE,), reason=HOSTILE, outcome=Outcome(reasons=(HOSTILE,)))
    job = store.jobs.get(job.id)
    assert job.argv == (STORED,) and job.reason == STORED and job.outcome == Outcome(reasons=(STORED,))


def test_job_transitions(store: Store) -> None:
    id = store.jobs.create("record", {}, "x").id
    claimed = store.jobs.claim(id, "worker 1", "node7", 30)
    assert claimed is not None and (claimed.state, claimed.attempt, claimed.host) == (JobState.STAGING, 1, "node7")
    assert claimed.due_at == pytest.approx(time.time() + 30, abs=20)
    assert store.jobs.claim(id, "worker 2", "node8", 30) is None
    assert store.jobs.transition(id, JobState.STAGING, JobState.RUNNING, process_group=77, argv=("perf", "record"))
    started = store.jobs.get(id).started
    assert store.jobs.report_progress(id, 0.5, "half")
    assert store.jobs.get(id).progress == 0.5 and store.jobs.get(id).progress_text == "half"
    assert not store.jobs.transition(id, JobState.STAGING, JobState.FAILED)
    assert not store.jobs.transition(id, JobState.RUNNING, JobState.COLLECTING, expected_attempt=2)
    assert store.jobs.transition(id, (JobState.RUNNING, JobState.PENDING), JobState.COLLECTING, expected_attempt=1)
    job = store.jobs.get(id)
    assert (job.started, job.process_group, job.argv, job.progress) == (started, 77, ("perf", "record"), None)
    outcome = Outcome(exit_status=3, reasons=("it said so",))
    assert store.jobs.transition(id, JobState.COLLECTING, JobState.FAILED, outcome=outcome, reason="no samples")
    job = store.jobs.get(id)
    assert job.state.final and job.outcome == outcome and job.reason == "no samples" and job.due_at is None
    assert job.ended is not None and started is not None and job.ended >= started
    assert not store.jobs.report_progress(id, 1.0, "late") and not store.jobs.request_cancel(id)
    assert not store.jobs.update(id, reason="late") and store.jobs.get(id) == job
    assert [state for state, _ in job.history] == ["queued", "staging", "running", "collecting", "failed"]


def test_columns_that_are_no_columns_are_a_mistake(store: Store) -> None:
    id = store.jobs.create("record", {}, "x").id
    for wrong in ("state", "id", "created", "colour"):
        with pytest.raises(TypeError):
            store.jobs.update(id, **{wrong: "x"})


def test_cancelling_is_noted_and_due(store: Store) -> None:
    id = store.jobs.create("record", {}, "x", due_at=time.time() + 1000).id
    assert store.jobs.list_due() == ()
    assert store.jobs.request_cancel(id)
    assert store.jobs.get(id).cancel_requested and store.jobs.list_due() == (id,)
    assert store.jobs.claim(id, "w", "h", 1) is None
    assert not store.jobs.request_cancel("0" * 12)


def test_due_jobs(store: Store) -> None:
    now = 1000.0
    late = store.jobs.create("record", {}, "late", due_at=now - 5).id
    later = store.jobs.create("record", {}, "later", due_at=now).id
    store.jobs.create("record", {}, "not yet", due_at=now + 0.001)
    store.jobs.create("record", {}, "draft", state=JobState.DRAFT, due_at=now - 9)
    ended = store.jobs.create("record", {}, "ended", due_at=now - 9).id
    store.jobs.transition(ended, JobState.QUEUED, JobState.FAILED)
    assert store.jobs.list_due(now) == (late, later)
    assert store.jobs.list_due(now, limit=1) == (late,)


def test_lists_of_jobs(store: Store) -> None:
    ids = [store.jobs.create("record" if i % 2 else "import", {}, str(i)).id for i in range(4)]
    store.jobs.transition(ids[0], JobState.QUEUED, JobState.FAILED)
    draft = store.jobs.create("record", {}, "draft", state=JobState.DRAFT).id
    names = lambda jobs: [job.name for job in jobs]  # noqa: E731
    assert names(store.jobs.list()) == ["draft", "3", "2", "1", "0"]
    assert names(store.jobs.list(active=True)) == ["3", "2", "1"]
    assert names(store.jobs.list(active=False)) == ["draft", "0"]
    assert names(store.jobs.list(kind="import")) == ["2", "0"]
    assert names(store.jobs.list(states=(JobState.FAILED, JobState.DRAFT))) == ["draft", "0"]
    assert names(store.jobs.list(offset=1, limit=2)) == ["3", "2"]
    assert store.jobs.counts() == {JobState.DRAFT: 1, JobState.QUEUED: 3, JobState.FAILED: 1}
    latest = store.jobs.latest(states=(JobState.QUEUED,))
    assert latest is not None and latest.name == "3" and store.jobs.latest(states=(JobState.LOST,)) is None
    store.jobs.rename(draft, "renamed")
    assert store.jobs.get(draft).name == "renamed"
    store.jobs.create("record", {"target": "far"}, "far")
    assert store.jobs.active_by_target(kind="record") == {"local": 2, "far": 1}
    assert store.jobs.active_by_target(kind="import") == {"local": 1}


def test_deleting_a_job_leaves_its_result(store: Store) -> None:
    result = store_result(store)
    with pytest.raises(Conflict, match="cancel it first"):
        store.jobs.delete(result.id)
    store.jobs.transition(result.id, JobState.QUEUED, JobState.STORED, result_id=result.id)
    locked = store.jobs.directory(result.id) / "work" / "locked"
    locked.mkdir(parents=True)
    (locked / "file").write_text("x")
    locked.chmod(0)
    store.jobs.delete(result.id)
    assert not store.jobs.directory(result.id).exists()
    assert store.jobs.find(result.id) is None and store.results.get(result.id) == result
    with pytest.raises(NotFound):
        store.jobs.delete(result.id)


def test_ids_are_given_once(store: Store) -> None:
    job = store.jobs.create("import", {}, "x", id="a" * 12)
    with pytest.raises(Conflict):
        store.jobs.create("import", {}, "y", id="a" * 12)
    assert store.jobs.get("a" * 12) == job
    with pytest.raises(NotFound):
        store.jobs.create("import", {}, "z", id="../../../../x")


def test_presets(store: Store) -> None:
    assert store.presets.list() == ()
    kept = store.presets.save(" cache  misses ", SPEC.to_json())
    store.presets.save("All", {})
    assert kept.name == "cache misses" and kept.job_spec == SPEC
    assert [preset.name for preset in store.presets.list()] == ["All", "cache misses"]
    other = replace(SPEC, frequency=99)
    store.presets.save("cache misses", other.to_json())
    assert store.presets.get("cache misses").job_spec == other and len(store.presets.list()) == 2
    store.presets.delete("cache misses")
    for use in (store.presets.get, store.presets.delete):
        with pytest.raises(NotFound):
            use("cache misses")
    with pytest.raises(InvalidRequest):
        store.presets.save(" ", {})


def test_hosts(store: Store) -> None:
    facts = HostFacts(host="node7", cpus=8, paranoid=-1, events=(PerfEvent("cycles", "hardware"),), options=("-z",))
    store.hosts.heartbeat("login", 10.0)
    store.hosts.publish(facts, 20.0)
    store.hosts.heartbeat("node7", 30.0)
    assert store.hosts.get("node7").facts == facts and store.hosts.get("node7").seen == 30.0
    assert [(host.name, host.facts) for host in store.hosts.list()] == [("node7", facts), ("login", None)]
    assert [host.name for host in store.hosts.list_alive(11.0)] == ["node7"]
    store.hosts.publish(replace(facts, paranoid=2))
    known = store.hosts.get("node7").facts
    assert known is not None and known.paranoid == 2
    store.hosts.delete("node7")
    with pytest.raises(NotFound, match="perfloom worker"):
        store.hosts.get("node7")


def test_checks(store: Store) -> None:
    check = store.checks.ask({"command": ["true"]})
    assert store.checks.get(check.id) == check and check.answer is None
    assert store.checks.answer(check.id, {"ok": True})
    assert not store.checks.answer(check.id, {"ok": False})
    assert store.checks.get(check.id).answer == {"ok": True}
    assert not store.checks.answer("0" * 12, {})
    with store.database.write() as session:
        session.execute(text("UPDATE checks SET created = created - 4000"))
    store.checks.ask({})
    with pytest.raises(NotFound, match="check again"):
        store.checks.get(check.id)


def test_leases(store: Store) -> None:
    assert store.leases.take("sweep", "a", 60)
    assert not store.leases.take("sweep", "b", 60) and store.leases.take("sweep", "a", 60)
    assert store.leases.take("other", "b", 60) and store.leases.holder("sweep") == "a"
    assert not store.leases.release("sweep", "b") and store.leases.release("sweep", "a")
    assert store.leases.holder("sweep") is None
    # Any process may take an expired lease.
    assert store.leases.take("sweep", "b", -0.001)
    assert store.leases.holder("sweep") is None and store.leases.take("sweep", "c", 60)
    assert not store.leases.take("sweep", "b", 60) and not store.leases.release("sweep", "b")


def test_an_exception_undoes_a_transaction(store: Store) -> None:
    id = store.jobs.create("import", {}, "x").id
    with pytest.raises(ZeroDivisionError), store.database.write() as session:
        session.execute(text("UPDATE jobs SET name = 'changed'"))
        raise ZeroDivisionError
    assert store.jobs.get(id).name == "x"


def test_many_threads_write_at_once(store: Store) -> None:
    id = store.jobs.create("import", {}, "x").id
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(10):
                store.jobs.report_progress(id, i / 10, f"thread {number}")
                store.jobs.create("import", {}, f"{number}/{i}")
                store.jobs.list(limit=5)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert faults == [] and len(store.jobs.list(limit=1000)) == 81


def test_missing_database_is_reported(settings: Settings) -> None:
    if settings.uses_sqlite:
        url, hint = f"sqlite:///{settings.data}/no/such/folder/x.sqlite", "data directory's owner"
    else:
        url, hint = "postgresql://app@/t?host=/nonexistent", "PERFLOOM_DATABASE_URL"
    with pytest.raises(Unavailable, match=hint):
        open_store(Settings.load(settings.data, {}, database_url=url))


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "postgresql://h:port/x"])
def test_invalid_database_url(settings: Settings, url: str) -> None:
    with pytest.raises(InvalidRequest, match="PERFLOOM_DATABASE_URL"):
        open_store(Settings.load(settings.data, {}, database_url=url))


def test_file_without_database(settings: Settings) -> None:
    if not settings.uses_sqlite:
        return
    settings.prepare()
    (settings.data / "catalogue.sqlite").write_bytes(b"perfloom " * 1000)
    with pytest.raises(Unavailable, match="file is not a database"):
        open_store(settings)


def test_a_store_that_is_dropped_closes_its_connections(settings: Settings) -> None:
    """Python 3.13 warns about SQLite connections that are not closed."""
    closed: list[object] = []
    store = open_store(settings)
    event.listen(store.database.engine, "close", lambda connection, record: closed.append(record))
    store.jobs.create("record", {}, "x")
    assert not closed
    del store
    gc.collect()
    assert closed


def test_database_is_private_and_reopening_keeps_locks(tmp_path: Path) -> None:
    """Closing any descriptor of a file drops all POSIX locks that the process holds on it, SQLite's too. Another process
    then takes itself for the only one, and removes the journal under us."""
    settings = Settings.load(tmp_path / "data", {"PERFLOOM_RUNTIME": str(tmp_path / "run")})
    first = open_store(settings)
    first.jobs.create("record", {}, "x")
    catalogue, journal = settings.data / "catalogue.sqlite", settings.data / "catalogue.sqlite-wal"
    for path in (catalogue, journal):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    second = open_store(settings, migrate=False)
    code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT count(*) FROM jobs'); c.close()"
    subprocess.run([sys.executable, "-c", code, str(catalogue)], check=True)
    assert journal.exists()
    second.close()
    first.close()


def test_a_reader_does_not_keep_others_from_opening_a_new_database(tmp_path: Path) -> None:
    """Opening changes the journal mode, for which SQLite does not wait."""
    settings = Settings.load(tmp_path / "data", environ={}, reserve_bytes=0)
    settings.prepare()
    path = settings.data / "catalogue.sqlite"
    reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    reader.execute("CREATE TABLE other (x)")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM other").fetchall()
    with contextlib.closing(sqlite3.connect(path)) as other, pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("PRAGMA journal_mode = WAL")
    timer = threading.Timer(0.3, lambda: reader.execute("COMMIT"))
    timer.start()
    store = open_store(settings)
    assert store.jobs.create("import", {}, "x").id
    store.close()
    timer.join()
    reader.close()
