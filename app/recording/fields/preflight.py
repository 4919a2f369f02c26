"""The problems of a job before it is queued, and its command: one preflight for form, API and command line.
`perfloom.workers.local.checks` makes the checks that need the host. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ...domain.errors import InvalidRequest
from ...domain.host_facts import HostFacts
from ...domain.jobs import Executor, JobSpec
from ...domain.targets import Target, TargetFacts
from ..plan import command_line
from ..plan.plan import choose_executor, preview, recording_host, require_plannable
from ..plan.runs import plan_runs, with_run_number
from ..recorders.preflight import PreflightFinding, Severity, preflight
from .relevance import get_form_field
from .target_preflight import check_at_target

Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class PreflightResult:
    """findings: of the preflight. command: what would be started, "" if unknown. groups: the events of each run if
    there are several. note: which part of the command is still unknown."""

    findings: tuple[PreflightFinding, ...]
    command: str = ""
    note: str = ""
    groups: Groups = ()


def check_job(spec: JobSpec, target: Target, recording: HostFacts | None, facts: TargetFacts | None) -> PreflightResult:
    """Findings without a check on the host. recording: facts of the host where perf runs; facts: of the target's last
    check; null if unknown."""
    found = [*preflight(spec, recording), *check_at_target(spec, target, facts)]
    try:
        command, groups, note = _compose(spec, target, recording, facts)
    except InvalidRequest as error:
        return PreflightResult((*found, PreflightFinding(Severity.ERROR, error.field or "", error.message, "")))
    return PreflightResult(tuple(found), command, note, groups)


def with_form_fields(findings: Iterable[PreflightFinding]) -> tuple[PreflightFinding, ...]:
    """Findings with form field names, without duplicates, errors first."""
    order = list(Severity)
    named = dict.fromkeys(replace(finding, field=get_form_field(finding.field)) for finding in findings)
    return tuple(sorted(named, key=lambda finding: order.index(finding.level)))


def spec_for_worker(spec: JobSpec, preflight_result: PreflightResult) -> JobSpec:
    """The job for a check on its host. If there are several runs, with the number of the first."""
    if len(preflight_result.groups) < 2:
        return spec
    command, inputs = (tuple(with_run_number(text, 0) for text in texts) for texts in (spec.command, spec.inputs))
    return replace(spec, command=command, inputs=inputs)


def credible_findings(spec: JobSpec, target: Target, findings: Iterable[PreflightFinding]) -> list[PreflightFinding]:
    """The reliable findings of its host: the path of a program is unknown before modules are loaded."""
    modules = spec.modules or target.modules
    return [
        finding for finding in findings if not (modules and finding.field == "command" and "/" not in spec.command[0])
    ]


def _compose(
    spec: JobSpec, target: Target, recording: HostFacts | None, facts: TargetFacts | None
) -> tuple[str, Groups, str]:
    if choose_executor(spec, target) is Executor.SUPERVISOR:
        return command_line(spec, recording), (), "The recording's directory is still a placeholder."
    require_plannable(spec, target)
    facts = facts or (TargetFacts(recording) if recording else None)
    found = plan_runs(spec, target, recording_host(target, facts))
    recorded = [run.events for run in found if run.recorded]
    groups = tuple(recorded) if len(recorded) > 1 else ()
    return preview(spec, target, facts), groups, "The job's directory at the target is still a placeholder."
