"""Labels next to the heaviest dots of a scatter, as far as they do not collide."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..domain.arrays import Float64Array
from .svg import escape_text, fit_text, measure_text_em

MAX_LABELS = 10
MAX_LABEL_EM = 16.0
FONT_PX = 11.5
PLOT_PX = (700.0, 380.0)
"""A plot with little room; labels that fit there also fit in larger ones. CSS hides them in smaller ones."""
GAP_PX = 3.0
_Rectangle = tuple[float, float, float, float]
"""Left, top, right and bottom in pixels."""


@dataclass(frozen=True)
class DotLabel:
    """A label. at: the number of its dot. text: shortened. is_left: whether it is left of the dot."""

    at: int
    text: str
    is_left: bool


def place_labels(x: Float64Array, y: Float64Array, names: Sequence[str], radius: float) -> tuple[DotLabel, ...]:
    """At most `MAX_LABELS` labels of dots at x and y (shares of the plot from the left and from the top), the most
    important first. A label is left out if it would cover an earlier one or one of so many first dots, or leave the
    plot."""
    width, height = PLOT_PX
    dots = [
        (width * left - radius, height * top - radius, width * left + radius, height * top + radius)
        for left, top in zip(x.tolist(), y.tolist(), strict=True)
    ]
    found: list[DotLabel] = []
    taken: list[_Rectangle] = []
    for at in range(len(dots)):
        if len(found) == MAX_LABELS:
            break
        text = fit_text(names[at], MAX_LABEL_EM)
        length = FONT_PX * measure_text_em(text)
        middle_x, middle_y = float(x[at]) * width, float(y[at]) * height
        top, bottom = middle_y - 0.6 * FONT_PX, middle_y + 0.6 * FONT_PX
        for is_left in (False, True):
            edge = middle_x + (-1 if is_left else 1) * (radius + GAP_PX)
            box = (edge - length, top, edge, bottom) if is_left else (edge, top, edge + length, bottom)
            inside = box[0] >= 0 and box[2] <= width
            if inside and not any(_overlap(box, other) for other in (*taken, *dots[:MAX_LABELS])):
                found.append(DotLabel(at, text, is_left))
                taken.append(box)
                break
    return tuple(found)


def _overlap(one: _Rectangle, other: _Rectangle) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def draw_label(label: DotLabel, x: str, y: str, radius: float) -> str:
    """The label of a dot at a position in SVG."""
    distance, anchor = (-radius - GAP_PX, "end") if label.is_left else (radius + GAP_PX, "start")
    return (
        f'<text x="{x}" dx="{distance:.1f}" y="{y}" dy="0.35em" text-anchor="{anchor}" aria-hidden="true" '
        f'class="scatter-name">{escape_text(label.text)}</text>'
    )
