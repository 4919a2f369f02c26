"""The names of threads over time are those of a walk through the samples."""

from __future__ import annotations

import numpy as np
import pytest

from perfloom.domain.arrays import Array
from perfloom.ingest.perf_text.script_builder import ThreadedProfileBuilder
from perfloom.readers.perf_script.thread_naming import name_threads

NAMES = ("python", "worker", "idle", "b c")
THREADS = 5


class Recorder(ThreadedProfileBuilder):
    """Keeps what is named."""

    def __init__(self) -> None:
        super().__init__("perf-script")
        self.named: list[tuple[int, int, str]] = []

    def set_thread_name(self, thread: int, from_ns: int, name: str) -> None:
        self.named.append((thread, from_ns, name))


def make_samples(seed: int, *, changes: int, ordered: bool, step: int) -> dict[str, Array]:
    """Samples of threads whose names change a number of times. step: the largest distance of two times."""
    generator = np.random.default_rng(seed)
    count = 200
    time_ns = np.cumsum(generator.integers(0, step + 1, count))
    thread = generator.integers(0, THREADS, count).astype(np.int32)
    number = np.sort(generator.integers(0, changes + 1, (THREADS, count)), 1)
    of_number = generator.integers(-1, len(NAMES), (THREADS, changes + 1))
    name = of_number[thread, number[thread, np.arange(count)]].astype(np.int32)
    order = np.arange(count) if ordered else generator.permutation(count)
    samples = {"order": np.arange(1, count + 1), "time_ns": time_ns, "thread": thread, "name": name}
    return {column: values[order] for column, values in samples.items()}


def walk(samples: dict[str, Array]) -> set[tuple[int, int, str]]:
    """(thread, time, name) of each change."""
    rows = np.lexsort((samples["order"], samples["time_ns"])).tolist()
    before: dict[int, int] = {}
    found = set()
    for row in rows:
        thread, time_ns, name = (int(samples[column][row]) for column in ("thread", "time_ns", "name"))
        if before.get(thread) != name and name >= 0:
            found.add((thread, time_ns, NAMES[name]))
        before[thread] = name
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("changes", [0, 1, 5])
@pytest.mark.parametrize("ordered", [True, False])
def test_names_of_threads(seed: int, changes: int, ordered: bool) -> None:
    samples = make_samples(seed, changes=changes, ordered=ordered, step=3)
    # No two samples of a thread at one time.
    samples["time_ns"] = samples["time_ns"] * 1000 + samples["order"]
    builder = Recorder()
    name_threads(samples, NAMES, builder, lambda thread, incarnation: pytest.fail("no thread has two names at once"))
    assert set(builder.named) == walk(samples)


@pytest.mark.parametrize("seed", range(6))
def test_two_names_at_one_time_are_two_threads(seed: int) -> None:
    samples = make_samples(seed, changes=3, ordered=True, step=1)
    before = {column: values.copy() for column, values in samples.items()}
    tied = set()
    for thread in range(THREADS):
        own = np.flatnonzero(before["thread"] == thread)
        at = np.flatnonzero(before["name"][own[1:]] != before["name"][own[:-1]]) + 1
        if (before["time_ns"][own[at]] == before["time_ns"][own[at - 1]]).any():
            tied.add(thread)
    split: dict[tuple[int, int], int] = {}
    name_threads(samples, NAMES, Recorder(), lambda *key: split.setdefault(key, THREADS + len(split)))
    assert {thread for thread, _ in split} == tied
    for thread in range(THREADS):
        own = before["thread"] == thread
        assert len(set(zip(samples["thread"][own].tolist(), before["name"][own].tolist(), strict=True))) == len(
            set(before["name"][own].tolist())
        ), "a thread for each name"
        assert thread in tied or (samples["thread"][own] == thread).all()
