"""Numbers for display: their format and their precision."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain import units
from perfloom.domain.event_names import SAMPLED_ONLY

SI = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
NS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9, "d": 86400e9}
BYTES = {"B": 1} | {f"{letter}iB": 1024**power for power, letter in enumerate("KMGTPE", start=1)}


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 s"),
        (1, "1 ns"),
        (999, "999 ns"),
        (1000, "1.00 µs"),
        (999_600, "1.00 ms"),
        (1_234_567, "1.23 ms"),
        (45_600_000_000, "45.6 s"),
        (119_400_000_000, "119 s"),
        (119_900_000_000, "2 min"),
        (125_000_000_000, "2 min 5 s"),
        (7_199_000_000_000, "119 min 59 s"),
        (7_200_000_000_000, "2 h"),
        (12_000_000_000_000, "3 h 20 min"),
        (190_800_000_000_000, "2 d 5 h"),
        (-1_500_000, "−1.50 ms"),
    ],
)
def test_durations(ns: int, text: str) -> None:
    assert plain(units.format_duration(ns)) == text


@pytest.mark.parametrize(
    ("values", "unit", "texts"),
    [
        ((0, 5_000, 10_000), "count", ("0", "5 k", "10 k")),
        ((0, 2_000, 8_000), "count", ("0", "2,000", "8,000")),
        ((0, 0.5, 1), "count", ("0", "0.5", "1.0")),
        ((0, 1 << 19, 3 << 19), "bytes", ("0", "0.5 MiB", "1.5 MiB")),
        ((0, 1 << 17, 1 << 20), "bytes", ("0", "0.125 MiB", "1.000 MiB")),
        ((99.36 * 2**20, 49.68 * 2**20, 0), "bytes", ("99.4 MiB", "49.7 MiB", "0")),
        ((0, 2_676_000), "ns", ("0", "2.68 ms")),
        ((12_912.6, 6_456.3, 0), "bytes", ("12.6 KiB", "6.3 KiB", "0")),
        ((500_000, 1_234_567), "ns", ("0.50 ms", "1.23 ms")),
        ((0, 500_000, 1_000_000), "ns", ("0", "0.5 ms", "1.0 ms")),
        ((500, 316_000, 200_000_000), "ns", ("500 ns", "316 µs", "200 ms")),
        ((-2_000, 2_000), "ns", ("−2 µs", "2 µs")),
        ((0, 0), "count", ("0", "0")),
    ],
)
def test_axis_labels_share_one_unit(values: tuple[float, ...], unit: str, texts: tuple[str, ...]) -> None:
    assert tuple(map(plain, units.format_axis_labels(values, unit))) == texts


def test_durations_in_the_selected_unit() -> None:
    units.set_time_unit("ms")
    try:
        shown = [plain(units.format_duration(ns)) for ns in (0, 1_234, -45_600_000_000, 7_200_000_000_000)]
        column = units.choose_scale(180_000, "ns")
        assert shown == ["0 ms", "0.00123 ms", "−45,600 ms", "7,200,000 ms"]
        assert (column.label, column.format(1_500).text) == ("ms", "0.0015")
        assert units.format_quantity(1_536, "bytes").text == "1.50\u00a0KiB", "others as ever"
        units.set_time_unit("ns")
        assert (
            plain(units.format_duration(1_234_567)) == "1,234,567 ns" and units.choose_scale(10**12, "ns").decimals == 0
        )
    finally:
        units.set_time_unit("")
    assert plain(units.format_duration(1_234_567)) == "1.23 ms"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (10_000, "10.0 k"),
        (999_499, "999 k"),
        (999_500, "1.00 M"),
        (7_890_000_000, "7.89 G"),
        (0.5, "0.500"),
        (-12_345, "−12.3 k"),
    ],
)
def test_counts(value: float, text: str) -> None:
    assert plain(units.format_count(value)) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (2**20 - 1, "1.00 MiB")])
def test_sizes(value: int, text: str) -> None:
    assert plain(units.format_bytes(value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0 %"), (0.001, "<0.01 %"), (-0.001, ">−0.01 %"), (12.3, "12.30 %"), (100, "100.00 %")],
)
def test_percents(value: float | None, text: str) -> None:
    assert plain(units.format_percent(value)) == text


@given(st.integers(0, 2**63 - 1))
def test_duration_is_within_one_percent(ns: int) -> None:
    parts = re.findall(r"([\d.,]+)\u00a0(\S+)", units.format_duration(ns))
    assert sum(number(digits) * NS[unit] for digits, unit in parts) == pytest.approx(ns, rel=0.01, abs=0.5)


@given(st.integers(0, 2**63 - 1))
def test_counts_and_sizes_are_within_one_percent(value: int) -> None:
    digits, _, prefix = units.format_count(value).partition("\u00a0")
    assert number(digits) * SI[prefix] == pytest.approx(value, rel=0.01)
    digits, _, prefix = units.format_bytes(value).partition("\u00a0")
    assert number(digits) * BYTES[prefix] == pytest.approx(value, rel=0.01)


@given(st.lists(st.integers(0, 2**62), min_size=1), st.sampled_from(["ns", "count", "bytes", "percent"]))
def test_column_has_one_scale(values: list[int], unit: str) -> None:
    scale = units.choose_scale(max(values), unit)
    for value in values:
        shown = scale.format(value)
        if shown.text.startswith("<"):
            assert 0 < value / scale.divisor < number(shown.text[1:])
        else:
            assert number(shown.text) * scale.divisor == pytest.approx(value, rel=1e-6, abs=scale.divisor * 0.0051)


@given(st.integers(-(2**62), 2**62))
def test_exact_value_has_all_digits(value: int) -> None:
    assert int(units.format_exact(value, "count").replace(",", "").replace("−", "-")) == value


def test_exact_value_has_its_unit() -> None:
    assert plain(units.format_exact(1_234_567, "ns")) == "1,234,567 ns"
    assert plain(units.format_exact(12.5, "percent")) == "12.5 %"
    assert units.format_exact(3.0, "count") == "3"


@pytest.mark.parametrize("unit", ["ns", "count", "bytes", "percent"])
@pytest.mark.parametrize("value", [None, math.nan])
def test_unknown_value_is_a_dash(unit: str, value: float | None) -> None:
    assert units.format_quantity(value, unit) == units.Quantity(None, "–", "unknown")
    assert units.choose_scale(value, unit).format(value).text == "–"


def test_dates_are_utc() -> None:
    assert units.format_utc(0) == "1970-01-01 00:00 UTC"
    assert units.format_utc_iso(1_700_000_000.9) == "2023-11-14T22:13:20Z"


def test_custom_unit_follows_the_digits() -> None:
    assert units.format_quantity(12.345, "Joules").text == "12.3\N{NO-BREAK SPACE}Joules"
    assert units.format_quantity(12_345, "Joules").exact == "12,345\N{NO-BREAK SPACE}Joules"
    assert (units.choose_scale(12.3, "Joules").label, units.choose_scale(12.3, "Joules").format(1.5).text) == (
        "Joules",
        "1.50",
    )
    assert units.format_quantity(5, "count").text == units.format_quantity(5, "none").text == "5"


def test_undetermined_total_has_no_digits() -> None:
    shown = units.format_quantity(12, SAMPLED_ONLY)
    assert (shown.value, shown.text) == (None, SAMPLED_ONLY)
