"""Static files under a path with a hash of all of them, so that browsers can cache them for a year.

The hash is a folder of the path, not a query parameter: modules import each other by relative paths, and so remain
within one version.
"""

import hashlib
from pathlib import Path
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import NotFound
from werkzeug.security import safe_join

from .security import public

PREFIX = "v-"
TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".woff2": "font/woff2",
}


def register(app: Flask) -> None:
    """Serve the folder `static` of the package as endpoint `static`, and give templates `static(name)`."""
    folder = Path(app.root_path) / "static"
    version = PREFIX + version_of(folder)

    @public
    def static(filename: str) -> Response:
        head, _, rest = filename.partition("/")
        path = safe_join(str(folder), rest if head.startswith(PREFIX) else filename)
        try:
            content = Path(path or "").read_bytes()
        except (OSError, ValueError):
            raise NotFound from None
        response = Response(content, mimetype=TYPES.get(Path(filename).suffix, "application/octet-stream"))
        # An older page can request its version; it gets the current one, without caching.
        keep = head == version and not app.debug
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if keep else "no-cache"
        response.set_etag(hashlib.sha256(content).hexdigest()[:24])
        response.make_conditional(request)
        return response

    def add_version(endpoint: str, values: dict[str, Any]) -> None:
        if endpoint == "static" and not str(values.get("filename", "")).startswith(PREFIX):
            values["filename"] = f"{version}/{values['filename']}"

    app.add_url_rule("/static/<path:filename>", "static", static)
    app.url_defaults(add_version)
    app.jinja_env.globals["static"] = lambda name: app.url_for("static", filename=name)


def version_of(folder: Path) -> str:
    """Twelve hex digits that change when any file below `folder` does."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]
