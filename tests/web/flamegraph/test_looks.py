"""Appearance and accessibility of the graph: text, colors, pixel densities, without scripts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from perfloom.charts import palette
from tests.support.accessible import faults_in_both_schemes
from tests.web.flamegraph.conftest import Graph
from tests.web.flamegraph.test_page import pixel

WATCH_TEXT = """
    window.written = [];
    const fill = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
        const scale = this.getTransform().a;
        window.written.push({text, x, y, width: this.measureText(text).width, scale});
        if (window.written.length > 5000) window.written.splice(0, 2500);
        return fill.call(this, text, x, y, ...rest);
    };
"""


@pytest.mark.parametrize(
    ("id", "query", "screen"),
    [
        ("large0000000", "", {}),
        ("large0000000", "group=none&invert=1", {"device_scale_factor": 2}),
        ("large0000000", "grow=up", {"viewport": {"width": 360, "height": 640}, "device_scale_factor": 1.5}),
        ("hostile00000", "group=none", {}),
        ("hostile00000", "group=none", {"viewport": {"width": 5000, "height": 700}}),
        ("deep00000000", "group=none", {}),
    ],
)
@pytest.mark.slow
def test_text_never_reaches_past_its_frame(
    other_graph: Callable[..., Graph], id: str, query: str, screen: dict[str, Any]
) -> None:
    graph = other_graph(**screen)
    graph.page.add_init_script(WATCH_TEXT)
    graph.open(id, query)
    graph.until("() => window.written.length > 0")
    faults = graph.ask(
        """({view, picture}) => {
            const faults = [];
            const canvas = view.canvas.getBoundingClientRect();
            for (const {text, x, y, width} of window.written) {
                const node = view.at(canvas.left + x, canvas.top + y);
                if (node < 0) { faults.push(`no frame under ${text}`); continue; }
                const box = view.box(node);
                if (canvas.left + x + width > box.left + box.width + 0.5) faults.push(`${text} is too wide`);
                if (canvas.left + x < box.left) faults.push(`${text} starts before its frame`);
                const name = picture.name(node);
                const shown = text.replace(/…$/, "");
                if (text !== name && shown.length < 2) faults.push(`${text} is no text`);
                if (/^[ -~]*$/.test(name) && !name.startsWith(shown)) faults.push(`${text} is not from ${name}`);
            }
            return faults.slice(0, 5);
        }"""
    )
    assert faults == []


@pytest.mark.slow
def test_a_name_that_is_cut_ends_in_an_ellipsis_and_one_that_fits_does_not(graph: Graph) -> None:
    graph.page.add_init_script(WATCH_TEXT)
    graph.open("large0000000", "group=none")
    graph.until("() => window.written.length > 0")
    written = {one["text"] for one in graph.page.evaluate("() => window.written")}
    assert any(text.endswith("…") for text in written) and "user::step_0" in written


@pytest.mark.parametrize("ratio", [1, 1.25, 1.5, 2, 3])
def test_it_is_drawn_in_the_pixels_of_the_screen(other_graph: Callable[..., Graph], ratio: float) -> None:
    graph = other_graph(device_scale_factor=ratio)
    graph.open("small0000000", "group=none")
    drawn = graph.until(
        """({view}) => {
            const {width, height} = view.canvas.getBoundingClientRect();
            return view.drawn.frames && [view.canvas.width, view.canvas.height, width, height, view.box(0).height];
        }"""
    )
    width, height, css_width, css_height, row = drawn
    assert abs(width - css_width * ratio) <= 1 and abs(height - css_height * ratio) <= 1
    # Rows are whole pixels high, so that none is blurred.
    assert row * ratio == pytest.approx(round(row * ratio)) and 16 <= row <= 20


def test_it_follows_a_window_moved_to_a_sharper_screen(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    session = graph.page.context.new_cdp_session(graph.page)
    # Chromium tells of an emulated ratio only together with another size.
    screen = {"width": 1300, "height": 800, "deviceScaleFactor": 2, "mobile": False}
    session.send("Emulation.setDeviceMetricsOverride", screen)
    graph.until("({view}) => devicePixelRatio === 2 && Math.abs(view.canvas.width - 2 * view.width) <= 1")
    assert graph.ask("({view}) => view.box(0).height") * 2 == 36


def test_colors_follow_the_theme(other_graph: Callable[..., Graph]) -> None:
    graph = other_graph(color_scheme="dark")
    graph.open("small0000000", "group=none")
    step = palette.fnv1a("left") % palette.SHADE_COUNT

    def drawn() -> str:
        x, y = graph.place("left")
        graph.page.wait_for_timeout(80)
        return pixel(graph, x, y - 6)

    assert drawn() == palette.shade_color(palette.DARK.kinds["user"], step)
    graph.page.get_by_role("button", name="Colors: Light").click()
    assert drawn() == palette.shade_color(palette.LIGHT.kinds["user"], step)
    graph.page.get_by_role("button", name="Colors: As the system").click()
    assert drawn() == palette.shade_color(palette.DARK.kinds["user"], step)
    graph.page.emulate_media(color_scheme="light")
    assert drawn() == palette.shade_color(palette.LIGHT.kinds["user"], step)


def test_reduced_motion_is_respected(other_graph: Callable[..., Graph]) -> None:
    still = """async (panel) => {
        panel.zoomTo(panel.picture.ids[2]);
        await new Promise(requestAnimationFrame);
        return [panel.view.moving, panel.view.shown[1]];
    }"""
    graph = other_graph(reduced_motion="reduce")
    graph.open("small0000000", "group=none")
    assert graph.ask(still) == [False, 60_000_000]
    graph = other_graph(reduced_motion="no-preference")
    graph.open("small0000000", "group=none")
    moving, right = graph.ask(still)
    assert moving and right > 60_000_000


@pytest.mark.slow
def test_axe_finds_nothing(other_graph: Callable[..., Graph]) -> None:
    graph = other_graph(bypass_csp=True)

    def faults() -> list[str]:
        return faults_in_both_schemes(graph.page)

    graph.open("large0000000", "focus=user&q=kernel")
    graph.page.locator(".flame-search__matched").filter(has_text="functions").wait_for()
    assert faults() == []
    graph.page.mouse.click(*graph.place("user::step_0"), button="right")
    assert faults() == []
    graph.page.keyboard.press("Escape")
    graph.page.get_by_placeholder("Search").fill("(")
    graph.page.locator(".flame-search__matched").filter(has_text="plain text").wait_for()
    assert faults() == []
    graph.page.get_by_placeholder("Search").fill("x" * 3000)
    graph.page.locator(".flame-search--wrong").wait_for()
    assert faults() == []
    graph.goto("/results/large0000000/flamegraph?function=10")
    graph.settled()
    assert faults() == []


def test_the_canvas_has_a_label_and_refers_to_the_table(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    graph.click("left")
    canvas = graph.page.locator("canvas")
    assert canvas.get_attribute("aria-label") == "Flame graph, cpu-clock, zoomed to left"
    help_text = graph.page.locator(f"#{canvas.get_attribute('aria-describedby')}").inner_text()
    assert "Arrow keys" in help_text and "table" in help_text
    graph.page.get_by_role("link", name="As a table").click()
    graph.page.wait_for_url(re.compile("/hotspots"))


@pytest.mark.slow
def test_no_page_has_anything_to_complain_of(graph: Graph) -> None:
    # Signing in begins at an address that has no icon, which a browser asks for once.
    graph.goto("/")
    told: list[str] = []
    graph.page.on(
        "console", lambda message: told.append(message.text) if message.type in ("error", "warning") else None
    )
    for path in (
        "/results/large0000000/flamegraph",
        "/results/hostile00000/flamegraph?grow=up&colour=module&q=a&order=time",
        "/results/deep00000000/flamegraph?colour=hot&invert=1",
        "/results/empty0000000/flamegraph",
        "/results/large0000000/flamegraph?function=10",
        "/compare?base=large0000000&other=larger000000",
        "/compare?base=empty0000000&other=large0000000",
        "/compare?base=large0000000&other=empty0000000",
    ):
        graph.goto(path)
        graph.settled()
        graph.page.wait_for_timeout(100)
    assert told == []


def test_hostile_names_are_nothing_but_text(graph: Graph) -> None:
    for query in ("group=none", "group=comm&colour=module", "group=none&invert=1", "q=script&group=none"):
        graph.open("hostile00000", query)
        for node in range(graph.ask("({picture}) => picture.count")):
            graph.ask(
                "({view, root}, node) => { view.focus(node); const b = view.box(node); "
                "root.querySelector('canvas').dispatchEvent(new PointerEvent('pointermove', "
                "{clientX: b.left + b.width / 2, clientY: b.top + b.height / 2})); }",
                node,
            )
            graph.page.wait_for_timeout(20)
    graph.page.mouse.click(*graph.place("<script>window.pwned=1</script>"), button="right")
    assert graph.page.get_by_role("menu").get_attribute("aria-label") == "Actions for <script>window.pwned=1</script>"
    graph.page.keyboard.press("Escape")
    graph.click('"><img src=x onerror=window.pwned=2>')
    assert graph.page.locator(".flame__crumbs img").count() == 0
    assert graph.page.evaluate("() => window.pwned") is None


def test_without_scripts_there_is_the_same_picture_and_links_to_zoom(other_graph: Callable[..., Graph]) -> None:
    graph = other_graph(java_script_enabled=False)
    graph.goto("/results/small0000000/flamegraph?group=none&q=leaf")
    page = graph.page
    assert not page.locator("canvas").is_visible()
    picture = page.frame_locator("iframe.flame__static")
    picture.locator("#frames").wait_for()
    assert picture.locator(".f text").all_text_contents() == ["all", "main", "left", "leaf", "other", "right", "leaf"]
    assert picture.locator("#frames rect.m").count() == 2
    assert page.locator(".flame-search__matched").inner_text().replace("\u00a0", " ") == "75.00 % in 1 function"
    picture.locator("a", has_text="left").first.click()
    page.wait_for_url(re.compile(r"zoom=\d"))
    assert "group=none" in page.url and "q=leaf" in page.url
    picture.locator(".f text", has_text="other").wait_for()
    assert picture.locator(".f text").all_text_contents() == ["all", "main", "left", "leaf", "other"]
    picture.locator("a", has_text="all").first.click()
    page.wait_for_url(lambda url: "zoom=" not in url)
    page.get_by_label("Inverted").check()
    page.get_by_label("Color by").select_option("hot")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url(re.compile("invert=1"))
    assert "colour=hot" in page.url and "q=leaf" in page.url
    picture.locator(".f text", has_text="leaf").first.wait_for()


def test_without_scripts_the_sandwich_has_both_parts(other_graph: Callable[..., Graph]) -> None:
    graph = other_graph(java_script_enabled=False)
    graph.goto("/results/small0000000/flamegraph?function=left")
    callers, callees = (graph.page.frame_locator("iframe.flame__static").nth(n) for n in (0, 1))
    callees.locator("#frames").wait_for()
    assert callers.locator(".f text").all_text_contents() == ["all", "left", "main"]
    assert callees.locator(".f text").all_text_contents() == ["all", "left", "leaf", "other"]
    callers.locator("a", has_text="main").click()
    graph.page.wait_for_url(re.compile(r"zoom-callers=\d"))
    callers.locator("#frames").wait_for()


@pytest.mark.parametrize("width", [320, 768, 1280, 2560])
def test_nothing_reaches_past_the_window(other_graph: Callable[..., Graph], width: int) -> None:
    graph = other_graph(viewport={"width": width, "height": 700})
    graph.open("hostile00000", "q=a&focus=" + "very_long_name_" * 20)
    graph.open("hostile00000", "q=a&group=none")
    assert graph.page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("theme", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_text_has_contrast_on_every_color(theme: palette.Theme) -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(one: str, other: str) -> float:
        low, high = sorted((luminance(one), luminance(other)))
        return (high + 0.05) / (low + 0.05)

    frames = [palette.shade_color(ends, step) for ends in theme.kinds.values() for step in range(palette.SHADE_COUNT)]
    frames += [*theme.modules, *(palette.mix_colors(theme.hot, step / 63) for step in range(64))]
    assert min(contrast(frame, theme.text) for frame in frames) >= 4.5
    assert contrast(theme.match, theme.match_text) >= 4.5
    differences = [palette.mix_colors(theme.diff, step / 128) for step in range(129)]
    assert min(contrast(frame, theme.diff_text) for frame in differences) >= 4.5


def test_the_style_sheet_has_the_palette_of_the_svg(root: Any) -> None:
    for sheet, theme in (("flamegraph", palette.LIGHT), ("dark", palette.DARK)):
        style = (root / f"static/css/{sheet}.css").read_text()
        found = dict(re.findall(r"--flame-([\w-]+):\s*(#[0-9a-f]{6});", style))
        expected = {"less": theme.diff[0], "same": theme.diff[1], "more": theme.diff[2]}
        for kind, (first, second) in theme.kinds.items():
            expected |= {f"{kind.replace('_', '-')}-a": first, f"{kind.replace('_', '-')}-b": second}
        expected |= {f"module-{number}": colour for number, colour in enumerate(theme.modules)}
        expected |= {f"hot-{number}": colour for number, colour in enumerate(theme.hot)}
        expected |= {"match": theme.match, "text": theme.text, "match-text": theme.match_text}
        expected |= {"diff-text": theme.diff_text, "ground": theme.background, "few": theme.too_few_samples}
        assert found == expected
