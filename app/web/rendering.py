"""How a page becomes a response: one frozen dataclass is all that its template sees beside the shell.

A view builds a subclass of `Page` and returns `render(page)`. The template knows it as `page`; `current_shell` is what
every page has around it. Undefined names are errors, so a template cannot ask for what its dataclass does not have.
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
# A search takes a tenth of the time of a translation, and the HTML of every macro is searched.
_ANY_TURNING = re.compile(f"[{''.join(map(chr, _TURNING))}]")
THEME_COOKIE = "perfloom-theme"
NAVIGATION = (
    ("/", "Results", "r"),
    ("/jobs", "Jobs", "j"),
    ("/jobs/new", "New job", "n"),
    ("/import", "Import", "i"),
    ("/compare", "Compare", "c"),
    ("/targets", "Targets", "t"),
)
"""Address, label, and the key that leads there after "g"."""


@dataclass(frozen=True)
class Page:
    """The content of one page. `template`: a file under templates/."""

    template: ClassVar[str]


@dataclass(frozen=True)
class NavigationLink:
    """An entry of the bar on top. current: the page shown is this one or below it."""

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
    """What surrounds every page. csrf: the token for its forms, empty before login. current_url: path and query
    shown."""

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
    """Give every template `current_shell`, write times in the unit that the address asks for, and let no name change
    how the text around it reads."""
    app.before_request(_choose_time_unit)
    app.context_processor(lambda: {"shell": current_shell()})


def replace_bidi_controls(value: Any) -> Any:
    """`value` with the signs that turn the direction of text shown as U+FFFD: a symbol named with one could show
    another name than its own. Every value that a template writes goes through here."""
    turned = isinstance(value, str) and not value.isascii() and _ANY_TURNING.search(value)
    return value.translate(_TURNING) if turned else value


def _choose_time_unit() -> None:
    # Chosen anew for each request: a thread answers many.
    set_time_unit("")
    set_time_unit(parse_choice(TIME_UNIT_PARAMETER, TIME_UNITS))


def _current(path: str) -> str | None:
    """The entry of the bar that a page belongs to: the one whose address is the longest prefix of the page's."""
    if path == "/" or path.startswith("/results/"):
        return "/"
    fitting = [url for url, *_ in NAVIGATION if path == url or path.startswith(url + "/")]
    return max(fitting, key=len, default=None)
