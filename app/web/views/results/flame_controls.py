"""Shared by pages with a flame graph: query parameters, controls above the graph, SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

from flask import Response, request

from ....analysis.core.flame_groups import effective_group
from ....analysis.ratios.frame_values import PARTS, Coloring
from ....analysis.ratios.metrics import RatioMetric, has_ratios, list_formula_names, resolve_metric
from ....analysis.stacks.flamegraph import FlameGroup, FlameTree, Matches, SiblingOrder
from ....charts import flamegraph_svg
from ....domain.errors import InvalidRequest
from ....domain.formulas.formula import FormulaError
from ....domain.profile import Profile
from ....domain.selection import parse_flag
from ....domain.text import shorten
from ....domain.units import format_percent
from ...pages import Pairs, with_query
from ...parameters import parse_choice
from ...rendering import current_shell
from ...security import CONTENT_SECURITY_POLICY
from .tables import attachment

DEFAULT_WIDTH = 1200
MAX_PATTERN_CHARACTERS = 2_000
STATIC_FRAMES = 3_000
GROUP_LABELS = {
    FlameGroup.COMM: "thread name",
    FlameGroup.NONE: "nothing",
    FlameGroup.PROCESS: "process",
    FlameGroup.THREAD: "thread",
    FlameGroup.RANK: "rank",
    FlameGroup.HOST: "host",
}
ORDER_LABELS = {SiblingOrder.WEIGHT: "left heavy", SiblingOrder.TIME: "time order", SiblingOrder.NAME: "alphabetical"}
COLOR_LABELS = {"kind": "kind", "module": "module", "hot": "self weight"}
ZOOM_PARAMS = ("zoom", "zoom-callers", "zoom-callees")
# Only this page can contain a frame: the SVG, without scripts.
PAGE_POLICY = f"{CONTENT_SECURITY_POLICY}; frame-src 'self'"
# Links in that frame can navigate the page; it has no scripts and loads nothing else.
STATIC_POLICY = (
    "sandbox allow-top-navigation-by-user-activation; default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'self'"
)
SANDBOX_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'"
)


@dataclass(frozen=True)
class ControlChoice:
    """A parameter with its possible values, as (value, text)."""

    param: str
    label: str
    value: str
    default: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ControlSwitch:
    """A parameter that is present or not."""

    param: str
    value: str
    label: str
    hint: str
    on: bool


@dataclass(frozen=True)
class FlameControls:
    """The controls above a graph. search_url: of search requests. kept_params: parameters that are not in the form.

    needs_reload: whether other parts of the page than the graph depend on the selection. dropped_params: those that no
    longer apply after a change.
    """

    search_url: str
    pattern: str
    matched: str
    choices: tuple[ControlChoice, ...]
    switches: tuple[ControlSwitch, ...]
    kept_params: Pairs
    needs_reload: bool = False
    dropped_params: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlameGraphView:
    """One graph on a page. data_url: of its pictures; part: the key of the answer that holds them, empty where it is
    the answer. zoom_param: of the query. color: what colors it if the query does not say. direction: "up" or "down"
    where that is fixed. sandwich, hotspots, code: pages to link to from a frame; functions: address that describes a
    function by its id, reversed_functions: one of the base. static_url: the SVG for a page without scripts, empty if
    there is nothing to draw. empty_text: the text of an empty graph.
    """

    label: str
    data_url: str
    static_url: str
    empty_text: str
    zoom_param: str = "zoom"
    color: str = ""
    part: str = ""
    direction: str = ""
    sandwich: str = ""
    hotspots: str = ""
    code: str = ""
    functions: str = ""
    reversed_functions: str = ""


def build_controls(
    search: str,
    matched: str,
    choices: list[ControlChoice],
    switches: list[ControlSwitch],
    *,
    reloads: bool = False,
    dropped: Sequence[str] = (),
) -> FlameControls:
    """The controls for the parameters of this request."""
    # A frame's number means something else in a graph of another shape.
    known = {choice.param for choice in choices} | {switch.param for switch in switches} | {"q", *ZOOM_PARAMS, *dropped}
    return FlameControls(
        search_url=search,
        pattern=request.args.get("q", ""),
        matched=matched,
        choices=tuple(choices),
        switches=tuple(switches),
        kept_params=[(word, value) for word, value in request.args.items(multi=True) if word not in known],
        needs_reload=reloads,
        dropped_params=tuple(dropped),
    )


def build_group_choice(*profiles: Profile) -> ControlChoice:
    """The grouping: ranks and hosts only if there are several, names only if there are any."""
    named = all(effective_group(profile, FlameGroup.COMM) is FlameGroup.COMM for profile in profiles)
    texts = {g.value: text for g, text in GROUP_LABELS.items() if any(_splits(p, g) for p in profiles)}
    if not named:
        del texts[FlameGroup.COMM.value]
    usual = (FlameGroup.COMM if named else FlameGroup.NONE).value
    value = parse_group().value
    return ControlChoice("group", "Group by", value if value in texts else usual, usual, tuple(texts.items()))


def build_order_choice(*orders: SiblingOrder) -> ControlChoice:
    """The order of siblings."""
    offered = tuple((order.value, ORDER_LABELS[order]) for order in orders)
    return ControlChoice("order", "Order", parse_order().value, SiblingOrder.WEIGHT.value, offered)


def build_color_choice(profile: Profile, coloring: Coloring | None) -> ControlChoice:
    """What colors frames: kinds, modules, self weights, the formulas of the profile, and that of the address."""
    names = [*list_formula_names(profile)] if has_ratios(profile) else []
    if coloring is not None and coloring.metric.text not in names:
        names.append(coloring.metric.text)
    value = coloring.metric.text if coloring is not None else parse_choice("colour", COLOR_LABELS, "kind")
    options = (*COLOR_LABELS.items(), *((name, shorten(name, 60)) for name in names if name not in COLOR_LABELS))
    return ControlChoice("colour", "Color by", value, "kind", options)


def build_part_choice() -> ControlChoice:
    """Of which sums of a frame the formula is that colors it."""
    labels = {"total": "totals", "self": "self weights"}
    return ControlChoice("of", "Formula of", parse_part(), PARTS[0], tuple((part, labels[part]) for part in PARTS))


def build_direction_switch() -> ControlSwitch:
    """The orientation."""
    return ControlSwitch("grow", "up", "Root at bottom", "Draw callees above their callers", parse_root_at_bottom())


def build_invert_switch(on: bool) -> ControlSwitch:
    """Callers or callees."""
    return ControlSwitch("invert", "1", "Inverted", "Start from the innermost functions, with their callers", on)


def build_recursion_switch(on: bool) -> ControlSwitch:
    """Whether recursion is shown."""
    return ControlSwitch("recursion", "1", "Collapse recursion", "Merge recursive calls of a function", on)


def format_matches(found: Matches | None) -> str:
    """The result of a search as text; empty without a search."""
    if found is None:
        return ""
    count = len(found.functions)
    note = " (plain text)" if found.is_literal else ""
    if not count:
        return f"No function matches{note}"
    return f"{format_percent(found.percent)} in {count:,} function{'s' if count != 1 else ''}{note}"


def format_search(matches: Matches) -> dict[str, object]:
    """The result of a search as JSON."""
    return {
        "functions": list(matches.functions),
        "matched": matches.matched_weight,
        "percent": matches.percent,
        "is_literal": matches.is_literal,
    }


def parse_coloring(profile: Profile) -> Coloring | None:
    """The formula that colors frames; None if something else does. Raises InvalidRequest."""
    text = request.args.get("colour", "")
    if not text or text in COLOR_LABELS:
        return None
    return Coloring(parse_metric(profile, "colour", text, f"one of {', '.join(COLOR_LABELS)}, or "), parse_part())


def parse_metric(profile: Profile, word: str, text: str, others: str = "") -> RatioMetric:
    """The metric that the parameter `word` names. others: what else it can be. Raises InvalidRequest."""
    try:
        return resolve_metric(profile, text)
    except FormulaError as error:
        raise InvalidRequest(f"{word} must be {others}an event or a formula: {error.message}", word) from None


def parse_part() -> str:
    """The sums of which a formula is: "total" or "self"."""
    return parse_choice("of", PARTS, PARTS[0])


def parse_svg_style(part: str = "", coloring: Coloring | None = None) -> flamegraph_svg.FlameSvgStyle:
    """How the SVG asked for is to be drawn: `download=1` with its script, else to be shown in a page."""
    download = parse_download()
    return flamegraph_svg.FlameSvgStyle(
        interactive=download,
        width=parse_width(),
        root_at_bottom=part == "callers" if part else parse_root_at_bottom(),
        color_mode="kind" if coloring else parse_choice("colour", COLOR_LABELS, "kind"),
        theme="system" if download else current_shell().theme,
        min_px=flamegraph_svg.MIN_FRAME_PX if download else 0.5,
        max_frames=flamegraph_svg.MAX_FRAMES if download else STATIC_FRAMES,
    )


def flame_svg_response(
    tree: FlameTree,
    profile: Profile,
    path: str,
    *,
    name: str,
    look: flamegraph_svg.FlameSvgStyle,
    found: Matches | None,
    part: str = "",
) -> Response:
    """The SVG of a tree. path: of the page that its frames lead to, with another zoom; name: of the file to save."""
    word = f"zoom-{part}" if part else "zoom"
    rest = [(k, v) for k, v in request.args.items(multi=True) if k not in (word, "part", "width", "download")]

    def link(frame: int) -> str:
        return with_query(path, [*rest, (word, str(frame))] if frame else rest)

    document = flamegraph_svg.write_svg(
        tree,
        profile,
        title=name,
        style=look,
        matches=frozenset(found.functions) if found else (),
        link=None if look.interactive else link,
    )
    response = Response(document, content_type="image/svg+xml; charset=utf-8")
    if look.interactive:
        response.headers["Content-Security-Policy"] = SANDBOX_POLICY
        return attachment(response, f"{name}.svg")
    response.headers["Content-Security-Policy"] = STATIC_POLICY
    response.headers["X-Frame-Options"] = "SAMEORIGIN"
    return response


def current_url(path: str, **more: str) -> str:
    """`path` with the words of the present request, and more."""
    return with_query(path, [(k, v) for k, v in request.args.items(multi=True) if k not in more] + list(more.items()))


def parse_group() -> FlameGroup:
    """By what to group. Raises InvalidRequest, as all below do for a value that cannot be used."""
    return FlameGroup(parse_choice("group", FlameGroup, FlameGroup.COMM.value))


def parse_order() -> SiblingOrder:
    """The order of siblings."""
    return SiblingOrder(parse_choice("order", SiblingOrder, SiblingOrder.WEIGHT.value))


def parse_root_at_bottom() -> bool:
    """Whether the root is at the bottom."""
    return parse_choice("grow", ("up", "down"), "down") == "up"


def parse_download() -> bool:
    """Whether a file to save is asked for."""
    return parse_flag("download", request.args.get("download"))


def parse_width() -> int:
    """The width of the graph in pixels."""
    width = parse_number("width")
    return DEFAULT_WIDTH if width is None else min(max(width, 100), 16_000)


def parse_pattern() -> str:
    """The pattern searched for, or no text."""
    text = request.args.get("q", "")
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise InvalidRequest(f"The search is longer than {MAX_PATTERN_CHARACTERS:,} characters; shorten it.", "q")
    return text


def parse_number(word: str) -> int | None:
    """The value of `word`, a whole number; None where it is not there."""
    text = request.args.get(word, "")
    if text == "":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidRequest(f"{word} must be a whole number, not {text[:40]!r}. Leave it out to see all.", word)
    return int(text)


def _splits(profile: Profile, group: FlameGroup) -> bool:
    if group not in (FlameGroup.RANK, FlameGroup.HOST):
        return True
    return len(set(profile.threads.column(group.value).to_pylist())) > 1
