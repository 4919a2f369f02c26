"""Collapsed stacks of two sides in one file: each line has a stack, its weight in the base and its weight in the other,
as difffolded.pl of FlameGraph (revision 41fee1f) writes them for flamegraph.pl. Only the order of lines differs: by
bytes."""

from collections import Counter
from collections.abc import Iterable, Iterator


def write_difference(base: Iterable[bytes], other: Iterable[bytes], *, normalize: bool) -> Iterator[bytes]:
    """The lines. base, other: collapsed stacks in chunks of whole lines. normalize: scale the base to the total of the
    other and round down, as option -n does."""
    before, after = _sum_lines(base), _sum_lines(other)
    base_total, other_total = before.total(), after.total()
    scaled = normalize and base_total != other_total and base_total != 0
    for stack in sorted(before.keys() | after.keys()):
        weight = before[stack]
        if scaled:
            weight = int(weight * other_total / base_total)
        yield b"%s %d %d\n" % (stack, weight, after[stack])


def _sum_lines(chunks: Iterable[bytes]) -> Counter[bytes]:
    sums: Counter[bytes] = Counter()
    for chunk in chunks:
        # Not splitlines, which also splits at characters that names may contain.
        for line in chunk.removesuffix(b"\n").split(b"\n"):
            stack, _, weight = line.rpartition(b" ")
            sums[stack] += int(weight)
    return sums
