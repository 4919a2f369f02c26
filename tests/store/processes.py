"""Run as a program by the tests: processes that race for, or are killed in, the same store.

    python -m tests.store.processes WHAT DATA DATABASE_URL    prints one JSON object
    python -m tests.store.processes                           the same for every such line on standard input

A separate process, because it forks many others, which the process of pytest should not.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas  # noqa: F401  # pyarrow imports it on the first occasion: here once, and not in each process

from perfloom.config import Settings
from perfloom.domain.errors import NotFound, Unavailable
from perfloom.store import Store, open_store
from perfloom.store.files import columns
from perfloom.store.files.disk import remove_tree
from perfloom.store.models.results import ResultRow
from tests.store.making import has_valid_checksums, same, small_profile, store_result

FAR = 10 * 3600.0
START = "from perfloom.cli import main; main()"


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What `work` gives in `count` processes that start it in the same moment."""
    gate_read, gate_write = os.pipe()
    answers = []
    children = []
    for number in range(count):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(gate_write)
                os.read(gate_read, 1)
                os.write(write, json.dumps(work(number)).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(write)
        answers.append(read)
        children.append(child)
    os.close(gate_write)
    os.close(gate_read)
    found = []
    for read, child in zip(answers, children, strict=True):
        with open(read, "rb") as file:
            text = file.read()
        _, status = os.waitpid(child, 0)
        if status != 0:
            raise SystemExit(f"a child ended with status {status}")
        found.append(json.loads(text))
    return found


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Run `work` in a process that kills itself at its `step`-th touch of the disk. False where it ended before."""
    child = os.fork()
    if child == 0:
        try:
            left = [step]

            def touch() -> None:
                left[0] -= 1
                if left[0] <= 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            def audit(event: str, arguments: tuple[object, ...]) -> None:
                if event in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "shutil.rmtree"):
                    touch()

            real = os.fsync

            def fsync(handle: int) -> None:
                touch()
                real(handle)
                touch()

            os.fsync = fsync
            sys.addaudithook(audit)
            work()
        except BaseException as error:
            print(f"step {step}: {error!r}", file=sys.stderr)
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, f"step {step} ended with {os.WEXITSTATUS(status)}"
    return False


def race_to_open(settings: Settings) -> dict[str, Any]:
    def open_and_use(number: int) -> str:
        store = open_store(settings)
        return store.jobs.create("import", {}, f"job {number}").id

    ids = together(6, open_and_use)
    return {"jobs": len(open_store(settings).jobs.list()), "ids": len(set(ids))}


def race_to_claim(store: Store) -> dict[str, Any]:
    ids = [store.jobs.create("record", {}, f"job {i}").id for i in range(30)]

    def claim(number: int) -> list[str]:
        return [id for id in ids if store.jobs.claim(id, f"worker {number}", "here", 60)]

    won = together(6, claim)
    attempts = {store.jobs.get(id).attempt for id in ids}
    owners = all(store.jobs.get(id).claimed_by == f"worker {number}" for number, own in enumerate(won) for id in own)
    return {
        "won": sum(map(len, won)),
        "distinct": len({id for own in won for id in own}),
        "attempts": sorted(attempts),
    } | {"owners": owners}


def race_for_leases(store: Store) -> dict[str, Any]:
    won = together(6, lambda number: [i for i in range(30) if store.leases.take(f"lease {i}", f"owner {number}", 60)])
    return {"won": sum(map(len, won)), "distinct": len({i for own in won for i in own})}


def race_to_publish(store: Store) -> dict[str, Any]:
    ids = [store.jobs.create("import", {}, f"run {i}").id for i in range(8)]

    def publish(number: int) -> list[str]:
        names = []
        for id in ids:
            staged = store.results.stage(id)
            columns.write(small_profile(weights=(number + 1, number + 1)), staged)
            names.append(store.results.publish(id, staged, name=f"by {number}", job_id=id).name)
        return names

    told = together(4, publish)
    whole = 0
    for place, id in enumerate(ids):
        winner = store.results.get(id).name
        weight = int(winner.removeprefix("by ")) + 1
        agreed = {names[place] for names in told} == {winner}
        whole += agreed and same(store.results.open(id), small_profile(weights=(weight, weight)))
    left = [path.name for path in (store.settings.data / "results").iterdir() if path.name not in ids]
    return {"results": store.results.search()[1], "whole": whole, "left": left}


def kill_while_publishing(store: Store) -> dict[str, Any]:
    """After each kill: there whole or not at all, what was there before unharmed, and publishing again succeeds.

    At each disk access in turn. These are the same for SQLite and PostgreSQL, so only SQLite is tested at each.
    """
    stride = 1 if store.settings.uses_sqlite else 5
    original = store.settings.data / "uploads" / "perf.txt"
    original.write_text("main 1 cycles\n" * 1000)
    before = store_result(store, "before")
    step, adopted, absent = 1 - stride, 0, 0
    killed = True
    while killed:
        step += stride
        id = store.jobs.create("import", {}, "killed").id

        def publish(id: str = id) -> None:
            staged = store.results.stage(id)
            columns.write(small_profile(), staged)
            store.results.publish(id, staged, name="killed", originals=[original], job_id=id)
            store.results.compress(id)

        killed = killed_at(step, publish)
        store.jobs.update(id, due_at=0.0)
        listed = {row.id for row in store.results.search()[0]}
        visible = (store.settings.data / "results" / id).exists()
        assert not (listed - {id}) - {before.id} and (id not in listed or visible)
        done = store.results.recover(time.time() + FAR)
        assert done.missing == [] and done.damaged == []
        if visible:
            adopted += done.adopted == [id]
            assert same(store.results.open(id), small_profile())
        else:
            absent += 1
            assert store.results.find(id) is None
            staged = store.results.stage(id)
            columns.write(small_profile(), staged)
            store.results.publish(id, staged, name="killed", originals=[original], job_id=id)
        store.results.compress(id)
        (kept,) = store.results.original(id)
        assert kept.path.name == "perf.txt.zst" and store.results.get(id).name == "killed"
        assert list(kept.path.parent.iterdir()) == [kept.path]
        assert store.results.get(before.id) == before and same(store.results.open(before.id), small_profile())
        assert has_valid_checksums(store.results.path(id))
        store.results.delete(id)
        assert sorted(p.name for p in (store.settings.data / "results").iterdir()) == [before.id]
    return {"steps": step, "adopted": adopted, "absent": absent}


def kill_while_deleting(store: Store) -> dict[str, Any]:
    """After each kill: whole or going, and gone after a sweep if it had begun to go."""
    kept = store_result(store, "kept")
    step = 0
    finished = 0
    killed = True
    while killed:
        step += 1
        id = store_result(store, "deleted").id
        (store.results.cache(id) / "pyramid").write_bytes(b"x")
        killed = killed_at(step, lambda id=id: store.results.delete(id))  # type: ignore[misc]
        whole = (store.settings.data / "results" / id).exists()
        store.results.recover(time.time() + FAR)
        if whole:
            assert same(store.results.open(id), small_profile()) and not store.results.get(id).missing
            store.results.delete(id)
        else:
            finished += 1
            try:
                store.results.get(id)
                raise AssertionError(f"{id} is still listed")
            except NotFound:
                pass
        for folder in ("results", "cache"):
            left = {path.name for path in (store.settings.data / folder).iterdir()}
            assert left <= {kept.id}, left
        assert store.results.get(kept.id) == kept
    return {"steps": step, "finished": finished}


def fill(filler: Path) -> None:
    """Take all the space that a disk has."""
    with open(filler, "ab", buffering=0) as file:
        for size in (65536, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


def bytes_free(path: Path) -> int:
    """What a disk has left."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def delete_on_full_disk(store: Store) -> dict[str, Any]:
    """Database and results are on one disk without a free byte. The second time no process has them open."""
    data = store.settings.data
    first, second, kept = (store_result(store, name) for name in ("first", "second", "kept"))
    for result in (first, second):
        (store.results.cache(result.id) / "pyramid").write_bytes(bytes(200_000))
    fill(data / "filler")
    before = bytes_free(data)
    store.results.delete(first.id)
    gained = bytes_free(data) - before
    assert {result.id for result in store.results.search()[0]} == {kept.id, second.id}
    store.close()
    fill(data / "filler")
    argv = [sys.executable, "-c", START, "delete", "--data", str(data), second.id]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left = sorted(path.name for path in (data / "results").iterdir())
    return {"before": before, "gained": gained, "left": left == [kept.id], "rows": store.results.search()[1]}


def delete_with_full_catalogue(store: Store) -> dict[str, Any]:
    """The database is on its own full disk, where no deletion frees space."""
    catalogue = Path(str(store.database.engine.url.database))
    gone, kept, named = (store_result(store, name) for name in ("gone", "kept", "named"))
    # Changes that stay within the space which the journal has already could still be made.
    with store.database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    fill(catalogue.parent / "filler")
    store.results.delete(gone.id)
    argv = [sys.executable, "-c", START, "delete", "--data", str(store.settings.data), named.id]
    environment = os.environ | {"PERFLOOM_DATABASE_URL": store.settings.database_url}
    done = subprocess.run(argv, capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "Deleted the files" in done.stderr and "full" in done.stderr, done
    assert not (store.results.directory / named.id).exists()
    listed = [result.id for result in store.results.search()[0]]
    with store.database.read() as session:
        rows = session.query(ResultRow).count()
    files = (store.results.directory / gone.id).exists()
    (catalogue.parent / "filler").unlink()
    begun = store.results.has_unfinished_deletions()
    store.results.recover()
    with store.database.read() as session:
        after = session.query(ResultRow).count()
    left = store.results.has_unfinished_deletions()
    return {
        "listed": listed == [kept.id],
        "found": store.results.find(gone.id) is not None,
        "rows": [rows, after],
        "files": files,
        "begun": [begun, left],
    }


def fill_the_disk(store: Store) -> dict[str, Any]:
    """With ever less space: each step succeeds or says that the disk is full, and what was there stays."""
    data = store.settings.data
    # Elsewhere, like a file that a user imports.
    original = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path("/tmp")
    original = original / f"perfloom-{os.getpid()}.txt"
    original.write_bytes(os.urandom(40_000))
    before = store_result(store, "before")
    filler = data / "filler"
    done, messages = 0, set()
    try:
        for spare in range(200_000, -1, -10_000):
            with open(filler, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass
                file.truncate(max(0, file.tell() - spare))
            id = None
            try:
                id = store.jobs.create("import", {}, "tight").id
                staged = store.results.stage(id)
                try:
                    columns.write(small_profile(), staged)
                except Unavailable:
                    remove_tree(staged)
                    raise
                store.results.publish(id, staged, name="tight", originals=[original], job_id=id)
                done += 1
            except Unavailable as error:
                messages.add(re.sub(r"[0-9]+ MB|/[^ ]+", "…", error.message))
            assert store.results.get(before.id) == before
            assert same(store.results.open(before.id), small_profile())
            assert [row.id for row in store.results.search()[0] if row.id not in (id, before.id)] == []
            assert not [path for path in (data / "results").iterdir() if path.name.startswith(".")]
            filler.unlink()
            store.results.recover()
            for row in store.results.search()[0]:
                assert same(store.results.open(row.id), small_profile())
                if row.id != before.id:
                    assert row.originals[0].bytes == 40_000
                    store.results.delete(row.id)
        store_result(store, "after")
    finally:
        original.unlink()
    return {"done": done, "messages": sorted(messages)}


def main(what: str, data: str, database_url: str) -> None:
    settings = Settings.load(Path(data), {}, database_url=database_url)
    if what == "open":
        answer = race_to_open(settings)
    else:
        works = {
            "claim": race_to_claim,
            "lease": race_for_leases,
            "publish-together": race_to_publish,
            "kill-publish": kill_while_publishing,
            "kill-delete": kill_while_deleting,
            "full-disk": fill_the_disk,
            "delete-on-full-disk": delete_on_full_disk,
            "delete-with-full-catalogue": delete_with_full_catalogue,
        }
        # Opened before the fork, used after it by every child.
        store = open_store(settings)
        store.jobs.list()
        answer = works[what](store)
    print(json.dumps(answer))


def answer_lines() -> None:
    """Each in a process forked from this one, which has imported all that they need and opened nothing."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                main(*line.split())
                sys.stdout.flush()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            print("{}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:]) if sys.argv[1:] else answer_lines()
