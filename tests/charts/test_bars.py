"""Bars of event counts: their numbers against plain Python, and an SVG that is safe whatever the names are."""

import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.flame_groups import FlameGroup
from perfloom.charts.bars import BY, NARROW_LAYOUT, WIDE_LAYOUT, BarData, BarLayout, build_bars, draw_bars
from perfloom.charts.svg import measure_text_em, strip_invalid_xml
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from tests.analysis import brute
from tests.support.profiles import profile_of, profiles

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {f"{SVG}{name}" for name in ("svg", "g", "rect", "path", "text", "title")}
ATTRIBUTES = {"viewBox", "class", "role", "transform", "d", "x", "y", "width", "height", "text-anchor"}
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
)
def test_numbers(profile: Profile, by: str, hide: str | None, top: int, bars: int) -> None:
    selection = Selection(hide=hide)
    data = build_bars(profile, selection, by, top=top, bars=bars)
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
    assert [sums[label] for label in data.labels] == greatest[:bars]
    assert data.hidden_bars == len(greatest[bars:])
    assert data.hidden_value == data.total - sum(sums[label] for label in data.labels)
    own = [s for s in data.series if not s.other]
    assert len(own) == min(top, sum(1 for w in functions.values() if w))
    assert sorted(functions[s.name, s.module] for s in own) == sorted(functions.values())[::-1][: len(own)][::-1]
    for number, label in enumerate(data.labels):
        assert sum(s.values[number] for s in data.series) == sums[label]
        for series in own:
            assert series.values[number] == cells[label, (series.name, series.module)]
    parsed(draw_bars(data))


def test_names_cannot_break_out() -> None:
    builder = ProfileBuilder("test")
    event = builder.intern_event(HOSTILE[0], "count")
    for n, name in enumerate(HOSTILE):
        thread = builder.intern_thread(pid=n, tid=n)
        builder.set_thread_name(thread, 0, name)
        stack = builder.intern_stack([builder.intern_frame(builder.intern_function(name, name))])
        builder.add_sample(n, thread, event, stack, 10 + n)
    profile = builder.finish()
    for by in BY:
        svg = draw_bars(build_bars(profile, Selection(), by))
        root = parsed(svg)
        shown = [add_element.text or "" for add_element in root.iter()]
        assert any("<script>alert(1)</script>" in text for text in shown)
        for banned in ("<script", "<style", "<img", "style=", "onerror=alert(1)>", "\x00", "\x1b", "\ufffe"):
            assert banned not in svg.replace("&lt;", "").replace("&gt;", "_"), banned
        assert max(len(t.text or "") for t in root.iter(f"{SVG}text")) <= 120


def test_every_part_has_a_tooltip_and_a_color() -> None:
    profile = profile_of([("main;hot", 70), ("main;cold", 20, 1), ("", 10, 1)])
    data = build_bars(profile, Selection(), "thread")
    assert data == BarData(
        event="cycles",
        unit="count",
        by="thread",
        labels=("thread 0 100", "thread 1 101"),
        series=data.series,
        total=100,
        hidden_bars=0,
        hidden_value=0,
    )
    assert [(s.name, s.other, s.values) for s in data.series] == [
        ("hot", False, (70, 0)),
        ("cold", False, (0, 20)),
        ("other", True, (0, 10)),
    ]
    root = parsed(draw_bars(data))
    bars = [rect for rect in root.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    tips = [title.text for rect in bars for title in rect.iter(f"{SVG}title")]
    assert tips == [
        "thread 0 100\nhot (app)\n70, 100.00\u00a0% of the bar",
        "thread 1 101\ncold (app)\n20, 66.67\u00a0% of the bar",
        "thread 1 101\nother\n10, 33.33\u00a0% of the bar",
    ]
    assert [rect.get("class") for rect in bars] == ["bars-part bars-1", "bars-part bars-2", "bars-part bars-other"]
    widths = [float(rect.get("width", "0")) for rect in bars]
    assert widths[0] / 70 == pytest.approx(widths[1] / 20, rel=1e-3) == pytest.approx(widths[2] / 10, rel=1e-3)
    labels = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "bars-label"]
    assert sorted(labels) == ["thread 0 100", "thread 1 101"]


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
    assert [s.name for s in data.series] == ["other"] and not data.by_function
    root = parsed(draw_bars(data))
    texts = {add_element.text for add_element in root.iter() if add_element.tag in (f"{SVG}text", f"{SVG}title")}
    assert "other" not in texts and "CPU 3\n40" in texts
    assert {rect.get("class") for rect in root.iter(f"{SVG}rect")} == {"bars-part bars-plain"}


def test_a_legend_names_the_last_part_of_a_module() -> None:
    builder = ProfileBuilder("test")
    event, thread = builder.intern_event("cycles", "count"), builder.intern_thread(pid=1, tid=1)
    for n, module in enumerate(("/opt/a/very/long/way/to/libthing.so.1", "[kernel.kallsyms]")):
        stack = builder.intern_stack([builder.intern_frame(builder.intern_function("work", module))])
        builder.add_sample(n, thread, event, stack, 10 - n)
    root = parsed(draw_bars(build_bars(builder.finish(), Selection(), "process")))
    legend = [text for text in root.iter(f"{SVG}text") if text.get("class") == "bars-legend"]
    assert [text.text for text in legend] == ["work (libthing.so.1)", "work ([kernel.kallsyms])"]
    assert [title.text for text in legend for title in text.iter(f"{SVG}title")] == [
        "work (/opt/a/very/long/way/to/libthing.so.1)",
        "work ([kernel.kallsyms])",
    ]


def test_marks_of_a_scale_are_round_and_written_in_one_way() -> None:
    def marks(unit: str, weight: int, room: BarLayout) -> dict[str, str | None]:
        builder = ProfileBuilder("test")
        builder.add_sample(
            0, builder.intern_thread(pid=1, tid=1), builder.intern_event("x", unit), builder.intern_stack([]), weight
        )
        root = parsed(draw_bars(build_bars(builder.finish(), Selection()), room))
        texts = [text for text in root.iter(f"{SVG}text") if text.get("class") == "bars-scale"]
        return {(text.text or "").replace("\u00a0", " "): text.get("text-anchor") for text in texts}

    assert list(marks("count", 10_400, WIDE_LAYOUT)) == ["0", "2 k", "4 k", "6 k", "8 k", "10 k"]
    assert list(marks("count", 10_400, NARROW_LAYOUT)) == ["0", "5 k", "10 k"]
    assert list(marks("bytes", 3 << 20, WIDE_LAYOUT)) == ["0", *(f"{n / 2:.1f} MiB" for n in range(1, 7))]
    # None is over the edge.
    assert (
        marks("count", 2_000, NARROW_LAYOUT)["2,000"] == "end"
        and marks("count", 2_900, NARROW_LAYOUT)["2,000"] == "middle"
    )


@pytest.mark.parametrize("name", ["W" * 40, "i" * 200, "\u5b57" * 40, "short", "e\u0301" * 300, "M" * 13 + "i" * 13])
@pytest.mark.parametrize("room", [WIDE_LAYOUT, NARROW_LAYOUT])
def test_no_label_is_wider_than_its_room(name: str, room: BarLayout) -> None:
    builder = ProfileBuilder("test")
    event, thread = builder.intern_event("cycles", "count"), builder.intern_thread(pid=7, tid=7)
    builder.set_thread_name(thread, 0, name)
    builder.add_sample(0, thread, event, builder.intern_stack([]), 10)
    data = build_bars(builder.finish(), Selection(), "thread")
    root = parsed(draw_bars(data, room))
    (label,) = (text for text in root.iter(f"{SVG}text") if text.get("class") == "bars-label")
    text, full = label.text or "", label.findtext(f"{SVG}title")
    assert full == data.labels[0] and text[:1] == full[:1] and text[-2:] == full[-2:]
    assert (text == full) == (name == "short") and ("…" in text) == (name != "short")
    # 12 user units of size.
    assert float(label.get("x", "0")) - 12 * measure_text_em(text) >= 0


def test_nothing_measured() -> None:
    for profile in (profile_of([]), profile_of([], events=())):
        data = build_bars(profile, Selection())
        assert (data.labels, data.total) == ((), 0)
        root = parsed(draw_bars(data))
        assert "has no" in "".join(root.itertext())


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
    svg = draw_bars(data, WIDE_LAYOUT) + draw_bars(data, NARROW_LAYOUT)
    for name in {word for words in re.findall(r'class="([^"]*)"', svg) for word in words.split()}:
        assert f".{name}" in css
