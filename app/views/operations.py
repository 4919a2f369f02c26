"""For whoever keeps the server running: /healthz for a load balancer, /metrics for Prometheus."""

import threading
from collections import Counter

from flask import Blueprint, Flask, Response, request
from flask.blueprints import BlueprintSetupState

from ..security import public
from ..services import services

blueprint = Blueprint("operations", __name__)
TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


class RequestCounts:
    """Requests answered by this process, by method and status."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, int]] = Counter()

    def add(self, method: str, status: int) -> None:
        with self._lock:
            self._counts[method, status] += 1

    def rows(self) -> list[tuple[str, int, int]]:
        """(method, status, count), sorted."""
        with self._lock:
            return sorted((method, status, count) for (method, status), count in self._counts.items())


@blueprint.record_once
def _count_requests(state: BlueprintSetupState) -> None:
    app: Flask = state.app
    counts = app.extensions["perfloom requests"] = RequestCounts()

    @app.after_request
    def count(response: Response) -> Response:
        method = request.method if request.method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS") else "other"
        counts.add(method, response.status_code)
        return response


@blueprint.get("/healthz")
@public
def healthz() -> Response:
    """200 while pages can be served, 503 while the catalogue does not answer. Tells nothing else."""
    try:
        services().store.jobs.count()
    except Exception:
        return Response("the catalogue does not answer\n", 503, mimetype="text/plain")
    return Response("ok\n", mimetype="text/plain")
