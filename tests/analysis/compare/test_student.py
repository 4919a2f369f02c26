"""Student's t distribution without scipy.stats."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from perfloom.analysis.compare.evidence import adjust_p
from perfloom.analysis.compare.student import compute_quantile, compute_tail

DEGREES = np.array([1.0, 2.5, 40.0, np.inf, np.inf])


def test_values_equal_those_of_scipy_stats() -> None:
    from scipy.stats import t

    for value in (0.0, 0.3, 2.0, 9.0, 30.0, np.inf):
        tails = compute_tail(np.full(len(DEGREES), value), DEGREES)
        assert tails == pytest.approx(t.sf(value, DEGREES), rel=1e-12)
    for probability in (0.025, 0.5, 0.8, 0.9999):
        quantiles = compute_quantile(probability, DEGREES)
        assert quantiles == pytest.approx(t.ppf(probability, DEGREES), rel=1e-9, abs=1e-12)


def test_adjusted_p_equals_that_of_scipy_stats() -> None:
    from scipy.stats import false_discovery_control

    p = np.random.default_rng(7).random(200) ** 3
    p[3] = p[50] = p[100]
    assert adjust_p(p) == pytest.approx(false_discovery_control(p), rel=1e-12)
    assert len(adjust_p(np.array([]))) == 0


def test_one_run_a_side_needs_no_scipy() -> None:
    code = """
import sys
import numpy as np
from perfloom.analysis.compare.evidence import RunValues, compare_values
side = RunValues(np.array([[5e6], [3e6]]), np.array([[5.0], [3.0]]), np.array([8e6]), np.array([8.0]), np.ones(1))
items, _ = compare_values(side, side, as_shares=False)
assert np.isfinite(items.q).all()
assert not {"scipy.stats", "scipy.special"} & {*sys.modules}
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
