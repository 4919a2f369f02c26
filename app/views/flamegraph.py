"""/results/<id>/flamegraph, and what it shows as JSON and SVG: the graph, its search, a function's sandwich."""

from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlencode

from flask import Blueprint, Response, jsonify, request
from werkzeug.wrappers import Response as AnyResponse

from ..analysis.flamegraph import FlameTree, Group, Order, flame_tree, sandwich, search
from ..analysis.functions import function_id, functions_of
from ..charts.flamegraph import flame_payload, narrowest_share, payload
from ..domain.errors import InvalidRequest, NotFound
from ..domain.profile import Profile
from ..domain.selection import Selection, flag
from ..domain.units import percent, quantity
from ..exporters import svg
from ..pages import Pairs, with_query
from ..rendering import Page, render, shell
from ..security import CONTENT_SECURITY_POLICY
from ..services import services
from .frame import Frame, open_frame, selected
from .tables import attachment

blueprint = Blueprint("flamegraph", __name__)
DEFAULT_WIDTH = 1200
MAX_PATTERN = 2_000
STATIC_FRAMES = 3_000
PARTS = ("callers", "callees")
GROUPS = {
    Group.COMM: "thread name",
    Group.NONE: "nothing",
    Group.PROCESS: "process",
    Group.THREAD: "thread",
    Group.RANK: "rank",
    Group.HOST: "host",
}
ORDERS = {Order.WEIGHT: "widest first", Order.TIME: "by time", Order.NAME: "by name"}
COLOURS = {"kind": "kind", "module": "module", "hot": "self time"}
# The page alone may hold a frame: the SVG, where no scripts run.
PAGE_POLICY = f"{CONTENT_SECURITY_POLICY}; frame-src 'self'"
# In that frame a click on a link of ours leads the page on; there are no scripts, and nothing else is loaded.
STATIC_POLICY = (
    "sandbox allow-top-navigation-by-user-activation; default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'self'"
)
SANDBOX_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'"
)


@dataclass(frozen=True)
class Choice:
    """A word of the query with its possible values, as (value, text)."""

    word: str
    label: str
    value: str
    default: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Switch:
    """A word of the query that is there or not."""

    word: str
    value: str
    label: str
    hint: str
    on: bool


@dataclass(frozen=True)
class Bar:
    """The controls above a graph. search: address that answers it. carried: the words that the form does not have."""

    search: str
    pattern: str
    matched: str
    choices: tuple[Choice, ...]
    switches: tuple[Switch, ...]
    carried: Pairs


@dataclass(frozen=True)
class Graph:
    """One graph on a page. source: of its pictures; part: the key of the answer that holds them, empty where it is
    the answer. zoom_word: of the query. grow: "up" or "down" where that is fixed. sandwich, hotspots: pages to link to
    from a frame; functions: address that tells of a function by its id. static: the SVG for a page without scripts.
    nothing: what to say where there is nothing.
    """

    label: str
    source: str
    static: str
    nothing: str
    zoom_word: str = "zoom"
    part: str = ""
    grow: str = ""
    sandwich: str = ""
    hotspots: str = ""
    functions: str = ""


@dataclass(frozen=True)
class FlamegraphPage(Page):
    """function: whose callers and callees are shown, empty for the whole graph; weighs: its total in words; whole: the
    way back to that."""

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


@blueprint.get("/results/<id>/flamegraph")
def show(id: str) -> AnyResponse:
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
            download=_here(f"/results/{id}/flamegraph.svg", download="1"),
        )
    )
    response.headers["Content-Security-Policy"] = PAGE_POLICY
    return response


@blueprint.get("/results/<id>/flamegraph.svg")
def as_svg(id: str) -> AnyResponse:
    """The same picture as SVG: without scripts, to be shown in the page; with `download=1` a file to save, that can be
    zoomed and searched in any browser. Words as for the page.
    """
    store = services().store
    name, profile = store.results.get(id).name, store.results.open(id)
    selection = selected()
    download = flag("download", request.args.get("download"))
    width = _width()
    look = svg.Look(
        interactive=download,
        width=width,
        up=_up(request.args.get("part", "")),
        colour=_one_of("colour", COLOURS, "kind"),
        theme="system" if download else shell().theme,
        least_px=svg.LEAST_PX if download else 0.5,
        most_frames=svg.MOST_FRAMES if download else STATIC_FRAMES,
    )
    tree = _tree(profile, selection, look.least_px / width)
    pattern = request.args.get("q", "")
    document = svg.write(
        tree,
        profile,
        title=f"{name}: {request.args['function']}" if "function" in request.args else name,
        look=look,
        matches=frozenset(search(profile, selection, _pattern(pattern)).functions) if pattern else (),
        link=None if download else _zoom_link(id),
    )
    response = Response(document, content_type="image/svg+xml; charset=utf-8")
    if download:
        response.headers["Content-Security-Policy"] = SANDBOX_POLICY
        return attachment(response, f"{name}.svg")
    response.headers["Content-Security-Policy"] = STATIC_POLICY
    response.headers["X-Frame-Options"] = "SAMEORIGIN"
    return response


@blueprint.get("/api/v1/results/<id>/flamegraph")
def as_json(id: str) -> AnyResponse:
    """The frames that can be seen at `width` pixels below the frame `zoom`, as `charts.flamegraph.payload` tells."""
    data = flame_payload(
        services().store.results.open(id),
        selected(),
        group=_group(),
        order=_order(),
        zoom=_number("zoom"),
        width_px=_width(),
    )
    return _answer(data)


@blueprint.get("/api/v1/results/<id>/flamegraph/search")
def matches(id: str) -> AnyResponse:
    """The functions that match `q`: `{"functions": [ids], "matched": weight, "percent": of the selection}`."""
    found = search(services().store.results.open(id), selected(), _pattern(request.args.get("q", "")))
    return _answer({"functions": list(found.functions), "matched": found.matched, "percent": found.percent})


@blueprint.get("/api/v1/results/<id>/sandwich")
def callers_and_callees(id: str) -> AnyResponse:
    """`{"callers": …, "callees": …}` of `function` (its id or its name), or with `part` one of them alone, which
    `zoom` then is a frame of."""
    profile = services().store.results.open(id)
    part = request.args.get("part", "")
    trees = _sandwich(profile, selected(), part, narrowest_share(_width()))
    return _answer(
        {
            key: payload(tree, profile, width_px=_width())
            for key, tree in zip(PARTS, trees, strict=True)
            if part in ("", key)
        }
    )


@blueprint.get("/api/v1/results/<id>/functions/<int:function>")
def describe(id: str, function: int) -> AnyResponse:
    """A function by its id, with its whole name: `{"id", "name", "module", "file", "line"}`."""
    profile = services().store.results.open(id)
    functions = functions_of(profile)
    if function >= profile.functions.num_rows:
        raise NotFound(f"This result has no function {function}; open it again from the hotspots page.")
    row = profile.functions.slice(function, 1).to_pylist()[0]
    return _answer(
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
        static=_here(f"/results/{frame.id}/flamegraph.svg", width=str(DEFAULT_WIDTH)),
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
            static=_here(f"/results/{frame.id}/flamegraph.svg", part=part, width=str(DEFAULT_WIDTH)),
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
    pattern = request.args.get("q", "")
    choices = [
        Choice("colour", "Colour by", _one_of("colour", COLOURS, "kind"), "kind", tuple(COLOURS.items())),
    ]
    switches = [
        Switch("recursion", "1", "Collapse recursion", "Merge a function's calls of itself", selection.recursion),
    ]
    if not is_sandwich:
        groups = tuple((group.value, text) for group, text in GROUPS.items() if _splits(profile, group))
        orders = tuple((order.value, text) for order, text in ORDERS.items())
        choices = [
            Choice("order", "Order", _order().value, Order.WEIGHT.value, orders),
            Choice("group", "Group by", _group().value, Group.COMM.value, groups),
            *choices,
        ]
        switches = [
            Switch("invert", "1", "Inverted", "Start from the innermost functions: who called them?", selection.invert),
            *switches,
            Switch("grow", "up", "Root below", "Draw callees above their callers, as flames", _up()),
        ]
    words = {choice.word for choice in choices} | {switch.word for switch in switches} | {"q"}
    # A node's number means something else in a graph of another shape.
    words |= {"zoom", "zoom-callers", "zoom-callees"}
    return Bar(
        search=f"/api/v1/results/{id}/flamegraph/search",
        pattern=pattern,
        matched=_matched(profile, selection, pattern),
        choices=tuple(choices),
        switches=tuple(switches),
        carried=[(word, value) for word, value in request.args.items(multi=True) if word not in words],
    )


def _matched(profile: Profile, selection: Selection, pattern: str) -> str:
    """What the search says: also known without scripts."""
    if not pattern:
        return ""
    try:
        found = search(profile, selection, _pattern(pattern))
    except InvalidRequest as error:
        return error.message
    count = len(found.functions)
    return (
        f"{percent(found.percent)} in {count:,} function{'s' if count != 1 else ''}"
        if count
        else "No function matches."
    )


def _splits(profile: Profile, group: Group) -> bool:
    """Whether grouping by this says something: there are several ranks, or several hosts."""
    if group not in (Group.RANK, Group.HOST):
        return True
    return len(set(profile.threads.column(group.value).to_pylist())) > 1


def _tree(profile: Profile, selection: Selection, least: float) -> FlameTree:
    part = request.args.get("part", "")
    if "function" not in request.args:
        return flame_tree(profile, selection, group=_group(), order=_order(), zoom=_number("zoom"), least=least)
    callers, callees = _sandwich(profile, selection, part or "callees", least)
    return callers if part == "callers" else callees


def _sandwich(profile: Profile, selection: Selection, part: str, least: float) -> tuple[FlameTree, FlameTree]:
    if part not in ("", *PARTS):
        raise InvalidRequest(f"part is one of {', '.join(PARTS)}, not {part[:40]!r}.", "part")
    zoom = _number("zoom") if "zoom" in request.args else _number(f"zoom-{part}")
    zooms = (zoom if part == "callers" else None, zoom if part == "callees" else None)
    asked = request.args.get("function", "")
    if not asked:
        raise InvalidRequest("Say which function: function=NAME, or its number from the flame graph.", "function")
    return sandwich(profile, selection, _function(asked), order=_order(), zoom=zooms, least=least)


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


def _zoom_link(id: str) -> svg.Link:
    """The page's address with another zoom."""
    part = request.args.get("part", "")
    word = f"zoom-{part}" if part else "zoom"
    rest = [(k, v) for k, v in request.args.items(multi=True) if k not in (word, "part", "width", "download")]
    return lambda frame: with_query(f"/results/{id}/flamegraph", [*rest, (word, str(frame))] if frame else rest)


def _here(path: str, **more: str) -> str:
    """`path` with the words of the present request, and more."""
    return with_query(path, [(k, v) for k, v in request.args.items(multi=True) if k not in more] + list(more.items()))


def _group() -> Group:
    return Group(_one_of("group", {group.value: "" for group in Group}, Group.COMM.value))


def _order() -> Order:
    return Order(_one_of("order", {order.value: "" for order in Order}, Order.WEIGHT.value))


def _up(part: str = "") -> bool:
    """Whether the root is at the bottom. Callers always stand on their callee."""
    if part:
        return part == "callers"
    return _one_of("grow", {"up": "", "down": ""}, "down") == "up"


def _one_of(word: str, known: dict[str, str], default: str) -> str:
    value = request.args.get(word) or default
    if value not in known:
        raise InvalidRequest(f"{word} is one of {', '.join(known)}, not {value[:40]!r}.", word)
    return value


def _number(word: str) -> int | None:
    text = request.args.get(word, "")
    if text == "":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidRequest(f"{word} is the number of a frame, not {text[:40]!r}; leave it out to see all.", word)
    return int(text)


def _width() -> int:
    width = _number("width")
    return DEFAULT_WIDTH if width is None else min(max(width, 100), 16_000)


def _pattern(text: str) -> str:
    if len(text) > MAX_PATTERN:
        raise InvalidRequest(f"The search is longer than {MAX_PATTERN:,} characters; shorten it.", "q")
    return text


def _answer(data: dict[str, object]) -> Response:
    response: Response = jsonify(data)
    return response
