"""How often `perfloom diff` reports a change that is none, and which changes it finds.

    python -m benchmarks.diff_power [--comparisons 400]

Programs are simulated: functions with random shares (Dirichlet), runs whose speed varies together, functions that vary
by themselves, and samples (Poisson). The first table has the comparisons of equal programs with at least one false row,
the second one those in which a change of one function was found, in percent. For those of real programs: `diff
--self-test`."""

import argparse
from collections.abc import Iterable

import numpy as np

from perfloom.analysis.compare.evidence import Evidence, RunValues, compare_items
from perfloom.domain.arrays import Array

FUNCTIONS = 60
CHANGE = 1.1


def simulate(
    chance: np.random.Generator, shares: Array, runs: int, samples: int, run: float, function: Array
) -> RunValues:
    """A group of runs. run, function: coefficients of variation of a run, and of each function in it."""
    rates = shares[:, None] * np.exp(chance.normal(0, run, runs))
    rates = rates * np.exp(chance.normal(0, 1, rates.shape) * function[:, None])
    counts = chance.poisson(samples * rates).astype(np.float64)
    return RunValues(counts, counts, counts.sum(axis=0), counts.sum(axis=0), np.ones(runs))


def compare_equal(
    count: int, runs: int, samples: int, run: float, function: float, vary: float
) -> Iterable[list[Evidence]]:
    """Comparisons of a program with itself, by shares and by weights. vary: spread of the functions' own variation."""
    chance = np.random.default_rng(17)
    for _ in range(count):
        shares = chance.dirichlet(np.full(FUNCTIONS, 0.3))
        own = function * np.exp(chance.normal(0, vary, FUNCTIONS))
        sides = [simulate(chance, shares, runs, samples, run, own) for _ in range(2)]
        yield [compare_items(*sides, as_shares=as_shares) for as_shares in (True, False)]


def find_change(count: int, runs: int, samples: int, share: float, run: float, function: float) -> float:
    """How often a change by `CHANGE` of one function with this share is found, in percent."""
    chance, found = np.random.default_rng(23), 0
    for _ in range(count):
        shares = np.r_[share, (1 - share) * chance.dirichlet(np.full(FUNCTIONS - 1, 0.3))]
        changed = shares * np.r_[CHANGE, np.ones(FUNCTIONS - 1)]
        own = np.full(FUNCTIONS, function)
        base, other = (simulate(chance, one, runs, samples, run, own) for one in (shares, changed))
        found += int(compare_items(base, other, as_shares=False).found[0])
    return 100 * found / count


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--comparisons", type=int, default=400)
    count = parser.parse_args().comparisons
    print("| runs a side | CV of runs | CV of functions | false, shares | false, weights |\n|--:|--:|--:|--:|--:|")
    for runs in (3, 5, 10):
        for run, function, vary in ((0.02, 0.0, 0.0), (0.02, 0.02, 0.0), (0.05, 0.01, 0.0), (0.02, 0.02, 0.8)):
            results = list(compare_equal(count, runs, 20_000, run, function, vary))
            false = [100 * sum(bool(one[way].found.any()) for one in results) / count for way in (0, 1)]
            varies = " (varies by function)" if vary else ""
            print(f"| {runs} | {run:.0%} | {function:.0%}{varies} | {false[0]:.1f} % | {false[1]:.1f} % |")
    print("\n| share | CV | samples | 3 runs | 5 runs | 10 runs |\n|--:|--:|--:|--:|--:|--:|")
    for share in (0.05, 0.2):
        for variation in (0.01, 0.02, 0.05):
            for samples in (5_000, 20_000):
                found = [find_change(count // 2, runs, samples, share, variation, 0.0) for runs in (3, 5, 10)]
                cells = " | ".join(f"{one:.0f} %" for one in found)
                print(f"| {share:.0%} | {variation:.0%} | {samples:,} | {cells} |")


if __name__ == "__main__":
    main()
