"""The differential flame graph of two results: what views/compare.py shows above its table, as JSON and as SVG."""

from dataclasses import dataclass

from flask import Blueprint, jsonify, request
from werkzeug.wrappers import Response

from ....analysis.compare.flamegraph import grouped
from ....analysis.compare.functions import unknown_values
from ....analysis.compare.matching import main_pair
from ....analysis.stacks.flamegraph import Group, Order, flame_diff, search
from ....charts.flamegraph import difference_payload
from ....domain.errors import InvalidRequest
from ....domain.profile import Profile
from ....domain.selection import Selection, flag
from ....store import Result
from ...services import services
from ..results.flame_words import (
    DEFAULT_WIDTH,
    Bar,
    Graph,
    Switch,
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
    order_choice,
    recursion_switch,
    svg_response,
)
from ..results.frame import selected

blueprint = Blueprint("differential", __name__)


@dataclass(frozen=True)
class Difference:
    """What templates/compare/_flamegraph.html shows. reading: how to read the graph. download: as a file to save."""

    bar: Bar
    graph: Graph
    reading: str
    download: str


@dataclass(frozen=True)
class _Pair:
    base: Result
    other: Result
    base_profile: Profile
    other_profile: Profile
    normalise: bool
    reverse: bool

    @property
    def shown(self) -> Profile:
        """Whose frames the graph has."""
        return self.base_profile if self.reverse else self.other_profile


def difference() -> Difference:
    """The graph of the two results that the present request compares. Raises as `flame_diff` does.

    The page that shows it is to be answered with the policy `flame_words.PAGE_POLICY`.
    """
    pair, selection = _pair(), selected()
    reverse = Switch("reverse", "1", "Show what vanished", "Draw the base, with its widths", pair.reverse)
    try:
        pattern = asked_pattern()
        matched = matched_text(search(pair.shown, selection, pattern) if pattern else None)
    except InvalidRequest as error:
        matched = error.message
    return Difference(
        bar=bar(
            "/api/v1/compare/flamegraph/search",
            matched,
            [order_choice(Order.WEIGHT, Order.NAME), group_choice(pair.base_profile, pair.other_profile)],
            [reverse, invert_switch(selection.invert), recursion_switch(selection.recursion), grow_switch()],
            reloads=True,
        ),
        graph=Graph(
            label="Differential flame graph",
            source="/api/v1/compare/flamegraph",
            static=here("/compare/flamegraph.svg", width=str(DEFAULT_WIDTH)),
            nothing=(
                "Nothing is left of this selection to be drawn. Remove a part of it above, or turn “Show what "
                f"vanished” {'off' if pair.reverse else 'on'}."
            ),
            functions=f"/api/v1/results/{pair.other.id}/functions",
            reversed_functions=f"/api/v1/results/{pair.base.id}/functions",
        ),
        reading=(
            f"Widths are those of {'the base' if pair.reverse else 'the other'}. Red is more in the other than in the "
            "base, blue is less, pale the same, gray has fewer than 30 samples in both"
            + (", as a share of each whole." if _by_share(pair, selection) else ", as it was measured.")
            + _ungrouped(pair, selection)
        ),
        download=here("/compare/flamegraph.svg", download="1"),
    )


def _by_share(pair: _Pair, selection: Selection) -> bool:
    """Whether shares are compared: asked for, or all that samples tell."""
    try:
        events = main_pair(pair.base_profile, pair.other_profile, selection, selection)
    except InvalidRequest:
        # The graph itself says so.
        return pair.normalise
    return pair.normalise or bool(unknown_values(pair.base_profile, pair.other_profile, *events))


def _ungrouped(pair: _Pair, selection: Selection) -> str:
    """Why frames are not grouped by the names of threads, though that was asked for."""
    try:
        group = asked_group()
        together = grouped(pair.base_profile, pair.other_profile, selection, selection, group)
    except InvalidRequest:
        # The graph itself says so.
        return ""
    if group is not Group.COMM or together:
        return ""
    return " Threads have other names in the two, so frames are not grouped by them."


@blueprint.get("/api/v1/compare/flamegraph")
def as_json() -> Response:
    """As the flame graph of one result, with what each frame weighs in the base. base, other: ids; normalise=1|0;
    reverse=1: widths and frames are those of the base."""
    pair, selection = _pair(), selected()
    data = difference_payload(
        pair.base_profile,
        pair.other_profile,
        selection,
        selection,
        group=asked_group(),
        order=asked_order(),
        zoom=number("zoom"),
        width_px=asked_width(),
        normalise=pair.normalise,
        reverse=pair.reverse,
    )
    return jsonify(data)


@blueprint.get("/api/v1/compare/flamegraph/search")
def matches() -> Response:
    """The functions that match `q`, of the result whose frames are drawn."""
    found = search(_pair().shown, selected(), asked_pattern())
    return jsonify(functions=list(found.functions), matched=found.matched, percent=found.percent)


@blueprint.get("/compare/flamegraph.svg")
def as_svg() -> Response:
    """The same picture as SVG, as for one result."""
    pair, selection, look = _pair(), selected(), asked_look()
    tree = flame_diff(
        pair.base_profile,
        pair.other_profile,
        selection,
        selection,
        group=asked_group(),
        order=asked_order(),
        zoom=number("zoom"),
        least=look.least_px / look.width,
        normalise=pair.normalise,
        reverse=pair.reverse,
    )
    pattern = asked_pattern()
    return svg_response(
        tree,
        pair.shown,
        "/compare",
        name=f"{pair.base.name} to {pair.other.name}",
        look=look,
        found=search(pair.shown, selection, pattern) if pattern else None,
    )


def _pair() -> _Pair:
    results = services().store.results
    base, other = (results.get(request.args.get(word, "")) for word in ("base", "other"))
    return _Pair(
        base=base,
        other=other,
        base_profile=results.open(base.id),
        other_profile=results.open(other.id),
        normalise=flag("normalise", request.args.get("normalise") or "1"),
        reverse=flag("reverse", request.args.get("reverse")),
    )
