"""The picture's arithmetic, run where it runs: imported as a module in Chromium, on small known trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfloom.charts import palette
from perfloom.charts.flamegraph import build_flame_payload
from perfloom.domain.selection import Selection
from tests.web.flamegraph import making
from tests.web.flamegraph.conftest import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def run(browser: Browser, server: Server) -> Run:
    """Call a function of (modules, argument); modules: model, format, labels, palette, state."""
    page = browser.new_page()
    page.goto(f"{server.url}/login")
    page.evaluate(
        """async () => {
            const names = ["model", "format", "labels", "palette", "state", "describe"];
            const found = names.map((name) => import(`/static/js/charts/flamegraph/${name}.js`));
            window.modules = Object.fromEntries((await Promise.all(found)).map((module, i) => [names[i], module]));
        }"""
    )
    return lambda expression, argument=None: page.evaluate(
        f"async (argument) => ({expression})(window.modules, argument)", argument
    )


def wire(**changes: Any) -> dict[str, Any]:
    """all 100 → a 60 (→ c 45), b 30."""
    made: dict[str, Any] = {
        "event": "cpu-clock",
        "unit": "ns",
        "total": 100,
        "zoom": [{"id": 0, "name": "all", "total": 100, "depth": 0, "function": 0}],
        "functions": {
            "id": [-1, 5, 6, 7],
            "name": ["all", "a", "b", "c"],
            "short": [],
            "module": ["", "m", "m", "n"],
            "kind": [1, 0, 0, 0],
        },
        "kinds": ["user", "group"],
        "nodes": {
            "id": [0, 1, 2, 3],
            "depth": [0, 1, 2, 1],
            "function": [0, 1, 3, 2],
            "self": [10, 15, 45, 30],
            "total": [100, 60, 45, 30],
        },
        "pruned": 0,
        "groups": False,
        "group": "none",
    }
    return made | changes


PLACES = """({model}, wire) => {
    const p = new model.Picture(wire);
    return Array.from({length: p.count}, (_, i) => [p.name(i), p.depth[i], p.x0[i], p.x1[i], p.parent[i], p.end[i]]);
}"""


def test_children_are_packed_to_the_left_of_their_parent(run: Run) -> None:
    assert run(PLACES, wire()) == [
        ["all", 0, 0, 100, -1, 4],
        ["a", 1, 0, 60, 0, 3],
        ["c", 2, 0, 45, 1, 3],
        ["b", 1, 60, 90, 0, 4],
    ]


def test_in_time_order_frames_are_at_their_start(run: Run) -> None:
    nodes = wire()["nodes"] | {"start": [1000, 1000, 1010, 1070]}
    assert [place[2:4] for place in run(PLACES, wire(nodes=nodes))] == [[0, 100], [0, 60], [10, 55], [70, 100]]


def test_frames_above_the_zoomed_one_span_it_and_keep_their_rows(run: Run) -> None:
    zoom = [
        {"id": 0, "name": "all", "total": 100, "depth": 0, "function": 0},
        {"id": 3, "name": "b", "total": 30, "depth": 7, "function": 2},
        {"id": 9, "name": "a", "total": 20, "depth": 9, "function": 1},
    ]
    nodes = {"id": [9, 10], "depth": [0, 1], "function": [1, 3], "self": [5, 15], "total": [20, 15]}
    assert run(PLACES, wire(zoom=zoom, nodes=nodes)) == [
        ["all", 0, 0, 20, -1, 4],
        ["b", 7, 0, 20, 0, 4],
        ["a", 9, 0, 20, 1, 4],
        ["c", 10, 0, 15, 2, 4],
    ]
    facts = run(
        "({model}, wire) => { const p = new model.Picture(wire); return [p.top, p.span, p.rows, p.find(10)]; }",
        wire(zoom=zoom, nodes=nodes),
    )
    assert facts == [2, 20, 11, 3]


def test_nothing_measured_is_an_empty_picture(run: Run) -> None:
    nodes = {"id": [0], "depth": [0], "function": [0], "self": [0], "total": [0]}
    zoom = [{"id": 0, "name": "all", "total": 0, "depth": 0, "function": 0}]
    for one in (wire(total=0, nodes=nodes, zoom=zoom), wire(total=0, zoom=zoom, nodes={k: [] for k in nodes})):
        assert run("({model}, wire) => new model.Picture(wire).empty", one) is True


# Trees as lists of (parent's number, own weight); node 0 is the root.
trees = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 50)), min_size=1, max_size=60)


def laid_out(rows: list[tuple[int, int]]) -> dict[str, Any]:
    """The wire form of a random tree, siblings in any order."""
    children: dict[int, list[int]] = {}
    for number in range(1, len(rows)):
        children.setdefault(rows[number][0] % number, []).append(number)
    totals = [own for _, own in rows]
    for number in range(len(rows) - 1, 0, -1):
        totals[rows[number][0] % number] += totals[number]
    order: list[tuple[int, int]] = []
    waiting = [(0, 0)]
    while waiting:
        number, depth = waiting.pop()
        order.append((number, depth))
        waiting += [(child, depth + 1) for child in reversed(children.get(number, []))]
    return wire(
        total=totals[0],
        zoom=[{"id": 0, "name": "all", "total": totals[0], "depth": 0, "function": 0}],
        nodes={
            "id": [number for number, _ in order],
            "depth": [depth for _, depth in order],
            "function": [number % 4 for number, _ in order],
            "self": [rows[number][1] for number, _ in order],
            "total": [totals[number] for number, _ in order],
        },
    )


# Function-scoped state there is none: `run` is of the module.
random_trees = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@random_trees
@given(trees)
def test_hit_and_adjacent_frames_agree_with_a_scan_of_all_frames(run: Run, rows: list[tuple[int, int]]) -> None:
    faults = run(
        """({model}, wire) => {
            const p = new model.Picture(wire);
            const faults = [];
            const check = (what, is, should) => { if (is !== should) faults.push(`${what}: ${is}, not ${should}`); };
            const all = Array.from({length: p.count}, (_, i) => i);
            for (const i of all) {
                const up = p.parent[i];
                if (up >= 0 && (p.x0[i] < p.x0[up] || p.x1[i] > p.x1[up] || p.depth[i] !== p.depth[up] + 1)) {
                    faults.push(`${i} is not inside its parent`);
                }
                const inside = all.filter((j) => p.path(j).includes(i));
                check(`end of ${i}`, p.end[i], Math.max(...inside) + 1);
                const row = all.filter((j) => p.depth[j] === p.depth[i]);
                check(`right of ${i}`, p.beside(i, 1), row[row.indexOf(i) + 1] ?? -1);
                check(`left of ${i}`, p.beside(i, -1), row[row.indexOf(i) - 1] ?? -1);
                const children = all.filter((j) => p.parent[j] === i);
                check(`children of ${i}`, p.children(i), children.length);
                const widest = p.widestChild(i);
                if (children.some((j) => p.total[j] > p.total[widest])) faults.push(`${widest} is not the widest`);
            }
            for (let depth = -1; depth <= p.rows; depth++) {
                for (let x = -1; x <= p.span + 1; x += 0.5) {
                    const should = all.find((i) => p.depth[i] === depth && p.x0[i] <= x && x < p.x1[i]) ?? -1;
                    check(`hit at ${depth}, ${x}`, p.hit(depth, x), should);
                    const near = p.hit(depth, x, 2);
                    if (should >= 0) check(`near ${depth}, ${x}`, near, should);
                    else if (near >= 0 && (x - p.x1[near] > 2 || p.x0[near] - x > 2)) faults.push(`${near} is far`);
                }
            }
            return faults.slice(0, 5);
        }""",
        laid_out(rows),
    )
    assert faults == []


def test_the_layout_equals_the_data_of_the_server(run: Run) -> None:
    places = run(PLACES, build_flame_payload(making.small(), Selection()))
    assert [(name, left / 1e6, right / 1e6) for name, _, left, right, _, _ in places] == [
        ("all", 0, 100),
        ("main", 0, 100),  # the thread
        ("main", 0, 100),
        ("left", 0, 60),
        ("leaf", 0, 45),
        ("other", 45, 60),
        ("right", 60, 90),
        ("leaf", 60, 90),
    ]


def test_a_movement_starts_and_ends_where_it_should_and_never_turns_back(run: Run) -> None:
    steps = run(
        """({model}) => Array.from({length: 101}, (_, i) => model.between([0, 1e9], [123456789, 123456999], i / 100))"""
    )
    assert steps[0] == [0, 1e9] and steps[-1] == [123456789, 123456999]
    widths = [b - a for a, b in steps]
    assert widths == sorted(widths, reverse=True)
    assert [a for a, _ in steps] == sorted(a for a, _ in steps)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "ns", "0 s"),
        (999, "ns", "999 ns"),
        (1_234_567, "ns", "1.23 ms"),
        (119_400_000_000, "ns", "119 s"),
        (125_000_000_000, "ns", "2 min 5 s"),
        (3 * 3600 * 10**9, "ns", "3 h"),
        (1_234_567, "count", "1,234,567"),
        (1536, "bytes", "1.50 KiB"),
        (-5_000, "ns", "−5.00 µs"),
    ],
)
def test_numbers_read_as_in_the_tables(run: Run, value: int, unit: str, text: str) -> None:
    from perfloom.domain.units import format_quantity

    assert run("({format}, [value, unit]) => format.weight(value, unit)", [value, unit]).replace("\u00a0", " ") == text
    if unit != "count":
        assert format_quantity(value, unit).text.replace("\u00a0", " ") == text


@pytest.mark.parametrize("name", [*making.HOSTILE, "operator+(int)", "a|b", "x" * 3_000])
def test_the_pattern_for_a_name_finds_that_name(run: Run, name: str) -> None:
    import re2

    pattern = run("({format}, name) => format.exactly(name)", name)
    assert len(pattern) <= 2_000
    assert re2.compile(pattern).search(name) is not None
    if len(name) < 1_000:
        assert re2.compile(pattern).search(f"{name}!") is None or "\n" in name


def test_the_pattern_for_a_shortened_name_finds_the_whole_name(run: Run) -> None:
    import re2

    from perfloom.domain.text import shorten_middle

    whole = "void f<" + "std::pair<int, long>, " * 400 + ">::operator()(char)"
    pattern = run("({format}, name) => format.exactly(name)", shorten_middle(whole, 200))
    assert re2.compile(pattern).search(whole) is not None
    assert re2.compile(pattern).search(whole + " const") is None


@given(st.text(max_size=40))
@random_trees
def test_page_and_svg_choose_the_same_shade(run: Run, name: str) -> None:
    assert run("({palette}, name) => palette.hash(name)", name) == palette.fnv1a(name)


def test_page_and_svg_give_modules_the_same_colors(run: Run) -> None:
    names = [f"/usr/lib/module-{number}.so" for number in range(40)] + ["", "/", "[kernel.kallsyms]"]
    slots = run(
        """({palette}, names) => {
            const colors = new palette.ModuleColors();
            return names.map((name) => [palette.moduleName(name), colors.slot(name)]);
        }""",
        names,
    )
    assert dict(slots) == palette.assign_module_colors(names)


def test_a_change_of_shape_forgets_the_zoom_and_passing_words_do_not(run: Run, server: Server) -> None:
    steps = run(
        """({state}) => {
            history.replaceState(null, "", "?zoom=7&event=a&q=x");
            const seen = [];
            const made = new state.State(() => seen.push(location.search));
            const before = history.length;
            made.change({ q: "y" });
            made.change({ focus: "f" });
            made.change({ invert: true });
            made.change({ invert: "1" });
            return [seen, history.length - before, made.asked().toString(), made.zoom];
        }"""
    )
    assert steps == [
        ["?zoom=7&event=a&q=y", "?zoom=7&event=a&q=y&focus=f", "?event=a&q=y&focus=f&invert=1"],
        2,
        "event=a&focus=f&invert=1",
        None,
    ]


def test_label_is_full_name_then_short_name_then_cut(run: Run) -> None:
    found = run(
        """({labels}) => {
            const context = document.createElement("canvas").getContext("2d");
            context.font = "12px monospace";
            const cell = context.measureText("x").width;
            const one = new labels.Labels(context);
            one.use(["a::b::C<int>::f(int)", "main"], ["C<…>::f", ""]);
            return [21, 19, 8, 6, 4].map((room) => one.fit(0, room * cell)).concat(one.fit(1, 3 * cell));
        }"""
    )
    assert found == ["a::b::C<int>::f(int)", "C<…>::f", "C<…>::f", "C<…>:…", "C<…", "ma…"]
