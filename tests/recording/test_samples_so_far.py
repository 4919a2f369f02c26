"""What was recorded so far, as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfloom.domain.jobs import JobSpec, Mpi, MpiFlavor
from perfloom.domain.units import format_bytes
from perfloom.recording.job_status import JobStatus, RankStatus
from perfloom.recording.samples_so_far import (
    Point,
    add_point,
    describe_ranks,
    describe_written,
    format_number,
    format_rate,
    with_written,
)

SPEC = JobSpec(command=("x",), mpi=Mpi(MpiFlavor.OPENMPI, 3))
KIB = 1 << 10


def status(seen_at: float, *written: int | None, run: int = 0) -> JobStatus:
    """A job whose ranks have written so much."""
    ranks = tuple(RankStatus(run, number, "n1", "recording", written=size) for number, size in enumerate(written))
    return JobStatus(ranks=ranks, seen_at=seen_at)


def after(*statuses: JobStatus) -> JobStatus:
    """The last of these statuses, with what is known from those before."""
    last = None
    for one in statuses:
        last = with_written(one, last)
    assert last is not None
    return last


@pytest.mark.parametrize(
    ("points", "now", "text"),
    [
        ((), 10.0, ""),
        (((1.0, 5),), 1.0, ""),
        (((1.0, 5), (3.0, 25)), 3.0, "10 per second (last 2\u00a0s)"),
        (((1.0, 5), (5.0, 25), (9.0, 25_005)), 9.0, "6,245 per second (last 4\u00a0s)"),
        # Changes that are further apart than the window.
        (((1.0, 5), (21.0, 205)), 30.0, "10 per second (last 20\u00a0s)"),
        # Nothing has changed for longer than that.
        (((1.0, 5), (3.0, 25)), 8.5, ""),
        (((1.0, 5), (1.0, 25)), 1.0, ""),
        (((5.0, 5), (1.0, 25)), 1.0, ""),
        (((1.0, 25), (3.0, 5)), 3.0, ""),
    ],
)
def test_rate_is_that_of_the_last_seconds(points: tuple[Point, ...], now: float, text: str) -> None:
    assert format_rate(points, now, 5.0, format_number) == text


def test_only_the_last_changes_are_kept() -> None:
    points: tuple[Point, ...] = ()
    for number in range(1000):
        points = add_point(points, float(number), number // 2)
    assert len(points) == 32 and points[-1] == (998.0, 499)


def test_ranks_are_compared() -> None:
    assert describe_ranks({}, format_number) == describe_ranks({"rank 0": 5}, format_number) == ""
    assert describe_ranks({"rank 0": 0, "rank 1": 0}, format_number) == "0 of 2 ranks have written"
    assert describe_ranks({"rank 0": 5, "rank 1": 5}, format_number) == "2 ranks, 5 each"
    assert (
        describe_ranks({"n1": 5000, "n2": 0, "n3": 70}, format_number, "hosts")
        == "2 of 3 hosts have written, from 70 (n3) to 5,000 (n1)"
    )


def test_bytes_of_ranks_are_added() -> None:
    found = after(status(100.0, KIB, None), status(110.0, 3 * KIB, None, 18 * KIB))
    assert describe_written(SPEC, found).replace("\u00a0", " ") == (
        "21.0 KiB of samples so far · 2.00 KiB per second (last 10 s)"
        " · 2 of 3 ranks have written, from 3.00 KiB (rank 0) to 18.0 KiB (rank 2)"
    )
    assert JobStatus.from_json(found.to_json()) == found


def test_ranks_that_are_not_recorded_do_not_count() -> None:
    found = status(100.0, KIB, None, KIB)
    found = with_written(replace(found, ranks=(found.ranks[0], replace(found.ranks[1], recorded=False))), None)
    assert describe_written(SPEC, found) == f"{format_bytes(KIB)} of samples so far"


def test_bytes_of_earlier_runs_are_in_the_sum() -> None:
    first = status(100.0, KIB)
    second = status(110.0, 2 * KIB, 2 * KIB, run=1)
    found = after(first, replace(second, ranks=(*first.ranks, *second.ranks)))
    assert describe_written(SPEC, found).replace("\u00a0", " ") == (
        "5.00 KiB of samples so far · 410 B per second (last 10 s) · 2 ranks, 2.00 KiB each"
    )


def test_size_never_decreases() -> None:
    """The file of a rank is moved or removed after its end, and the directory is hidden for a while."""
    found = after(status(100.0, 5 * KIB, KIB), status(110.0, None, 2 * KIB), status(115.0, 3, 2 * KIB))
    assert [rank.written for rank in found.ranks] == [5 * KIB, 2 * KIB]
    assert with_written(JobStatus(seen_at=120.0), found).written == found.written


def test_unknown_sizes_give_no_text() -> None:
    assert describe_written(SPEC, after(status(100.0, None, None))) == ""
    assert describe_written(SPEC, JobStatus(written=((1.0, 5),), seen_at=1.0)) == f"{format_bytes(5)} of samples so far"
