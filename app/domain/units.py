"""Numbers for display: short enough to compare at a glance, together with the exact value.

Units are those of events: "count", "ns", "bytes" and units of single counters, such as "Joules"; and "percent" (0–100)
and "ratio" (values of formulas without a unit).
A number in a sentence or tile takes the scale that suits it (`format_quantity`); the numbers of one column share one
(`choose_scale`), so that their digits align. A user who wants all times in one unit selects it once (`set_time_unit`),
for the request or command being answered.
"""

import math
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from .event_names import SAMPLED_ONLY

NO_BREAK_SPACE = "\u00a0"
MISSING = "–"
NS_PER_US, NS_PER_MS, NS_PER_S = 10**3, 10**6, 10**9
US_PER_MS, US_PER_S = 10**3, 10**6
_SI = ("", "k", "M", "G", "T", "P", "E")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_TIME = (("ns", 1), ("µs", NS_PER_US), ("ms", NS_PER_MS), ("s", NS_PER_S))
TIME_UNITS = {"ns": _TIME[0], "us": _TIME[1], "ms": _TIME[2], "s": _TIME[3]}
"""The units that can be selected, by their name in an address: (how they are written, their length in ns)."""
TIME_UNIT_PARAMETER = "unit"
"""The parameter of an address that selects a unit; all links of a result carry it."""
_chosen: ContextVar[str] = ContextVar("time unit", default="")
# (smaller unit in ns, its number in the larger unit, limit below which this pair is used, names of the units)
RATIO = "ratio"
_NUMBERS = frozenset({"", "count", "none", RATIO})
_LONG_TIMES = (
    (NS_PER_S, 60, 2 * 3600, "min", "s"),
    (60 * NS_PER_S, 60, 2 * 1440, "h", "min"),
    (3600 * NS_PER_S, 24, math.inf, "d", "h"),
)


class Quantity(NamedTuple):
    """A number as a page shows it. text: rounded, with its unit. exact: all digits, with its unit."""

    value: float | int | None
    text: str
    exact: str


@dataclass(frozen=True)
class Scale:
    """How the numbers of a column are written: divided by `divisor`, with `decimals` digits after the decimal point.

    label: the unit in the heading ("ms", "M", "MiB", "%"), empty for plain counts.
    """

    unit: str
    divisor: int
    label: str
    decimals: int

    def format(self, value: float | int | None) -> Quantity:
        """`value` in the unit of the column, without the label. A value too small to show is "<0.01", not 0.00."""
        if value is None or math.isnan(value):
            return Quantity(None, MISSING, "unknown")
        shown = value / self.divisor
        smallest = 10**-self.decimals
        if value and abs(shown) < smallest / 2:
            text = f"<{smallest:.{self.decimals}f}" if value > 0 else f">−{smallest:.{self.decimals}f}"
        else:
            text = use_minus_sign(f"{shown:,.{self.decimals}f}")
        return Quantity(value, text, format_exact(value, self.unit))


def set_time_unit(word: str) -> None:
    """Write all durations in this unit from now on, one of TIME_UNITS; empty: in the unit that suits each. Applies to
    the current thread or task. Raises KeyError."""
    if word:
        TIME_UNITS[word]
    _chosen.set(word)


def get_time_unit() -> str:
    """The name of the selected unit, empty for none."""
    return _chosen.get()


def format_quantity(value: float | int | None, unit: str) -> Quantity:
    """`value` with three significant digits and a suitable unit."""
    if value is None or math.isnan(value):
        return Quantity(None, MISSING, "unknown")
    if unit == SAMPLED_ONLY:
        return Quantity(None, SAMPLED_ONLY, SAMPLED_ONLY)
    return Quantity(value, format_text(value, unit), format_exact(value, unit))


def format_text(value: float | int | None, unit: str) -> str:
    """The text of `format_quantity`, for when it is all that is shown."""
    if value is None or math.isnan(value):
        return MISSING
    if unit == SAMPLED_ONLY:
        return SAMPLED_ONLY
    short = {"ns": format_duration, "bytes": format_bytes, "percent": format_percent}.get(unit)
    return short(value) if short else format_count(value) + _get_suffix(unit)


def choose_scale(largest: float | int | None, unit: str) -> Scale:
    """The scale for a column whose largest number (by magnitude) is `largest`."""
    if largest is None or math.isnan(largest):
        largest = 0
    largest = abs(largest)
    if unit == "percent":
        return Scale(unit, 1, "%", 2)
    if unit == "ns" and (chosen := _chosen.get()):
        label, divisor = TIME_UNITS[chosen]
        return Scale(unit, divisor, label, _count_decimals(largest, divisor))
    if unit == "ns":
        label, divisor = next((step for step in reversed(_TIME) if largest >= step[1]), _TIME[0])
        return Scale(unit, divisor, label, 0 if divisor == 1 else 3 if largest < 100 * divisor else 2)
    if unit == "bytes":
        power = min(len(_BINARY) - 1, int(math.log(largest, 1024))) if largest >= 1 else 0
        return Scale(unit, 1024**power, _BINARY[power], 0 if power == 0 else 2)
    own = _get_suffix(unit)
    if unit == RATIO and largest < 1_000:
        return Scale(unit, 1, "", 4 if largest < 1 else 3 if largest < 100 else 2)
    if largest < 1_000_000:
        return Scale(unit, 1, own.strip(), 2 if own and largest < 10_000 else 0)
    power = min(len(_SI) - 1, int(math.log10(largest)) // 3)
    return Scale(unit, 1000**power, _SI[power] + own, 3)


def format_axis_labels(values: Sequence[float | int], unit: str) -> tuple[str, ...]:
    """The labels of one axis, all in one unit and with equally many digits: enough for round ones, else three of the
    greatest. If one is less than a thousandth of the greatest (a scale of ratios), each is written separately."""
    largest = max((abs(value) for value in values), default=0)
    least = min((abs(value) for value in values if value), default=0)
    if least < largest / 1000:
        return tuple(format_quantity(value, unit).text if value else "0" for value in values)
    scale = choose_scale(largest, unit)
    divisor, label = scale.divisor, scale.label
    if unit not in ("ns", "bytes", "percent") and largest >= 10_000:
        power = min(len(_SI) - 1, int(math.log10(largest)) // 3)
        divisor, label = 1000**power, _SI[power]
    most = round(math.log10(divisor)) if unit == "ns" else 9
    shown = [value / divisor for value in values]
    exactly = (n for n in range(4) if all(abs(round(one, n) - one) <= 1e-9 * abs(one) for one in shown))
    decimals = next(exactly, None)
    if decimals is None or round(least / divisor * 10**decimals) >= 1000:
        decimals = max(0, 2 - math.floor(math.log10(largest / divisor))) if largest else 0
    suffix = f"{NO_BREAK_SPACE}{label}" if label else ""
    return tuple(use_minus_sign(f"{one:,.{min(decimals, most)}f}") + suffix if one else "0" for one in shown)


def format_exact(value: float | int, unit: str) -> str:
    """All digits, grouped, with the unit in words: "1,234,567 ns"."""
    digits = f"{value:,}" if isinstance(value, int) or float(value).is_integer() else f"{value:,.6f}".rstrip("0")
    if isinstance(value, float) and value.is_integer():
        digits = f"{int(value):,}"
    return use_minus_sign(digits) + (f"{NO_BREAK_SPACE}%" if unit == "percent" else _get_suffix(unit))


def _get_suffix(unit: str) -> str:
    """A unit as written after digits; "" for plain numbers."""
    return "" if unit in _NUMBERS or " " in unit else f"{NO_BREAK_SPACE}{unit}"


def format_duration(ns: float | int) -> str:
    """Nanoseconds: "789 ns", "1.23 ms", "45.6 s", "2 min 5 s", "3 h 20 min", "2 d 4 h"; or in the selected unit."""
    if ns < 0:
        return "−" + format_duration(-ns)
    if chosen := _chosen.get():
        label, factor = TIME_UNITS[chosen]
        return (
            f"{ns:,.0f}{NO_BREAK_SPACE}ns"
            if factor == 1
            else f"{_format_three_digits(ns / factor)}{NO_BREAK_SPACE}{label}"
        )
    if ns == 0:
        return f"0{NO_BREAK_SPACE}s"
    for name, factor in _TIME:
        digits = _format_three_digits(ns / factor)
        if float(digits.replace(",", "")) < (1000 if name != "s" else 120):
            if factor == 1:
                digits = f"{ns:.0f}"
            return f"{digits}{NO_BREAK_SPACE}{name}"
    for small, per, limit, large_name, small_name in _LONG_TIMES:
        parts = round(ns / small)
        if parts < limit:
            break
    whole, rest = divmod(parts, per)
    text = f"{whole:,}{NO_BREAK_SPACE}{large_name}"
    return f"{text} {rest}{NO_BREAK_SPACE}{small_name}" if rest else text


def format_elapsed(seconds: float) -> str:
    """Elapsed seconds, as pages count them: "9.3 s", "45 s", "2 min 5 s"."""
    if seconds < 99.5:
        return f"{seconds:.{1 if seconds < 9.95 else 0}f}{NO_BREAK_SPACE}s"
    return format_duration(round(seconds) * NS_PER_S)


def format_count(value: float | int) -> str:
    """A plain number: exact below 10,000, else "12.3 k", "4.56 M", "7.89 G"."""
    if value < 0:
        return "−" + format_count(-value)
    if value < 10_000:
        return f"{value:,.0f}" if float(value).is_integer() else _format_three_digits(value)
    power = 1
    # From 999.5 on, three digits round to 1,000.
    while power < len(_SI) - 1 and value / 1000**power >= 999.5:
        power += 1
    return f"{_format_three_digits(value / 1000**power)}{NO_BREAK_SPACE}{_SI[power]}"


def format_bytes(value: float | int) -> str:
    """Bytes, in powers of 1024: "512 B", "1.5 KiB", "20.3 GiB"."""
    if value < 0:
        return "−" + format_bytes(-value)
    if value < 1024:
        return f"{value:.0f}{NO_BREAK_SPACE}B"
    power = 1
    while power < len(_BINARY) - 1 and value / 1024**power >= 1023.5:
        power += 1
    return f"{_format_three_digits(value / 1024**power)}{NO_BREAK_SPACE}{_BINARY[power]}"


def format_percent(value: float | int | None) -> str:
    """0–100 with two decimals; never "0.00 %" for more than nothing."""
    if value is None or math.isnan(value):
        return MISSING
    if 0 < abs(value) < 0.005:
        return f"{'<' if value > 0 else '>−'}0.01{NO_BREAK_SPACE}%"
    return use_minus_sign(f"{value:.2f}" if value else "0") + f"{NO_BREAK_SPACE}%"


def format_ratio(value: float, unit: str) -> str:
    """A value of a formula with four digits, or all of an integer part, and its unit; "–" if it is missing."""
    if not math.isfinite(value):
        return MISSING
    size = abs(value)
    digits = (
        f"{value:,.0f}" if 1e3 <= size < 1e9 else f"{value:.3e}" if 0 < size < 1e-4 or size >= 1e9 else f"{value:.4g}"
    )
    return use_minus_sign(digits) + (NO_BREAK_SPACE + unit if unit else "")


def format_caveat(running_percent: float | None, deviation_percent: float | None = None, missing: int = 0) -> str:
    """The caveat next to a counted number: how far it was scaled up, and how far repeated runs differed; empty without
    one.

    running_percent: share of the time in which there was a counter. deviation_percent: of the mean of repeated runs.
    missing: how many intervals or CPUs have no value, where others have.
    """
    words = [] if deviation_percent is None else [f"± {deviation_percent:.2g} %"]
    # perf prints two decimals.
    if running_percent is not None and running_percent < 99.995:
        words.append(f"scaled ×{100 / running_percent:.3g}" if running_percent > 0 else "not counted")
    if missing:
        words.append(f"{missing:,} not counted")
    return ", ".join(words)


def format_utc(epoch_s: float) -> str:
    """Seconds since the epoch as "2026-11-21 09:52 UTC"."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def format_utc_iso(epoch_s: float) -> str:
    """Seconds since the epoch as ISO 8601, for machines: "2026-11-21T09:52:59Z"."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _count_decimals(largest: float, divisor: int) -> int:
    """The number of decimals of a column of times: enough for the largest, and none below 1 ns."""
    most = round(math.log10(divisor))
    if largest >= divisor:
        return min(most, 3 if largest < 100 * divisor else 2)
    return min(most, 3 + round(math.log10(divisor / largest))) if largest >= 1 else most


def _format_three_digits(value: float | int) -> str:
    """Three significant digits, but all digits before the decimal point: 0.123, 1.23, 12.3, 123, 1,234."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.2e}") if abs(value) < 1000 else float(round(value))
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{decimals}f}"


def use_minus_sign(digits: str) -> str:
    """A minus sign instead of a hyphen, so that it is as wide as a digit."""
    return "−" + digits[1:] if digits.startswith("-") else digits
