"""Verdicts on formulas of sampled events."""

import re

import numpy as np
import pytest

from perfloom.analysis.compare.evidence import compare_logarithms
from perfloom.analysis.compare.formula_verdicts import compare_groups
from perfloom.analysis.compare.verdicts import GateResult, Verdict, check_gate
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.selection import Selection
from tests.support.perf.counted_runs import CPI, record_cycles

RATIO = Selection(event="CPI")


def test_a_function_with_more_cycles_per_instruction_is_found() -> None:
    base = [record_cycles(seed) for seed in range(5)]
    other = [record_cycles(seed, cpi=CPI | {"lookup": 2.6}) for seed in range(10, 15)]
    found = compare_groups(base, other, RATIO, RATIO)
    rows = {row["name"]: row for row in found.rows.records()}
    assert {name: row["self_verdict"] for name, row in rows.items()} == {
        "lookup": Verdict.MORE,
        "parse": Verdict.NONE,
        "emit": Verdict.NONE,
        "hash": Verdict.NONE,
        # It only calls others.
        "main": Verdict.UNTESTED,
    }
    lookup = rows["lookup"]
    assert lookup["base_self"] == pytest.approx(2.0, rel=0.05)
    assert lookup["low_self_percent"] < 30 < lookup["high_self_percent"]
    assert lookup["base_self_percent"] is None
    assert rows["main"]["total_verdict"] == Verdict.MORE
    # 1.22 cycles per instruction became 1.37.
    assert found.whole is not None and found.whole.low < 0.15 / 1.22 < found.whole.high
    text = found.sentence()
    assert re.match(r"\d+(\.\d+)?\s% more CPI \(.*\), 5 runs against 5 runs: lookup \+\d+ %\.", text), text
    assert check_gate(found, 5)[0] is GateResult.SLOWER
    assert check_gate(found, 50)[0] is GateResult.PASS
    # The interval of an improvement excludes a growth that these runs could not have shown.
    improved = compare_groups(other, base, RATIO, RATIO)
    assert improved.whole is not None and improved.whole.high < 0 and 100 * improved.whole.detectable > 1
    assert check_gate(improved, 1)[0] is GateResult.PASS


def test_exchanged_sides_have_the_inverse_ratio() -> None:
    base, other = ([record_cycles(seed) for seed in seeds] for seeds in (range(3), range(10, 13)))
    one, two = compare_groups(base, other, RATIO, RATIO), compare_groups(other, base, RATIO, RATIO)
    assert one.whole is not None and two.whole is not None
    assert (1 + one.whole.ratio) * (1 + two.whole.ratio) == pytest.approx(1)
    inverse = compare_groups(base, other, Selection(event="IPC"), Selection(event="IPC"))
    assert inverse.whole is not None
    assert (1 + one.whole.ratio) * (1 + inverse.whole.ratio) == pytest.approx(1)


def test_equal_programs_differ_in_few_comparisons() -> None:
    chance, false, found = np.random.default_rng(1), 0, 0
    shares = np.concatenate(([1.0], chance.dirichlet(np.full(30, 1.0))))[:, None]
    for _ in range(200):
        variance = 2 / (20_000 * shares) * np.ones(5)
        # Runs and functions vary by 2 %, and some functions by much more.
        own = 0.02 * np.exp(chance.normal(0, 0.8, shares.shape))
        own[0] = 0
        sides = [
            chance.normal(0, 0.02, 5) + chance.normal(0, 1, (31, 5)) * np.sqrt(variance + own**2) for _ in range(2)
        ]
        base, other = ((side, variance) for side in sides)
        false += bool(compare_logarithms(base, other, np.ones(31, bool)).found.any())
        changed = other[0].copy()
        changed[0] += 0.1
        found += bool(compare_logarithms(base, (changed, variance), np.ones(31, bool)).found[0])
    # Binomial: with a rate of 5 %, more than 20 of 200 have a probability of 0.1 %.
    assert false <= 20
    assert found >= 190


def test_without_noise_between_runs_the_variance_is_that_of_the_samples() -> None:
    base, other = record_cycles(1, variation=0), record_cycles(2, variation=0)
    found = compare_groups([base], [other], RATIO, RATIO)
    assert not found.is_certain and found.whole is not None
    # Σ 1/n of the samples of both events on both sides.
    counts = [np.bincount(np.asarray(one.samples.column("event")), minlength=2) for one in (base, other)]
    error = np.sqrt(sum(1 / count for side in counts for count in side))
    half = (np.log1p(found.whole.high) - np.log1p(found.whole.low)) / 2
    assert half == pytest.approx(1.96 * error, rel=0.01)
    assert check_gate(found, 0.1)[0] is GateResult.UNCERTAIN


def test_what_has_no_value_is_refused() -> None:
    base, other = record_cycles(1, 500), record_cycles(2, 500, faults=True)
    with pytest.raises(InvalidRequest, match="Nothing of instructions"):
        compare_groups([base], [other], RATIO, RATIO)
    with pytest.raises(InvalidRequest, match="shares"):
        compare_groups([base], [base], RATIO, RATIO, as_shares=True)
    with pytest.raises(InvalidRequest, match="as many runs"):
        compare_groups([base], [base, record_cycles(3, 500)], RATIO, RATIO, paired=True)
