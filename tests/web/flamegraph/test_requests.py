"""What the server answers to whatever is asked for: the JSON and SVG of the flame graph."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
from typing import Any

import pytest

from perfloom.analysis.stacks.flamegraph import flame_tree, sandwich, search
from perfloom.domain.selection import Selection
from tests.web.flamegraph import making
from tests.web.flamegraph.conftest import Server

GRAPH = "/api/v1/results/small0000000/flamegraph"
PAIR = "base=small0000000&other=changed00000"


def refused(server: Server, path: str) -> tuple[int, dict[str, Any]]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        server.get(path)
    with caught.value as answer:
        return answer.code, json.loads(answer.read()) if "/api/" in path else {}


@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        (f"{GRAPH}?zoom=abc", 400, "zoom"),
        (f"{GRAPH}?zoom=-1", 400, "zoom"),
        (f"{GRAPH}?zoom={'9' * 40}", 400, "zoom"),
        (f"{GRAPH}?width=wide", 400, "width"),
        (f"{GRAPH}?order=sideways", 400, "order"),
        (f"{GRAPH}?group=colour", 400, "group"),
        (f"{GRAPH}?event=none-such", 400, "event"),
        (f"{GRAPH}?focus=(", 400, "focus"),
        (f"{GRAPH}?start-ms=5&end-ms=1", 400, "end-ms"),
        (f"{GRAPH}/search?q={'x' * 2001}", 400, "q"),
        ("/api/v1/results/small0000000/sandwich", 400, "function"),
        ("/api/v1/results/small0000000/sandwich?function=nobody", 404, None),
        ("/api/v1/results/small0000000/sandwich?function=999", 404, None),
        ("/api/v1/results/small0000000/sandwich?function=leaf&part=middle", 400, "part"),
        ("/api/v1/results/small0000000/functions/999", 404, None),
        ("/api/v1/results/nosuchresult/flamegraph", 404, None),
        ("/api/v1/compare/flamegraph?base=small0000000", 404, None),
        (f"/api/v1/compare/flamegraph?{PAIR}&reverse=perhaps", 400, "reverse"),
        ("/results/small0000000/flamegraph?colour=mauve", 400, None),
        ("/results/small0000000/flamegraph.svg?grow=sideways", 400, None),
        ("/results/small0000000/flamegraph?function=nobody", 404, None),
    ],
)
def test_invalid_requests_are_rejected_with_a_reason(server: Server, path: str, status: int, field: str) -> None:
    code, body = refused(server, path)
    assert code == status
    if body:
        assert body["field"] == field and len(body["error"]) > 20


@pytest.mark.parametrize("width", [0, 1, 100, 10**9])
def test_any_width_is_brought_within_bounds(server: Server, width: int) -> None:
    assert json.loads(server.get(f"{GRAPH}?width={width}"))["nodes"]["id"]
    assert server.get(f"/results/small0000000/flamegraph.svg?width={width}").startswith(b"<?xml")


def test_the_answers_are_the_analysis(server: Server) -> None:
    profile = making.small()
    tree = flame_tree(profile, Selection(invert=True))
    answer = json.loads(server.get(f"{GRAPH}?invert=1"))
    assert answer["nodes"]["total"] == tree.total_weight.tolist() and answer["nodes"]["id"] == tree.id.tolist()
    found = search(profile, Selection(), "l.af")
    assert json.loads(server.get(f"{GRAPH}/search?q=l.af")) == {
        "functions": list(found.functions),
        "matched": found.matched_weight,
        "percent": found.percent,
        "is_literal": False,
    }
    both = json.loads(server.get("/api/v1/results/small0000000/sandwich?function=left"))
    for part, drawn in zip(("callers", "callees"), sandwich(profile, Selection(), "left"), strict=True):
        assert both[part]["nodes"]["total"] == drawn.total_weight.tolist()
    alone = json.loads(server.get("/api/v1/results/small0000000/sandwich?function=left&part=callers&zoom=2"))
    assert list(alone) == ["callers"] and len(alone["callers"]["zoom"]) > 1
    row = profile.functions.column("display").to_pylist().index("leaf")
    assert json.loads(server.get(f"/api/v1/results/small0000000/functions/{row}"))["name"] == "leaf"


def test_long_names_are_returned_completely(server: Server) -> None:
    names = making.hostile().functions.column("display").to_pylist()
    row = next(i for i, name in enumerate(names) if len(name) == 10_000)
    assert json.loads(server.get(f"/api/v1/results/hostile00000/functions/{row}"))["name"] == names[row]


@pytest.mark.parametrize("name", [name for name in making.HOSTILE if name.strip()])
def test_a_sandwich_by_any_name(server: Server, name: str) -> None:
    row = making.hostile().functions.column("name").to_pylist().index(name)
    shown = making.hostile().functions.column("display").to_pylist()[row]
    asked = str(row) if shown.isdecimal() else shown
    query = urllib.parse.urlencode({"function": asked[:3_000] if len(asked) < 3_000 else str(row)})
    page = server.get(f"/results/hostile00000/flamegraph?{query}").decode()
    assert "Callers and callees" in page and "<script>window" not in page


def test_words_of_a_page_do_not_carry_a_zoom_into_another_shape(server: Server) -> None:
    page = server.get("/results/small0000000/flamegraph?zoom=3&hide=left&colour=hot").decode()
    chip = next(line for line in page.splitlines() if "Remove Hide" in line)
    assert "zoom" not in chip and "colour=hot" in chip


def test_nothing_but_the_page_may_show_the_picture(server: Server) -> None:
    import urllib.request

    from tests.web.flamegraph.conftest import TOKEN

    for path, policy in (
        ("/results/small0000000/flamegraph", "frame-src 'self'"),
        (f"/compare?{PAIR}", "frame-src 'self'"),
        ("/results/small0000000/flamegraph.svg", "frame-ancestors 'self'"),
        (f"/compare/flamegraph.svg?{PAIR}", "frame-ancestors 'self'"),
        (f"/compare/flamegraph.svg?{PAIR}&download=1", "frame-ancestors 'none'"),
    ):
        request = urllib.request.Request(server.url + path, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = answer.headers["Content-Security-Policy"]
        assert policy in found
        assert ("script-src 'unsafe-inline'" in found) is ("download" in path)
