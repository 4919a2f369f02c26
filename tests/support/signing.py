"""Signing in without a page, for tests of other features."""

from __future__ import annotations

import functools
import urllib.request
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext


def sign_in(context: BrowserContext, link: str) -> None:
    """Let a browsing context in as if it had opened `link`, the address of a server with its token."""
    if not context.cookies():
        name, value = _session(link)
        context.add_cookies([{"name": name, "value": value, "url": link, "httpOnly": True, "sameSite": "Lax"}])


@functools.cache
def _session(link: str) -> tuple[str, str]:
    """Name and value of the cookie that opening it sets. Requested once and shared by all contexts."""
    jar = CookieJar()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(jar))
    opener.open(link, timeout=60).close()
    (cookie,) = jar
    return cookie.name, cookie.value or ""
