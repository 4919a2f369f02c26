"""What the pages with a flame graph share: the words of their query, the controls above the graph, its SVG."""

from collections.abc import Mapping
from dataclasses import dataclass

from flask import Response, request

from ....analysis.core.grouping import split_by
from ....analysis.stacks.flamegraph import FlameTree, Group, Matches, Order
from ....charts import flamegraph_svg
from ....domain.errors import InvalidRequest
from ....domain.profile import Profile
from ....domain.selection import flag
from ....domain.units import percent
from ...pages import Pairs, with_query
from ...rendering import shell
from ...security import CONTENT_SECURITY_POLICY
from .tables import attachment

DEFAULT_WIDTH = 1200
MAX_PATTERN = 2_000
STATIC_FRAMES = 3_000
GROUPS = {
    Group.COMM: "thread name",
    Group.NONE: "nothing",
    Group.PROCESS: "process",
    Group.THREAD: "thread",
    Group.RANK: "rank",
    Group.HOST: "host",
}
ORDERS = {Order.WEIGHT: "widest first", Order.TIME: "by time", Order.NAME: "by name"}
COLOURS = {"kind": "kind", "module": "module", "hot": "self weight"}
ZOOMS = ("zoom", "zoom-callers", "zoom-callees")
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
    """The controls above a graph. search: address that answers it. carried: the words that the form does not have.

    reloads: whether there is more on the page than the graph that another selection changes.
    """

    search: str
    pattern: str
    matched: str
    choices: tuple[Choice, ...]
    switches: tuple[Switch, ...]
    carried: Pairs
    reloads: bool = False


@dataclass(frozen=True)
class Graph:
    """One graph on a page. source: of its pictures; part: the key of the answer that holds them, empty where it is
    the answer. zoom_word: of the query. grow: "up" or "down" where that is fixed. sandwich, hotspots: pages to link to
    from a frame; functions: address that tells of a function by its id, reversed_functions: of one of the base. static:
    the SVG for a page without scripts. nothing: what to say where there is nothing.
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
    reversed_functions: str = ""


def bar(search: str, matched: str, choices: list[Choice], switches: list[Switch], *, reloads: bool = False) -> Bar:
    """The controls with the words of the present request."""
    # A frame's number means something else in a graph of another shape.
    known = {choice.word for choice in choices} | {switch.word for switch in switches} | {"q", *ZOOMS}
    return Bar(
        search=search,
        pattern=request.args.get("q", ""),
        matched=matched,
        choices=tuple(choices),
        switches=tuple(switches),
        carried=[(word, value) for word, value in request.args.items(multi=True) if word not in known],
        reloads=reloads,
    )


def group_choice(*profiles: Profile) -> Choice:
    """By what the graph is split: ranks and hosts only where there are several, names only where there are any."""
    named = all(split_by(profile, Group.COMM) is Group.COMM for profile in profiles)
    offered = {g.value: text for g, text in GROUPS.items() if any(_splits(p, g) for p in profiles)}
    if not named:
        del offered[Group.COMM.value]
    usual = (Group.COMM if named else Group.NONE).value
    asked = asked_group().value
    return Choice("group", "Group by", asked if asked in offered else usual, usual, tuple(offered.items()))


def order_choice(*orders: Order) -> Choice:
    """In which order siblings stand."""
    offered = tuple((order.value, ORDERS[order]) for order in orders)
    return Choice("order", "Order", asked_order().value, Order.WEIGHT.value, offered)


def grow_switch() -> Switch:
    """Which way up."""
    return Switch("grow", "up", "Root below", "Draw callees above their callers, as flames", asked_up())


def invert_switch(on: bool) -> Switch:
    """Callers or callees."""
    return Switch("invert", "1", "Inverted", "Start from the innermost functions: who called them?", on)


def recursion_switch(on: bool) -> Switch:
    """Whether recursion is shown."""
    return Switch("recursion", "1", "Collapse recursion", "Merge a function's calls of itself", on)


def matched_text(found: Matches | None) -> str:
    """What a search found, in words; nothing where nothing was searched for."""
    if found is None:
        return ""
    count = len(found.functions)
    if not count:
        return "No function matches."
    return f"{percent(found.percent)} in {count:,} function{'s' if count != 1 else ''}"


def asked_look(part: str = "") -> flamegraph_svg.Look:
    """How the SVG asked for is to be drawn: `download=1` with its script, else to be shown in a page."""
    download = asked_download()
    return flamegraph_svg.Look(
        interactive=download,
        width=asked_width(),
        up=part == "callers" if part else asked_up(),
        colour=one_of("colour", COLOURS, "kind"),
        theme="system" if download else shell().theme,
        least_px=flamegraph_svg.LEAST_PX if download else 0.5,
        most_frames=flamegraph_svg.MOST_FRAMES if download else STATIC_FRAMES,
    )


def svg_response(
    tree: FlameTree,
    profile: Profile,
    path: str,
    *,
    name: str,
    look: flamegraph_svg.Look,
    found: Matches | None,
    part: str = "",
) -> Response:
    """The SVG of a tree. path: of the page that its frames lead to, with another zoom; name: of the file to save."""
    word = f"zoom-{part}" if part else "zoom"
    rest = [(k, v) for k, v in request.args.items(multi=True) if k not in (word, "part", "width", "download")]

    def link(frame: int) -> str:
        return with_query(path, [*rest, (word, str(frame))] if frame else rest)

    document = flamegraph_svg.write(
        tree,
        profile,
        title=name,
        look=look,
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


def here(path: str, **more: str) -> str:
    """`path` with the words of the present request, and more."""
    return with_query(path, [(k, v) for k, v in request.args.items(multi=True) if k not in more] + list(more.items()))


def asked_group() -> Group:
    """By what to group. Raises InvalidRequest, as all below do for a value that cannot be used."""
    return Group(one_of("group", {group.value: "" for group in Group}, Group.COMM.value))


def asked_order() -> Order:
    """The order of siblings."""
    return Order(one_of("order", {order.value: "" for order in Order}, Order.WEIGHT.value))


def asked_up() -> bool:
    """Whether the root is at the bottom."""
    return one_of("grow", {"up": "", "down": ""}, "down") == "up"


def asked_download() -> bool:
    """Whether a file to save is asked for."""
    return flag("download", request.args.get("download"))


def asked_width() -> int:
    """The width of the graph in pixels."""
    width = number("width")
    return DEFAULT_WIDTH if width is None else min(max(width, 100), 16_000)


def asked_pattern() -> str:
    """The pattern searched for, or no text."""
    text = request.args.get("q", "")
    if len(text) > MAX_PATTERN:
        raise InvalidRequest(f"The search is longer than {MAX_PATTERN:,} characters; shorten it.", "q")
    return text


def number(word: str) -> int | None:
    """The value of `word`, a whole number; None where it is not there."""
    text = request.args.get(word, "")
    if text == "":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidRequest(f"{word} is a whole number, not {text[:40]!r}; leave it out to see all.", word)
    return int(text)


def one_of(word: str, known: Mapping[str, str], default: str) -> str:
    """The value of `word`, one of those known."""
    value = request.args.get(word) or default
    if value not in known:
        raise InvalidRequest(f"{word} is one of {', '.join(known)}, not {value[:40]!r}.", word)
    return value


def _splits(profile: Profile, group: Group) -> bool:
    if group not in (Group.RANK, Group.HOST):
        return True
    return len(set(profile.threads.column(group.value).to_pylist())) > 1
