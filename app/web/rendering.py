"""Rendering of pages: a template gets one frozen dataclass, and the shell.

A view builds a subclass of `Page` and returns `render(page)`. It is `page` in the template; `current_shell` is the
frame of every page. Undefined names are errors, so a template can only use fields of its dataclass.
"""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from flask import Flask, Response, current_app, get_flashed_messages, make_response, render_template, request

from .. import __version__
from ..charts.palette import THEMES
from ..domain.units import TIME_UNIT_PARAMETER, TIME_UNITS, set_time_unit
from .parameters import parse_choice
from .session import csrf_token, is_signed_in

_TURNING = dict.fromkeys((0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd")
# Searching takes a tenth of the time of translating, and the HTML of every macro is searched.
_ANY_TURNING = re.compile(f"[{''.join(map(chr, _TURNING))}]")
THEME_COOKIE = "perfloom-theme"
NAVIGATION = (
    ("/", "Results", "r"),
    ("/jobs", "Jobs", "j"),
    ("/jobs/new", "New job", "n"),
    ("/import", "Import", "i"),
    ("/compare", "Compare", "c"),
    ("/history", "History", "h"),
    ("/events", "Events", "e"),
    ("/targets", "Targets", "t"),
)
"""URL, label, and the key to open it after "g"."""


@dataclass(frozen=True)
class Page:
    """The content of one page. `template`: a file under templates/."""

    template: ClassVar[str]


@dataclass(frozen=True)
class NavigationLink:
    """An entry of the navigation bar. current: whether it is the current page or its parent."""

    url: str
    label: str
    key: str
    current: bool


@dataclass(frozen=True)
class Notice:
    """A sentence shown once, after something was done. kind: good, warn or bad."""

    kind: str
    text: str


@dataclass(frozen=True)
class PageShell:
    """The frame of every page. csrf: the token for its forms, empty before login. current_url: path and query."""

    version: str
    theme: str
    csrf: str
    signed_in: bool
    current_url: str
    navigation: tuple[NavigationLink, ...]
    notices: tuple[Notice, ...]


def render(page: Page, status: int = 200) -> Response:
    """The page as a response."""
    response = make_response(render_template(page.template, page=page), status)
    response.content_type = "text/html; charset=utf-8"
    return response


def current_shell() -> PageShell:
    """The shell of the present request."""
    theme = request.cookies.get(THEME_COOKIE, "system")
    path = request.path
    known = current_app.url_map.bind("")
    return PageShell(
        version=__version__,
        theme=theme if theme in THEMES else "system",
        csrf=csrf_token() if is_signed_in() else "",
        signed_in=is_signed_in(),
        current_url=path + ("?" + request.query_string.decode("latin-1") if request.query_string else ""),
        navigation=tuple(
            NavigationLink(url, label, key, url == _current(path)) for url, label, key in NAVIGATION if known.test(url)
        ),
        notices=tuple(Notice(*pair) for pair in get_flashed_messages(with_categories=True)),
    )


def register(app: Flask) -> None:
    """Give every template `current_shell`, use the time unit of the URL, and remove direction characters from
    values."""
    app.before_request(_choose_time_unit)
    app.context_processor(lambda: {"shell": current_shell()})


def replace_bidi_controls(value: Any) -> Any:
    """`value` with direction characters replaced by U+FFFD, because a symbol with one could be displayed as another
    name. Applied to every value that a template writes."""
    turned = isinstance(value, str) and not value.isascii() and _ANY_TURNING.search(value)
    return value.translate(_TURNING) if turned else value


def _choose_time_unit() -> None:
    # Set for each request, because a thread handles many.
    set_time_unit("")
    set_time_unit(parse_choice(TIME_UNIT_PARAMETER, TIME_UNITS))


def _current(path: str) -> str | None:
    """The entry of the bar that a page belongs to: the one whose address is the longest prefix of the page's."""
    if path == "/" or path.startswith("/results/"):
        return "/"
    fitting = [url for url, *_ in NAVIGATION if path == url or path.startswith(url + "/")]
    return max(fitting, key=len, default=None)
