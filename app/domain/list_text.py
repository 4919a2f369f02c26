"""Lists within a sentence: the first of many names, and numbers as ranges."""

from collections.abc import Iterable, Sequence


def abbreviate_names(names: Sequence[str], limit: int) -> str:
    """The first names and how many more there are: "a, b and 3 more"."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def to_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending numbers as inclusive ranges; consecutive numbers are one range."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        low = ranges.pop()[0] if ranges and number == ranges[-1][1] + 1 else number
        ranges.append((low, number))
    return ranges


def format_ranges(ranges: Iterable[tuple[int, int]], dash: str = "–", between: str = ", ") -> str:
    """Inclusive ranges as "0–3, 7"."""
    return between.join(str(low) if low == high else f"{low}{dash}{high}" for low, high in ranges)
