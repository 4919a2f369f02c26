"""A table as aligned text, made to fit the width of a terminal."""

from collections.abc import Callable, Sequence

from ..domain.symbols.short_names import shorten_distinct
from ..domain.text import shorten_middle

GAP = "  "
MIN_TEXT_WIDTH = 16
"""No text is cut below this width. If columns still do not fit, some are left out."""


def align(
    headings: Sequence[str], cells: Sequence[Sequence[str]], is_numeric: Sequence[bool], width: int | None = None
) -> tuple[list[str], list[str]]:
    """The lines of a table, heading first, and the headings of the columns that were left out: from the end, at first
    texts that are equal in all rows, with that text (`unit: count`), at last the first column of numbers.

    width: characters of a terminal, None for no limit. Texts that are too long are shortened, the widest column first:
    names of functions to their short names if these differ, then each loses its middle. Numbers are right-aligned and
    never cut.
    """
    widths = [max(len(text) for text in column) for column in zip(headings, *cells, strict=True)]
    shown = list(range(len(widths)))
    equal = {i: cells[0][i] for i in shown if not is_numeric[i] and len({line[i] for line in cells}) == 1 < len(cells)}
    if width is not None:
        narrowest = [_min_width(*column) for column in zip(headings, widths, is_numeric, strict=True)]

        def is_too_wide() -> bool:
            return sum(narrowest[i] for i in shown) + len(GAP) * (len(shown) - 1) > width

        # A list of names without a single number would say nothing.
        kept = {0, next((i for i in shown if is_numeric[i]), 0)}
        while is_too_wide() and (others := [i for i in shown if i not in kept] or shown[1:]):
            shown.remove(max((i for i in others if i in equal), default=others[-1]))
        limit = max(width - len(GAP) * (len(shown) - 1), sum(narrowest[i] for i in shown))
        shrunk = _shrink([widths[i] for i in shown], [narrowest[i] for i in shown], limit)
        widths = [dict(zip(shown, shrunk, strict=True)).get(i, widths[i]) for i in range(len(widths))]
    short = {
        i: shorten_distinct(line[i] for line in cells) if any(len(line[i]) > widths[i] for line in cells) else str
        for i in shown
    }
    put: list[Callable[[str, int], str]] = [str.rjust if right else str.ljust for right in is_numeric]
    lines = [
        GAP.join(put[i](_fit(line[i], short[i], widths[i]), widths[i]) for i in shown).rstrip()
        for line in (headings, *cells)
    ]
    hidden = [i for i in range(len(headings)) if i not in shown]
    return lines, [headings[i] + (f": {equal[i]}" if equal.get(i, "") not in ("", "-") else "") for i in hidden]


def _fit(text: str, short: Callable[[str], str], width: int) -> str:
    return text if len(text) <= width else shorten_middle(short(text), width)


def _min_width(heading: str, width: int, is_numeric: bool) -> int:
    return width if is_numeric else min(width, max(len(heading), MIN_TEXT_WIDTH))


def _shrink(widths: Sequence[int], narrowest: Sequence[int], limit: int) -> list[int]:
    """Widths that add up to at most `limit`, the largest cut first and none below its narrowest."""
    shrunk = list(widths)
    while (excess := sum(shrunk) - limit) > 0:
        largest = max((i for i in range(len(shrunk)) if shrunk[i] > narrowest[i]), key=lambda i: shrunk[i])
        others = [w for i, w in enumerate(shrunk) if w < shrunk[largest] and w > narrowest[i]]
        step = shrunk[largest] - max([narrowest[largest], *others])
        shrunk[largest] -= max(1, min(excess, step))
    return shrunk
