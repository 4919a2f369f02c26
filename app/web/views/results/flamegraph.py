"""/results/<id>/flamegraph, and what it shows as JSON and SVG: the graph, its search, a function's sandwich."""

from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlencode

from flask import Blueprint, jsonify, request
from werkzeug.wrappers import Response

from ....analysis.core.functions import function_id, functions_of
from ....analysis.stacks.flamegraph import FlameTree, Group, Matches, Order, flame_tree, sandwich, search
from ....charts.flamegraph import flame_payload, narrowest_share, payload
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ....domain.selection import Selection
from ....domain.units import percent, quantity
from ...rendering import Page, render
from ...services import services
from .flame_words import (
    COLOURS,
    DEFAULT_WIDTH,
    PAGE_POLICY,
    Bar,
    Choice,
    Graph,
    asked_group,
    asked_look,
    asked_order,
    asked_pattern,
    asked_width,
    bar,
    group_choice,
    grow_switch,
    here,
    invert_switch,
    matched_text,
    number,
    one_of,
    order_choice,
    recursion_switch,
    svg_response,
)
from .frame import Frame, open_frame, selected
from .run_notes import stack_notes

blueprint = Blueprint("flamegraph", __name__)
PARTS = ("callers", "callees")


@dataclass(frozen=True)
class FlamegraphPage(Page):
    """function: whose callers and callees are shown, empty for the whole graph; weighs: its total in words; whole: the
    way back to that. notes: what is to be said of the call stacks."""

    template: ClassVar[str] = "results/flamegraph.html"
    frame: Frame
    title: str
    bar: Bar
    graphs: tuple[Graph, ...]
    function: str
    weighs: str
    whole: str
    hotspots: str
    download: str
    notes: tuple[str, ...]


@blueprint.get("/results/<id>/flamegraph")
def show(id: str) -> Response:
    """The page: the flame graph, or with `function` the callers and callees of that function."""
    frame, profile = open_frame(id, "flamegraph")
    asked = request.args.get("function", "")
    function = _function_name(profile, _function(asked)) if asked else ""
    response = render(
        FlamegraphPage(
            frame=frame,
            title="Callers and callees" if function else "Flame graph",
            bar=_bar(id, profile, bool(function)),
            graphs=_sandwich_graphs(frame, asked) if function else (_whole_graph(frame),),
            function=function,
            weighs=_weighs(frame, profile, _function(asked)) if function else "",
            whole=frame.url("flamegraph"),
            hotspots=frame.url("hotspots"),
            download=here(f"/results/{id}/flamegraph.svg", download="1"),
            notes=stack_notes(profile),
        )
    )
    response.headers["Content-Security-Policy"] = PAGE_POLICY
    return response


@blueprint.get("/results/<id>/flamegraph.svg")
def as_svg(id: str) -> Response:
    """The same picture as SVG: without scripts, to be shown in the page; with `download=1` a file to save, that can be
    zoomed and searched in any browser. Words as for the page.
    """
    store = services().store
    name, profile = store.results.get(id).name, store.results.open(id)
    selection, part = selected(), request.args.get("part", "")
    look = asked_look(part)
    return svg_response(
        _tree(profile, selection, look.least_px / look.width),
        profile,
        f"/results/{id}/flamegraph",
        name=f"{name}: {request.args['function'][:100]}" if "function" in request.args else name,
        look=look,
        found=_found(profile, selection),
        part=part,
    )


@blueprint.get("/api/v1/results/<id>/flamegraph")
def as_json(id: str) -> Response:
    """The frames that can be seen at `width` pixels below the frame `zoom`, as `charts.flamegraph.payload` tells."""
    data = flame_payload(
        services().store.results.open(id),
        selected(),
        group=asked_group(),
        order=asked_order(),
        zoom=number("zoom"),
        width_px=asked_width(),
    )
    return jsonify(data)


@blueprint.get("/api/v1/results/<id>/flamegraph/search")
def matches(id: str) -> Response:
    """The functions that match `q`: `{"functions": [ids], "matched": weight, "percent": of the selection}`."""
    found = search(services().store.results.open(id), selected(), asked_pattern())
    return jsonify(functions=list(found.functions), matched=found.matched, percent=found.percent)


@blueprint.get("/api/v1/results/<id>/sandwich")
def callers_and_callees(id: str) -> Response:
    """`{"callers": …, "callees": …}` of `function` (its id or its name), or with `part` one of them alone, which
    `zoom` then is a frame of."""
    profile = services().store.results.open(id)
    part = request.args.get("part", "")
    trees = _sandwich(profile, selected(), part, narrowest_share(asked_width()))
    return jsonify(
        {
            key: payload(tree, profile, width_px=asked_width())
            for key, tree in zip(PARTS, trees, strict=True)
            if part in ("", key)
        }
    )


@blueprint.get("/api/v1/results/<id>/functions/<int:function>")
def describe(id: str, function: int) -> Response:
    """A function by its id, with its whole name: `{"id", "name", "module", "file", "line"}`."""
    profile = services().store.results.open(id)
    functions = functions_of(profile)
    if function >= profile.functions.num_rows:
        raise NotFound(f"This result has no function {function}; open it again from the hotspots page.")
    row = profile.functions.slice(function, 1).to_pylist()[0]
    return jsonify(
        {
            "id": function,
            "name": functions.name_of(function),
            "module": functions.module_of(function),
            "file": row["file"],
            "line": row["start_line"],
        }
    )


def _whole_graph(frame: Frame) -> Graph:
    return Graph(
        label="Flame graph",
        source=f"/api/v1/results/{frame.id}/flamegraph",
        static=here(f"/results/{frame.id}/flamegraph.svg", width=str(DEFAULT_WIDTH)),
        nothing=_nothing(frame),
        sandwich=f"/results/{frame.id}/flamegraph",
        hotspots=f"/results/{frame.id}/hotspots",
        functions=f"/api/v1/results/{frame.id}/functions",
    )


def _sandwich_graphs(frame: Frame, function: str) -> tuple[Graph, ...]:
    return tuple(
        Graph(
            label=part.capitalize(),
            source=f"/api/v1/results/{frame.id}/sandwich?{urlencode({'function': function, 'part': part})}",
            static=here(f"/results/{frame.id}/flamegraph.svg", part=part, width=str(DEFAULT_WIDTH)),
            nothing=_nothing(frame),
            zoom_word=f"zoom-{part}",
            part=part,
            grow="up" if part == "callers" else "down",
            sandwich=f"/results/{frame.id}/flamegraph",
            hotspots=f"/results/{frame.id}/hotspots",
            functions=f"/api/v1/results/{frame.id}/functions",
        )
        for part in PARTS
    )


def _nothing(frame: Frame) -> str:
    if frame.chips or frame.selection.invert or frame.selection.recursion:
        return "Nothing is left by this selection. Remove a part of it above, or press Reset there."
    return (
        f"No sample of {frame.event or 'any event'} was recorded. The program may have ended too soon or slept: record "
        "it for longer, or with another event."
    )


def _bar(id: str, profile: Profile, is_sandwich: bool) -> Bar:
    selection = selected()
    colour = Choice("colour", "Color by", one_of("colour", COLOURS, "kind"), "kind", tuple(COLOURS.items()))
    address = f"/api/v1/results/{id}/flamegraph/search"
    try:
        matched = matched_text(_found(profile, selection))
    except InvalidRequest as error:
        matched = error.message
    recursion = recursion_switch(selection.recursion)
    if is_sandwich:
        return bar(address, matched, [colour], [recursion])
    return bar(
        address,
        matched,
        [order_choice(*Order), group_choice(profile), colour],
        [invert_switch(selection.invert), recursion, grow_switch()],
    )


def _found(profile: Profile, selection: Selection) -> Matches | None:
    """What is searched for."""
    return search(profile, selection, asked_pattern()) if request.args.get("q") else None


def _tree(profile: Profile, selection: Selection, least: float) -> FlameTree:
    part = request.args.get("part", "")
    if "function" not in request.args:
        return flame_tree(
            profile, selection, group=asked_group(), order=asked_order(), zoom=number("zoom"), least=least
        )
    callers, callees = _sandwich(profile, selection, part or "callees", least)
    return callers if part == "callers" else callees


def _sandwich(profile: Profile, selection: Selection, part: str, least: float) -> tuple[FlameTree, FlameTree]:
    if part not in ("", *PARTS):
        raise InvalidRequest(f"part is one of {', '.join(PARTS)}, not {part[:40]!r}.", "part")
    zoom = number("zoom") if "zoom" in request.args else number(f"zoom-{part}")
    zooms = (zoom if part == "callers" else None, zoom if part == "callees" else None)
    asked = request.args.get("function", "")
    if not asked:
        raise InvalidRequest("Say which function: function=NAME, or its number from the flame graph.", "function")
    return sandwich(profile, selection, _function(asked), order=asked_order(), zoom=zooms, least=least)


def _function(asked: str) -> int | str:
    return int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 10 else asked


def _function_name(profile: Profile, function: int | str) -> str:
    return functions_of(profile).name_of(int(function_id(profile, function)[0]))


def _weighs(frame: Frame, profile: Profile, function: int | str) -> str:
    """What a function weighs with all it calls, in words."""
    callers, _ = sandwich(profile, frame.selection, function, least=1.0)
    whole = flame_tree(profile, frame.selection, group=Group.NONE, least=1.0).total
    if not whole:
        return ""
    return f"{percent(100 * callers.total / whole)} of {frame.event}, {quantity(callers.total, callers.unit).text}"
