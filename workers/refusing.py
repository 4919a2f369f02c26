"""The preflight of `perfloom record`: what the form's page says of a job, said before it is queued."""

import os
from collections.abc import Callable

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.jobs import JobSpec
from perfloom.recording.fields.judge import answered, as_asked, at_fields, judge
from perfloom.recording.recorders.preflight import Finding, Level
from perfloom.store import StoredTarget
from perfloom.workers.local import checks
from perfloom.workers.road import Road

Say = Callable[[Finding], None]


def findings(road: Road, spec: JobSpec, stored: StoredTarget) -> tuple[Finding, ...]:
    """Everything that can be said of a job for a target, errors first. Of another machine only what its last check
    found is known; command and paths are looked at there when the job starts."""
    target = stored.target
    if not target.here:
        return at_fields(judge(spec, target, stored.facts.recording if stored.facts else None, stored.facts).findings)
    facts = road.facts()
    judged = judge(spec, target, facts, stored.facts)
    environment = {**os.environ, **spec.environment}
    here = checks.check(as_asked(spec, judged), facts, road.settings, environment)
    return at_fields([*judged.findings, *answered(spec, target, here)])


def refuse(road: Road, spec: JobSpec, stored: StoredTarget, say: Say) -> None:
    """Raise InvalidRequest, with the form's name of the field, where an error stands in the way of a job. say: is told
    the warnings."""
    found = findings(road, spec, stored)
    for finding in found:
        if finding.level is Level.ERROR:
            raise InvalidRequest(f"{finding.message} {finding.advice}".strip(), finding.field)
    for finding in found:
        if finding.level is Level.WARNING:
            say(finding)
