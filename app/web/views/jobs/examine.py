"""A filled-in job form, examined: what it means, what speaks against it, and the command it composes."""

import hashlib
from dataclasses import dataclass

from ....domain.jobs import JobSpec
from ....domain.targets import LOCAL, Target
from ....recording.fields.job import JobFields, parse
from ....recording.fields.judge import Groups, Judged, answered, as_asked, at_fields, judge
from ....recording.recorders.preflight import Finding, Level
from ...services import services
from ..targets.checks import unaccepted
from . import boundary
from .places import Place, targets

Lines = tuple[tuple[int, tuple[str, ...]], ...]
DEEPEST = 6
"""How far in a line of a command is shown at most."""


@dataclass(frozen=True)
class Examined:
    """What can be said about a filled-in form. command: what would be started, empty while errors stand.

    by_field: the findings at each field of the form; those under "" concern the whole. groups: the events of each run
    of the command, where there are several.
    """

    spec: JobSpec | None
    findings: tuple[Finding, ...]
    command: str
    host: str
    note: str = ""
    groups: Groups = ()

    @property
    def by_field(self) -> dict[str, tuple[Finding, ...]]:
        return {name: tuple(f for f in self.findings if f.field == name) for name in {f.field for f in self.findings}}

    @property
    def blocked(self) -> bool:
        """Whether an error stands in the way."""
        return any(finding.level is Level.ERROR for finding in self.findings)

    @property
    def warned(self) -> str:
        """A mark of the warnings, empty without one: who accepts them accepts these and no later ones."""
        texts = sorted(f"{f.field}\0{f.message}" for f in self.findings if f.level is Level.WARNING)
        return hashlib.sha256("\0\0".join(texts).encode()).hexdigest()[:16] if texts else ""


def lines_of(command: str) -> Lines:
    """The lines of a command: how far in each stands, and what is between its blanks, so that it is broken there rather
    than behind a hyphen."""
    lines = [(line, line.lstrip(" ")) for line in command.split("\n")] if command else []
    return tuple((min(DEEPEST, (len(line) - len(text)) // 2), tuple(text.split(" "))) for line, text in lines)


def examine(typed: JobFields, place: Place, *, ask_within_s: float | None) -> Examined:
    """Everything that can be said about the form; with `ask_within_s`, the machine's own worker is asked too."""
    parsed = parse(typed, targets())
    found = parsed.faults
    found += [Finding(Level.WARNING, name, hint, "") for name, hints in parsed.hints.items() for hint in hints]
    if parsed.spec is None or place.target is None:
        return Examined(None, (*found, *at_place(place)), "", place.host)
    return _judged(parsed.spec, found, place, place.target, ask_within_s)


def examine_spec(spec: JobSpec, place: Place, *, ask_within_s: float | None) -> Examined:
    """The same for a description that came as JSON."""
    return _judged(spec, [], place, place.target or Target(LOCAL), ask_within_s)


def at_place(place: Place) -> tuple[Finding, ...]:
    """What can be said of a target whatever is to run there."""
    key = unaccepted(place.name)
    if key is None:
        return ()
    advice = f"The job would fail. Compare and accept it on the page of “{place.name}” under Targets first."
    return (Finding(Level.WARNING, "target", f"Nobody has accepted the key of {key.host} yet.", advice),)


def _judged(spec: JobSpec, found: list[Finding], place: Place, target: Target, ask_within_s: float | None) -> Examined:
    found += at_place(place)
    if reason := boundary.refusal(target):
        found.append(Finding(Level.ERROR, "target", reason, ""))
    elif spec.inputs and (reason := boundary.refusal_here()):
        found.append(Finding(Level.ERROR, "inputs", f"Input files are read on the server's machine. {reason}", ""))
    judged = judge(spec, target, place.recording, place.facts)
    found += judged.findings
    if ask_within_s is not None and not boundary.refusal(target):
        found += _asked(spec, target, judged, ask_within_s)
    return Examined(spec, at_fields(found), judged.command, place.host, judged.note, judged.groups)


def _asked(spec: JobSpec, target: Target, judged: Judged, timeout_s: float) -> list[Finding]:
    """What the worker says about paths and command; that it says nothing is a warning.

    What lies at another place is looked at there, when the job starts.
    """
    queue = services().queue
    advice = "The job waits in the queue until one does: start it with “perfloom worker”, or “perfloom serve”."
    if not target.here:
        if not queue.worker_there():
            return [Finding(Level.WARNING, "", "No worker answers now.", advice)]
        text = f"Command and paths are looked at on “{target.name}” when the job starts there."
        return [Finding(Level.HINT, "", text, "")]
    answer = queue.check(as_asked(spec, judged).to_json() | boundary.origin(), timeout_s)
    if answer is not None:
        return answered(spec, target, answer)
    return [Finding(Level.WARNING, "", "No worker answers now, so command and paths are not checked.", advice)]
