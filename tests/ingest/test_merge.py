"""Several files of one run become one profile, without losing or changing samples."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace

import pytest

from perfloom.domain.profile import Profile
from perfloom.ingest.losses import UNRECOGNIZED_LINE
from perfloom.ingest.merge import merge
from perfloom.readers import collapsed, perf_script
from tests.support import paths
from tests.support.formats import profile_of
from tests.support.samples import Sample, losses_of, samples_of

DATA = paths.DATA / "perf"


def read(name: str) -> Profile:
    with open(DATA / f"{name}.script.txt", "rb") as file:
        return perf_script.read(file)


def timeless(samples: list[Sample]) -> Counter[Sample]:
    return Counter(sample._replace(time_ns=0) for sample in samples)


def test_single_profile_is_unchanged() -> None:
    profile = read("spin")
    assert merge([profile]) is profile


@pytest.mark.parametrize("names", [["spin", "spin"], ["spin", "events", "dwarf"], ["flat", "dwarf", "flat", "spin"]])
def test_all_samples_are_kept(names: list[str]) -> None:
    profiles = [read(name) for name in names]
    merged = merge(profiles)
    wanted = sum((timeless(samples_of(profile)) for profile in profiles), Counter[Sample]())
    assert timeless(samples_of(merged)) == wanted
    assert merged.runs.num_rows == len(names)
    assert sorted(set(merged.threads.column("rank").to_pylist())) == list(range(len(names)))
    assert merged.meta.format == "perf-script"
    assert merged.threads.num_rows == sum(profile.threads.num_rows for profile in profiles)


def test_equal_functions_are_merged() -> None:
    one, two = read("spin"), merge([read("spin"), read("spin")])
    assert two.functions.num_rows == one.functions.num_rows
    assert two.frames.num_rows == one.frames.num_rows
    assert two.stacks.num_rows == one.stacks.num_rows


def test_files_of_one_host_share_a_clock() -> None:
    first, second = read("spin"), read("events")
    start = [int(p.meta.facts["clock of first sample"].removesuffix(" ns")) for p in (first, second)]
    merged = merge([first, second])
    ranks = merged.threads.column("rank").to_pylist()
    times: dict[int, list[int]] = {0: [], 1: []}
    for row in merged.samples.to_pylist():
        times[ranks[row["thread"]]].append(row["time_ns"])
    assert min(times[0]) == 0
    assert min(times[1]) == start[1] - start[0] > 0
    assert merged.runs.column("clock_offset_ns").to_pylist() == [0, start[1] - start[0]]
    elsewhere = replace(second, meta=replace(second.meta, facts=second.meta.facts | {"hostname": "other"}))
    assert merge([first, elsewhere]).runs.column("clock_offset_ns").to_pylist() == [0, 0]


def test_time_of_day_is_preferred() -> None:
    profiles = [
        replace(read("spin"), meta=replace(read("spin").meta, start_epoch_ns=start)) for start in (5_000_000, 2_000_000)
    ]
    merged = merge(profiles)
    assert merged.meta.start_epoch_ns == 2_000_000
    assert merged.runs.column("clock_offset_ns").to_pylist() == [3_000_000, 0]


def test_events_with_different_weights_are_separate() -> None:
    stack = "\n\t10 f (/bin/a)\n\n"
    with_period = perf_script.read(io.BytesIO(f"a 1 1.000000: 5 cycles:{stack}".encode()))
    without = perf_script.read(io.BytesIO(f"a 1 1.000000: cycles:{stack}".encode()))
    merged = merge([with_period, without])
    assert merged.events.column("name").to_pylist() == ["cycles", "cycles (without period)"]
    assert [s.weight for s in samples_of(merged)] == [5, 1]


def test_different_formats_and_losses() -> None:
    stacks = collapsed.read(io.BytesIO(b"a;b 3\nnothing\n"))
    merged = merge([stacks, read("spin"), stacks])
    assert merged.meta.format == "mixed"
    assert losses_of(merged) == {UNRECOGNIZED_LINE: (2, "rank 0, line 2: nothing")}
    assert merge([stacks, stacks]).meta.duration_ns is None


def test_capabilities_are_united() -> None:
    trace, report, samples = (profile_of(format) for format in ("pytorch", "nsight-compute-csv", "collapsed"))
    for profiles, capabilities in (
        ((samples, samples), ()),
        ((trace, samples), trace.meta.capabilities),
        ((report, trace), (*report.meta.capabilities, *trace.meta.capabilities)),
    ):
        merged = merge(profiles)
        assert sorted(merged.meta.capabilities) == sorted(capabilities)


def test_incomplete_part_makes_result_incomplete() -> None:
    cut = replace(read("spin"), meta=replace(read("spin").meta, complete=False, reasons=("cut",)))
    meta = merge([read("spin"), cut]).meta
    assert (meta.complete, meta.reasons) == (False, ("Rank 1: cut",))
