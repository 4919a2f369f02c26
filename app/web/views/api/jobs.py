"""Jobs as JSON: submit, list, show, cancel. Times are in seconds since the epoch (UTC), durations in seconds."""

import time
from collections.abc import Sequence
from typing import Any

from flask import Blueprint, Response, jsonify, request

from ....domain.errors import InvalidRequest
from ....domain.jobs import JobState
from ....recording.fields.job_json import from_json
from ....recording.recorders.preflight import PreflightFinding, Severity
from ....store import Job
from ...parameters import parse_choice
from ...services import current_services
from ..job_stages import list_stages
from ..jobs.form import CHECK_TIMEOUT_S, queue_job
from ..jobs.form_check import check_spec
from ..jobs.jobs import request_cancel
from ..jobs.target_choice import list_targets, select_target

blueprint = Blueprint("jobs_api", __name__, url_prefix="/api/v1/jobs")
LIMIT = 500


@blueprint.post("")
def create() -> Response:
    """Queue a job: a JSON object with the fields of JobSpec (`command`: a list, or a command line).

    201 with the job and the findings that do not prevent it; 422 with those that do.
    """
    parsed = from_json(read_json(), list_targets())
    if parsed.spec is None:
        return refusal_response(parsed.findings)
    examined = check_spec(parsed.spec, select_target(parsed.spec.target), host_timeout_s=CHECK_TIMEOUT_S)
    if examined.has_errors:
        return refusal_response(list(examined.findings))
    job = queue_job(parsed.spec)
    response = _answer(_job(job) | {"findings": [finding.to_json() for finding in examined.findings]})
    response.status_code = 201
    response.headers["Location"] = f"/api/v1/jobs/{job.id}"
    return response


@blueprint.get("")
def list_jobs() -> Response:
    """Jobs, newest first. `state`: active or a state; `limit`, `offset`."""
    state = parse_choice("state", ("active", *JobState))
    jobs = current_services().store.jobs.list(
        active=True if state == "active" else None,
        states=(JobState(state),) if state not in ("", "active") else (),
        offset=_parse_int("offset", 0, 10**9),
        limit=_parse_int("limit", 100, LIMIT),
    )
    return _answer({"jobs": [_job(job) for job in jobs]})


@blueprint.get("/<id>")
def show(id: str) -> Response:
    """One job."""
    return _answer(_job(current_services().store.jobs.get(id)))


@blueprint.post("/<id>/cancel")
def cancel(id: str) -> Response:
    """Request the cancellation of a job; 409 if it has ended."""
    response = _answer(_job(request_cancel(id)))
    response.status_code = 202
    return response


def _job(job: Job) -> dict[str, Any]:
    """Environment values are omitted: the submitter has them, and logs of responses should not contain them."""
    spec = dict(job.spec)
    if isinstance(spec.get("environment"), dict):
        spec["environment"] = dict.fromkeys(spec["environment"])
    return {
        "id": job.id,
        "target": job.target if job.kind == "record" else None,
        "kind": job.kind,
        "name": job.name,
        "state": job.state.value,
        "final": job.state.final,
        "cancel_requested": job.cancel_requested,
        "progress": job.progress,
        "progress_text": job.progress_text,
        "created_s": job.created,
        "started_s": job.started,
        "ended_s": job.ended,
        "stages": [
            {"name": stage.name, "status": stage.status.value, "seconds": stage.seconds}
            for stage in list_stages(job, time.time())
        ],
        "needs": [] if job.state.final else [prompt.text for prompt in job.details.needed_secrets],
        "attempt": job.attempt,
        "host": job.host,
        "argv": job.argv,
        "outcome": None if job.outcome is None else job.outcome.to_json(),
        "reason": job.reason,
        "result_id": job.result_id,
        "spec": spec,
    }


def read_json() -> object:
    """The JSON of the request, None if it is not valid."""
    try:
        return request.get_json(silent=True)
    except RecursionError:
        # Nested too deeply for the parser.
        return None


def refusal_response(findings: Sequence[PreflightFinding]) -> Response:
    """422 with the findings, of which at least one is an error."""
    first = next(finding for finding in findings if finding.level is Severity.ERROR)
    response = _answer(
        {
            "error": f"{first.message} {first.advice}".strip(),
            "field": first.field or None,
            "id": None,
            "findings": [finding.to_json() for finding in findings],
        }
    )
    response.status_code = 422
    return response


def _parse_int(parameter: str, default: int, most: int) -> int:
    text = request.args.get(parameter, str(default))
    if not text.isdecimal() or len(text) > 10 or int(text) > most:
        raise InvalidRequest(f"{parameter} must be a whole number from 0 to {most}.", parameter)
    return int(text)


def _answer(content: dict[str, Any]) -> Response:
    return jsonify(content)
