"""Bars of event counts: their numbers against plain Python, and an SVG that is safe whatever the names are."""

import re
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.flame_groups import FlameGroup
from perfloom.analysis.counts.shares import BY
from perfloom.charts.bars import BarData, BarScale, build_bars, color_class, draw_bar, list_drawn_series
from perfloom.charts.svg import strip_invalid_xml
from perfloom.charts.table_charts import TopBar, build_histogram, draw_histogram, draw_top_bars
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.web.views.results.detail import build_distribution_chart
from tests.analysis import brute
from tests.support.profiles import profile_of, profiles

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {f"{SVG}{name}" for name in ("svg", "rect", "title")}
ATTRIBUTES = {"viewBox", "preserveAspectRatio", "class", "role", "x", "y", "width", "height"}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "a\x00b\x1bc\ufffe",
    "]]>&lt;&#0;",
    "url(http://example.org)",
    "x" * 10_000,
    "../../x",
    '"; rm -rf ~ #',
)


def parsed(svg: str) -> ElementTree.Element:
    """The SVG, after a look at every element and attribute of it."""
    root = ElementTree.fromstring(svg)
    for add_element in root.iter():
        assert add_element.tag in ELEMENTS
        assert set(add_element.keys()) <= ATTRIBUTES
        for name, value in add_element.items():
            assert re.fullmatch(r"[\w .,()\-]*", value), (name, value)
    return root


@pytest.mark.heavy
@settings(max_examples=50)
@given(
    profiles(max_weight=1000),
    st.sampled_from(BY),
    st.sampled_from((None, "a", "^b$", ".")),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_numbers(
    profile: Profile, by: str, hide: str | None, top: int, bars: int, first_function: int, first_bar: int
) -> None:
    selection = Selection(hide=hide)
    data = build_bars(profile, selection, by, top=top, bars=bars, first_function=first_function, first_bar=first_bar)
    event = profile.meta.main_event
    assert event is not None
    samples = brute.selected(profile, selection, event=event)
    group = FlameGroup(by)
    functions, cells, sums = Counter[tuple[str, str]](), Counter[object](), Counter[str]()
    for sample in samples:
        label = brute.group_of(profile, sample, group)
        sums[label] += sample.weight
        if sample.stack:
            functions[sample.stack[-1][:2]] += sample.weight
            cells[label, sample.stack[-1][:2]] += sample.weight
    assert data.total == sum(sums.values())
    greatest = sorted((weight for weight in sums.values() if weight), reverse=True)
    assert [sums[label] for label in data.labels] == list(data.totals) == greatest[first_bar : first_bar + bars]
    assert (data.bars, data.longest) == (len(greatest), max(greatest, default=0))
    own = [s for s in data.series if not s.other]
    ordered = sorted((weight for weight in functions.values() if weight), reverse=True)
    assert data.functions == len(ordered)
    assert [functions[s.name, s.module] for s in own] == ordered[first_function : first_function + top]
    for number, label in enumerate(data.labels):
        # Parts and "other" are the whole bar.
        assert sum(s.values[number] for s in data.series) == sums[label]
        for series in own:
            assert series.values[number] == cells[label, (series.name, series.module)]
        drawn = parsed(draw_bar(data, number))
        width = sum(float(rect.get("width", "0")) for rect in drawn.iter(f"{SVG}rect"))
        assert width == pytest.approx(100 * sums[label] / data.longest, abs=0.01)


def test_names_cannot_break_out() -> None:
    builder = ProfileBuilder("test")
    event = builder.intern_event(HOSTILE[0], "count")
    for n, name in enumerate(HOSTILE):
        thread = builder.intern_thread(pid=n, tid=n)
        builder.set_thread_name(thread, 0, name)
        stack = builder.intern_stack([builder.intern_frame(builder.intern_function(name, name))])
        builder.add_sample(n, thread, event, stack, 30 - n)
    profile = builder.finish()
    for by in BY:
        data = build_bars(profile, Selection(), by)
        svgs = [draw_bar(data, bar) for bar in range(len(data.labels))]
        shown = [element.text or "" for svg in svgs for element in parsed(svg).iter()]
        assert any("<script>alert(1)</script>" in text for text in shown)
        for svg in svgs:
            for banned in ("<script", "<style", "<img", "style=", "onerror=alert(1)>", "\x00", "\x1b", "\ufffe"):
                assert banned not in svg.replace("&lt;", "").replace("&gt;", "_"), banned


def test_a_small_part_is_less_than_a_hundredth_of_a_percent() -> None:
    data = build_bars(profile_of([("main;hot", 10_000_000), ("main;rare", 1)]), Selection(), "thread")
    root = ElementTree.fromstring(draw_bar(data, 0, None, lambda series: f"/?a=1&b={series.name}"))
    titles = [rect.findtext(f"{SVG}title") for rect in root.iter(f"{SVG}rect")]
    assert titles[1] == "thread 0 100\nrare (app)\n1, <0.01\u00a0% of the bar"
    assert [link.get("href") for link in root.iter(f"{SVG}a")] == ["/?a=1&b=hot", "/?a=1&b=rare"]


def test_every_part_has_a_tooltip_and_a_color() -> None:
    profile = profile_of([("main;hot", 70), ("main;cold", 20, 1), ("", 10, 1)])
    data = build_bars(profile, Selection(), "thread")
    assert data == BarData(
        event="cycles",
        unit="count",
        by="thread",
        labels=("thread 0 100", "thread 1 101"),
        series=data.series,
        totals=(70, 30),
        total=100,
        longest=70,
        bars=2,
        functions=2,
    )
    assert [(s.name, s.other, s.values) for s in data.series] == [
        ("hot", False, (70, 0)),
        ("cold", False, (0, 20)),
        ("other", True, (0, 10)),
    ]
    parts = [rect for bar in range(2) for rect in parsed(draw_bar(data, bar)).iter(f"{SVG}rect")]
    assert [rect.findtext(f"{SVG}title") for rect in parts] == [
        "thread 0 100\nhot (app)\n70, 100.00\u00a0% of the bar",
        "thread 1 101\ncold (app)\n20, 66.67\u00a0% of the bar",
        "thread 1 101\nother\n10, 33.33\u00a0% of the bar",
    ]
    assert [rect.get("class") for rect in parts] == ["bars-part bars-1", "bars-part bars-2", "bars-part bars-other"]
    widths = [float(rect.get("width", "0")) for rect in parts]
    assert widths[0] / 70 == pytest.approx(widths[1] / 20, rel=1e-3) == pytest.approx(widths[2] / 10, rel=1e-3)
    assert parsed(draw_bar(data, 1)).findtext(f"{SVG}title") == "thread 1 101: 30"


@pytest.mark.parametrize(
    ("scale", "texts"),
    [
        (BarScale("count"), ["70", "30"]),
        (BarScale("count", reference=30), ["233.33\u00a0%", "100.00\u00a0%"]),
        (BarScale("count", per_s=0.5), ["140/s", "60/s"]),
        (BarScale("ns", per_s=1e-6), ["70.0\u00a0ms/s", "30.0\u00a0ms/s"]),
    ],
)
def test_values_are_absolute_or_percent_or_per_second(scale: BarScale, texts: list[str]) -> None:
    data = build_bars(profile_of([("main;hot", 70), ("main;cold", 30, 1)]), Selection(), "thread")
    assert [scale.format(total).text for total in data.totals] == texts
    titles = [parsed(draw_bar(data, bar, scale)).findtext(f"{SVG}title") for bar in range(2)]
    assert titles == [f"{label}: {text}" for label, text in zip(data.labels, texts, strict=True)]
    # The scale does not change the length of bars.
    assert [w for bar in range(2) for w in widths(draw_bar(data, bar, scale))] == pytest.approx([100, 42.857], abs=0.01)


def widths(svg: str) -> list[float]:
    return [float(rect.get("width", "0")) for rect in parsed(svg).iter(f"{SVG}rect")]


def test_counts_are_included() -> None:
    builder = ProfileBuilder("perf-stat")
    event = builder.intern_event("instructions", "count")
    thread = builder.intern_thread(pid=7, tid=8)
    builder.set_thread_name(thread, 0, "worker")
    builder.add_count(run=0, event=event, thread=-1, cpu=-1, value=100.0, status="ok")
    builder.add_count(run=0, event=event, thread=thread, cpu=-1, value=30.5, status="ok")
    builder.add_count(run=0, event=event, thread=-1, cpu=3, value=40.0, status="ok")
    builder.add_count(run=0, event=event, thread=-1, cpu=4, value=None, status="not counted")
    data = build_bars(builder.finish(), Selection(), "thread")
    assert dict(zip(data.labels, data.series[0].values, strict=True)) == {"(all)": 100, "CPU 3": 40, "worker 8": 30.5}
    assert [s.name for s in data.series] == ["other"] and not data.by_function and not list_drawn_series(data)
    root = parsed(draw_bar(data, 1))
    assert [element.text for element in root.iter(f"{SVG}title")] == ["CPU 3: 40", "CPU 3\n40"]
    assert {rect.get("class") for rect in root.iter(f"{SVG}rect")} == {"bars-part bars-plain"}


def test_the_legend_has_the_colors_that_are_drawn() -> None:
    profile = profile_of([("main;big", 90), ("main;small", 60, 1), ("main;tiny", 30, 2), ("", 20, 1)])
    for bars in (1, 2, 24):
        data = build_bars(profile, Selection(), "thread", bars=bars)
        svgs = [parsed(draw_bar(data, bar)) for bar in range(len(data.labels))]
        drawn = {rect.get("class", "").removeprefix("bars-part ") for svg in svgs for rect in svg.iter(f"{SVG}rect")}
        legend = {color_class(data, number) for number in list_drawn_series(data)}
        assert drawn == legend and len(drawn) == {1: 1, 2: 3, 24: 4}[bars], bars


def test_parts_are_links_to_their_function() -> None:
    data = build_bars(profile_of([("main;hot", 70), ("", 30)]), Selection(), "thread")
    root = ElementTree.fromstring(draw_bar(data, 0, None, lambda series: f"/flame?function={series.name}"))
    (link,) = root.iter(f"{SVG}a")
    assert link.get("href") == "/flame?function=hot" and link.get("tabindex") is None
    assert link.get("aria-label") == "hot (app), thread 0 100: 70" and root.get("role") == "group"
    assert parsed(draw_bar(data, 0)).get("role") == "img"


def test_nothing_measured() -> None:
    for profile in (profile_of([]), profile_of([], events=())):
        data = build_bars(profile, Selection())
        assert (data.labels, data.total, data.bars, data.longest) == ((), 0, 0, 0)


def test_pages_after_the_last_one_are_empty() -> None:
    data = build_bars(profile_of([("main;hot", 70)]), Selection(), first_bar=24, first_function=8)
    assert (data.labels, data.bars, data.functions) == ((), 1, 1)
    assert [series.name for series in data.series] == ["other"]


def test_an_unknown_grouping_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="process, thread"):
        build_bars(profile_of([("a", 1)]), Selection(), "module")


@given(st.text())
def test_cleaned_text_is_xml(text: str) -> None:
    add_element = ElementTree.Element("a")
    add_element.text = strip_invalid_xml(text)
    back = ElementTree.fromstring(ElementTree.tostring(add_element, encoding="unicode")).text or ""
    assert back == strip_invalid_xml(text).replace("\r\n", "\n").replace("\r", "\n")


def test_every_class_has_a_style() -> None:
    from tests.conftest import ROOT

    css = (ROOT / "static/css/bars.css").read_text()
    data = build_bars(profile_of([(f"f{n}", n + 1, n) for n in range(12)] + [("", 1)]), Selection(), "thread")
    svg = "".join(draw_bar(data, bar) for bar in range(len(data.labels)))
    for name in {word for words in re.findall(r'class="([^"]*)"', svg) for word in words.split()}:
        assert f".{name}" in css


def test_top_bars_are_links_and_histograms_say_what_their_axes_are() -> None:
    bars = [TopBar("mm", "aten::mm", 2e6, 50.0, "/operators?name=mm"), TopBar("add", "aten::add", 1e6)]
    root = ElementTree.fromstring(f"<all>{draw_top_bars('Time', 'ns', bars)}</all>")
    assert [(link.get("href"), link.get("aria-label")) for link in root.iter(f"{SVG}a")] == [
        ("/operators?name=mm", "aten::mm: 2.00\u00a0ms")
    ] * 2
    even, uneven = build_histogram(np.arange(1.0, 9)), build_histogram(np.geomspace(1.0, 1e6, 50))
    assert even and uneven and (even.logarithmic, uneven.logarithmic) == (False, True)
    texts = [
        text.text for text in ElementTree.fromstring(f"<all>{draw_histogram('x', 'ns', even, 'call')}</all>").iter()
    ]
    assert any((text and text.endswith(" call")) or text == "2 calls" for text in texts)
    titles = [
        build_distribution_chart("Time of a call", values, "call")[0].title
        for values in (np.arange(1, 9), np.geomspace(1, 1e6, 50))
    ]
    assert titles == ["Time of a call", "Time of a call (logarithmic axis)"]
