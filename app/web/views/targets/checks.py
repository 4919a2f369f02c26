"""Checks of a target from its page: request, progress, and prompts to the user.

The web process does not connect to targets: it stores a request in the database and notifies a worker.
"""

import hashlib
import time
from dataclasses import dataclass, replace

from flask import Blueprint, Response, flash, jsonify, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.errors import Conflict, InvalidRequest, NotFound, Prompt
from ....domain.jobs import JOB_FIELDS, Batch
from ....domain.targets import BatchState, SchedulerName, Target
from ....recording.fields import command_line
from ....recording.fields.models import find_problems
from ....recording.probe.check_messages import KIND, CheckRequest, CheckResult, HostKey, follow_up
from ....recording.probe.target_text import fingerprint
from ....store import Check, StoredTarget
from ...pages import target_url, with_query
from ...services import current_services
from .. import permission
from . import credentials

blueprint = Blueprint("target_checks", __name__)
LOST_AFTER_S = 600.0
"""A request without an answer for this long has expired."""
SILENT_AFTER_S = 90.0
"""A poll of a probe job without an answer for this long is requested again."""
MIN_POLL_S = 1.0
STATES = {
    BatchState.PENDING: "waits in the queue",
    BatchState.HELD: "is held in the queue",
    BatchState.RUNNING: "runs",
    BatchState.SUSPENDED: "is suspended",
    BatchState.UNKNOWN: "is in a state that the batch system does not report",
}


@dataclass(frozen=True)
class CheckView:
    """A check as its target's page shows it. id: of the latest request. url: of its page.

    phase: "asked" (no answer yet), "waiting" (for a probe job), "done" or "lost". text: one line on its progress.
    failure: why it failed. host_key, prompts: what the user has to accept or enter. can_cancel: whether there is a
    probe job to cancel. question: the request, to repeat it.
    """

    id: str
    url: str
    phase: str
    text: str
    failure: str = ""
    host_key: HostKey | None = None
    prompts: tuple[Prompt, ...] = ()
    can_cancel: bool = False
    question: CheckRequest | None = None
    has_workers: bool = True

    @property
    def final(self) -> bool:
        """Whether it is finished, or needs the user."""
        return self.phase in ("done", "lost")

    @property
    def version(self) -> str:
        """Changes when it should be redrawn."""
        words = repr((self.phase, self.text, self.failure, self.has_workers))
        return hashlib.sha256(words.encode()).hexdigest()[:12]

    @property
    def retry_fields(self) -> tuple[tuple[str, str], ...]:
        """The fields of the form that repeats the request, or continues with the existing probe job."""
        if self.question and self.question.job:
            return (("resume", self.id),)
        batch = self.question.batch if self.question else None
        if batch is None:
            return ()
        found = {
            "probe": "1",
            "queue": batch.queue,
            "project": batch.project,
            "arguments": command_line.join(batch.arguments),
        }
        return tuple((name, value) for name, value in found.items() if value)


@blueprint.post("/targets/<name>/check")
def check(name: str) -> AnyResponse:
    """Ask a worker to check a target. `probe`: with a probe job, with `queue`, `project` and `arguments`.

    Fields `secret:…` are encrypted for the workers immediately, only for this check.
    """
    target = current_services().store.targets.get(name).target
    permission.require_permission(target)
    question = _resume_check(name, request.form["resume"]) if request.form.get("resume") else None
    question = question or CheckRequest(name, _batch(target) if request.form.get("probe") else None)
    typed = [key.removeprefix(credentials.FIELD) for key in request.form if key.startswith(credentials.FIELD)]
    secrets = credentials.posted_secrets([Prompt(key, "") for key in typed[:20]], request.form)
    if secrets:
        credentials.seal_secrets(f"target:{name}", secrets)
    return redirect(_url(name, _ask(question).id), 303)


@blueprint.get("/targets/<name>/check/<id>")
def get_live_parts(name: str, id: str) -> Response:
    """The progress of a check: JSON with the part of the page that shows it."""
    found = load_check(name, id)
    if found is None:
        raise NotFound("This check has expired; check again.")
    html = render_template("targets/_check.html", url=target_url(name), check=found)
    return jsonify(id=found.id, url=found.url, final=found.final, mark=found.version, text=found.text, html=html)


@blueprint.post("/targets/<name>/accept")
def accept(name: str) -> AnyResponse:
    """Accept the key that a host showed in the check `check`. Only the key with the displayed `fingerprint`."""
    targets = current_services().store.targets
    target = targets.get(name).target
    answer = _answer(_check_of(name, request.form.get("check", "")))
    host_key = answer.host_key if answer else None
    if host_key is None or target.ssh is None:
        raise Conflict("No host key to accept. Check the target again.")
    if host_key.fingerprint != request.form.get("fingerprint") or fingerprint(host_key.line) != host_key.fingerprint:
        raise Conflict(
            "The host key has changed since it was shown. Check the target again, and compare the fingerprint."
        )
    keys = tuple(dict.fromkeys((*target.ssh.host_keys, host_key.line)))
    targets.save(replace(target, ssh=replace(target.ssh, host_keys=keys)))
    flash(f"Accepted the host key of {host_key.host}: {host_key.fingerprint}.", "good")
    return redirect(_url(name, _ask(CheckRequest(name)).id), 303)


@blueprint.post("/targets/<name>/close")
def close(name: str) -> AnyResponse:
    """Make the worker close its connections to a target."""
    current_services().store.targets.get(name)
    _ask(CheckRequest(name, close=True))
    flash("A worker will close the connection shortly. The next job asks for the password.", "good")
    return redirect(target_url(name), 303)


@blueprint.post("/targets/<name>/forget-key")
def forget_key(name: str) -> AnyResponse:
    """Revoke the acceptance of the key with this `fingerprint`."""
    targets = current_services().store.targets
    target = targets.get(name).target
    wanted = request.form.get("fingerprint", "")
    if target.ssh is None or not wanted:
        raise Conflict("No such host key. Reload the page.")
    keys = tuple(line for line in target.ssh.host_keys if fingerprint(line) != wanted)
    targets.save(replace(target, ssh=replace(target.ssh, host_keys=keys)))
    flash("Removed the host key.", "good")
    return redirect(target_url(name), 303)


@blueprint.post("/targets/<name>/check/<id>/cancel")
def cancel(name: str, id: str) -> AnyResponse:
    """End the probe job of a check."""
    following = _resume_check(name, id)
    if following is None:
        return redirect(_url(name, id), 303)
    return redirect(_url(name, _ask(replace(following, cancel=True)).id), 303)


def load_check(name: str, id: str) -> CheckView | None:
    """A check of this target for its page. If it waits for a probe job that was not polled for some seconds, a poll is
    requested. None for an unknown or expired check."""
    if not id:
        return None
    store = current_services().store
    try:
        asked = _check_of(name, id)
        target = store.targets.get(name).target
    except (NotFound, InvalidRequest):
        return None
    answer = _answer(asked)
    question = CheckRequest.from_json(asked.question)
    now = time.time()
    if answer is not None and not answer.done and (following := follow_up(question, answer)) is not None:
        if now - asked.created >= max(MIN_POLL_S, target.poll_s):
            asked, question = _ask(following), following
        return _waiting(name, asked, question, answer)
    if answer is None and question.job is not None:
        if now - asked.created > SILENT_AFTER_S:
            # Its message was lost, or its worker was killed.
            asked = _ask(question)
        return _waiting(name, asked, question, CheckResult(job=question.job))
    if answer is None:
        if now - asked.created > LOST_AFTER_S:
            text = "No worker answered. Make sure that one is running, then check again."
            return CheckView(asked.id, _url(name, asked.id), "lost", text, question=question)
        workers = bool(store.hosts.list_alive())
        return CheckView(
            asked.id,
            _url(name, asked.id),
            "asked",
            "A worker is checking the target.",
            question=question,
            has_workers=workers,
        )
    text = "The check failed." if answer.trouble else "The check is done."
    return CheckView(
        id=asked.id,
        url=_url(name, asked.id),
        phase="done",
        text=text,
        failure=answer.trouble,
        host_key=answer.host_key,
        prompts=answer.prompts,
        question=question,
        has_workers=bool(credentials.sealing_workers()) if answer.prompts else True,
    )


def find_pending_key(stored_target: StoredTarget) -> CheckView | None:
    """The last check of a target if it ended at an unknown host key that is still not accepted, else None."""
    ssh = stored_target.target.ssh
    latest = current_services().store.checks.latest(KIND, stored_target.name) if ssh is not None else None
    if latest is None or ssh is None:
        return None
    if stored_target.facts is not None and stored_target.facts.host.checked_at > latest.created:
        # A connection succeeded since: by a shell command or a job.
        return None
    found = load_check(stored_target.name, latest.id)
    key = found.host_key if found else None
    return found if key is not None and key.line not in ssh.host_keys else None


def unaccepted_key_url(name: str) -> HostKey | None:
    """The key that the user has to accept on the page of this target before anything runs there, else None."""
    stored = current_services().store.targets.find(name)
    pending_key = find_pending_key(stored) if stored is not None else None
    return pending_key.host_key if pending_key is not None else None


def request_check(name: str) -> str:
    """Ask a worker to check a target; returns the URL of the page with its progress. If programs must not be
    started on its machine, the page reports this."""
    if reason := permission.denied_reason(current_services().store.targets.get(name).target):
        flash(f"The target was not checked. {reason}", "bad")
        return target_url(name)
    return _url(name, _ask(CheckRequest(name)).id)


def _waiting(name: str, asked: Check, question: CheckRequest, answer: CheckResult) -> CheckView:
    job = answer.job
    assert job is not None
    text = f"The probe job {job.id} {STATES.get(job.state, 'has ended; waiting for its results')}"
    if job.position is not None and job.state is BatchState.PENDING:
        text += f", {job.position} ahead" if job.position else ", next in the queue"
    if job.reason:
        text += f": {job.reason}"
    return CheckView(
        id=asked.id,
        url=_url(name, asked.id),
        phase="waiting",
        text=text.rstrip(".") + ".",
        can_cancel=not question.cancel,
        question=question,
    )


def _check_of(name: str, id: str) -> Check:
    """A check of this target. Raises NotFound."""
    found = current_services().store.checks.get(id)
    if found.question.get("kind") != KIND or found.question.get("target") != name:
        raise NotFound("This check has expired; check again.")
    return found


def _answer(asked: Check) -> CheckResult | None:
    return None if asked.answer is None else CheckResult.from_json(asked.answer)


def _resume_check(name: str, id: str) -> CheckRequest | None:
    """The status of the probe job of a check, None without one."""
    asked = _check_of(name, id)
    answer = _answer(asked)
    return follow_up(CheckRequest.from_json(asked.question), answer) if answer else None


def _ask(question: CheckRequest) -> Check:
    found = current_services().store.checks.ask(question.to_json() | permission.request_origin())
    current_services().queue.enqueue_target_check(found.id)
    return found


def _url(name: str, id: str) -> str:
    return with_query(target_url(name), [("check", id)])


def _batch(target: Target) -> Batch:
    """The batch request of the probe job."""
    if target.scheduler is SchedulerName.NONE:
        raise InvalidRequest("This target has no batch system to submit a probe job to.", "probe")
    values = {word: request.form.get(word, "").strip() for word in ("queue", "project", "arguments")}
    arguments = command_line.split(values["arguments"]).argv if values["arguments"] else ()
    batch = Batch(queue=values["queue"], project=values["project"], arguments=arguments)
    fields = [field for field in JOB_FIELDS.values() if field.part == "batch"]
    problems = find_problems({field.name: getattr(batch, field.attribute) for field in fields}, JOB_FIELDS)
    for name, message in problems.items():
        raise InvalidRequest(message, name)
    return batch
