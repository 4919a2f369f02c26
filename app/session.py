"""Who is asking: the signed cookie that a token was exchanged for, and the CSRF token bound to it.

The cookie holds a random session id and is signed with a key that depends on the server's token: a new token ends
every session, and neither the token nor anything it could be found from is in the browser.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta

from flask import Flask, current_app, g, request, session
from flask.sessions import SecureCookieSessionInterface

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
        # Cookies are shared by all ports of a host: two servers on one machine must not sign each other out.
        SESSION_COOKIE_NAME="perfloom-" + hmac.new(key, b"cookie name", hashlib.sha256).hexdigest()[:8],
        SESSION_COOKIE_HTTPONLY=True,
        # Not Strict: a link to a result, opened from a chat or a mail, would ask for the token again.
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_REFRESH_EACH_REQUEST=False,
        PERMANENT_SESSION_LIFETIME=LIFETIME,
    )
    app.session_interface = _Cookies()


def begin() -> None:
    """Start a session for whoever has just shown the token."""
    session.clear()
    session.permanent = True
    session["id"] = secrets.token_urlsafe(18)


def end() -> None:
    """Forget the session of this browser."""
    session.clear()


def signed_in() -> bool:
    """Whether the request comes from a browser that has shown the token."""
    return bool(session.get("id"))


def csrf_token() -> str:
    """The token that a form or script of this session sends with every change.

    Masked anew for every page, so that a compressed page gives nothing away about it.
    """
    if "csrf" not in g:
        mask = secrets.token_bytes(_MASK_BYTES)
        g.csrf = urlsafe_b64encode(mask + _xor(mask, _csrf_secret())).decode()
    token: str = g.csrf
    return token


def csrf_valid(token: str) -> bool:
    """Whether `token` was made for this session."""
    try:
        raw = urlsafe_b64decode(token.encode("ascii"))
    except ValueError:
        return False
    if len(raw) != 2 * _MASK_BYTES or not signed_in():
        return False
    return hmac.compare_digest(_xor(raw[:_MASK_BYTES], raw[_MASK_BYTES:]), _csrf_secret())


def _csrf_secret() -> bytes:
    key: bytes = current_app.config["SECRET_KEY"]
    return hmac.digest(key, f"csrf {session['id']}".encode(), hashlib.sha256)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
