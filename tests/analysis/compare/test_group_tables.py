"""Tables of two groups of traces: means, intervals and verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from perfloom.analysis.compare.evidence import compare_measured
from perfloom.analysis.compare.group_tables import describe_evidence, diff_table_groups
from perfloom.analysis.compare.tables import diff_table
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from tests.support.traced import Trace


def make_trace(gemm_us: float, *, copies: int = 1, softmax_us: float = 10.0) -> Profile:
    """A step with a kernel of this length, copies of 1 µs, and another kernel."""
    trace = Trace()
    host, stream = trace.thread(1, "python"), trace.thread(7, stream=True)
    at = 0
    for name, length in (("gemm", gemm_us), ("softmax", softmax_us), *[("copy", 1.0)] * copies):
        if not length:
            continue
        launch = trace.slice(host, at, at + 100, "cudaLaunchKernel", "runtime")
        trace.slice(stream, at + 200, at + 200 + round(1000 * length), name, "kernel", launch)
        at += 300 + round(1000 * length)
    return trace.finish()


def compare(bases: Sequence[Profile], others: Sequence[Profile], measure: str = "") -> dict[str, dict[str, object]]:
    rows = diff_table_groups.rows(bases, others, Selection(), "kernels", measure)
    return {str(row["name"]): row for row in rows.records()}


def test_means_and_verdicts() -> None:
    bases = [make_trace(length) for length in (100, 102, 98, 100)]
    others = [make_trace(length, softmax_us=soft) for length, soft in ((120, 9), (123, 11), (118, 10.5), (119, 9.7))]
    rows = compare(bases, others)
    gemm = rows["gemm"]
    assert (gemm["base"], gemm["other"], gemm["delta"], gemm["status"]) == (100, 120, 20, "grew")
    assert gemm["verdict"] == "slower" and rows["softmax"]["verdict"] == "no evidence"
    assert 15 < gemm["low_percent"] < 20 < gemm["high_percent"] < 25  # type: ignore[operator]
    assert next(iter(rows)) == "gemm"
    assert rows["copy"]["verdict"] == "not tested", "less than 1 % of all kernels"
    swapped = compare(others, bases)
    assert swapped["gemm"]["verdict"] == "faster" and swapped["gemm"]["q"] == pytest.approx(gemm["q"])


def test_smallest_change_that_would_be_seen() -> None:
    """A change of half of it is not found, one of twice of it is."""
    noise = (0.98, 1.01, 1.0, 0.99, 1.02)
    bases = [make_trace(100 * one) for one in noise]
    least = compare(bases, [make_trace(100 * one) for one in noise[::-1]])["gemm"]["detectable_percent"]
    assert isinstance(least, float) and 2 < least < 5
    for part, verdict in ((0.5, "no evidence"), (2, "slower")):
        others = [make_trace(100 * one * (1 + part * least / 100)) for one in noise[::-1]]
        rows = diff_table_groups.rows(bases, others, Selection(), "kernels")
        assert next(row for row in rows.records() if row["name"] == "gemm")["verdict"] == verdict
        number = int(verdict == "slower")
        assert describe_evidence(rows).startswith(f"{number} of 1 tested row has evidence of a change. The smallest ")
    few = diff_table_groups.rows(bases[:2], bases[2:4], Selection(), "kernels")
    assert describe_evidence(few).startswith("No row was tested: verdicts need at least 3 recordings")
    assert few.column("detectable_percent") == [None] * len(few)


def test_counts_and_absent_rows() -> None:
    bases = [make_trace(100) for _ in range(3)]
    others = [make_trace(100, copies=3, softmax_us=soft) for soft in (0, 10, 10)]
    rows = compare(bases, others, "calls")
    # Counts that never vary differ with certainty.
    assert (rows["copy"]["verdict"], rows["copy"]["delta"], rows["copy"]["q"]) == ("more", 2, 0)
    assert rows["gemm"]["verdict"] == "no evidence"
    # A kernel that did not run in one of the traces counts as 0 there.
    assert rows["softmax"]["other"] == pytest.approx(2 / 3) and rows["softmax"]["verdict"] == "not tested"


def test_copies_of_a_trace_have_no_noise_and_no_verdict() -> None:
    rows = compare([make_trace(100)] * 3, [make_trace(120)] * 3)
    assert (rows["gemm"]["verdict"], rows["gemm"]["delta"]) == ("not tested", 20)


def test_few_runs_have_no_verdict_and_the_values_of_two_traces() -> None:
    one, two = make_trace(100), make_trace(120)
    rows = compare([one], [two])
    plain = {row["name"]: row for row in diff_table.rows(one, two, Selection(), "kernels").records()}
    assert {name: row["delta"] for name, row in rows.items()} == {name: row["delta"] for name, row in plain.items()}
    assert {row["verdict"] for row in compare([one, one], [two, two]).values()} == {"not tested"}


def test_chance_is_no_change_of_measured_values() -> None:
    chance, wrong = np.random.default_rng(5), 0
    for number in range(400):
        base, other = (np.exp(chance.normal(3, 0.05, (30, 3 + number % 3))) for _ in range(2))
        wrong += bool(compare_measured(base, other, np.ones(30, bool)).found.any())
    assert wrong <= 0.07 * 400


def test_equal_values_do_not_differ_between_groups_of_different_size() -> None:
    """Sums of logarithms are rounded: without care, 9 and 10 equal counts have different means and no variance."""
    counts = np.arange(1.0, 200.0)[:, None]
    found = compare_measured(np.repeat(counts, 9, axis=1), np.repeat(counts, 10, axis=1), np.ones(len(counts), bool))
    assert not found.difference.any() and (found.q == 1).all()


def test_changes_of_negative_values_have_the_sign_of_the_change() -> None:
    """Bytes that are freed are negative; one recording or several on a side have the same percentages and ratios."""

    def freed(weight: int) -> Profile:
        builder = ProfileBuilder("perf-script")
        event, thread = builder.intern_event("allocated", "bytes"), builder.intern_thread(pid=1, tid=1)
        for at in range(40):
            builder.add_sample(at, thread, event, 0, weight)
        return builder.finish()

    for before, after, percent, ratio in ((-100, -50, 50, 0.5), (-100, 50, 150, -0.5), (100, -50, -150, -0.5)):
        one, two = freed(before), freed(after)
        (plain,) = diff_table.rows(one, two, Selection(), "threads").records()
        (grouped,) = diff_table_groups.rows([one] * 2, [two] * 2, Selection(), "threads").records()
        for row in (plain, grouped):
            assert (row["delta_percent"], row["ratio"]) == (percent, ratio)
            assert row["status"] == ("grew" if percent > 0 else "shrank")
