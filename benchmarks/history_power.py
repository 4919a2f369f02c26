"""How often the history of a program has false changes, and how often a real one is found.

    python -m benchmarks.history_power [--histories 400]

Synthetic values of runs with a coefficient of variation of 2 %: normal noise, and noise with long tails (t with 3
degrees of freedom). Columns, in percent: histories without a change in which any is found; histories whose level grew
by 10 % for the last half, or for some runs in the middle, in which exactly these changes are found, at most one run
from their places.
"""

import argparse

import numpy as np

from perfloom.analysis.compare.history import find_levels
from perfloom.domain.arrays import Array

VARIATION, GROWTH = 0.02, 1.1


def measure(count: int, histories: int) -> list[float]:
    """The percentages for histories of so many runs."""
    random = np.random.default_rng(count)

    def draw() -> Array:
        return np.exp(random.normal(0, VARIATION, count))

    false = sum(bool(find_levels(draw()).changes) for _ in range(histories))
    tails = sum(bool(find_levels(np.exp(VARIATION * random.standard_t(3, count))).changes) for _ in range(histories))
    found = []
    for places in ((count // 2,), (count // 3, count // 2)):
        right = 0
        for _ in range(histories):
            values = draw()
            values[places[0] : places[1] if len(places) > 1 else None] *= GROWTH
            changes = [change.at for change in find_levels(values).changes]
            right += len(changes) == len(places) and all(
                abs(at - place) <= 1 for at, place in zip(changes, places, strict=True)
            )
        found.append(right)
    return [100 * number / histories for number in (false, tails, *found)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--histories", type=int, default=400)
    histories = parser.parse_args().histories
    print("| runs | false | false, long tails | last half found | middle found |\n|--:|--:|--:|--:|--:|")
    for count in (6, 10, 20, 50, 100):
        print(f"| {count} | {' | '.join(f'{value:.1f} %' for value in measure(count, histories))} |", flush=True)


if __name__ == "__main__":
    main()
