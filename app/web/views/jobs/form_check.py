"""The check of a filled-in job form: its spec, its findings, and the command."""

import hashlib
from dataclasses import dataclass

from ....domain.jobs import JobSpec
from ....domain.targets import LOCAL, Target
from ....recording.fields.job_form import JobForm, parse
from ....recording.fields.preflight import (
    Groups,
    PreflightResult,
    check_job,
    credible_findings,
    spec_for_worker,
    with_form_fields,
)
from ....recording.recorders.preflight import PreflightFinding, Severity
from ...services import current_services
from .. import permission
from ..targets.checks import unaccepted_key_url
from .target_choice import SelectedTarget, list_targets

Lines = tuple[tuple[int, tuple[str, ...]], ...]
MAX_INDENT = 6
"""Maximum indentation of a line of a command."""


@dataclass(frozen=True)
class FormCheck:
    """The check of a filled-in form. command: what would be started, empty while there are errors.

    by_field: the findings at each field of the form; those under "" concern the complete form. groups: the events of
    each run of the command, if there are several.
    """

    spec: JobSpec | None
    findings: tuple[PreflightFinding, ...]
    command: str
    host: str
    note: str = ""
    groups: Groups = ()

    @property
    def by_field(self) -> dict[str, tuple[PreflightFinding, ...]]:
        return {name: tuple(f for f in self.findings if f.field == name) for name in {f.field for f in self.findings}}

    @property
    def has_errors(self) -> bool:
        """Whether there is an error."""
        return any(finding.level is Severity.ERROR for finding in self.findings)

    @property
    def has_warnings(self) -> str:
        """A mark of the warnings, empty without any: accepting them does not accept later ones."""
        texts = sorted(f"{f.field}\0{f.message}" for f in self.findings if f.level is Severity.WARNING)
        return hashlib.sha256("\0\0".join(texts).encode()).hexdigest()[:16] if texts else ""


def command_lines(command: str) -> Lines:
    """The lines of a command: indentation, and the parts between spaces, so that lines break only there."""
    lines = [(line, line.lstrip(" ")) for line in command.split("\n")] if command else []
    return tuple((min(MAX_INDENT, (len(line) - len(text)) // 2), tuple(text.split(" "))) for line, text in lines)


def check_form(fields: JobForm, selected_target: SelectedTarget, *, host_timeout_s: float | None) -> FormCheck:
    """All findings about the form; with `host_timeout_s`, also those of the machine's own worker."""
    parsed = parse(fields, list_targets())
    findings = parsed.findings
    findings += [
        PreflightFinding(Severity.WARNING, name, hint, "") for name, hints in parsed.hints.items() for hint in hints
    ]
    if parsed.spec is None or selected_target.target is None:
        return FormCheck(None, (*findings, *check_target(selected_target)), "", selected_target.host)
    return _run_check(parsed.spec, findings, selected_target, selected_target.target, host_timeout_s)


def check_spec(spec: JobSpec, selected_target: SelectedTarget, *, host_timeout_s: float | None) -> FormCheck:
    """The same for a description that came as JSON."""
    return _run_check(spec, [], selected_target, selected_target.target or Target(LOCAL), host_timeout_s)


def check_target(selected_target: SelectedTarget) -> tuple[PreflightFinding, ...]:
    """Findings about a target that do not depend on the job."""
    key = unaccepted_key_url(selected_target.name)
    if key is None:
        return ()
    advice = f"The job would fail. Compare and accept it on the page of “{selected_target.name}” under Targets first."
    return (PreflightFinding(Severity.WARNING, "target", f"The host key of {key.host} is not accepted yet.", advice),)


def _run_check(
    spec: JobSpec,
    preflight_findings: list[PreflightFinding],
    selected_target: SelectedTarget,
    target: Target,
    ask_within_s: float | None,
) -> FormCheck:
    preflight_findings += check_target(selected_target)
    if reason := permission.denied_reason(target):
        preflight_findings.append(PreflightFinding(Severity.ERROR, "target", reason, ""))
    elif spec.inputs and (reason := permission.denied_here_reason()):
        preflight_findings.append(
            PreflightFinding(Severity.ERROR, "inputs", f"Input files are read on the server's machine. {reason}", "")
        )
    judged = check_job(spec, target, selected_target.host_facts, selected_target.target_facts)
    preflight_findings += judged.findings
    if ask_within_s is not None and not permission.denied_reason(target):
        preflight_findings += _worker_findings(spec, target, judged, ask_within_s)
    return FormCheck(
        spec, with_form_fields(preflight_findings), judged.command, selected_target.host, judged.note, judged.groups
    )


def _worker_findings(
    spec: JobSpec, target: Target, preflight_result: PreflightResult, timeout_s: float
) -> list[PreflightFinding]:
    """The worker's findings about paths and command; a warning if it does not answer.

    Paths at another target are checked there, when the job starts.
    """
    queue = current_services().queue
    advice = "The job waits in the queue for a worker. Start one with “perfloom worker” or “perfloom serve”."
    if not target.is_local:
        if not queue.has_worker():
            return [PreflightFinding(Severity.WARNING, "", "No worker is running.", advice)]
        text = f"Command and paths are checked on “{target.name}” when the job starts."
        return [PreflightFinding(Severity.HINT, "", text, "")]
    answer = queue.check_job(spec_for_worker(spec, preflight_result).to_json() | permission.request_origin(), timeout_s)
    if answer is not None:
        return credible_findings(spec, target, answer)
    return [
        PreflightFinding(Severity.WARNING, "", "No worker is running, so command and paths are not checked.", advice)
    ]
