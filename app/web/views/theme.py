"""The choice of theme (light, dark or system); stored in a cookie, applied by the server."""

from flask import Blueprint, redirect, request
from werkzeug.wrappers import Response

from ...charts.palette import THEMES
from ...domain.errors import InvalidRequest
from ..rendering import THEME_COOKIE
from ..security import local_path

blueprint = Blueprint("theme", __name__)
YEAR_S = 365 * 24 * 3600


@blueprint.post("/theme")
def choose() -> Response:
    """Store the choice and return to the page."""
    theme = request.form.get("theme", "")
    if theme not in THEMES:
        raise InvalidRequest(f"No such theme. Choose one of {', '.join(THEMES)}.", "theme")
    response = redirect(local_path(request.form.get("next", "/")), 303)
    response.set_cookie(THEME_COOKIE, theme, max_age=YEAR_S, samesite="Lax", secure=request.is_secure)
    return response
