"""Error pages: a sentence with what to do, never a stack trace.

PerfloomError has a message and an HTTP status. Anything else is a bug: it is logged with its traceback under an error
id, and the page shows the id.
"""

import re
import secrets
from dataclasses import dataclass
from http import HTTPStatus
from typing import ClassVar

from flask import Flask, Response, current_app, jsonify, request
from werkzeug.exceptions import HTTPException

from ..domain.errors import PerfloomError, TooManyRequests
from .rendering import Page, render
from .security import is_api

TITLES = {
    400: "Invalid request",
    403: "Not allowed",
    404: "Not found",
    408: "Request timeout",
    409: "Not possible now",
    413: "Too large",
    422: "Unreadable input",
    429: "Too many requests",
    500: "Something went wrong",
    503: "Service unavailable",
}
MESSAGES = {
    400: "The request is malformed. Go back, reload the page and try again.",
    404: "No such page. It may have been deleted, or the address is mistyped.",
    405: "This address does not support this method. Start again from the results.",
    413: "The request is larger, or has more fields, than this server accepts. Send less; for larger files raise "
    "PERFLOOM_UPLOAD_LIMIT_BYTES.",
}


@dataclass(frozen=True)
class ErrorPage(Page):
    """status: the HTTP status. id: of a bug, as in the server's log, else None. back: where to continue."""

    template: ClassVar[str] = "error.html"
    status: int
    title: str
    message: str
    id: str | None
    back: tuple[str, str]


def register(app: Flask) -> None:
    """Answer every error of `app` with a page, or with JSON where JSON was requested."""
    app.register_error_handler(PerfloomError, _perfloom_error_response)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, _bug)


def error_response(status: int, message: str, *, field: str | None = None, error_id: str | None = None) -> Response:
    """An error as a page, or as `{"error", "field", "id"}`."""
    if is_api():
        response = jsonify(error=message, field=field, id=error_id)
        response.status_code = status
        return response
    title = TITLES.get(status, HTTPStatus(status).phrase)
    page = ErrorPage(status=status, title=title, message=message, id=error_id, back=_nearest_page(status))
    return render(page, status)


def _nearest_page(status: int) -> tuple[str, str]:
    """(address, label) of the nearest page that works: a result without its invalid parameters."""
    if request.path == "/compare" and status in (400, 404):
        return "/compare", "Choose two results"
    match = re.match(r"/results/[a-z0-9]{12}(?=/)(/(?:flamegraph|hotspots|counts|threads))?", request.path)
    if match is None or status != 400:
        return "/", "All results"
    return match[0], "The result without these parameters"


def _perfloom_error_response(error: PerfloomError) -> Response:
    response = error_response(error.http_status, error.message, field=getattr(error, "field", None))
    if isinstance(error, TooManyRequests):
        response.headers["Retry-After"] = str(error.after_s)
    return response


def _http(error: HTTPException) -> Response:
    status = error.code or 500
    # A redirect of the router, such as for a missing slash, is not an error.
    if status < 400:
        redirected: Response = current_app.make_response(error.get_response())
        return redirected
    response = error_response(status, MESSAGES.get(status, error.description or HTTPStatus(status).phrase))
    for name, value in error.get_response().headers:
        if name in ("Allow", "Retry-After"):
            response.headers[name] = value
    return response


def _bug(error: Exception) -> Response:
    error_id = secrets.token_hex(4)
    current_app.logger.error("error %s: %s %s", error_id, request.method, request.path, exc_info=error)
    return error_response(
        500,
        "This is a bug in Perfloom. The server's log has details under the id below. Stored data is not affected. Go "
        "back and try again; if it happens again, report it with that part of the log.",
        error_id=error_id,
    )
