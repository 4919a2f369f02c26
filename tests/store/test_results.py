"""Stored results: published whole, listed, searched, changed, deleted; and what a sweep finds."""

from __future__ import annotations

import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from sqlalchemy import text

from perfloom.config import Settings
from perfloom.domain.errors import InvalidRequest, NotFound, UnreadableInput
from perfloom.domain.jobs import JobState
from perfloom.domain.schemas.code import Code
from perfloom.domain.tables import get_column
from perfloom.store import EventTotal, OriginalFile, Result, Store, open_store
from perfloom.store.files import columns
from perfloom.store.files.code import write_code
from perfloom.store.files.code_folder import stage_code
from perfloom.store.files.originals import AT_ONCE_BYTES
from perfloom.store.files.profile_cache import ProfileCache
from perfloom.store.recovery import GRACE_SECONDS

from .making import same, small_profile, store_result

HOUR = 3600.0


def folders(store: Store, name: str = "results") -> list[str]:
    """The names in a directory of the data directory."""
    return sorted(path.name for path in (store.settings.data / name).iterdir())


def test_result_has_columns_of_list(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    file.write_text("x" * 5000)
    before = time.time()
    result = store_result(store, "my run", (file,))
    assert store.results.get(result.id) == result
    assert (result.name, result.format, result.command, result.host) == ("my run", "perf-script", "sleep 1", "node7")
    assert result.events == (
        EventTotal("cycles", "count", 7, 2),
        EventTotal("page-faults", "count", 1, 1),
    )
    assert (result.samples, result.threads, result.duration_ns) == (3, 2, 4000)
    assert before <= result.created <= time.time()
    assert (result.complete, result.tags, result.notes, result.missing) == (True, (), "", False)
    assert result.originals == (OriginalFile("out.txt", 5000),)
    size = sum(p.stat().st_blocks * 512 for p in store.results.path(result.id).rglob("*") if p.is_file())
    assert result.bytes == size
    assert same(store.results.open(result.id), small_profile())


def test_totals_are_exact_beyond_doubles(store: Store) -> None:
    weights = (2**62, 2**53 + 1, 3, -(2**53))
    staged = store.results.stage("a" * 12)
    columns.write(small_profile(weights=weights), staged)
    result = store.results.publish("a" * 12, staged, name="big")
    assert result.events[0].total == sum(weights)


def test_publishing_again_gives_the_first(store: Store) -> None:
    first = store_result(store)
    staged = store.results.stage(first.id)
    columns.write(small_profile(weights=(100, 200)), staged)
    assert store.results.publish(first.id, staged, name="other", job_id=first.id) == first
    assert get_column(store.results.open(first.id).samples, "weight").tolist() == [3, 4, 1]
    assert folders(store) == [first.id]


def test_something_that_is_no_profile_is_not_published(store: Store) -> None:
    staged = store.results.stage("b" * 12)
    with pytest.raises(UnreadableInput):
        store.results.publish("b" * 12, staged, name="nothing")
    assert folders(store) == [] and store.results.find("b" * 12) is None


def test_two_who_stage_the_same_result_do_not_meet(store: Store) -> None:
    one, two = store.results.stage("c" * 12), store.results.stage("c" * 12)
    assert one != two
    columns.write(small_profile(), one)
    columns.write(small_profile(), two)
    results = [store.results.publish("c" * 12, staged, name="x") for staged in (one, two)]
    assert results[0] == results[1] and folders(store) == ["c" * 12]


@pytest.mark.parametrize(
    "id", ["", "..", "../../etc", "a" * 11, "A" * 12, "a" * 13, "aaaaaaaaaaa/", "aaaa\0aaaaaaa", "x'; --"]
)
def test_an_id_is_never_a_path(store: Store, id: str) -> None:
    for use in (store.results.open, store.results.path, store.results.cache, store.results.stage, store.results.get):
        with pytest.raises(NotFound):
            use(id)
    with pytest.raises(NotFound):
        store.results.delete(id)
    with pytest.raises(NotFound):
        store.jobs.get(id)


def test_a_profile_is_opened_once_until_it_is_deleted(store: Store) -> None:
    result = store_result(store)
    profile = store.results.open(result.id)
    assert store.results.open(result.id) is profile
    store.results.delete(result.id)
    with pytest.raises(NotFound):
        store.results.open(result.id)
    # A reader that has opened it can continue to read.
    assert get_column(profile.samples, "weight").tolist() == [3, 4, 1]


def test_profile_cache_is_limited_and_shared(store: Store) -> None:
    store.results._opened = ProfileCache(size=8, most=8)
    ids = [store_result(store, f"run {i}").id for i in range(10)]
    seen: dict[str, set[int]] = {name: set() for name in ids}
    kept = []
    barrier = threading.Barrier(4)

    def look() -> None:
        barrier.wait(10)
        for name in ids[:3] * 20:
            profile = store.results.open(name)
            kept.append(profile)
            seen[name].add(id(profile))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [len(seen[name]) for name in ids[:3]] == [1, 1, 1]
    first = store.results.open(ids[0])
    for other in ids[1:]:
        store.results.open(other)
    assert store.results.open(ids[0]) is not first


def test_search_is_literal_and_blind_to_case(store: Store) -> None:
    plain = store_result(store, "100% of_it", command="./solve 'x' \"y\"")
    german = store_result(store, "GRÖẞE Straße", host="Login-01.example")
    store.results.set_notes(german.id, "Second\nline with\\backslash")
    store.results.set_tags(german.id, ["Nightly build"])

    def found(text: str, **more: object) -> set[str]:
        rows, total = store.results.search(text, **more)  # type: ignore[arg-type]
        assert total == len(rows)
        return {row.id for row in rows}

    both = {plain.id, german.id}
    assert found("") == found("  ") == both
    assert found("100%") == found("%") == {plain.id}
    assert found("of_it") == found("_") == {plain.id}
    assert found("of-it") == set()
    assert found("'x' \"Y\"") == {plain.id}
    assert found("größe") == found("STRASSE") == found("größe strasse") == {german.id}
    assert found("LOGIN-01") == found("\\") == found("second LINE") == {german.id}
    assert found("nightly") == found("build nightly") == {german.id}
    assert found("", tag="Nightly build") == found("straße", tag=["Nightly build"]) == {german.id}
    assert found("", tag="nightly") == found("", tag="%") == set()
    assert found("'; DROP TABLE results; --") == set()
    assert found("\0") == found("\udc80") == set()
    assert found(german.id) == {german.id}
    store.results.rename(german.id, "renamed")
    assert found("größe") == set() and found("RENAMED") == {german.id}
    store.results.set_tags(german.id, [])
    assert found("nightly") == set()
    with pytest.raises(InvalidRequest, match="shorten"):
        store.results.search("x" * 2000)


def recorded_at(store: Store, name: str, epoch_s: float | None, kind: str = "import") -> Result:
    """A result whose profile says when it was recorded, and whose job began at 7,000 s."""
    job = store.jobs.create(kind, {}, name)
    with store.database.write() as session:
        session.execute(text("UPDATE jobs SET started = 7000 WHERE id = :id"), {"id": job.id})
    profile = small_profile()
    at = None if epoch_s is None else round(epoch_s * 1e9)
    staged = store.results.stage(job.id)
    columns.write(replace(profile, meta=replace(profile.meta, start_epoch_ns=at)), staged)
    return store.results.publish(job.id, staged, name=name, job_id=job.id)


def test_when_it_was_recorded_is_not_when_it_was_stored(store: Store) -> None:
    before = time.time()
    old = recorded_at(store, "old", 1000.5)
    unknown = recorded_at(store, "unknown", None)
    own = recorded_at(store, "own job", None, "record")
    young = recorded_at(store, "young", 9000.0)
    assert [result.recorded for result in (old, unknown, own, young)] == [1000.5, None, 7000.0, 9000.0]
    assert all(result.created >= before for result in (old, unknown, own, young))
    for descending, names in (
        (False, ["old", "own job", "young", "unknown"]),
        (True, ["young", "own job", "old", "unknown"]),
    ):
        assert [row.name for row in store.results.search(sort="recorded", descending=descending)[0]] == names
    # If the database is lost, the files have the data.
    store.results.forget(own.id)
    assert store.results.adopt(own.id).recorded == 7000.0


def test_sorting_and_paging(store: Store) -> None:
    names = ["delta", "Alpha", "charlie", "Bravo"]
    for i, name in enumerate(names):
        store_result(store, name, host=f"h{i % 2}")

    def sorted_by(sort: str, descending: bool, **page: int) -> list[str]:
        return [row.name for row in store.results.search(sort=sort, descending=descending, **page)[0]]

    assert sorted_by("name", False) == ["Alpha", "Bravo", "charlie", "delta"]
    assert sorted_by("name", True) == ["delta", "charlie", "Bravo", "Alpha"]
    assert sorted_by("created", True) == names[::-1]
    assert sorted_by("name", False, offset=1, limit=2) == ["Bravo", "charlie"]
    assert store.results.search(offset=3, limit=2)[1] == 4
    assert sorted_by("name", False, offset=10**30, limit=-4) == []
    for sort in ("bytes", "samples", "threads", "duration", "host", "command", "format"):
        # What is alike stays in one order, so that no row is seen twice or never when paging.
        paged = [sorted_by(sort, True, offset=i, limit=1)[0] for i in range(4)]
        assert paged == sorted_by(sort, True) and sorted(paged) == sorted(names)
    with pytest.raises(InvalidRequest, match="created, recorded, name"):
        store.results.search(sort="id; DROP TABLE results")


def test_names_tags_and_notes_are_made_decent(store: Store) -> None:
    id = store_result(store).id
    assert store.results.rename(id, "  <script>\n\x00 \u202etxt.exe ").name == "<script> txt.exe"
    assert store.results.set_tags(id, [" b ", "A", "a", "", "x,y"]).tags == ("A", "b", "x y")
    assert store.results.set_notes(id, " one\r\ntwo\0 ").notes == "one\ntwo\ufffd"
    assert store.results.tags() == (("A", 1), ("b", 1), ("x y", 1))
    for bad in ("", " \n\t", "x" * 301):
        with pytest.raises(InvalidRequest):
            store.results.rename(id, bad)
    with pytest.raises(InvalidRequest):
        store.results.set_tags(id, ["x" * 61])
    with pytest.raises(InvalidRequest):
        store.results.set_tags(id, [str(i) for i in range(51)])
    with pytest.raises(InvalidRequest):
        store.results.set_notes(id, "x" * 100_001)
    for change in (store.results.rename, store.results.set_notes):
        with pytest.raises(NotFound):
            change("0" * 12, "x")
    assert store.results.get(id).tags == ("A", "b", "x y")


def test_unnamed_result_gets_name_of_command(store: Store) -> None:
    assert store_result(store, " \n ").name == "sleep 1"


def test_deleting_takes_everything_along(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "perf.data"
    file.write_bytes(b"x" * 100)
    result, other = store_result(store, "a", (file,)), store_result(store, "b")
    assert store.jobs.transition(result.id, JobState.QUEUED, JobState.STORED, result_id=result.id)
    store.results.set_tags(result.id, ["t"])
    (store.results.cache(result.id) / "pyramid").write_bytes(b"x")
    recorded = store.jobs.directory(result.id) / "artefacts"
    recorded.mkdir(parents=True)
    (recorded / "perf.data").write_bytes(b"x")
    (store.jobs.directory(result.id) / "output.log").write_text("said")

    store.results.delete(result.id)
    assert store.results.find(result.id) is None
    assert folders(store) == [other.id] and folders(store, "cache") == []
    assert sorted(p.name for p in store.jobs.directory(result.id).iterdir()) == ["output.log"]
    assert store.results.tags() == ()
    job = store.jobs.get(result.id)
    assert job.state is JobState.STORED and job.result_id is None
    with pytest.raises(NotFound):
        store.results.delete(result.id)
    assert file.exists()


HOSTILE = {
    "../../x": "x",
    "..": "file",
    "<script>alert(1)</script>": "script_",
    '"; rm -rf ~ #': "_; rm -rf ~ #",
    "a\nb\x00\x1b[31m.txt": "a_b__[31m.txt",
    "-rf": "rf",
    ".hidden": "hidden",
    "C:\\dir\\perf.data": "perf.data",
    "ümläut.data": "ümläut.data",
    "x" * 300 + ".perf.gz": "x" * 172 + ".perf.gz",
    "ä" * 200: "ä" * 90,
    os.fsdecode(b"caf\xe9"): "caf_",
}


@pytest.mark.parametrize("given", HOSTILE)
def test_names_of_originals_are_safe(given: str) -> None:
    from perfloom.store.files.disk import safe_name

    assert safe_name(given) == HOSTILE[given]
    assert safe_name(given, {HOSTILE[given]}) not in ("", HOSTILE[given])


def test_originals_are_stored_and_compressed(store: Store, tmp_path: Path) -> None:
    text = b"main 1234 cycles\n" * 20_000
    for folder in ("one", "two", "three"):
        (tmp_path / folder).mkdir()
    files = (tmp_path / "one/perf.txt", tmp_path / "two/perf.txt", tmp_path / "three/noise")
    files[0].write_bytes(text)
    files[1].write_bytes(text + b"end\n")
    noise = os.urandom(100_000)
    files[2].write_bytes(noise)
    result = store_result(store, originals=files)
    assert [original.name for original in store.results.original(result.id)] == ["perf.txt", "perf-2.txt", "noise"]
    assert store.results.list_uncompressed() == (result.id,)

    packed = store.results.compress(result.id)
    paths = [original.path for original in store.results.original(result.id)]
    assert [path.name for path in paths] == ["perf.txt.zst", "perf-2.txt.zst", "noise"]
    assert zstandard.ZstdDecompressor().decompress(paths[0].read_bytes()) == text
    assert zstandard.ZstdDecompressor().decompress(paths[1].read_bytes()) == text + b"end\n"
    assert paths[2].read_bytes() == noise
    assert packed.bytes < result.bytes - 500_000 and store.results.list_uncompressed() == ()
    assert store.results.compress(result.id) == packed
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in paths)
    assert [file.exists() for file in files] == [True] * 3


def test_local_recording_is_linked(store: Store) -> None:
    recorded = store.settings.data / "jobs" / "perf.data"
    recorded.write_bytes(b"x" * 1000)
    result = store_result(store, originals=(recorded,))
    assert store.results.original(result.id)[0].path.stat().st_ino == recorded.stat().st_ino


def test_linked_original_is_copied(store: Store, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("content")
    (tmp_path / "link.data").symlink_to(tmp_path / "real")
    (original,) = store.results.original(store_result(store, originals=(tmp_path / "link.data",)).id)
    assert original.name == "link.data" and not original.path.is_symlink() and original.path.read_text() == "content"


def test_recovery_without_damage_changes_nothing(store: Store) -> None:
    store_result(store)
    done = store.results.recover(time.time() + 9 * HOUR)
    assert (done.adopted, done.missing, done.restored, done.removed, done.damaged) == ([], [], [], [], [])


def test_recovery_adopts_results_without_row(store: Store, tmp_path: Path, settings: Settings) -> None:
    file = tmp_path / "perf.txt"
    file.write_text("text\n" * 1000)
    result = store_result(store, "kept", (file,))
    store.results.compress(result.id)
    store.results.forget(result.id)
    assert store.results.find(result.id) is None
    assert store.results.recover().adopted == [result.id]
    again = store.results.get(result.id)
    assert (again.name, again.created, again.job_id) == (result.name, result.created, result.job_id)
    assert (again.events, again.samples) == (result.events, result.samples)
    assert [original.path.name for original in store.results.original(result.id)] == ["perf.txt.zst"]


def test_an_original_compressed_at_once_is_not_compressed_again(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "perf.txt"
    file.write_bytes(b"text\n" * (AT_ONCE_BYTES // 5 + 1))
    result = store_result(store, "kept", (file,))
    assert store.results.list_uncompressed() == ()
    store.results.forget(result.id)
    assert store.results.recover().adopted == [result.id]
    assert store.results.get(result.id) == result
    assert [original.settled for original in result.originals] == [True]


def test_recovery_marks_results_without_files(store: Store, tmp_path: Path) -> None:
    result = store_result(store)
    shutil.move(store.results.path(result.id), tmp_path / "away")
    assert store.results.recover().missing == [result.id]
    assert store.results.get(result.id).missing
    with pytest.raises(NotFound, match="files of this result are gone"):
        store.results.open(result.id)
    assert store.results.recover().missing == []
    shutil.move(tmp_path / "away", store.settings.data / "results" / result.id)
    assert store.results.recover().restored == [result.id]
    assert not store.results.get(result.id).missing and store.results.open(result.id).samples.num_rows == 3
    store.results.delete(result.id)


def test_a_missing_result_can_be_read_again_and_deleted(store: Store) -> None:
    result, other = store_result(store), store_result(store)
    for id in (result.id, other.id):
        shutil.rmtree(store.results.path(id))
    store.results.recover()
    staged = store.results.stage(result.id)
    columns.write(small_profile(), staged)
    assert not store.results.publish(result.id, staged, name="again").missing
    store.results.delete(other.id)
    assert store.results.find(other.id) is None


def test_recovery_removes_abandoned_machine_code(store: Store) -> None:
    result = store_result(store)
    staged = stage_code(store.results.path(result.id))
    write_code(Code(), staged)
    assert store.results.recover().removed == [] and staged.exists()
    assert store.results.recover(time.time() + HOUR).removed == [staged.name]
    assert not staged.exists() and store.results.open(result.id).samples.num_rows == 3


def test_recovery_removes_abandoned_staging(store: Store) -> None:
    job = store.jobs.create("import", {}, "active")
    active, left = store.results.stage(job.id), store.results.stage("d" * 12)
    for staged in (active, left):
        columns.write(small_profile(), staged)
    assert store.results.recover().removed == []
    done = store.results.recover(time.time() + GRACE_SECONDS + 60)
    assert done.removed == [left.name] and done.bytes_freed > 0
    assert folders(store) == [active.name]
    store.jobs.transition(job.id, JobState.QUEUED, JobState.FAILED)
    assert store.results.recover(time.time() + GRACE_SECONDS + 60).removed == [active.name]


def test_recovery_completes_deletions(store: Store) -> None:
    result, kept = store_result(store), store_result(store)
    directory = store.results.path(result.id)
    directory.rename(directory.with_name(f".trash-{result.id}-0011aabb"))
    store.results.path(kept.id).with_name(f".trash-{kept.id}-0011aabb").mkdir()
    done = store.results.recover()
    assert len(done.removed) == 2
    assert store.results.find(result.id) is None and folders(store) == [kept.id]
    assert store.results.get(kept.id) == kept


def test_recovery_keeps_unknown_files(store: Store) -> None:
    strange = store.settings.data / "results" / ("e" * 12)
    strange.mkdir()
    (strange / "precious").write_text("x")
    assert store.results.recover(time.time() + 99 * HOUR).damaged == ["e" * 12]
    assert (strange / "precious").read_text() == "x" and store.results.find("e" * 12) is None


def test_cache_size_is_limited(settings: Settings) -> None:
    store = open_store(Settings.load(settings.data, {}, database_url=settings.database_url, cache_bytes=250_000))
    ids = [store_result(store).id for _ in range(4)]
    for age, id in enumerate(ids):
        file = store.results.cache(id) / "pyramid"
        file.write_bytes(bytes(100_000))
        for path in (file, file.parent):
            os.utime(path, (0, 10_000 - age))
    (settings.data / "cache" / ("9" * 12)).mkdir()
    done = store.results.recover()
    assert sorted(done.removed) == sorted([ids[3], ids[2], "9" * 12])
    assert folders(store, "cache") == sorted(ids[:2])
    store.close()
