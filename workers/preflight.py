"""The preflight of `perfloom record`: the findings of the form's page, printed before a job is queued."""

import os
from collections.abc import Callable

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.jobs import JobSpec
from perfloom.recording.fields.preflight import check_job, credible_findings, spec_for_worker, with_form_fields
from perfloom.recording.recorders.preflight import PreflightFinding, Severity
from perfloom.store import StoredTarget

from .base.context import JobContext
from .local import checks

FindingCallback = Callable[[PreflightFinding], None]


def find_problems(context: JobContext, spec: JobSpec, stored_target: StoredTarget) -> tuple[PreflightFinding, ...]:
    """All findings about a job for a target, errors first. For another machine only the facts of its last check are
    used; command and paths are checked there when the job starts."""
    target = stored_target.target
    if not target.is_local:
        return with_form_fields(
            check_job(
                spec, target, stored_target.facts.recording_host if stored_target.facts else None, stored_target.facts
            ).findings
        )
    facts = context.facts()
    judged = check_job(spec, target, facts, stored_target.facts)
    environment = {**os.environ, **spec.environment}
    here = checks.check_job(spec_for_worker(spec, judged), facts, context.settings, environment)
    return with_form_fields([*judged.findings, *credible_findings(spec, target, here)])


def raise_for_errors(context: JobContext, spec: JobSpec, stored_target: StoredTarget, say: FindingCallback) -> None:
    """Raise InvalidRequest, with the form's name of the field, if there is an error. say: gets the warnings and
    hints."""
    problems = find_problems(context, spec, stored_target)
    for finding in problems:
        if finding.level is Severity.ERROR:
            raise InvalidRequest(f"{finding.message} {finding.advice}".strip(), finding.field)
    for finding in problems:
        if finding.level is not Severity.ERROR:
            say(finding)
