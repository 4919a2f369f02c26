"""Columns of ranks: what they say of how even the work is, few however many ranks there are, and harmless."""

import re
from xml.etree import ElementTree

import pytest

from perfloom.charts.rank_columns import (
    HEIGHT,
    LEGEND,
    MAX_COLUMNS,
    RankValue,
    draw_rank_columns,
    list_legend,
    measure_balance,
)
from tests.charts.test_bars import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"


def columns(values: list[RankValue], event: str = "cycles") -> list[ElementTree.Element]:
    """The columns drawn, after a look at every element and attribute."""
    told = measure_balance(values)
    assert told is not None
    root = ElementTree.fromstring(draw_rank_columns(event, "count", values, told))
    for element in root.iter():
        assert element.tag in {f"{SVG}{name}" for name in ("svg", "g", "rect", "path", "text", "title")}
        for name, value in element.items():
            assert re.fullmatch(r"[\w .\-]*", value), (name, value)
    return root.findall(f"{SVG}g")


def heights(column: ElementTree.Element) -> dict[str | None, float]:
    return {rect.get("class"): float(rect.get("height", "nan")) for rect in column.findall(f"{SVG}rect")}


def test_four_ranks_of_which_one_works_twice_as_long() -> None:
    values = [RankValue(n, 200 if n == 1 else 100, f"node{n // 2}") for n in range(4)]
    told = measure_balance(values)
    assert told is not None
    assert (told.ranks, told.hosts, told.mean, told.max.rank, told.min.rank) == (4, 2, 125, 1, 0)
    assert told.over_mean == 1.6
    drawn = columns(values)
    assert [heights(column) for column in drawn] == [
        {"ranks-least": height} for height in (HEIGHT / 2, HEIGHT, HEIGHT / 2, HEIGHT / 2)
    ]
    assert drawn[1].findtext(f"{SVG}title") == "rank 1 on node0: 200, 1.60 × the mean"


def test_many_adjacent_ranks_share_a_column() -> None:
    values = [RankValue(n, None if n == 1 else 10 + n % 3, note="Nothing came back.") for n in range(3 * MAX_COLUMNS)]
    drawn = columns(values)
    assert len(drawn) == MAX_COLUMNS
    assert heights(drawn[1]) == {"ranks-most": HEIGHT, "ranks-least": pytest.approx(HEIGHT * 10 / 12, abs=0.01)}
    assert "ranks-missing" in heights(drawn[0])
    assert drawn[0].findtext(f"{SVG}title") == "ranks 0 to 2: 10 to 12, no data for 1"
    told = measure_balance(values)
    assert told is not None
    many = [RankValue(n, n) for n in range(100_000)]
    assert len(columns(many)) <= MAX_COLUMNS
    assert len(draw_rank_columns("x", "ns", many, told)) < 80_000


def test_the_scale_has_units_and_the_legend_what_is_drawn() -> None:
    values = [RankValue(n, 2_000_000 * (1 + n % 2)) for n in range(4)]
    told = measure_balance(values)
    assert told is not None
    svg = draw_rank_columns("task-clock", "ns", values, told)
    texts = [(text.text or "").replace("\u00a0", " ") for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert texts == ["4 ms", "0", "rank 0", "rank 1", "rank 2", "rank 3"]
    assert list_legend(svg) == (("ranks-least", "each rank"), ("ranks-mean", "mean"))
    many = [RankValue(n, None if n == 1 else 10 + n % 3) for n in range(3 * MAX_COLUMNS)]
    told = measure_balance(many)
    assert told is not None
    assert [css for css, _ in list_legend(draw_rank_columns("x", "ns", many, told))] == [css for css, _ in LEGEND]


def test_columns_of_one_rank_are_links() -> None:
    values = [RankValue(n, 5 + n) for n in range(3)]
    told = measure_balance(values)
    assert told is not None
    root = ElementTree.fromstring(draw_rank_columns("x", "count", values, told, lambda rank: f"/ranks?rank={rank}"))
    links = list(root.iter(f"{SVG}a"))
    assert [link.get("href") for link in links] == ["/ranks?rank=0", "/ranks?rank=1", "/ranks?rank=2"]
    assert links[1].get("aria-label") == "rank 1: 6, 1.00 × the mean" and root.get("role") == "group"
    assert all(link.get("tabindex") is None for link in links)


def test_incomparable_values() -> None:
    assert measure_balance([]) is None
    assert measure_balance([RankValue(0, 5), RankValue(1, None)]) is None
    told = measure_balance([RankValue(0, 0), RankValue(1, 0)])
    assert told is not None and told.over_mean is None
    assert all(set(heights(column).values()) == {0} for column in columns([RankValue(0, 0), RankValue(1, 0)]))
    columns([RankValue(0, -5), RankValue(1, 7)])


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_names_are_text(number: int) -> None:
    name = HOSTILE[number]
    columns([RankValue(0, 1, name), RankValue(1, None, name, name), RankValue(2, 5)], name)
