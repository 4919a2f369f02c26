"""Access control: token, Host and Origin checks, CSRF, and the headers of every response.

A request is checked in this order: its Host must be ours (against DNS rebinding), the client must be authenticated by
the token (on loopback, too), and a change must come from our pages (Origin, CSRF token). A program that sends
`Authorization: Bearer` uses no cookie that another site could make a browser send, so it needs no CSRF token.
"""

import hmac
import ipaddress
import logging
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlencode, urlsplit

from flask import Blueprint, Flask, Response, current_app, jsonify, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ..config import Settings
from ..domain.errors import Forbidden, InvalidRequest, TooManyRequests
from ..domain.units import format_utc
from . import session, uploads
from .rendering import Page, render
from .throttle import Throttle

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# For exported documents with scripts and style, in case a browser displays instead of saving them: an opaque origin,
# and no network.
SANDBOX_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with it, browsers send "Origin: null" with our forms, and the Origin check could not work.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "X-Frame-Options": "DENY",
    "Cache-Control": "private, no-store",
}

_PUBLIC = "_perfloom_public"
_TOKEN = "perfloom token"
_THROTTLE = "perfloom throttle"
_View = TypeVar("_View", bound=Callable[..., Any])
PUBLIC_BODY_BYTES = 16 * 1024
"""The largest body of a request without a token: so small that it takes no upload slot (`workers.serve.web_gate`), so
that a stranger cannot keep others from uploading."""
blueprint = Blueprint("login", __name__)


@dataclass(frozen=True)
class LoginPage(Page):
    """The login form. next: path to open afterwards. is_token_wrong: whether the entered token was wrong."""

    template: ClassVar[str] = "login.html"
    next: str
    is_token_wrong: bool


@dataclass(frozen=True)
class SessionView:
    """A browser that is signed in. is_current: that of this request."""

    name: str
    is_current: bool
    started: str
    expires: str
    address: str
    agent: str


@dataclass(frozen=True)
class SessionsPage(Page):
    """The browsers that are signed in."""

    template: ClassVar[str] = "sessions.html"
    rows: tuple[SessionView, ...]


def public(view: _View) -> _View:
    """Mark a view that works without a token. It must not reveal anything about results or jobs."""
    setattr(view, _PUBLIC, True)
    return view


def host_allowed(host: str, listening: str, trusted: Sequence[str]) -> bool:
    """Whether a Host header names us: loopback, a literal address, the listening address, or a trusted name.

    Rebinding needs a name whose address an attacker controls, so a literal address is as safe as loopback.
    """
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    if not name or not re.fullmatch(r"[a-z0-9._:%-]+", name):
        return False
    name = name.rstrip(".")
    if name in {"localhost", listening.lower(), *(known.lower() for known in trusted)}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def local_path(target: str) -> str:
    """`target` if it is a path on this server, else "/", to prevent open redirects."""
    if not target.startswith("/") or target[1:2] in ("/", "\\") or any(ord(c) < 32 for c in target):
        return "/"
    return target


def register(app: Flask, settings: Settings) -> None:
    """Guard every request of `app` and add the headers to every response."""
    session.register(app, settings.cookie_key)
    app.extensions[_TOKEN] = settings.token.encode()
    app.extensions[_THROTTLE] = Throttle()
    app.register_blueprint(blueprint)
    app.before_request(_guard)
    app.after_request(_add_headers)
    for name in ("gunicorn.error", "gunicorn.access", "werkzeug"):
        logging.getLogger(name).addFilter(_redact)


def is_api() -> bool:
    """Whether the response, including errors, should be JSON."""
    if request.path.startswith("/api/"):
        return True
    best = request.accept_mimetypes.best_match(["text/html", "application/json"], default="text/html")
    return best == "application/json"


@blueprint.post("/login")
@public
def login() -> AnyResponse:
    """Exchange the token from the form for a session."""
    _check_origin()
    target = local_path(request.form.get("next", "/"))
    if not _is_token(request.form.get("token", "").strip()):
        return render(LoginPage(next=target, is_token_wrong=True), 401)
    session.start_session()
    return redirect(target, 303)


@blueprint.get("/login")
@public
def login_page() -> AnyResponse:
    """The login form."""
    target = local_path(request.args.get("next", "/"))
    return redirect(target, 303) if session.is_signed_in() else render(LoginPage(next=target, is_token_wrong=False))


@blueprint.post("/logout")
def logout() -> AnyResponse:
    """End the session of this browser; with `everywhere`, those of all browsers; with `name`, another one."""
    if name := request.form.get("name", ""):
        session.end_session_by_name(name)
        return redirect("/sessions", 303)
    if request.form.get("everywhere"):
        session.end_all_sessions()
    else:
        session.end_session()
    return redirect("/login", 303)


@blueprint.get("/sessions")
def sessions() -> AnyResponse:
    """The browsers that are signed in."""
    current_session_name = session.current_session_name()
    rows = tuple(
        SessionView(
            each.name,
            each.name == current_session_name,
            format_utc(each.began),
            format_utc(each.expires),
            each.address,
            each.agent,
        )
        for each in session.list_sessions()
    )
    return render(SessionsPage(rows=rows))


def _settings() -> Settings:
    settings: Settings = current_app.extensions["perfloom"].settings
    return settings


def _is_token(candidate: str) -> bool:
    """Whether it is the token. Raises TooManyRequests for a wrong one after too many of them.

    The right one is always accepted: else someone with the same address as the owner could lock the owner out.
    """
    if hmac.compare_digest(candidate.encode(errors="replace"), current_app.extensions[_TOKEN]):
        return True
    throttle: Throttle = current_app.extensions[_THROTTLE]
    address = session.client_address()
    if wait_s := throttle.wait_s(address):
        after_s = max(1, math.ceil(wait_s))
        raise TooManyRequests(
            f"Too many wrong tokens from your address. Enter the right one, or wait {after_s} s.", after_s
        )
    throttle.record_failure(address)
    return False


def _guard() -> AnyResponse | None:
    view = current_app.view_functions.get(request.endpoint or "")
    open_to_all = getattr(view, _PUBLIC, False)
    if request.endpoint == "operations.healthz":
        return None
    settings = _settings()
    if not host_allowed(request.environ.get("HTTP_HOST", ""), settings.host, settings.trusted_hosts):
        raise InvalidRequest(
            "This server does not accept the host name in your request. If the name is correct, start Perfloom with "
            "it in PERFLOOM_TRUSTED_HOSTS."
        )
    if "token" in request.args and request.method in SAFE_METHODS:
        return _exchange()
    if open_to_all:
        request.max_content_length = PUBLIC_BODY_BYTES
        return None
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    bearer = scheme.lower() == "bearer" and _is_token(credentials.strip())
    if not bearer and not session.is_signed_in():
        return _ask_for_token(wrong=bool(scheme))
    uploads.prepare(view, settings)
    if not bearer and request.method not in SAFE_METHODS:
        _check_origin()
        token = request.headers.get(session.CSRF_HEADER) or request.form.get(session.CSRF_FIELD, "")
        if not session.is_csrf_valid(token):
            raise Forbidden("This form is out of date, and nothing was changed. Reload the page and send it again.")
    return None


def _exchange() -> AnyResponse:
    rest = [(k, v) for k, v in request.args.items(multi=True) if k != "token"]
    target = local_path(request.path) + ("?" + urlencode(rest) if rest else "")
    if not session.is_signed_in():
        if not _is_token(request.args["token"]):
            return _ask_for_token(wrong=True)
        session.start_session()
    return redirect(target, 303)


def _ask_for_token(*, wrong: bool) -> AnyResponse:
    if is_api():
        message = (
            "Wrong token; use the one from the file `token` in the data directory of the server."
            if wrong
            else "Send the token of this server as `Authorization: Bearer TOKEN`."
        )
        response = jsonify(error=message, field=None, id=None)
        response.status_code = 401
        response.headers["WWW-Authenticate"] = 'Bearer realm="perfloom"'
        return response
    rest = [(k, v) for k, v in request.args.items(multi=True) if k != "token"]
    target = request.path + ("?" + urlencode(rest) if rest else "")
    return render(LoginPage(next=local_path(target) if request.method == "GET" else "/", is_token_wrong=wrong), 401)


def _check_origin() -> None:
    origin = request.headers.get("Origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.host
    if foreign or request.headers.get("Sec-Fetch-Site", "same-origin") in ("cross-site", "same-site"):
        raise Forbidden("This request came from another site, and nothing was changed. Use Perfloom's own pages.")


def _add_headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _redact(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    if "token=" in message:
        record.msg, record.args = re.sub(r"token=[^&\s\"']*", "token=[not shown]", message), None
    return True
