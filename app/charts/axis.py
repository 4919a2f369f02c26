"""Scales of charts: round ticks, and which labels of columns fit."""

import math
from collections.abc import Sequence

from .svg import measure_text_em

LABEL_SPACE_PX = 8
"""Between two labels of columns."""


def list_ticks(longest: float, unit: str, max_ticks: int) -> list[float]:
    """The ticks from 0 to at most `longest`: multiples of 1, 2 or 5 times a power of ten; of bytes, of a power of 2."""
    step = tick_step(longest, unit, max_ticks)
    return [step * n for n in range(math.floor(longest / step) + 1)]


def tick_step(longest: float, unit: str, max_ticks: int) -> float:
    """The distance of ticks."""
    least = longest / (max_ticks - 1)
    if unit == "bytes":
        return float(1 << max(0, math.ceil(least) - 1).bit_length())
    power = 10.0 ** math.floor(math.log10(least or 1))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= least), 10 * power)


def label_stride(labels: Sequence[str], room_px: float, font_px: float) -> int:
    """Every how many columns a label fits below its column. room_px: the width of a column."""
    widest = max(map(measure_text_em, labels), default=0.0) * font_px + LABEL_SPACE_PX
    return max(1, math.ceil(widest / room_px)) if room_px > 0 else 1
