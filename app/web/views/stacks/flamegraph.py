"""/results/<id>/flamegraph, and what it shows as JSON and SVG: the graph, its search, a function's sandwich."""

from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlencode

import numpy as np
from flask import Blueprint, jsonify, request
from werkzeug.wrappers import Response

from ....analysis.core.functions import function_id, functions_of
from ....analysis.ratios.frame_values import Coloring, add_sandwich_values, color_tree
from ....analysis.source.code_index import find_places, has_addresses
from ....analysis.stacks.flamegraph import FlameGroup, FlameTree, Matches, SiblingOrder, flame_tree, sandwich, search
from ....charts.flamegraph import build_flame_payload, build_payload, min_frame_share
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ....domain.selection import Selection, check_choice
from ....domain.units import format_percent, format_quantity
from ...rendering import Page, render
from ...services import current_services
from ..off_cpu import OffCpuLink, link_off_cpu_recording
from ..results.flame_controls import (
    COLOR_LABELS,
    DEFAULT_WIDTH,
    PAGE_POLICY,
    FlameControls,
    FlameGraphView,
    build_color_choice,
    build_controls,
    build_direction_switch,
    build_group_choice,
    build_invert_switch,
    build_order_choice,
    build_part_choice,
    build_recursion_switch,
    current_url,
    flame_svg_response,
    format_matches,
    format_search,
    parse_coloring,
    parse_group,
    parse_number,
    parse_order,
    parse_pattern,
    parse_svg_style,
    parse_width,
)
from ..results.missing_data import explain_no_samples
from ..results.result_frame import ResultFrame, open_result_frame, request_selection
from ..results.run_notes import list_stack_notes

blueprint = Blueprint("flamegraph", __name__)
PARTS = ("callers", "callees")


@dataclass(frozen=True)
class FlamegraphPage(Page):
    """function: whose callers and callees are shown, empty for the complete graph; function_total: its total as text;
    whole: URL of the complete graph. notes: on call stacks."""

    template: ClassVar[str] = "results/flamegraph.html"
    frame: ResultFrame
    title: str
    bar: FlameControls
    graphs: tuple[FlameGraphView, ...]
    function: str
    function_total: str
    whole: str
    hotspots: str
    code: str
    download: str
    notes: tuple[str, ...]
    off_cpu: OffCpuLink | None


@blueprint.get("/results/<id>/flamegraph")
def show(id: str) -> Response:
    """The page: the flame graph, or with `function` the callers and callees of that function."""
    frame, profile = open_result_frame(id, "flamegraph")
    asked = request.args.get("function", "")
    function = _function_name(profile, _function(asked)) if asked else ""
    response = render(
        FlamegraphPage(
            frame=frame,
            title="Callers and callees" if function else "Flame graph",
            bar=_bar(id, profile, bool(function)),
            graphs=_sandwich_graphs(frame, profile, asked) if function else (build_whole_graph(frame, profile),),
            function=function,
            function_total=_weighs(frame, profile, _function(asked)) if function else "",
            whole=frame.url("flamegraph"),
            hotspots=frame.url("hotspots"),
            code=frame.url("source", None, ("function", asked)) if function and has_addresses(profile) else "",
            download=current_url(f"/results/{id}/flamegraph.svg", download="1"),
            notes=list_stack_notes(profile),
            off_cpu=None if function else link_off_cpu_recording(frame, profile),
        )
    )
    response.headers["Content-Security-Policy"] = PAGE_POLICY
    return response


@blueprint.get("/results/<id>/flamegraph.svg")
def get_svg(id: str) -> Response:
    """The same picture as SVG: without scripts, for the page; with `download=1` a file with zoom and search for any
    browser. Parameters as for the page.
    """
    store = current_services().store
    name, profile = store.results.get(id).name, store.results.open(id)
    selection, part = request_selection(profile), request.args.get("part", "")
    coloring = parse_coloring(profile)
    look = parse_svg_style(part, coloring)
    return flame_svg_response(
        _tree(profile, selection, coloring, look.min_px / look.width),
        profile,
        f"/results/{id}/flamegraph",
        name=f"{name}: {request.args['function'][:100]}" if "function" in request.args else name,
        look=look,
        found=_search_matches(profile, selection),
        part=part,
    )


@blueprint.get("/api/v1/results/<id>/flamegraph")
def get_json(id: str) -> Response:
    """The frames visible at `width` pixels below the frame `zoom`: see `charts.flamegraph.build_payload`."""
    profile = current_services().store.results.open(id)
    data = build_flame_payload(
        profile,
        request_selection(profile),
        group=parse_group(),
        order=parse_order(),
        zoom=parse_number("zoom"),
        width_px=parse_width(),
        coloring=parse_coloring(profile),
    )
    return jsonify(data)


@blueprint.get("/api/v1/results/<id>/flamegraph/search")
def matches(id: str) -> Response:
    """The functions that match `q`: `{"functions": [ids], "matched": weight, "percent": of all, "is_literal"}`."""
    profile = current_services().store.results.open(id)
    match = search(profile, request_selection(profile), parse_pattern())
    return jsonify(format_search(match))


@blueprint.get("/api/v1/results/<id>/sandwich")
def callers_and_callees(id: str) -> Response:
    """`{"callers": …, "callees": …}` of `function` (its id or its name), or with `part` only one of them;
    `zoom` is then a frame of it."""
    profile = current_services().store.results.open(id)
    part = request.args.get("part", "")
    coloring = parse_coloring(profile)
    trees = _sandwich(profile, request_selection(profile), part, coloring, min_frame_share(parse_width()))
    return jsonify(
        {
            key: build_payload(tree, profile, width_px=parse_width())
            for key, tree in zip(PARTS, trees, strict=True)
            if part in ("", key)
        }
    )


@blueprint.get("/api/v1/results/<id>/functions/<int:function>")
def describe(id: str, function: int) -> Response:
    """A function by its id, with its full name: `{"id", "name", "module", "file", "line"}`."""
    results = current_services().store.results
    profile = results.open(id)
    functions = functions_of(profile)
    if function >= profile.functions.num_rows:
        raise NotFound(f"This result has no function {function}. Open it again from the hotspots page.")
    ((file, line),) = find_places(profile, results.open_code(id), np.array([function]))
    return jsonify(
        {
            "id": function,
            "name": functions.name_of(function),
            "module": functions.module_of(function),
            "file": file,
            "line": line,
        }
    )


def build_whole_graph(frame: ResultFrame, profile: Profile) -> FlameGraphView:
    """The flame graph of the selection of the request."""
    return FlameGraphView(
        label="Flame graph",
        data_url=f"/api/v1/results/{frame.id}/flamegraph",
        static_url=current_url(f"/results/{frame.id}/flamegraph.svg", width=str(DEFAULT_WIDTH)),
        empty_text=_nothing(frame, profile),
        sandwich=f"/results/{frame.id}/flamegraph",
        hotspots=f"/results/{frame.id}/hotspots",
        code=f"/results/{frame.id}/source" if has_addresses(profile) else "",
        functions=f"/api/v1/results/{frame.id}/functions",
    )


def _sandwich_graphs(frame: ResultFrame, profile: Profile, function: str) -> tuple[FlameGraphView, ...]:
    return tuple(
        FlameGraphView(
            label=part.capitalize(),
            data_url=f"/api/v1/results/{frame.id}/sandwich?{urlencode({'function': function, 'part': part})}",
            static_url=current_url(f"/results/{frame.id}/flamegraph.svg", part=part, width=str(DEFAULT_WIDTH)),
            empty_text=_nothing(frame, profile),
            zoom_param=f"zoom-{part}",
            part=part,
            direction="up" if part == "callers" else "down",
            sandwich=f"/results/{frame.id}/flamegraph",
            hotspots=f"/results/{frame.id}/hotspots",
            code=f"/results/{frame.id}/source" if has_addresses(profile) else "",
            functions=f"/api/v1/results/{frame.id}/functions",
        )
        for part in PARTS
    )


def _nothing(frame: ResultFrame, profile: Profile) -> str:
    if frame.is_filtered:
        return "Nothing matches this selection. Remove a filter above, or press Reset."
    return explain_no_samples(profile, frame.event)


def _bar(id: str, profile: Profile, is_sandwich: bool) -> FlameControls:
    selection = request_selection(profile)
    color = build_color_choice(profile, parse_coloring(profile))
    colors = [color, build_part_choice()] if len(color.options) > len(COLOR_LABELS) else [color]
    address = f"/api/v1/results/{id}/flamegraph/search"
    try:
        message = format_matches(_search_matches(profile, selection))
    except InvalidRequest as error:
        message = error.message
    recursion = build_recursion_switch(selection.recursion)
    if is_sandwich:
        return build_controls(address, message, colors, [recursion])
    return build_controls(
        address,
        message,
        [build_order_choice(*SiblingOrder), build_group_choice(profile), *colors],
        [build_invert_switch(selection.invert), recursion, build_direction_switch()],
    )


def _search_matches(profile: Profile, selection: Selection) -> Matches | None:
    """The search pattern."""
    return search(profile, selection, parse_pattern()) if request.args.get("q") else None


def _tree(profile: Profile, selection: Selection, coloring: Coloring | None, least: float) -> FlameTree:
    part = request.args.get("part", "")
    if "function" not in request.args:
        return color_tree(
            profile,
            selection,
            coloring,
            group=parse_group(),
            order=parse_order(),
            zoom=parse_number("zoom"),
            min_share=least,
        )
    callers, callees = _sandwich(profile, selection, part or "callees", coloring, least)
    return callers if part == "callers" else callees


def _sandwich(
    profile: Profile, selection: Selection, part: str, coloring: Coloring | None, least: float
) -> tuple[FlameTree, FlameTree]:
    if part:
        check_choice("part", part, PARTS)
    zoom = parse_number("zoom") if "zoom" in request.args else parse_number(f"zoom-{part}")
    zooms = (zoom if part == "callers" else None, zoom if part == "callees" else None)
    function = request.args.get("function", "")
    if not function:
        raise InvalidRequest("Name a function: function=NAME, or its number from the flame graph.", "function")
    trees = sandwich(profile, selection, _function(function), order=parse_order(), zoom=zooms, min_share=least)
    if coloring is None:
        return trees
    return add_sandwich_values(trees, profile, selection, _function(function), coloring.metric, coloring.part)


def _function(asked: str) -> int | str:
    return int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 10 else asked


def _function_name(profile: Profile, function: int | str) -> str:
    return functions_of(profile).name_of(int(function_id(profile, function)[0]))


def _weighs(frame: ResultFrame, profile: Profile, function: int | str) -> str:
    """The total of a function as text."""
    callers, _ = sandwich(profile, frame.selection, function, min_share=1.0)
    whole = flame_tree(profile, frame.selection, group=FlameGroup.NONE, min_share=1.0).total
    if not whole:
        return ""
    return (
        f"{format_percent(100 * callers.total / whole)} of {frame.event}, "
        f"{format_quantity(callers.total, callers.unit).text}"
    )
