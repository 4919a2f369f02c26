"""How often `perfloom diff` reports a change that is none, and which changes it finds.

    python -m benchmarks.diff_power [--comparisons 400]

Programs are simulated: functions in a random call tree with random shares (Dirichlet), runs whose speed varies
together, functions that vary by themselves, and samples (Poisson). The first table has the comparisons of equal
programs with a false row or a false change of the whole, the second those in which a change of one function was found,
in percent; the third has both with one run a side and the noise of earlier runs. For real programs: `perfloom diff
--self-test`."""

import argparse
from dataclasses import dataclass

import numpy as np

from perfloom.analysis.compare.evidence import RunValues, compare_values
from perfloom.analysis.compare.runs import divide_at_changes
from perfloom.domain.arrays import Array

FUNCTIONS = 60
CHANGE = 1.1
NEAR = 8
"""How many functions before it may be the caller of a function."""


@dataclass(frozen=True)
class Noise:
    """Coefficients of variation of runs, and of each function in a run. spread: of the latter between functions
    (standard deviation of their logarithm)."""

    run: float
    function: float
    spread: float = 0.0


def make_tree(chance: np.random.Generator) -> Array:
    """bool [functions, functions]: whether the first is the second, or calls it."""
    calls = np.eye(FUNCTIONS)
    for number in range(1, FUNCTIONS):
        caller = chance.integers(max(0, number - NEAR), number)
        calls[:, number] += calls[:, caller]
    return calls


def simulate(
    chance: np.random.Generator, calls: Array, shares: Array, runs: int, samples: int, run: float, function: Array
) -> RunValues:
    """A group of runs: the totals of all functions, then their self values."""
    rates = shares[:, None] * np.exp(chance.normal(0, run, runs))
    rates = rates * np.exp(chance.normal(0, 1, rates.shape) * function[:, None])
    counts = chance.poisson(samples * rates).astype(np.float64)
    values, whole = np.vstack([calls @ counts, counts]), counts.sum(axis=0)
    return RunValues(values, values, whole, whole, np.ones(runs))


def count_false(count: int, runs: int, noise: Noise, *, paired: bool) -> tuple[float, float]:
    """The percentages of comparisons of equal programs with anything false: by shares, by weights."""
    chance, false = np.random.default_rng(17), [0, 0]
    for _ in range(count):
        calls, shares = make_tree(chance), chance.dirichlet(np.full(FUNCTIONS, 0.3))
        own = noise.function * np.exp(chance.normal(0, noise.spread, FUNCTIONS))
        sides = [simulate(chance, calls, shares, runs, 20_000, noise.run, own) for _ in range(2)]
        for way, as_shares in enumerate((True, False)):
            items, whole = compare_values(*sides, as_shares=as_shares, paired=paired)
            false[way] += int(items.found.any() or (whole is not None and whole.found[0]))
    return 100 * false[0] / count, 100 * false[1] / count


def find_change(count: int, runs: int, samples: int, share: float, run: float) -> float:
    """How often a change by `CHANGE` of the self value of one function with this share is found, in percent."""
    chance, found, changed = np.random.default_rng(23), 0, FUNCTIONS // 2
    for _ in range(count):
        calls, shares = make_tree(chance), chance.dirichlet(np.full(FUNCTIONS, 0.3))
        shares[changed] = 0
        shares *= (1 - share) / shares.sum()
        shares[changed] = share
        slower = shares.copy()
        slower[changed] *= CHANGE
        own = np.zeros(FUNCTIONS)
        base, other = (simulate(chance, calls, one, runs, samples, run, own) for one in (shares, slower))
        found += int(compare_values(base, other, as_shares=False)[0].found[FUNCTIONS + changed])
    return 100 * found / count


def compare_with_earlier(count: int, earlier: int, noise: Noise) -> tuple[float, ...]:
    """The percentages of comparisons of one run a side: of equal programs with anything false, by shares and by
    weights; of programs that are slower by twice `CHANGE` in which that was found. In every second comparison the level
    of the earlier runs changed in their middle."""
    chance, found = np.random.default_rng(29), [0, 0, 0]
    for number in range(count):
        calls, shares = make_tree(chance), chance.dirichlet(np.full(FUNCTIONS, 0.3))
        own = noise.function * np.exp(chance.normal(0, noise.spread, FUNCTIONS))
        slower = (2 * CHANGE - 1) * shares
        base, other, changed = (
            simulate(chance, calls, one, 1, 20_000, noise.run, own) for one in (shares, shares, slower)
        )
        levels = np.where(np.arange(earlier) < earlier // 2 * (number % 2), CHANGE, 1.0)
        each = [simulate(chance, calls, level * shares, 1, 20_000, noise.run, own) for level in levels]
        groups = divide_at_changes(
            RunValues(*(np.concatenate(part, -1) for part in zip(*map(_parts, each), strict=True)))
        )
        for way, as_shares in enumerate((True, False)):
            items, whole = compare_values(base, other, as_shares=as_shares, earlier=groups)
            found[way] += int(items.found.any() or (whole is not None and whole.found[0]))
        whole = compare_values(base, changed, as_shares=False, earlier=groups)[1]
        found[2] += int(whole is not None and whole.found[0])
    return tuple(100 * one / count for one in found)


def _parts(runs: RunValues) -> tuple[Array, ...]:
    return runs.weight, runs.samples, runs.whole, runs.whole_samples, runs.spread


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--comparisons", type=int, default=400)
    count = parser.parse_args().comparisons
    print("| runs a side | CV of runs | CV of functions | false, shares | false, weights | pairs: shares | weights |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    noises = (Noise(0.02, 0.0), Noise(0.02, 0.02), Noise(0.05, 0.01), Noise(0.02, 0.02, 0.8))
    for runs in (3, 5, 10):
        for noise in noises:
            false = [one for paired in (False, True) for one in count_false(count, runs, noise, paired=paired)]
            varies = ", of some much more" if noise.spread else ""
            cells = " | ".join(f"{one:.1f} %" for one in false)
            print(f"| {runs} | {noise.run:.0%} | {noise.function:.0%}{varies} | {cells} |", flush=True)
    print("\n| share | CV | samples | 3 runs | 5 runs | 10 runs |\n|--:|--:|--:|--:|--:|--:|")
    for share in (0.05, 0.2):
        for variation in (0.01, 0.02, 0.05):
            for samples in (5_000, 20_000):
                found = [find_change(count // 2, runs, samples, share, variation) for runs in (3, 5, 10)]
                cells = " | ".join(f"{one:.0f} %" for one in found)
                print(f"| {share:.0%} | {variation:.0%} | {samples:,} | {cells} |", flush=True)
    print("\n| earlier runs | CV of runs | CV of functions | false, shares | false, weights | 20 % slower found |")
    print("|--:|--:|--:|--:|--:|--:|")
    for earlier in (5, 8, 12):
        for noise in noises:
            varies = ", of some much more" if noise.spread else ""
            cells = " | ".join(f"{one:.1f} %" for one in compare_with_earlier(count, earlier, noise))
            print(f"| {earlier} | {noise.run:.0%} | {noise.function:.0%}{varies} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
