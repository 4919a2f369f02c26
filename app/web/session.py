"""Sessions: the signed cookie that a browser gets for the token, and the CSRF token bound to it.

The cookie has a random session id and is signed with a key that depends on the server's token: a new token ends all
sessions, and the browser has nothing from which the token could be derived. The database has a hash of the id while the
session is valid: signing out invalidates it on the server, even if the cookie was copied.
"""

import hashlib
import hmac
import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta

from flask import Flask, current_app, g, request, session
from flask.sessions import SecureCookieSessionInterface

from ..store.sessions import BrowserSession, Sessions, hash_of

LIFETIME = timedelta(days=30)
CSRF_HEADER = "X-CSRF-Token"
CSRF_FIELD = "csrf"
_MASK_BYTES = 32


class _Cookies(SecureCookieSessionInterface):
    def get_cookie_secure(self, app: Flask) -> bool:
        return request.is_secure


def register(app: Flask, key: bytes) -> None:
    """Sign the sessions of `app` with `key`, 32 secret bytes."""
    app.config.update(
        SECRET_KEY=key,
        # All ports of a host share cookies: two servers on one machine must not end each other's sessions.
        SESSION_COOKIE_NAME="perfloom-" + hmac.new(key, b"cookie name", hashlib.sha256).hexdigest()[:8],
        SESSION_COOKIE_HTTPONLY=True,
        # Not Strict: links from chat or mail would require the token again.
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_REFRESH_EACH_REQUEST=False,
        PERMANENT_SESSION_LIFETIME=LIFETIME,
    )
    app.session_interface = _Cookies()


def start_session() -> None:
    """Start a session after login."""
    id = secrets.token_urlsafe(24)
    agent = request.headers.get("User-Agent", "")
    _sessions().create(id, _realm(), LIFETIME.total_seconds(), client_address(), agent)
    session.clear()
    session.permanent = True
    session["id"] = id
    g.signed_in = True


def end_session() -> None:
    """End the session of this browser, here and on the server."""
    if id := session.get("id"):
        _sessions().end(str(id))
    _forget()


def end_all_sessions() -> None:
    """End the sessions of all browsers, including this one."""
    _sessions().end_all()
    _forget()


def end_session_by_name(name: str) -> None:
    """End the session with this name in `list_sessions`."""
    _sessions().end_by_name(name)


def list_sessions() -> tuple[BrowserSession, ...]:
    """The valid sessions, newest first."""
    return _sessions().list(_realm())


def current_session_name() -> str:
    """The name of this browser's session in `list_sessions`; empty for a program with a bearer token."""
    return hash_of(str(session["id"]))[:16] if is_signed_in() else ""


def is_signed_in() -> bool:
    """Whether the browser is signed in. Raises Unavailable."""
    if "signed_in" not in g:
        # If the database does not respond, the error page checks again.
        g.signed_in = False
        g.signed_in = bool(id := session.get("id")) and _sessions().is_valid(str(id), _realm())
    signed_in: bool = g.signed_in
    return signed_in


def client_address() -> str:
    """The address of the client; behind a proxy that gunicorn trusts (FORWARDED_ALLOW_IPS, by default
    this machine), the last one in its X-Forwarded-For."""
    address = request.remote_addr or ""
    forwarded_allow_ips = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1,::1")
    forwarded = request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
    if forwarded and (
        forwarded_allow_ips.strip() == "*" or address in [part.strip() for part in forwarded_allow_ips.split(",")]
    ):
        return forwarded[:100]
    return address


def _forget() -> None:
    session.clear()
    g.signed_in = False


def _sessions() -> Sessions:
    known: Sessions = current_app.extensions["perfloom"].store.sessions
    return known


def _realm() -> str:
    """Identifies the server's token of the sessions: a hash of the key derived from it."""
    key: bytes = current_app.config["SECRET_KEY"]
    return hmac.new(key, b"realm of sessions", hashlib.sha256).hexdigest()[:16]


def csrf_token() -> str:
    """The token that a form or script of this session sends with every change.

    Masked differently for every page, so that the length of a compressed page does not reveal it.
    """
    if "csrf" not in g:
        mask = secrets.token_bytes(_MASK_BYTES)
        g.csrf = urlsafe_b64encode(mask + _xor(mask, _csrf_secret())).decode()
    token: str = g.csrf
    return token


def is_csrf_valid(token: str) -> bool:
    """Whether `token` is valid for this session."""
    try:
        raw = urlsafe_b64decode(token.encode("ascii"))
    except ValueError:
        return False
    if len(raw) != 2 * _MASK_BYTES or not is_signed_in():
        return False
    return hmac.compare_digest(_xor(raw[:_MASK_BYTES], raw[_MASK_BYTES:]), _csrf_secret())


def _csrf_secret() -> bytes:
    key: bytes = current_app.config["SECRET_KEY"]
    return hmac.digest(key, f"csrf {session['id']}".encode(), hashlib.sha256)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
