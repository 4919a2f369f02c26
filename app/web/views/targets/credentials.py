"""Secrets that a target requires: entered by a user, encrypted to the workers' keys, and never stored in plaintext.

Only those workers, while they run, can decrypt them (app/sealing.py). Neither a form, a preset, a log
nor a broker contains any of it.
"""

from collections.abc import Mapping, Sequence

from flask import Blueprint, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.errors import PASSWORD, Conflict, InvalidRequest, Prompt, Unavailable
from ....domain.targets import Target
from ....store import Host
from ....worker_secrets import secret_recipients as workers_of
from ....worker_secrets import send_secrets
from ...services import current_services

blueprint = Blueprint("credentials", __name__)
FIELD = "secret:"
"""The prefix of the names of form fields of secrets."""
MAX_SECRET_CHARACTERS = 10_000
NO_WORKER_TEXT = (
    "No worker is running that the password could be encrypted for, so it was not stored.",
    "Start one with “perfloom worker” or “perfloom serve”, then type the password again, or leave it empty.",
)
"""The error message without a worker."""


def secret_prompts(target: Target | None) -> tuple[Prompt, ...]:
    """The secrets that the form requests if the target requires them."""
    if target is None or target.ssh is None or not target.ssh.password:
        return ()
    host = f"{target.ssh.user}@{target.ssh.host}" if target.ssh.user else target.ssh.host
    return (Prompt(PASSWORD, f"Password of {host}"),)


def posted_secrets(prompts: Sequence[Prompt], form: Mapping[str, str]) -> dict[str, str]:
    """The secrets in a posted form, by name; without empty ones."""
    found = {prompt.name: form.get(FIELD + prompt.name, "") for prompt in prompts}
    if any(len(value) > MAX_SECRET_CHARACTERS or "\0" in value for value in found.values()):
        raise InvalidRequest("Invalid password: it is too long, or contains a zero byte. Type it again.")
    return {name: value for name, value in found.items() if value}


def sealing_workers() -> tuple[Host, ...]:
    """The workers for which secrets can be encrypted now."""
    return workers_of(current_services().store)


def seal_secrets(subject: str, secrets: Mapping[str, str]) -> None:
    """Encrypt `secrets` for "job:<id>" or "target:<name>" to each running worker. Raises Unavailable without one."""
    if not send_secrets(current_services().store, subject, secrets):
        raise Unavailable(" ".join(NO_WORKER_TEXT))


@blueprint.post("/jobs/<id>/credentials")
def give(id: str) -> AnyResponse:
    """Receive secrets that a job waits for."""
    job = current_services().store.jobs.get(id)
    if job.state.final:
        raise Conflict("This job has already ended and needs no password.")
    prompts = job.details.needed_secrets
    if not prompts:
        # Entered twice, or on another page meanwhile.
        return redirect(f"/jobs/{id}", 303)
    secrets = posted_secrets(prompts, request.form)
    missing = [prompt.text for prompt in prompts if prompt.name not in secrets]
    if missing:
        raise InvalidRequest(f"Nothing was typed for: {missing[0]}. Go back and type it.")
    seal_secrets(f"job:{id}", secrets)
    current_services().queue.enqueue(job)
    return redirect(f"/jobs/{id}", 303)
