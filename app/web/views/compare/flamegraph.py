"""The differential flame graph of two results: part of the page /compare, JSON and SVG."""

from dataclasses import dataclass, replace

from flask import Blueprint, jsonify, request
from werkzeug.wrappers import Response

from ....analysis.compare.flamegraph import find_thread_roles, flame_diff
from ....analysis.compare.functions import unknown_columns
from ....analysis.compare.matching import main_event_pair
from ....analysis.compare.role_groups import RoleGroups
from ....analysis.compare.tables import list_role_threads
from ....analysis.compare.thread_roles import ALONE
from ....analysis.stacks.flamegraph import FlameGroup, SiblingOrder, search
from ....charts.flamegraph import build_difference_payload
from ....domain.errors import InvalidRequest
from ....domain.profile import Profile
from ....domain.selection import Selection, parse_flag
from ....store import Result
from ...services import current_services
from ..results.flame_controls import (
    DEFAULT_WIDTH,
    ControlSwitch,
    FlameControls,
    FlameGraphView,
    build_controls,
    build_direction_switch,
    build_group_choice,
    build_invert_switch,
    build_order_choice,
    build_recursion_switch,
    current_url,
    flame_svg_response,
    format_matches,
    format_search,
    parse_group,
    parse_number,
    parse_order,
    parse_pattern,
    parse_svg_style,
    parse_width,
)
from ..results.result_frame import request_selection
from .name_choice import open_compared

blueprint = Blueprint("differential", __name__)
MAX_ROLES = 30
"""Roles of threads on the page."""
UNGROUPED = " Frames are not grouped by thread, because the threads of both have different roles."


@dataclass(frozen=True)
class MatchedRole:
    """A role of threads. base, other: the names of its threads, "" for none. match: why they belong together, "" for
    those of one side; overlap: how alike what they run is, "" if unknown."""

    name: str
    base: str
    other: str
    match: str
    overlap: str


@dataclass(frozen=True)
class DifferenceView:
    """The data of templates/compare/_flamegraph.html. explanation: how to read the graph. matches: how threads are
    matched, "" if they are not; roles: the largest roles, more: how many others. download: URL of the SVG."""

    bar: FlameControls
    graph: FlameGraphView
    explanation: str
    matches: str
    roles: tuple[MatchedRole, ...]
    more: int
    download: str


@dataclass(frozen=True)
class _ComparedPair:
    base: Result
    other: Result
    base_profile: Profile
    other_profile: Profile
    normalize: bool
    reverse: bool

    @property
    def displayed(self) -> Profile:
        """Whose frames the graph has."""
        return self.base_profile if self.reverse else self.other_profile


def difference() -> DifferenceView:
    """The graph of the two results of this request. Raises like `flame_diff`.

    Responses with this page must have the policy `flame_controls.PAGE_POLICY`.
    """
    pair = _pair()
    selection = request_selection(pair.other_profile)
    reverse = ControlSwitch(
        "reverse", "1", "Show vanished", "Draw the frames of the base, with its widths", pair.reverse
    )
    roles = _find_roles(pair, selection)
    choice = build_group_choice(pair.base_profile, pair.other_profile)
    texts = ((word, "Thread role" if word == FlameGroup.COMM else text) for word, text in choice.options)
    try:
        pattern = parse_pattern()
        message = format_matches(search(pair.displayed, selection, pattern) if pattern else None)
    except InvalidRequest as error:
        message = error.message
    return DifferenceView(
        bar=build_controls(
            "/api/v1/compare/flamegraph/search",
            message,
            [
                build_order_choice(SiblingOrder.WEIGHT, SiblingOrder.NAME),
                replace(choice, options=tuple(texts)),
            ],
            [
                reverse,
                build_invert_switch(selection.invert),
                build_recursion_switch(selection.recursion),
                build_direction_switch(),
            ],
            reloads=True,
        ),
        graph=FlameGraphView(
            label="Differential flame graph",
            data_url="/api/v1/compare/flamegraph",
            static_url=current_url("/compare/flamegraph.svg", width=str(DEFAULT_WIDTH)),
            empty_text=_empty_text(pair, selection),
            functions=f"/api/v1/results/{pair.other.id}/functions",
            reversed_functions=f"/api/v1/results/{pair.base.id}/functions",
        ),
        explanation=(
            f"Widths are those of {'the base' if pair.reverse else 'the other'}. Red: more in the other than in the "
            "base; blue: less; pale: the same; gray: no evidence of a change. "
            + ("Compares shares of each total." if _by_share(pair, selection) else "Compares absolute values.")
            + ("" if roles or parse_group() is not FlameGroup.COMM else UNGROUPED)
        ),
        matches=_describe_matches(roles) if roles else "",
        roles=tuple(
            MatchedRole(
                role.name,
                list_role_threads(role.base),
                list_role_threads(role.other),
                "" if role.match == ALONE else role.match,
                "" if role.overlap is None else f"{role.overlap:.2f}",
            )
            for role in (roles.roles[:MAX_ROLES] if roles else ())
        ),
        more=max(0, len(roles.roles) - MAX_ROLES) if roles else 0,
        download=current_url("/compare/flamegraph.svg", download="1"),
    )


def _empty_text(pair: _ComparedPair, selection: Selection) -> str:
    """Why there is nothing to draw."""
    switch = f"turn “Show vanished” {'off' if pair.reverse else 'on'}"
    if selection.replace(event=None) == Selection():
        return f"The {'base' if pair.reverse else 'other'} has no samples of this event. To see the rest, {switch}."
    return f"Nothing matches this selection. Remove a filter above, or {switch}."


def _by_share(pair: _ComparedPair, selection: Selection) -> bool:
    """Whether shares are compared: as requested, or because samples give nothing else."""
    try:
        events = main_event_pair(pair.base_profile, pair.other_profile, selection, selection)
    except InvalidRequest:
        # The graph shows this itself.
        return pair.normalize
    return pair.normalize or bool(unknown_columns(pair.base_profile, pair.other_profile, *events))


def _find_roles(pair: _ComparedPair, selection: Selection) -> RoleGroups | None:
    try:
        return find_thread_roles(pair.base_profile, pair.other_profile, selection, selection)
    except InvalidRequest:
        # The graph shows this itself.
        return None


def _describe_matches(groups: RoleGroups) -> str:
    """How many threads of both sides have a role, in a sentence."""
    base, other = (
        sum(int(side.threads[0]) for side in sides)
        for sides in ([role.base for role in groups.roles], [role.other for role in groups.roles])
    )
    count, matched = len(groups.roles), sum(role.match != ALONE for role in groups.roles)
    both = f"; {matched:,} on both sides" if matched < count else ""
    return (
        f"Threads are matched by role: {base:,} of the base, {other:,} of the other, {count:,} "
        f"{'role' if count == 1 else 'roles'}{both}"
    )


@blueprint.get("/api/v1/compare/flamegraph")
def get_json() -> Response:
    """Like the flame graph of one result, with the weight of each frame in the base. base, other: ids; `normalise=1|0`;
    reverse=1: widths and frames are those of the base."""
    pair = _pair()
    selection = request_selection(pair.other_profile)
    data = build_difference_payload(
        pair.base_profile,
        pair.other_profile,
        selection,
        selection,
        group=parse_group(),
        order=parse_order(),
        zoom=parse_number("zoom"),
        width_px=parse_width(),
        normalize=pair.normalize,
        reverse=pair.reverse,
    )
    return jsonify(data)


@blueprint.get("/api/v1/compare/flamegraph/search")
def matches() -> Response:
    """The functions that match `q`, of the result whose frames are drawn."""
    pair = _pair()
    match = search(pair.displayed, request_selection(pair.other_profile), parse_pattern())
    return jsonify(format_search(match))


@blueprint.get("/compare/flamegraph.svg")
def get_svg() -> Response:
    """The same picture as SVG, as for one result."""
    pair, look = _pair(), parse_svg_style()
    selection = request_selection(pair.other_profile)
    tree = flame_diff(
        pair.base_profile,
        pair.other_profile,
        selection,
        selection,
        group=parse_group(),
        order=parse_order(),
        zoom=parse_number("zoom"),
        min_share=look.min_px / look.width,
        normalize=pair.normalize,
        reverse=pair.reverse,
    )
    pattern = parse_pattern()
    return flame_svg_response(
        tree,
        pair.displayed,
        "/compare",
        name=f"{pair.base.name} to {pair.other.name}",
        look=look,
        found=search(pair.displayed, selection, pattern) if pattern else None,
    )


def _pair() -> _ComparedPair:
    results = current_services().store.results
    base, other = (results.get(request.args.get(word, "")) for word in ("base", "other"))
    return _ComparedPair(
        base=base,
        other=other,
        base_profile=open_compared(results, base.id),
        other_profile=open_compared(results, other.id),
        normalize=parse_flag("normalise", request.args.get("normalise") or "1"),
        reverse=parse_flag("reverse", request.args.get("reverse")),
    )
