"""For administrators: /healthz for a load balancer, /metrics for Prometheus."""

import os
import threading
from collections import Counter

from flask import Blueprint, Response, current_app, request
from flask.blueprints import BlueprintSetupState

from .... import __version__
from ....domain.jobs import JobState
from ...security import public
from ...services import current_services

blueprint = Blueprint("operations", __name__)
_REQUESTS = "perfloom requests"
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
    app = state.app
    counts = app.extensions[_REQUESTS] = RequestCounts()

    @app.after_request
    def count(response: Response) -> Response:
        method = request.method if request.method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS") else "other"
        counts.add(method, response.status_code)
        return response


@blueprint.get("/healthz")
@public
def healthz() -> Response:
    """200 while pages can be served, 503 while the database does not respond. Reveals nothing else."""
    try:
        current_services().store.jobs.counts()
    except Exception:
        return Response("the database does not respond\n", 503, mimetype="text/plain")
    return Response("ok\n", mimetype="text/plain")


@blueprint.get("/metrics")
def metrics() -> Response:
    """Counts in the Prometheus text format. Each process counts its own requests, so they carry its id."""
    store = current_services().store
    states = store.jobs.counts()
    bytes_stored, results = store.results.count_and_size()
    counts: RequestCounts = current_app.extensions[_REQUESTS]
    process = os.getpid()
    lines = [
        *_metric("perfloom_build_info", "gauge", "Version of Perfloom.", [({"version": __version__}, 1)]),
        *_metric(
            "perfloom_jobs", "gauge", "Jobs by state.", [({"state": s.value}, states.get(s, 0)) for s in JobState]
        ),
        *_metric("perfloom_results", "gauge", "Stored results.", [({}, results)]),
        *_metric("perfloom_results_bytes", "gauge", "Disk space of results.", [({}, bytes_stored)]),
        *_metric(
            "perfloom_http_requests_total",
            "counter",
            "Requests answered.",
            [({"method": m, "status": str(s), "process": str(process)}, n) for m, s, n in counts.rows()],
        ),
    ]
    return Response("\n".join(lines) + "\n", content_type=TEXT_FORMAT)


def _metric(name: str, kind: str, text: str, rows: list[tuple[dict[str, str], float]]) -> list[str]:
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in rows:
        inside = ",".join(f'{name}="{label}"' for name, label in labels.items())
        lines.append(f"{name}{{{inside}}} {value}" if inside else f"{name} {value}")
    return lines
