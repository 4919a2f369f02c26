"""The SVG: well-formed whatever the names, alone in a file, zoomed and searched from disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.analysis.stacks.flamegraph import FlameGroup, SiblingOrder, flame_tree, sandwich
from perfloom.charts import flamegraph_svg, palette
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.exporters import EXPORTERS
from tests.web.flamegraph import making
from tests.web.flamegraph.conftest import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SVG = "{http://www.w3.org/2000/svg}"


def drawn(
    profile: Profile, *, title: str = "a title", look: flamegraph_svg.FlameSvgStyle | None = None, **options: Any
) -> str:
    group = options.pop("group", FlameGroup.NONE)
    return flamegraph_svg.write_svg(
        flame_tree(profile, Selection(), group=group), profile, title=title, style=look, **options
    )


def frames(document: str) -> list[ElementTree.Element]:
    found = ElementTree.fromstring(document.encode()).find(f"{SVG}g[@id='frames']")
    assert found is not None
    return [group for group in found.iter(f"{SVG}g") if group.get("class", "").split()[:1] == ["f"]]


def name_of(frame: ElementTree.Element) -> str:
    return (frame.findtext(f"{SVG}title") or "").split("\n")[0]


def number(element: ElementTree.Element | None, name: str) -> float:
    assert element is not None
    return float(element.get(name, "nan"))


@pytest.mark.parametrize("mode", ["kind", "module", "hot"])
def test_the_legend_has_only_colors_that_are_drawn(mode: str) -> None:
    look = flamegraph_svg.FlameSvgStyle(color_mode=mode)
    for matches in (frozenset[int](), frozenset({1})):
        document = drawn(making.small(), look=look, matches=matches)
        root = ElementTree.fromstring(document.encode())
        legend = root.find(f"{SVG}g[@class='legend']")
        assert legend is not None
        named = {rect.get("class") for rect in legend.iter(f"{SVG}rect")}
        shown = {
            word
            for frame in frames(document)
            for rect in frame.iter(f"{SVG}rect")
            for word in rect.get("class", "").split()
        }
        shown |= {word for frame in frames(document) for word in frame.get("class", "").split()}
        assert named <= shown and (named or mode == "hot"), (mode, named, shown)
        assert ("m" in named) == bool(matches)


def test_frames_are_as_wide_as_they_weigh() -> None:
    rows = frames(drawn(making.small(), look=flamegraph_svg.FlameSvgStyle(width=1020)))
    rects = [(name_of(frame), frame.find(f"{SVG}rect")) for frame in rows]
    assert [(name, number(rect, "x"), number(rect, "width")) for name, rect in rects] == [
        ("all", 10, 999.5),
        ("main", 10, 999.5),
        ("left", 10, 599.5),
        ("leaf", 10, 449.5),
        ("other", 460, 149.5),
        ("right", 610, 299.5),
        ("leaf", 610, 299.5),
    ]
    heights = {name: number(rect, "y") for name, rect in rects}
    assert heights["all"] < heights["main"] < heights["left"] == heights["right"] < heights["leaf"]
    upside = {
        name_of(f): number(f.find(f"{SVG}rect"), "y")
        for f in frames(drawn(making.small(), look=flamegraph_svg.FlameSvgStyle(root_at_bottom=True)))
    }
    assert upside["all"] > upside["main"] > upside["left"] == upside["right"] > upside["leaf"]


def test_a_frame_tells_its_weight() -> None:
    tips = {name_of(f): f.findtext(f"{SVG}title") for f in frames(drawn(making.small()))}
    assert tips["left"] is not None
    assert tips["left"].replace("\u00a0", " ").split("\n") == [
        "left",
        "/usr/bin/program · user code",
        "total 60.00 % (60.0 ms)",
        "self 0 % (0 s)",
    ]


def test_narrow_frames_are_left_out_and_counted() -> None:
    profile = making.large()
    whole = len(flame_tree(profile, Selection(), group=FlameGroup.NONE).id)
    document = drawn(profile, look=flamegraph_svg.FlameSvgStyle(min_px=2))
    shown = len(frames(document))
    assert shown < whole / 10
    assert f"{whole - shown:,} narrower frames omitted" in document
    assert all(number(f.find(f"{SVG}rect"), "width") >= 1.5 for f in frames(document))
    # The same, cut off where the tree was made.
    tree = flame_tree(profile, Selection(), group=FlameGroup.NONE, min_share=2 / 1180)
    assert f"{whole - shown:,} narrower frames omitted" in flamegraph_svg.write_svg(
        tree, profile, title="", style=flamegraph_svg.FlameSvgStyle(min_px=2)
    )


@pytest.mark.parametrize("most", [1, 7, 500])
def test_there_are_never_more_frames_than_asked_for_and_none_without_its_caller(most: int) -> None:
    for profile in (making.large(samples=5_000, stacks=500), making.deep(1_000)):
        rows = frames(drawn(profile, look=flamegraph_svg.FlameSvgStyle(max_frames=most, min_px=0)))
        assert len(rows) == most
        levels = [int(frame.get("data-d", "-1")) for frame in rows]
        assert levels[0] == 0 and all(after <= before + 1 for before, after in pairwise(levels))


def test_the_zoomed_frame_fills_the_width_below_its_callers() -> None:
    profile = making.small()
    whole = flame_tree(profile, Selection(), group=FlameGroup.NONE)
    tree = flame_tree(profile, Selection(), group=FlameGroup.NONE, zoom=int(whole.id[2]))
    rows = frames(flamegraph_svg.write_svg(tree, profile, title="", style=flamegraph_svg.FlameSvgStyle(width=1020)))
    assert [name_of(frame) for frame in rows] == ["all", "main", "left", "leaf", "other"]
    assert [number(frame.find(f"{SVG}rect"), "width") for frame in rows] == [999.5, 999.5, 999.5, 749.5, 249.5]
    assert [frame.get("class") for frame in rows] == ["f up", "f up", "f", "f", "f"]


@pytest.mark.slow
def test_every_coloring_order_and_part_can_be_drawn() -> None:
    profile = making.large(samples=3_000, stacks=300)
    for colour in flamegraph_svg.COLOR_MODES:
        for theme in palette.THEMES:
            document = drawn(
                profile, look=flamegraph_svg.FlameSvgStyle(color_mode=colour, theme=theme), group=FlameGroup.COMM
            )
            assert ElementTree.fromstring(document.encode()) is not None
            assert ("prefers-color-scheme" in document) is (theme == "system")
    for order in SiblingOrder:
        tree = flame_tree(profile, Selection(invert=order is SiblingOrder.NAME), order=order)
        assert len(frames(flamegraph_svg.write_svg(tree, profile, title=""))) > 10
    for tree in sandwich(profile, Selection(), 0):
        assert len(frames(flamegraph_svg.write_svg(tree, profile, title=""))) > 1


def test_nothing_measured_is_said() -> None:
    document = drawn(making.empty())
    assert "The selection has no samples." in document and frames(document) == []


def test_matches_are_marked_and_every_frame_is_linked() -> None:
    profile = making.small()
    leaf = next(i for i, name in enumerate(profile.functions.column("display").to_pylist()) if name == "leaf")
    look = flamegraph_svg.FlameSvgStyle(interactive=False)
    document = drawn(profile, look=look, matches={leaf}, link=lambda frame: f'/x?a=1&zoom={frame}&"<')
    links = list(ElementTree.fromstring(document.encode()).iter(f"{SVG}a"))
    assert [a.get("href") for a in links][:2] == ['/x?a=1&zoom=0&"<', '/x?a=1&zoom=1&"<'] and len(links) == 7
    marked = [name_of(frame) for frame in frames(document) if frame.find(f"{SVG}rect[@class='m']") is not None]
    assert marked == ["leaf", "leaf"]


def test_without_the_script_there_is_none() -> None:
    look = flamegraph_svg.FlameSvgStyle(interactive=False)
    document = drawn(making.hostile(), look=look)
    root = ElementTree.fromstring(document.encode())
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {"svg", "style", "rect", "text", "g", "title"}
    assert not any(name.startswith("on") for element in root.iter() for name in element.attrib)


NAMES = st.lists(st.text(st.characters(), max_size=60) | st.sampled_from(making.HOSTILE), min_size=1, max_size=6)


def sound(document: str, names: Sequence[str]) -> None:
    """Well-formed, with nothing in it but what we put there, and its text as it was meant."""
    root = ElementTree.fromstring(document.encode())
    ours = {"svg", "style", "rect", "text", "g", "title", "desc", "script", "foreignObject"}
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= ours | {"{http://www.w3.org/1999/xhtml}input"}
    assert len(list(root.iter(f"{SVG}script"))) == 1
    assert not any(name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib)
    script = root.findtext(f"{SVG}script") or ""
    style = root.findtext(f"{SVG}style") or ""
    for name in names:
        # Short names and words are found in any script.
        assert len(name) < 4 or name.isalnum() or name not in script + style


@given(NAMES, st.text(st.characters(), max_size=80))
def test_it_is_well_formed_whatever_the_names(names: list[str], title: str) -> None:
    # A builder takes no name that is no text: what a reader decodes has no lone surrogates.
    names = [name.encode("utf-8", "replace").decode() for name in names]
    profile = making.profile([(names[: n + 1], 1_000_000) for n in range(len(names))], thread=names[0])
    sound(drawn(profile, title=title, group=FlameGroup.COMM), names)


def test_it_is_well_formed_with_the_worst_names() -> None:
    document = drawn(making.hostile(), title=making.HOSTILE[0])
    sound(document, ())
    shown = {name_of(frame) for frame in frames(document)}
    assert "<script>window.pwned=1</script>" in shown and "&amp;&lt;" in shown
    assert not any(re.search("[\u202a-\u202e\x00-\x08]", name) for name in shown)


def test_labels_fit_in_their_width() -> None:
    for frame in frames(drawn(making.hostile(), look=flamegraph_svg.FlameSvgStyle(width=1400))):
        text = frame.find(f"{SVG}text")
        rect = frame.find(f"{SVG}rect")
        if text is not None:
            assert number(text, "x") + number(text, "textLength") <= number(rect, "x") + number(rect, "width")
            assert text.get("lengthAdjust") == "spacingAndGlyphs"


LONG_NAME = "std::vector<int, std::allocator<int> >::push_back(int const&)"


def long_and_short() -> Profile:
    """The last function is in a frame too narrow for its name, but not for its short name."""
    return making.profile([(["main", LONG_NAME], 2_000_000), (["main", "f"], 8_000_000)])


def test_label_of_narrow_frame_is_short_name() -> None:
    (drawn_frame,) = [frame for frame in frames(drawn(long_and_short())) if name_of(frame) == LONG_NAME]
    assert drawn_frame.findtext(f"{SVG}text") == drawn_frame.findtext(f"{SVG}desc") == "vector<…>::push_back"
    (static,) = [
        frame
        for frame in frames(drawn(long_and_short(), look=flamegraph_svg.FlameSvgStyle(interactive=False)))
        if name_of(frame) == LONG_NAME
    ]
    assert static.findtext(f"{SVG}text") == "vector<…>::push_back" and static.find(f"{SVG}desc") is None


def test_label_in_file_is_full_name_where_it_fits(on_disk: Any) -> None:
    page = on_disk(drawn(long_and_short()))
    long = frame(page, re.escape(LONG_NAME))
    label = long.locator("text")
    assert label.text_content() == "vector<…>::push_back"
    long.click()
    assert label.text_content() == LONG_NAME


@pytest.mark.parametrize(
    ("name", "width", "text"),
    [
        ("main", 100, "main"),
        ("main", 20, ""),
        ("a_long_name", 40, "a_lo…"),
        ("go", 20, ""),
        ("go", 30, "go"),
        ("vector<…>::push_back", 67, "vector<…"),
        ("漢字漢字漢字", 45, "漢字…"),
    ],
)
def test_a_label_is_cut_with_an_ellipsis(name: str, width: float, text: str) -> None:
    found = flamegraph_svg.fit_label(name, width)
    assert found == text
    assert flamegraph_svg.count_columns(found) * flamegraph_svg.CHARACTER_WIDTH <= width


@pytest.mark.slow
def test_the_export_is_a_file_with_everything_in_it() -> None:
    exporter = EXPORTERS["svg"]
    content = b"".join(exporter.write(making.large(), Selection(), {})).decode()
    assert content.startswith("<?xml") and not re.search(r'(href|src)="', content) and "@import" not in content
    assert "<script>" in content and "python3" in content
    still = b"".join(exporter.write(making.large(), Selection(), {"static": True, "flames": True})).decode()
    assert "<script" not in still


# --- in a browser, opened from disk


@pytest.fixture
def on_disk(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """Open a document that lies on the disk; fails on any error of its script."""
    context = browser.new_context(viewport={"width": 1000, "height": 600})
    faults: list[str] = []
    context.on("weberror", lambda error: faults.append(str(error.error)))
    context.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)

    def open_file(document: str) -> Page:
        path = tmp_path / "graph.svg"
        path.write_text(document, "utf-8")
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.goto(path.as_uri())
        return page

    yield open_file
    context.close()
    assert faults == []


def visible(page: Page) -> dict[str, float]:
    """The frames in sight and how wide they are."""
    found: dict[str, float] = page.evaluate(
        """() => Object.fromEntries(Array.from(document.querySelectorAll("#frames .f:not(.hidden)"), (group) => [
            group.querySelector("title").textContent.split("\\n")[0] + "/" + group.dataset.d,
            Math.round(group.querySelector("rect").getBoundingClientRect().width)]))"""
    )
    return found


def frame(page: Page, name: str) -> Any:
    return page.locator("#frames .f", has=page.locator("title", has_text=re.compile(f"^{name}"))).first


def test_zoom_by_click_in_the_file(on_disk: Any) -> None:
    page = on_disk(drawn(making.small()))
    assert visible(page) == {"all/0": 980, "main/1": 980, "left/2": 588, "leaf/3": 294, "other/3": 147, "right/2": 294}
    frame(page, "left").click()
    assert visible(page) == {"all/0": 980, "main/1": 980, "left/2": 980, "leaf/3": 735, "other/3": 245}
    page.keyboard.press("Escape")
    assert visible(page)["left/2"] == 588
    frame(page, "other").click()
    assert "other" in frame(page, "other").locator("text").text_content()
    page.get_by_text("Reset zoom").click()
    assert visible(page)["left/2"] == 588
    frame(page, "left").click()
    frame(page, "main").click()
    assert visible(page)["left/2"] == 588
    page.set_viewport_size({"width": 500, "height": 600})
    page.wait_for_timeout(100)
    assert visible(page)["all/0"] == 480


def test_search_in_the_file(on_disk: Any) -> None:
    page = on_disk(drawn(making.small()))
    page.keyboard.press("Control+f")
    page.keyboard.type("l.af")
    assert page.locator("#matched").text_content() == "matched: 75.00 %"
    assert page.locator(".m2").count() == 2
    colour = "(group) => getComputedStyle(group.querySelector('rect')).fill"
    assert page.locator(".m2").first.evaluate(colour) == "rgb(240, 80, 240)"
    # A match inside a match counts once.
    page.locator("input").fill("left|leaf")
    assert page.locator("#matched").text_content() == "matched: 90.00 %"
    page.locator("input").fill("(")
    assert page.locator("#matched").text_content() == "no regular expression"
    page.keyboard.press("Escape")
    assert page.locator(".m2").count() == 0 and page.locator("#matched").text_content() == ""


def test_hostile_names_in_the_file_are_inert(on_disk: Any) -> None:
    page = on_disk(drawn(making.hostile(), title='</text><script>window.pwned="title"</script>'))
    page.locator("input").fill("script|onload")
    for group in page.locator("#frames .f").all():
        group.dispatch_event("click")
    assert page.evaluate("() => window.pwned") is None
    assert page.locator("script").count() == 1


def test_a_large_file_is_quick(on_disk: Any) -> None:
    page = on_disk(drawn(making.large(), look=flamegraph_svg.FlameSvgStyle(max_frames=20_000, min_px=0)))
    assert page.locator("#frames .f").count() == 20_000
    took = page.evaluate(
        """() => {
            const start = performance.now();
            document.querySelectorAll("#frames .f")[5].dispatchEvent(new MouseEvent("click", {bubbles: true}));
            return performance.now() - start;
        }"""
    )
    assert took < 1_000


def test_labels_in_the_file_stay_in_their_frames(on_disk: Any) -> None:
    page = on_disk(drawn(making.hostile()))
    faults = """() => Array.from(document.querySelectorAll("#frames .f:not(.hidden)")).filter((group) => {
        const text = group.querySelector("text");
        const rect = group.querySelector("rect").getBoundingClientRect();
        return text && text.textContent && text.getBoundingClientRect().right > rect.right + 1;
    }).map((group) => group.textContent.slice(0, 100))"""
    assert page.evaluate(faults) == []
    frame(page, "main").click()
    page.set_viewport_size({"width": 700, "height": 600})
    page.wait_for_timeout(100)
    assert page.evaluate(faults) == []


# --- served


@pytest.mark.parametrize("id", ["small0000000", "hostile00000", "deep00000000", "empty0000000", "large0000000"])
def test_both_forms_are_served_where_they_can_do_no_harm(server: Server, id: str) -> None:
    import urllib.request

    from tests.web.flamegraph.conftest import TOKEN

    for query, scripted in (("", False), ("?download=1", True)):
        request = urllib.request.Request(
            f"{server.url}/results/{id}/flamegraph.svg{query}", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            document, headers = answer.read().decode(), answer.headers
        assert ElementTree.fromstring(document.encode()) is not None
        policy = headers["Content-Security-Policy"]
        assert "sandbox" in policy and "default-src 'none'" in policy and "allow-same-origin" not in policy
        assert headers["Content-Type"].startswith("image/svg+xml") and headers["X-Content-Type-Options"] == "nosniff"
        assert ("<script>" in document) is scripted
        assert ("attachment" in headers.get("Content-Disposition", "")) is scripted
        assert ("allow-scripts" in policy) is scripted
