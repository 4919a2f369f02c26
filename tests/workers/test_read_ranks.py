"""A planned job's directory is read into a result by a child with limits, whatever its content, in bounded memory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import zstandard

from benchmarks.rank_files import counted, samples, write_plan, write_rank
from benchmarks.ranks import read
from perfloom.config import Settings
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.tables import get_column, get_strings
from perfloom.domain.validation import find_error
from perfloom.ingest import archive
from perfloom.ingest.compression import open_decompressed
from perfloom.ingest.stat_counts import UNREADABLE_COUNTS
from perfloom.store import Store
from perfloom.workers.read import rank_archive, reading
from perfloom.workers.read.machine_code import read_all_build_ids
from perfloom.workers.read.rank_folders import BUILD_IDS, rank_folders
from perfloom.workers.read.request import Input, Limits, Request
from tests.support import paths
from tests.support.parts import require
from tests.support.perf.recordings import USER_MARK, MadeRecording

DATA = paths.DATA / "perf"


def by_rank(profile: Profile) -> dict[int | None, int]:
    """How many samples each rank has."""
    ranks = profile.threads.column("rank").to_pylist()
    found: dict[int | None, int] = {}
    for thread in get_column(profile.samples, "thread").tolist():
        found[ranks[thread]] = found.get(ranks[thread], 0) + 1
    return found


def job(root: Path, ranks: int = 4) -> Path:
    """Rank 1 works twice as long as the others; two hosts, each with its own clock."""
    write_plan(root, ranks=ranks)
    for rank in range(ranks):
        host = f"node{rank // 2}"
        text = samples(60 * (1 + (rank == 1)), rank=rank, host=host, clock_s=100.0 + 900 * (rank // 2))
        write_rank(root, rank, state={"host": host, "size": ranks}, text=text)
    return root


def test_four_ranks(settings: Settings, store: Store, tmp_path: Path) -> None:
    told: list[tuple[float | None, str]] = []
    result = reading.read_to_result(
        settings,
        store,
        "abcdefabcdef",
        [job(tmp_path / "job")],
        name="four",
        meta_changes={"command": "./solve"},
        progress=lambda part, text: told.append((part, text)),
    )
    profile = store.results.open(result.id)
    assert find_error(profile) is None
    assert by_rank(profile) == {0: 60, 1: 120, 2: 60, 3: 60}
    assert [row["host"] for row in profile.ranks.to_pylist()] == ["node0", "node0", "node1", "node1"]
    assert (result.complete, result.command, result.format, result.samples) == (True, "./solve", "perf-data", 300)
    assert [original.name for original in store.results.original(result.id)] == ["ranks.tar"]
    assert any("of 4" in text for _, text in told)


def test_stored_archive_can_be_imported(settings: Settings, store: Store, tmp_path: Path) -> None:
    first = reading.read_to_result(
        settings,
        store,
        "abcdefabcdef",
        [job(tmp_path / "job")],
        name="x",
        meta_changes={},
        progress=lambda part, text: None,
    )
    kept = store.results.original(first.id)[0].path
    copy = tmp_path / "anything"
    copy.write_bytes(zstandard.compress(kept.read_bytes()))
    shutil.rmtree(tmp_path / "job")
    again, before = reading.read_profile(settings, [copy]), store.results.open(first.id)
    for name, table in before.tables().items():
        assert table.equals(again.tables()[name]), name
    assert again.meta == before.meta
    with pytest.raises(UnreadableInput, match="Read it separately"):
        reading.read_profile(settings, [copy, DATA / "spin.script.txt"])


def test_one_process_keeps_its_files_as_they_are(settings: Settings, store: Store, tmp_path: Path) -> None:
    root = write_plan(tmp_path / "job", ranks=None)
    folder = write_rank(root, "all", text=samples(5))
    (folder / "perf.data").write_bytes(b"PERFILE2 whatever")
    result = reading.read_to_result(
        settings, store, "abcdefabcdef", [root], name="x", meta_changes={}, progress=lambda part, text: None
    )
    assert sorted(one.name for one in store.results.original(result.id)) == ["perf.data", "perf.script.zst"]
    assert store.results.open(result.id).threads.column("rank").to_pylist() == [None, None]


def test_texts_however_they_are_packed(settings: Settings, tmp_path: Path) -> None:
    import gzip

    root = write_plan(tmp_path / "job", ranks=3)
    for rank in range(3):
        folder = write_rank(root, rank, text=samples(5 + rank, rank=rank))
        raw = zstandard.decompress((folder / "perf.script.zst").read_bytes(), max_output_size=1 << 20)
        if rank:
            (folder / "perf.script.zst").unlink()
            (folder / f"perf.script{['', '.gz'][rank - 1]}").write_bytes(gzip.compress(raw) if rank == 2 else raw)
    assert by_rank(reading.read_profile(settings, [root])) == {0: 5, 1: 6, 2: 7}


def test_counts_of_ranks(settings: Settings, tmp_path: Path) -> None:
    root = write_plan(tmp_path / "job", ranks=3, recorder="perf-stat")
    for rank in range(3):
        write_rank(root, rank, counts=counted({"instructions": 100 + rank, "cycles": None}, running=25))
    profile = reading.read_profile(settings, [root])
    rows = [(row["rank"], row["host"], row["value"], row["status"]) for row in profile.counts.to_pylist()]
    assert rows == [
        row for rank in range(3) for row in ((rank, "node1", 100 + rank, "ok"), (rank, "node1", None, "not counted"))
    ]
    assert profile.events.column("scaling").to_pylist()[0] == 4.0
    assert profile.meta.complete


@pytest.mark.parametrize("readable", [True, False])
def test_counts_beside_a_recording(settings: Settings, tmp_path: Path, readable: bool) -> None:
    root = write_plan(tmp_path / "job", ranks=2)
    for rank in range(2):
        counts = counted({"page-faults": 100 + rank})
        folder = write_rank(root, rank, text=samples(5 + rank, rank=rank), counts=counts)
        if not readable and rank:
            (folder / "perf-stat.txt").write_bytes(b"\0 no counts\n")
    profile = reading.read_profile(settings, [root])
    assert by_rank(profile) == {0: 5, 1: 6}
    rows = [(row["rank"], row["thread"], row["value"]) for row in profile.counts.to_pylist()]
    assert rows == [(rank, -1, 100 + rank) for rank in range(2 if readable else 1)]
    assert (UNREADABLE_COUNTS in profile.losses.column("reason").to_pylist()) is not readable


def test_a_recording_without_its_text_is_read_here(settings: Settings, tmp_path: Path) -> None:
    require("perf")
    root = write_plan(tmp_path / "job", ranks=2)
    for rank in range(2):
        folder = write_rank(root, rank, state={"text": "failed No space left."})
        with open(DATA / "spin.perf.data.zst", "rb") as source, open(folder / "perf.data", "wb") as target:
            zstandard.ZstdDecompressor().copy_stream(source, target)
    profile = reading.read_profile(settings, [root])
    assert len(by_rank(profile)) == 2
    assert all("resolved on this machine" in row["note"] for row in profile.ranks.to_pylist())


@pytest.mark.parametrize("ranks", [None, 2])
def test_what_was_found_for_recordings_without_text_is_kept(
    ranks: int | None, settings: Settings, store: Store, tmp_path: Path
) -> None:
    root = write_plan(tmp_path / "job", ranks=ranks)
    made = MadeRecording()
    made.map(7, 0x1000, 0x1000, b"/nowhere/program")
    made.sample(7, 100, USER_MARK, 0x1010)
    for rank in range(ranks or 1):
        folder = write_rank(root, rank if ranks else "all", state={"text": "failed No space left."})
        (folder / "perf.data").write_bytes(made.build())
    result = reading.read_to_result(
        settings, store, "abcdefabcdef", [root], name="x", meta_changes={}, progress=lambda part, text: None
    )
    (tmp_path / "copy").mkdir()
    copies = []
    for original in store.results.original(result.id):
        copies.append(tmp_path / "copy" / original.name)
        copies[-1].write_bytes(original.path.read_bytes())
    if ranks:
        with open_decompressed(copies[0], 1 << 20) as stream:
            rank_archive.unpack(stream, tmp_path / "again", 1 << 20, "x")
        kept = [folder.files["perf.data.symbols.zst"] for folder in rank_folders(tmp_path / "again")]
    else:
        kept = [path for path in copies if path.name == "perf.data.symbols.zst"]
    assert len(kept) == (ranks or 1)
    for path in kept:
        lines = zstandard.decompress(path.read_bytes(), 1 << 20).replace(b'"row":[-1]', b'"row":[0]')
        lines = lines.replace(b'"names":[]', b'"names":["burn"]').replace(b'"starts":[]', b'"starts":[4]')
        path.write_bytes(zstandard.compress(lines))
    again = reading.read_profile(settings, [tmp_path / "again"] if ranks else copies)
    assert get_strings(again.functions, "name") == ["burn"]


def test_damaged_rank_loses_only_that_rank(settings: Settings, tmp_path: Path) -> None:
    root = job(tmp_path / "job", 8)
    text = [root / "run0" / str(rank) / "perf.script.zst" for rank in range(8)]
    secret = tmp_path / "secret"
    secret.write_text(samples(500, rank=99))
    raw = zstandard.compress(samples(900, rank=1).encode())
    text[1].write_bytes(raw[: len(raw) // 2])
    text[2].write_bytes(b"\x28\xb5\x2f\xfd" + os.urandom(500))
    text[3].unlink()
    text[3].symlink_to(secret)
    shutil.rmtree(root / "run0" / "4")
    (root / "run0" / "4").symlink_to(root / "run0" / "0")
    (root / "run0" / "5" / "state").unlink()
    text[6].write_bytes(zstandard.compress(b"\x00" * 5000))
    (root / "run0" / "7" / "state").write_bytes(b"\xff" * 3000 + b"\nhost a\x1b[2J\nexit 99999999999999999999\n")
    for name in ("run0/..", "run0/x y", "run1/0", "run00/0", "run0/on-$(touch x)"):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "perf.script").write_text(samples(1000, rank=77))
    profile = reading.read_profile(settings, [root])
    assert find_error(profile) is None
    found = by_rank(profile)
    assert {rank: n for rank, n in found.items() if rank not in (0, 1, 5, 7)} == {}
    assert (found[0], found[5], found[7]) == (60, 60, 60) and 0 < found[1] < 900
    reasons = " ".join(profile.meta.reasons)
    assert "The Zstandard data is truncated" in reasons
    assert "perf.script.zst of rank 6 has no samples" in reasons
    assert "Rank 3: no recording returned" in reasons
    assert "Rank 4: no data returned" in reasons
    # What their states do not tell.
    assert "Ranks 5, 7: no end recorded" in reasons
    assert not any("x y" in str(row) or "\x1b" in str(row) for row in profile.ranks.to_pylist())


def test_too_large_a_rank_is_left_out(settings: Settings, tmp_path: Path) -> None:
    root = job(tmp_path / "job", 3)
    (root / "run0" / "2" / "perf.script.zst").write_bytes(zstandard.compress(samples(4000, rank=2).encode()))
    small = Settings.load(settings.data, environ={}, runtime=settings.runtime, upload_limit_bytes=400_000)
    profile = reading.read_profile(small, [root])
    assert by_rank(profile) == {0: 60, 1: 120}
    assert "exceeds the limit of 400,000 bytes" in " ".join(profile.meta.reasons)


@pytest.mark.parametrize(
    "files", [{}, {"plan.json": b"{"}, {"plan.json": b'{"runs": []}'}, {"plan.json": b'{"runs": [{}]}'}]
)
def test_planned_job_without_recordings(settings: Settings, tmp_path: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableInput, match=r"plan\.json|Nothing was recorded"):
        reading.read_profile(settings, [tmp_path])


def test_a_plan_that_is_a_link_is_not_followed(settings: Settings, tmp_path: Path) -> None:
    write_plan(tmp_path / "other")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "plan.json").symlink_to(tmp_path / "other" / "plan.json")
    with pytest.raises(UnreadableInput, match=r"plan\.json cannot be read"):
        reading.read_profile(settings, [tmp_path / "job"])


def archived(path: Path, files: dict[str, bytes]) -> Path:
    path.write_bytes(
        b"".join(
            archive.make_header(name, len(data)) + data + archive.make_padding(len(data))
            for name, data in files.items()
        )
        + archive.make_end()
    )
    return path


WRONG_PLACES = (
    *("../evil", "/tmp/evil", "perfloom-ranks/run0/../../../evil", "perfloom-ranks/run0/0/evil"),
    *("perfloom-ranks/plan.json", "perfloom-ranks/run0/0/state/x", "perfloom-ranks/run0/../state"),
)


@pytest.mark.parametrize("name", WRONG_PLACES)
def test_archives_that_would_write_elsewhere(settings: Settings, tmp_path: Path, name: str) -> None:
    plan = b'{"runs": [{"run": 0}]}'
    path = archived(tmp_path / "x.tar", {rank_archive.FOLDER + "plan.json": plan, name: b"x"})
    with pytest.raises(UnreadableInput):
        reading.read_profile(settings, [path])
    assert not list(tmp_path.rglob("evil"))


def test_archives_that_are_cut(settings: Settings, tmp_path: Path) -> None:
    root = job(tmp_path / "job")
    rank_archive.pack(root, tmp_path / "whole.tar", tmp_path)
    raw = (tmp_path / "whole.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(UnreadableInput, match="is truncated"):
        reading.read_profile(settings, [tmp_path / "cut.tar"])


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_ranks(tmp_path: Path) -> None:
    """Eight times the ranks. Were their samples kept until the end, they alone would take twice the memory."""
    lines = [f"solve 7/7 {100 + n // 10**6}.{n % 10**6:06}: 5 cycles: \n\n" for n in range(40_000)]
    text = zstandard.compress("".join(lines).encode())
    taken = []
    for ranks in (8, 64):
        root = write_plan(tmp_path / str(ranks), ranks=ranks)
        for rank in range(ranks):
            (write_rank(root, rank) / "perf.script.zst").write_bytes(text)
        taken.append(read(root, tmp_path))
    few, many = taken
    assert (few.ranks, many.ranks, few.samples * 8) == (8, 64, many.samples)
    assert many.peak < 1.35 * few.peak


def test_build_ids_of_stored_ranks_are_found(tmp_path: Path) -> None:
    root = job(tmp_path / "job", ranks=3)
    contents = (f"{'ab' * 20} /bin/one\n", "", f"{'cd' * 20} /bin/two\n")
    for folder, content in zip(list(rank_folders(root)), contents, strict=True):
        (next(iter(folder.files.values())).parent / BUILD_IDS).write_text(content)
    archive = tmp_path / "ranks.tar"
    rank_archive.pack(root, archive, tmp_path)
    (tmp_path / "scratch").mkdir()
    request = Request(
        inputs=(Input(str(archive), archive.name),),
        scratch=str(tmp_path / "scratch"),
        text="",
        limits=Limits(1 << 30, 60, 1 << 20, 0),
        parent=os.getpid(),
    )
    assert read_all_build_ids(request) == {"/bin/one": "ab" * 20, "/bin/two": "cd" * 20}
    assert not list((tmp_path / "scratch").iterdir())
