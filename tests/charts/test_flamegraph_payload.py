"""The wire form of a flame graph: what a page can rebuild from it, and how large it may get."""

import gzip
import json
import random
import string
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.stacks.flamegraph import FlameGroup, SiblingOrder, flame_tree, sandwich
from perfloom.charts.flamegraph import WIRE_BYTES, build_flame_payload, build_payload
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.text import shorten_middle
from tests.analysis.stacks.test_flamegraph import GROUPS, selections
from tests.support.profiles import profile_of, profiles

KEYS = {"event", "unit", "total", "zoom", "functions", "kinds", "nodes", "groups", "group", "pruned"}


def wire_size(data: dict[str, Any]) -> int:
    return len(gzip.compress(json.dumps(data, allow_nan=False, separators=(",", ":")).encode()))


def rebuilt(data: dict[str, Any]) -> list[tuple[int, tuple[int, ...], int, int, int]]:
    """(id, path of functions, self, total, start) of each node, by the rules that the wire form promises."""
    nodes = data["nodes"]
    rows: list[tuple[int, tuple[int, ...], int, int, int]] = []
    open_: list[tuple[tuple[int, ...], int]] = []
    for n, depth in enumerate(nodes["depth"]):
        path, left = open_[depth - 1] if depth else ((), 0)
        path = (*path, nodes["function"][n])
        start = nodes["start"][n] if "start" in nodes else left
        if depth:
            open_[depth - 1] = (open_[depth - 1][0], start + nodes["total"][n])
        open_[depth:] = [(path, start)]
        rows.append((nodes["id"][n], path, nodes["self"][n], nodes["total"][n], start))
    return rows


@pytest.mark.slow
@pytest.mark.heavy
@settings(max_examples=80)
@given(st.data(), profiles(max_weight=1000), st.sampled_from(GROUPS), st.sampled_from(list(SiblingOrder)))
def test_a_page_can_rebuild_the_graph(
    data: st.DataObject, profile: Profile, group: FlameGroup, order: SiblingOrder
) -> None:
    selection = data.draw(selections(profile))
    tree = flame_tree(profile, selection, group=group, order=order)
    row = data.draw(st.integers(0, len(tree.id) - 1))
    wire = build_payload(tree, profile, zoom=int(tree.id[row]), width_px=16_000)
    json.dumps(wire, allow_nan=False)
    assert set(wire) == KEYS
    inside = slice(row, int(tree.end[row]))
    start = tree.start[inside] - tree.start[row]
    columns = (tree.id[inside], tree.self_weight[inside], tree.total_weight[inside], start)
    found = rebuilt(wire)
    assert [(i, own, total, at) for i, _, own, total, at in found] == [
        tuple(values) for values in zip(*(column.tolist() for column in columns), strict=True)
    ]
    functions = wire["functions"]
    for (_, path, *_), function, kind in zip(found, tree.function[inside], tree.kind[inside], strict=True):
        assert functions["id"][path[-1]] == function
        word = wire["kinds"][functions["kind"][path[-1]]]
        assert (word == "group") == (kind == -1) == (function < 0)
        if function >= 0:
            stored = profile.functions.slice(int(function), 1).to_pylist()[0]
            assert functions["name"][path[-1]] == stored["display"]
            assert functions["module"][path[-1]] == stored["module"]
    crumbs = wire["zoom"]
    assert [crumb["depth"] for crumb in crumbs] == list(range(int(tree.depth[row]) + 1))
    assert crumbs[0]["id"] == 0 and crumbs[0]["total"] == wire["total"] == tree.total
    assert crumbs[-1]["id"] == wire["nodes"]["id"][0]


@settings(max_examples=50)
@given(
    st.data(),
    profiles(max_weight=100_000),
    st.sampled_from(GROUPS),
    st.sampled_from(list(SiblingOrder)),
    st.integers(1, 3000),
)
def test_one_go_is_the_same_as_two(
    data: st.DataObject, profile: Profile, group: FlameGroup, order: SiblingOrder, width: int
) -> None:
    selection = data.draw(selections(profile))
    whole = flame_tree(profile, selection, group=group, order=order)
    zoom = int(whole.id[data.draw(st.integers(0, len(whole.id) - 1))])
    two = build_payload(whole, profile, zoom=zoom, width_px=width)
    one = build_flame_payload(profile, selection, group=group, order=order, zoom=zoom, width_px=width)
    # What is left out is counted where it is first left out: what weighs nothing, of the whole.
    pruned = one.pop("pruned") > 0, two.pop("pruned") > 0
    assert pruned[0] == pruned[1] or whole.pruned
    assert one == two
    half_a_pixel = 0.5 / max(width, 100) * one["nodes"]["total"][0]
    assert all(total >= half_a_pixel for total in one["nodes"]["total"])


def wide(names: list[str], modules: list[str], stacks: int, seed: int = 1) -> Profile:
    """A profile whose thousands of frames are all wide enough to be drawn."""
    rng = np.random.default_rng(seed)
    builder = ProfileBuilder("test")
    event = builder.intern_event("cycles", "count")
    frames = [builder.intern_frame(builder.intern_function(n, m)) for n, m in zip(names, modules, strict=True)]
    for n in range(64):
        builder.set_thread_name(builder.intern_thread(pid=n, tid=n), 0, f"thread {n}")
    for n in range(stacks):
        path = [frames[0], frames[n % 31], *(frames[int(i)] for i in rng.integers(0, len(frames), 3))]
        weight = int(rng.integers(1 << 40, 1 << 41))
        builder.add_sample(n, n % 64, event, builder.intern_stack(path), weight)
    return builder.finish()


def letters(rng: random.Random, count: int) -> str:
    return "".join(rng.choices(string.ascii_letters + string.digits, k=count))


@pytest.mark.slow
@pytest.mark.heavy
@pytest.mark.parametrize("longest", [20, 300, 10_000], ids=lambda n: f"names of {n} characters that do not compress")
@pytest.mark.parametrize("order", list(SiblingOrder))
@pytest.mark.parametrize("invert", [False, True])
def test_it_stays_small(longest: int, order: SiblingOrder, invert: bool) -> None:
    rng = random.Random(longest)
    count = 3000 if longest < 1000 else 800
    profile = wide(
        [letters(rng, longest) for _ in range(count)], [letters(rng, longest // 2) for _ in range(count)], 3000
    )
    data = build_flame_payload(profile, Selection(invert=invert), order=order, width_px=16_000)
    assert wire_size(data) < 100_000
    assert len(data["nodes"]["id"]) > 100
    assert data["pruned"] > 0
    # The widest are those that are left, and none has lost its caller.
    rebuilt(data)
    assert data["nodes"]["depth"][0] == 0
    assert all(b <= a + 1 for a, b in zip(data["nodes"]["depth"], data["nodes"]["depth"][1:], strict=False))


def test_long_names_are_complete_if_there_is_room() -> None:
    name = "std::map<" + "x" * 1900 + ">"
    data = build_flame_payload(profile_of([([("main", "app"), (name, "app")], 1)]), Selection())
    assert name in data["functions"]["name"]
    longer = build_flame_payload(profile_of([([("y" * 10_000, "z" * 10_000)], 1)]), Selection())
    assert max(map(len, longer["functions"]["name"])) == 2000
    assert "…" in max(longer["functions"]["name"], key=len)


def test_short_names_only_where_they_differ() -> None:
    stacks = [([("main", "app"), ("a::b::C::f(int)", "app")], 1), ([("main", "app"), ("<script>::<b>", "app")], 1)]
    functions = build_flame_payload(profile_of(stacks), Selection())["functions"]
    short = dict(zip(functions["name"], functions["short"], strict=True))
    assert short["a::b::C::f(int)"] == "C::f" and short["main"] == ""
    plain = build_flame_payload(profile_of([([("main", "app")], 1)]), Selection())["functions"]
    assert plain["short"] == []


def test_shortened_keeps_both_ends() -> None:
    assert shorten_middle("abcdef", 6) == "abcdef"
    assert shorten_middle("abcdefg", 6) == "abc…fg"
    assert [len(shorten_middle("x" * 50, n)) for n in (2, 3, 10, 49)] == [2, 3, 10, 49]


def test_breadcrumbs_of_3000_frames() -> None:
    profile = profile_of([(";".join(f"f{n}" for n in range(3000)), 5)])
    tree = flame_tree(profile, Selection(), group=FlameGroup.NONE)
    wire = build_payload(tree, profile, zoom=int(tree.id[-1]))
    assert len(wire["zoom"]) == 200
    assert wire["zoom"][0]["name"] == "all" and wire["zoom"][-1]["name"] == "f2999"
    assert wire["zoom"][-1]["depth"] == 3000
    whole = build_flame_payload(profile, Selection(), group=FlameGroup.NONE)
    assert len(whole["nodes"]["id"]) == 3001
    assert wire_size(whole) < 100_000


def test_hostile_names_are_data() -> None:
    names = ["<script>alert(1)</script>", "a\x00b", "\u2028", '"', "\\", "=cmd()"]
    profile = profile_of([([(name, name)], 1) for name in names])
    back = json.loads(json.dumps(build_flame_payload(profile, Selection())))
    assert set(names) <= set(back["functions"]["name"])


def test_parts_of_a_sandwich() -> None:
    profile = profile_of([("main;a;f;x", 3), ("main;b;f;f;y", 4)])
    for tree in sandwich(profile, Selection(), "f"):
        wire = build_payload(tree, profile)
        assert wire["nodes"]["total"][0] == 7
        assert wire["groups"] is False


def test_the_limit_leaves_room_for_headers() -> None:
    assert WIRE_BYTES < 100_000
