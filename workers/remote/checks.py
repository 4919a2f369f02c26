"""Checks of targets: connect, probe the host, and with a batch system submit a probe job for a compute node."""

import logging
import time
from dataclasses import replace

from perfloom.domain.errors import (
    HostKeyUnknown,
    InvalidRequest,
    NotFound,
    PerfloomError,
    SecretNeeded,
    Unavailable,
    Unreachable,
)
from perfloom.domain.isolation import ProtectedServer
from perfloom.domain.jobs import Batch, JobSpec
from perfloom.domain.targets import BatchState, BatchStatus, SchedulerName, Target, TargetFacts
from perfloom.recording.plan.target_environment import in_target_environment
from perfloom.recording.probe.check_messages import KIND, CheckRequest, CheckResult, ProbeJob
from perfloom.recording.probe.check_report import check_lines, failure_lines
from perfloom.recording.probe.probe import (
    CLOCK_SCRIPT,
    ClockReading,
    parse_probe,
    probe_script,
    read_clock,
    with_compute_node,
    with_previous_probe,
)
from perfloom.recording.quoting import quote
from perfloom.recording.schedulers import Scheduler, scheduler_of
from perfloom.store import Store
from perfloom.store.ids import new_id

from ..base.scripts import worker_script
from ..targets import job_user
from ..targets.secrets import secrets_for
from ..transports import SecretProvider, Transport, close_owned, close_target, open_transport

PROBE_TIMEOUT_S = 180.0
"""How long a probe may take: modules of a slow network, a perf that is started for the first time."""
CLOCK_READINGS = 4
WALL_TIME_S = 600
ANSWER_LATE_S = 60.0
"""How long after its end a probe job's answer may take to be visible: network file systems cache absent files."""
NOT_SHARED = 77
"""The exit status of a probe job that does not see its directory."""
GONE = 78
PREFIX = "check-"

log = logging.getLogger(__name__)


def answer_check(store: Store, check_id: str) -> None:
    """Answer a check of the database, once. Does nothing if it was answered or deleted."""
    try:
        asked = store.checks.get(check_id)
    except NotFound:
        return
    if asked.answer is not None:
        return
    question = CheckRequest.from_json(asked.question)
    try:
        server = ProtectedServer.from_request(asked.question.get("server"))
        result = run_check(store, question, secrets_for(store, question.target), server)
    except PerfloomError as error:
        # A probe job continues while a user types a secret.
        result = replace(CheckResult.failed(error), job=question.job if isinstance(error, SecretNeeded) else None)
    except Exception:
        # A page waits for the answer, also after an error here.
        log.exception("the check of the target %r failed", question.target)
        result = CheckResult("The check failed because of a bug in Perfloom. See the worker's log.")
    store.checks.answer(check_id, result.to_json())
    if result.done and not result.prompts:
        # Typed secrets are for this check only.
        store.credentials.delete(_owner(question.target))
        close_owned(_owner(question.target))


def _owner(target: str) -> str:
    return f"target:{target}"


def run_check(
    store: Store, question: CheckRequest, secrets: SecretProvider, server: ProtectedServer | None = None
) -> CheckResult:
    """Run a check, store its facts, and return what remains to be done. server: see `job_user.refusal`. Raises
    PerfloomError."""
    stored = store.targets.get(question.target)
    target = stored.target
    if question.close:
        close_target(target)
        return CheckResult()
    if target.ssh is None:
        job_user.require_allowed(store.settings, server)
    if question.job is not None:
        with open_transport(target, secrets, store.settings.run_as, _owner(target.name)) as transport:
            if question.cancel:
                return _cancel(store, transport, target, question.job)
            return _poll_probe(store, transport, target, question.job)
    try:
        with open_transport(target, secrets, store.settings.run_as, _owner(target.name)) as transport:
            facts = with_previous_probe(probe(transport, target), stored.facts)
            if question.batch is None or target.scheduler is SchedulerName.NONE:
                _note(store, target, facts)
                return CheckResult()
            return _begin(store, transport, target, facts, question.batch)
    except SecretNeeded:
        raise
    except PerfloomError as error:
        store.targets.save_check(target.name, None, failure_lines(target, error))
        raise


def save_unknown_key(store: Store, name: str, error: HostKeyUnknown) -> None:
    """Store a key that no user has accepted yet, as a check from the page does, so that it can be accepted there."""
    stored, answer = store.targets.find(name), CheckResult.failed(error)
    if stored is None:
        return
    latest = store.checks.latest(KIND, name)
    if latest is None or CheckResult.from_json(latest.answer or {}) != answer:
        store.checks.answer(store.checks.ask(CheckRequest(name).to_json()).id, answer.to_json())
        store.targets.save_check(name, None, failure_lines(stored.target, error))


def probe(transport: Transport, target: Target) -> TargetFacts:
    """The facts of a target. Raises Unreachable, Refused and its kinds, or Unavailable."""
    clocks = read_clocks(transport)
    done = transport.run(probe_script(target), timeout_s=PROBE_TIMEOUT_S)
    if not done.stdout.strip() and done.stderr.strip():
        raise Unavailable(f"The probe did not run at {transport.title}: {' '.join(done.errors.split())[:400]}")
    return parse_probe(done.text, target, time.time(), clocks)


def read_clocks(transport: Transport) -> tuple[ClockReading, ...]:
    """Readings of the clock of a target. The first one may include connecting."""
    looks = []
    for _ in range(CLOCK_READINGS):
        before = time.time_ns()
        done = transport.run(CLOCK_SCRIPT)
        look = read_clock(before, done.text, time.time_ns())
        if look is None:
            break
        looks.append(look)
    return tuple(looks)


def _note(store: Store, target: Target, facts: TargetFacts) -> None:
    store.targets.save_check(target.name, facts, check_lines(target, facts))


def _adapter(target: Target) -> Scheduler:
    scheduler = scheduler_of(target.scheduler)
    if scheduler is None:
        raise InvalidRequest(f"The target {target.name} has no batch system, or no longer. Check it again.")
    return scheduler


def _begin(store: Store, transport: Transport, target: Target, facts: TargetFacts, batch: Batch) -> CheckResult:
    """Submit a probe job. If that fails, the other facts of the check are still valid."""
    adapter = _adapter(target)
    try:
        if not facts.directory or "directory" in facts.problems:
            raise Unavailable("A probe job needs the job directory, which cannot be used.")
        id = new_id()
        directory = f"{facts.directory}/{PREFIX}{id}"
        _run(transport, _create_script(facts.directory, directory), probe_script(target, compute=True).encode())
        spec = JobSpec(
            name="probe",
            target=target.name,
            command=("true",),
            batch=replace(batch, wall_time_s=batch.wall_time_s or WALL_TIME_S),
        )
        script = ("/bin/sh", "-c", worker_script("remote/probe_job.sh"), "sh", directory, str(NOT_SHARED))
        try:
            argv = adapter.submit_command(spec, f"perfloom-{PREFIX}{id}", script, f"{directory}/log")
            done = transport.run(f"cd {quote(directory)} || exit 1\n{in_target_environment(target, argv)}")
            native = adapter.parse_submit_output(*done.output)
        except PerfloomError:
            _remove(transport, directory)
            raise
    except (InvalidRequest, Unavailable) as error:
        _note(store, target, with_problem(facts, error.message))
        return CheckResult(f"The probe job could not be submitted. {error.message}")
    _note(store, target, facts)
    return CheckResult(job=ProbeJob(native, directory, time.time()))


def with_problem(facts: TargetFacts, text: str) -> TargetFacts:
    """The facts if no compute node could be probed."""
    return replace(facts, problems=facts.problems | {"compute": text})


def _create_script(parent: str, directory: str) -> str:
    """sh: remove what a day-old check left, and write the probe for a new one from standard input."""
    variables = {"parent": parent, "prefix": PREFIX, "directory": directory}
    lines = [f"{name}={quote(value)}" for name, value in variables.items()]
    return "\n".join([*lines, worker_script("remote/create_probe_job.sh")])


def _run(transport: Transport, script: str, input: bytes = b"") -> str:
    done = transport.run(script, input=input)
    if done.status != 0:
        raise Unavailable(f"It failed at {transport.title}: {' '.join(done.errors.split())[:400] or 'no message'}")
    return done.text


def _poll_probe(store: Store, transport: Transport, target: Target, job: ProbeJob) -> CheckResult:
    """Whether a probe job has answered, or its state."""
    try:
        done = transport.run(f"cd {quote(_own(job))} || exit {GONE}; ls >/dev/null; cat answer")
        if done.status == 0:
            seen = parse_probe(done.text, target, time.time())
            return _finish(store, transport, target, job, seen)
        if done.status == GONE:
            return _seen_by_another(store, target, job)
        status = _status(transport, target, job)
    except Unreachable as error:
        # It continues without this check.
        return CheckResult(job=replace(job, reason=error.message))
    if not (status.state.final or status.state is BatchState.GONE):
        return CheckResult(job=_with(job, status))
    job = replace(_with(job, status), ended=job.ended or time.time())
    assert job.ended is not None
    if status.exit_status == NOT_SHARED:
        return _finish(store, transport, target, job, None)
    if time.time() - job.ended < ANSWER_LATE_S and status.state in (BatchState.DONE, BatchState.GONE):
        return CheckResult(job=job)
    why = status.reason or status.native or str(status.state)
    code = f" with exit status {status.exit_status}" if status.exit_status else ""
    text = f"The probe job {job.id} ended{code} without a result: {why}."
    _give_up(store, transport, target, job, text)
    return CheckResult(text)


def _status(transport: Transport, target: Target, job: ProbeJob) -> BatchStatus:
    adapter = _adapter(target)
    done = transport.run(in_target_environment(target, adapter.status_command((job.id,))))
    status = adapter.parse_status_output((job.id,), *done.output)[job.id]
    has_ended = status.exit_status is not None or status.state is BatchState.DONE
    if has_ended or not (status.state.final or status.state is BatchState.GONE):
        return status
    done = transport.run(in_target_environment(target, adapter.history_command(job.id)))
    back = adapter.parse_history_output(job.id, *done.output)
    return back if back.state.final else status


def _with(job: ProbeJob, status: BatchStatus) -> ProbeJob:
    return replace(
        job, state=status.state, native=status.native, reason=status.reason, position=status.position, ended=job.ended
    )


def _finish(store: Store, transport: Transport, target: Target, job: ProbeJob, seen: TargetFacts | None) -> CheckResult:
    facts = store.targets.get(target.name).facts
    if facts is not None:
        _note(store, target, with_compute_node(facts, seen, shared=seen is not None))
    _remove(transport, _own(job))
    return CheckResult()


def _seen_by_another(store: Store, target: Target, job: ProbeJob) -> CheckResult:
    """Its directory does not exist (any more): another request of the same page got the answer."""
    facts = store.targets.get(target.name).facts
    answered = facts is not None and (facts.shared is False or facts.compute is not None or "compute" in facts.problems)
    return (
        CheckResult()
        if answered
        else CheckResult(f"The directory of the probe job {job.id} no longer exists. Check again.")
    )


def _give_up(store: Store, transport: Transport, target: Target, job: ProbeJob, text: str) -> None:
    facts = store.targets.get(target.name).facts
    if facts is not None:
        _note(store, target, with_problem(facts, text))
    _remove(transport, _own(job))


def _cancel(store: Store, transport: Transport, target: Target, job: ProbeJob) -> CheckResult:
    transport.run(in_target_environment(target, _adapter(target).cancel_command((job.id,), gently=False)))
    _give_up(store, transport, target, job, "The probe job was cancelled.")
    return CheckResult("The probe job was cancelled.")


def _own(job: ProbeJob) -> str:
    """The directory of a probe job. Raises InvalidRequest for one that Perfloom did not create."""
    name = job.directory.rpartition("/")[2]
    if not (job.directory.startswith("/") and name.startswith(PREFIX) and name[len(PREFIX) :].isalnum()):
        raise InvalidRequest("This is not the directory of a probe job. Check the target again.")
    return job.directory


def _remove(transport: Transport, directory: str) -> None:
    try:
        transport.run(f"rm -rf -- {quote(directory)}")
    except PerfloomError as error:
        log.warning("a probe could not remove %s at %s: %s", directory, transport.title, error.message)
