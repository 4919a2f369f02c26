"""The application factory of Flask."""

from flask import Flask
from jinja2 import StrictUndefined

from ..config import Settings
from ..queue import TaskQueue
from ..store import open_store
from . import assets, compression, errors, own_formulas, rendering, security, uploads, views
from .services import AppServices

PACKAGE = "perfloom"
FORM_LIMIT = 4 * 1024 * 1024
"""Maximum bytes of a form without files. Views that accept files set their own limit."""


def create_app(settings: Settings, *, shared: bool = False) -> Flask:
    """The application for one data directory. Opens the store, so the directory must exist.

    shared: whether it has users other than its owner, whose programs must not be able to read its secrets.
    """
    # Templates are next to the package, not next to this module.
    app = Flask(PACKAGE, static_folder=None)
    app.config.update(MAX_CONTENT_LENGTH=FORM_LIMIT, MAX_FORM_MEMORY_SIZE=FORM_LIMIT, MAX_FORM_PARTS=5_000)
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.jinja_options = {
        "undefined": StrictUndefined,
        "finalize": rendering.replace_bidi_controls,
        "trim_blocks": True,
        "lstrip_blocks": True,
    }
    app.url_map.strict_slashes = False
    app.extensions["perfloom"] = _services(settings, shared)
    uploads.register(app, settings)
    security.register(app, settings)
    errors.register(app)
    assets.register(app)
    rendering.register(app)
    own_formulas.register(app)
    views.register(app)
    compression.register(app)
    return app


def _services(settings: Settings, shared: bool) -> AppServices:
    store = open_store(settings)
    return AppServices(settings, store, TaskQueue(settings, store), shared)
