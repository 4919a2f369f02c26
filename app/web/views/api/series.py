"""Run series as JSON: start, show, cancel. Times are in seconds since the epoch (UTC)."""

from dataclasses import replace
from typing import Any

from flask import Blueprint, Response, jsonify

from ....domain.jobs import JobState, Side
from ....recording.fields.job_form import JobForm, to_form
from ....recording.fields.job_json import from_json
from ....recording.recorders.preflight import PreflightFinding, Severity
from ....store import Job, RunSeries
from ...services import current_services
from ..jobs.series import DEFAULT_RUNS, cancel_series, comparison_url, describe_missing
from ..jobs.series_request import OTHER_FIELDS, check_series, has_command, queue_series, read_jobs
from ..jobs.target_choice import list_targets
from .jobs import read_json, refusal_response

blueprint = Blueprint("series_api", __name__, url_prefix="/api/v1/series")
FIELDS = ("base", "other", "keep_base", "runs", "warm_ups", "changes")
WAITING, RUNNING, ENDED = "waiting", "running", "ended"


@blueprint.post("")
def create() -> Response:
    """Queue the runs of a series: a JSON object with `FIELDS`, of which only `base` is needed.

    201 with the series and the findings that do not prevent it; 422 with those that do.
    """
    data = read_json()
    if not isinstance(data, dict):
        return refusal_response([_error("", "Send one JSON object with the id of the job that is run again as base.")])
    errors = list(_check_types(data))
    if errors:
        return refusal_response(errors)
    base, other = read_jobs(data["base"], data.get("other") or "")
    form, errors = _change_settings(other, data.get("changes", {}))
    if errors:
        return refusal_response(errors)
    runs, warm_ups = (str(data.get(name, default)) for name, default in (("runs", DEFAULT_RUNS), ("warm_ups", 1)))
    checked = check_series(base, form, runs, warm_ups, keeps_base=data.get("keep_base", False))
    findings = [replace(one, field=name) for name, listed in checked.findings.items() for one in listed]
    if checked.request is None:
        unknown = _error("", "The job cannot run again as it is. Open its form, correct it and record it once more.")
        return refusal_response(findings if any(one.level is Severity.ERROR for one in findings) else [unknown])
    series = current_services().store.series.get(queue_series(checked.request))
    response = jsonify(_series(series) | {"findings": [finding.to_json() for finding in findings]})
    response.status_code = 201
    response.headers["Location"] = f"/api/v1/series/{series.id}"
    return response


@blueprint.get("/<id>")
def show(id: str) -> Response:
    """One series, by its id or that of one of its jobs."""
    return jsonify(_series(current_services().store.series.get(id)))


@blueprint.post("/<id>/cancel")
def cancel(id: str) -> Response:
    """Request the cancellation of the runs that have not ended; 409 if all have."""
    series = current_services().store.series
    cancel_series(series.get(id))
    response = jsonify(_series(series.get(id)))
    response.status_code = 202
    return response


def _error(field: str, message: str) -> PreflightFinding:
    return PreflightFinding(Severity.ERROR, field, message, "")


def _check_types(data: dict[str, Any]) -> list[PreflightFinding]:
    """What is missing, unknown, or of a wrong type."""
    errors = [
        _error("", f"There is no field {name[:40]!r}; the fields are {', '.join(FIELDS)}.")
        for name in data
        if name not in FIELDS
    ]
    if not isinstance(data.get("base"), str):
        errors.append(_error("base", "base: give the id of the job, or of its result, that is run again."))
    if not isinstance(data.get("other"), str | None):
        errors.append(_error("other", "other: give the id of a job or of its result, or leave it out."))
    if not isinstance(data.get("keep_base", False), bool):
        errors.append(_error("keep_base", "keep_base must be true or false."))
    if not isinstance(data.get("changes", {}), dict):
        errors.append(_error("changes", f"changes: give an object with any of {', '.join(OTHER_FIELDS)}."))
    for name in ("runs", "warm_ups"):
        if not isinstance(data.get(name, 1), int) or isinstance(data.get(name), bool):
            errors.append(_error(name, f"{name} must be a whole number."))
    return errors


def _change_settings(other: Job, changes: dict[str, Any]) -> tuple[JobForm, list[PreflightFinding]]:
    """(the settings of the other side, errors): those of its job, and fields of a job instead of some of them."""
    offered = [name for name in OTHER_FIELDS if name != "command" or has_command(other)]
    errors = [
        _error("changes", f"The other side cannot have another {name[:40]!r}, only {', '.join(offered)}.")
        for name in changes
        if name not in offered
    ]
    if errors or not changes:
        return to_form(other.job_spec), errors
    parsed = from_json(other.job_spec.to_json() | changes, list_targets())
    return to_form(parsed.spec or other.job_spec), [one for one in parsed.findings if one.level is Severity.ERROR]


def _series(series: RunSeries) -> dict[str, Any]:
    has_begun = any(job.started is not None or job.state.final for job in series.jobs)
    return {
        "id": series.id,
        "url": f"/jobs/{series.id}/series",
        "state": ENDED if series.is_over else RUNNING if has_begun else WAITING,
        "final": series.is_over,
        "cancel_requested": any(job.cancel_requested for job in series.jobs),
        "created_s": series.jobs[0].created,
        "ended_s": max(job.ended or job.created for job in series.jobs) if series.is_over else None,
        "base_result_id": series.base or None,
        "runs": [_run(job) for job in series.jobs],
        "results": {str(side): list(series.results(side)) for side in Side},
        "deleted_runs": [{"side": str(side), "run": run} for side, run in series.deleted_runs],
        "comparison": comparison_url(series) or None,
        "problem": describe_missing(series) or None,
    }


def _run(job: Job) -> dict[str, Any]:
    place = job.details.series
    assert place is not None
    return {
        "job_id": job.id,
        "side": str(place.side),
        "run": place.run or None,
        "warm_up": place.is_warm_up,
        "state": job.state.value,
        "started_s": job.started,
        "ended_s": job.ended,
        "reason": job.reason,
        "result_id": job.result_id if job.state is JobState.STORED else None,
    }
