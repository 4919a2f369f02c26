"""Files that unpack to hundreds of times their size: they end at a limit, and never hold all places for reading."""

import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from perfloom.config import Settings
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.jobs import JobState
from perfloom.queue import TaskQueue
from perfloom.store import Store
from perfloom.store.jobs import Job
from perfloom.workers.base import long_slots
from perfloom.workers.base.jobfiles import JobFiles
from perfloom.workers.read import reading
from tests.support import paths, servers
from tests.workers.running import running
from tests.workers.waiting import until

TEXT = paths.DATA / "perf" / "flat.script.txt"


def bomb(path: Path, unpacked_mb: int) -> Path:
    """perf script text, packed 500-fold and more: the same samples again and again."""
    text = next(line for line in TEXT.read_bytes().splitlines(keepends=True) if line.strip() and line[:1] != b"#")
    member = zstandard.compress(text * (10_000_000 // len(text)))
    with path.open("wb") as file:
        for _ in range(unpacked_mb // 10):
            file.write(member)
    assert unpacked_mb * 1e6 > 500 * path.stat().st_size
    return path


@pytest.mark.slow
def test_decompression_bomb_ends_at_cpu_time_limit(settings: Settings, tmp_path: Path) -> None:
    limited = dataclasses.replace(settings, read_cpu_seconds=2)
    start = time.monotonic()
    with pytest.raises(UnreadableInput, match=r"more than 3 seconds of CPU time.* PERFLOOM_READ_CPU_SECONDS"):
        reading.read_profile(limited, [bomb(tmp_path / "a.txt.zst", 3000)])
    assert time.monotonic() - start < 60


def test_the_limit_grows_with_the_size_of_the_files(settings: Settings, tmp_path: Path) -> None:
    sizes = {"a": 10_000_000, "b": 30_000_000}
    for name, size in sizes.items():
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    seconds = reading._cpu_seconds
    assert seconds(settings, [tmp_path / "a"]) == 120 + 120
    assert seconds(settings, [tmp_path / "a", tmp_path / "b"]) == seconds(settings, [tmp_path]) == 120 + 480
    assert seconds(settings, ["-"]) is None
    os.mkfifo(tmp_path / "fifo")
    assert seconds(settings, [tmp_path / "fifo"]) is None


def test_one_place_fewer_than_there_are(settings: Settings) -> None:
    three = dataclasses.replace(settings, reads_at_once=3)
    with long_slots.long_slots(three) as first, long_slots.long_slots(three) as second:
        with long_slots.long_slots(three) as third:
            assert first() and first() and second() and not third()
        with long_slots.long_slots(dataclasses.replace(settings, reads_at_once=1)) as alone:
            assert alone()
    with long_slots.long_slots(three) as later:
        assert later()


@pytest.fixture
def queue(settings: Settings, store: Store) -> Iterator[TaskQueue]:
    """A queue on a Redis, of two places, where a reading takes long after six seconds."""
    with tempfile.TemporaryDirectory(prefix="pl-", dir="/tmp") as short, servers.redis_server(Path(short)) as redis:
        changed = dataclasses.replace(settings, broker_url=redis.url, reads_at_once=2, read_short_seconds=6)
        queue = TaskQueue(changed, store)
        yield queue
        queue.close()


def given(queue: TaskQueue, store: Store, file: Path) -> Job:
    """An import of a file, that is rung for."""
    job = store.jobs.create("import", {"files": [file.name]}, file.name)
    files = JobFiles(store.jobs.directory(job.id))
    files.artifacts.mkdir(parents=True)
    os.link(file, files.artifacts / file.name)
    queue.enqueue(job)
    return job


@pytest.mark.slow
def test_two_of_them_leave_a_place_to_others(queue: TaskQueue, store: Store, tmp_path: Path) -> None:
    large, small = bomb(tmp_path / "large.txt.zst", 15_000), tmp_path / "small.txt"
    small.write_bytes(TEXT.read_bytes())
    with running(queue._settings, tmp_path / "log", "worker"):
        bombs = [given(queue, store, large) for _ in range(2)]

        def waits() -> bool:
            return sum("Waiting until another" in store.jobs.get(job.id).progress_text for job in bombs) == 1

        until(waits, "one of the two was put back", 60)
        other = given(queue, store, small)
        until(lambda: store.jobs.get(other.id).state is JobState.STORED, "another file is read meanwhile", 20)
        states = [store.jobs.get(job.id) for job in bombs]
        assert [job.state for job in states] == [JobState.READING] * 2
        # That it was put back is none of the tries after which a file is given up.
        assert all(job.details.read_attempts <= 1 for job in states)
        for job in bombs:
            store.jobs.request_cancel(job.id)
            queue.enqueue(store.jobs.get(job.id))
        until(lambda: all(store.jobs.get(job.id).state.final for job in bombs), "they are cancelled", 40)
