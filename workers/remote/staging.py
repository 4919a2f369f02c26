"""Staging: copy the job to its target and start it there, each of its submissions at most once.

Everything before the first submission may be done again. Before a submission is started, the job's row says that it is
about to be (`begun`), and from then on the job is never given up for an error of the connection; the script that starts
it does so once, however often it is run, and prints its id each time.
"""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from perfloom.domain.errors import InvalidRequest, Unreachable
from perfloom.domain.jobs import JobSpec, JobState, Outcome
from perfloom.domain.targets import Target, TargetFacts
from perfloom.recording.plan import plan as plans
from perfloom.recording.plan.submission import DEFAULT_DIRECTORY, job_name, resolve_directory_script
from perfloom.recording.quoting import quote
from perfloom.recording.recorders import artifact_patterns
from perfloom.recording.schedulers import scheduler_of
from perfloom.store.files.disk import disk_errors
from perfloom.store.jobs import Job
from perfloom.store.targets import StoredTarget

from ..base.context import JobContext, StepInterrupted, make_reporter
from ..base.jobfiles import JobFiles, delete_environment, job_environment
from ..base.json_files import write_json
from ..jobs import inputs
from ..read.rank_folders import PLAN
from ..targets import batch, job_user
from ..targets.access import open_target, staging_slot
from ..transports import FileCopy, Transport
from ..transports.as_user import UserTransport
from . import cancellation
from .symbol_tables import open_target_symbols
from .target_facts import get_target_facts

PLAN_FOLDER = "plan"
"""In the job's directory here: the files that are copied to the target."""
START_TIMEOUT_S = 120.0
"""How long starting may take: a busy batch system answers slowly."""
UNANSWERED_TIMEOUT_S = 60.0
"""How long a submission without an answer is searched before it is repeated."""
FIRST_POLL_S = 0.2
FIRST_BATCH_POLL_S = 1.0

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def stage(context: JobContext, job: Job, files: JobFiles) -> None:
    """Copy a claimed job to its target and start it, or continue an interrupted attempt."""
    target = context.store.targets.get(job.target)
    if job.details.begun:
        job = cancellation.count_request(context, job)
    elif job.cancel_requested:
        raise StepInterrupted
    with staging_slot(), open_target(context, target.target, [job]) as transport:
        if not job.details.begun:
            job = _create_directory(context, job, files, target, transport)
        _start_all(context, job, files, target.target, transport)


def _create_directory(
    context: JobContext, job: Job, files: JobFiles, stored_target: StoredTarget, transport: Transport
) -> Job:
    """Create the job's directory at the target, with all its files."""
    report = make_reporter(context, job)
    files.prepare()
    directory = job.details.directory or _resolve_directory(transport, stored_target.target, job.id)
    spec = job.job_spec
    facts = get_target_facts(context, stored_target, transport)
    symbols = open_target_symbols(context.settings.data, stored_target.target)
    known_tables = symbols.list_names() if symbols else ()
    plan = plans.make_plan(spec, stored_target.target, facts, job.id, directory, known_tables)
    paths = inputs.input_files(spec.inputs, len(plan.groups))
    if paths and (why := job_user.refusal(context.settings, job.details.server)):
        raise InvalidRequest(f"Input files are read on the server's machine. {why}", "inputs")
    report(None, f"Creating a directory on {transport.title}")
    # Before anything is created there, so that it is found after a crash.
    job = replace(job, details=job.details.reachable())
    job = _commit(context, job, directory=directory, submission_runs=plan.submissions)
    _run(transport, plans.create_directory_script(directory), "The job's directory cannot be created")
    to = spec.cwd or f"{directory}/work"
    if spec.cwd:
        _check_cwd(transport, spec.cwd)
    transport.put(_write_files(files, plan.files, directory))
    if stored_target.target.ssh is None:
        paths = tuple(path for path in paths if not inputs.is_in_place(path, to))
    reader = UserTransport(context.settings.run_as) if context.settings.run_as else None
    inputs.send_inputs(transport, files, paths, to, own=not spec.cwd, reader=reader, progress=report)
    _save_plan(files, stored_target.target, facts, spec, plan)
    return job


def _resolve_directory(transport: Transport, target: Target, job_id: str) -> str:
    """The absolute path of the job's directory there."""
    done = transport.run(resolve_directory_script(target, job_id))
    place = done.text.strip()
    if done.status != 0 or not place.startswith("/"):
        message = (done.errors.strip().splitlines() or ["no reason was given"])[-1]
        raise InvalidRequest(
            f"Jobs on {transport.title} cannot have their directories in "
            f"{target.directory or DEFAULT_DIRECTORY}: {message[:300]}. "
            "Choose another directory for the target."
        )
    return place


def _check_cwd(transport: Transport, cwd: str) -> None:
    if not PurePosixPath(cwd).is_absolute():
        raise InvalidRequest(f"The working directory {cwd} is not an absolute path. Start it with /.", "cwd")
    done = transport.run(f"cd -- {quote(cwd)} && exec test -r . -a -x .")
    if done.status != 0:
        raise InvalidRequest(
            f"The directory {cwd} does not exist on {transport.title}, or may not be entered. Use "
            "an existing directory, or "
            "leave it empty to use the job's directory.",
            "cwd",
        )


def _run(transport: Transport, script: str, what: str) -> None:
    done = transport.run(script)
    if done.status != 0:
        message = " ".join(done.errors.split())[:400] or "no reason was given"
        raise InvalidRequest(f"{what} on {transport.title}: {message}")


def _write_files(files: JobFiles, texts: Mapping[str, str], directory: str) -> list[FileCopy]:
    folder = files.root / PLAN_FOLDER
    copies = []
    with disk_errors(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        for name, text in texts.items():
            data = text.encode("utf-8", "surrogateescape")
            (folder / name).write_bytes(data)
            copies.append(FileCopy(f"{directory}/{name}", folder / name, len(data)))
    return copies


def _save_plan(files: JobFiles, target: Target, facts: TargetFacts | None, spec: JobSpec, plan: plans.Plan) -> None:
    """Write what the reader of the recordings needs of the plan, and what the job's page shows of it, which stays when
    the recordings have become a result."""
    runs = [{"run": run.number, "events": list(run.events), "command": list(run.command)} for run in plan.runs]
    known = {
        "runs": runs,
        "flavour": spec.mpi.flavour.value if spec.mpi else None,
        "ranks": spec.mpi.ranks if spec.mpi else None,
        "target": spec.target,
        "recorder": spec.recorder.value,
        "artifacts": artifact_patterns(spec),
        "clock_ns": facts.clock_ns if facts else None,
    }
    shown = {"runs": runs, "preview": plans.preview(spec, target, facts)}
    with disk_errors(files.artifacts):
        write_json(files.artifacts / PLAN, known)
        write_json(files.run / PLAN, shown)


def _start_all(context: JobContext, job: Job, files: JobFiles, target: Target, transport: Transport) -> None:
    """Start the submissions that were not started yet, unless the job was cancelled meanwhile."""
    ids = dict(job.details.submission_ids)
    for number in range(len(job.details.submission_runs)):
        if number in ids:
            continue
        present = context.store.jobs.get(job.id)
        begun = job.details.begun > number
        if present.cancel_requested or job.details.cancellation.times:
            id = batch.find_by_name(transport, target, job_name(job.id, number)) if begun else None
            ids |= {number: id} if id else {}
            if not ids:
                # What may run there anyway is ended with the job.
                raise StepInterrupted
            break
        job = job if begun else _commit(context, job, begun=number + 1)
        ids[number] = _start(context, job, files, target, transport, number)
        job = _commit(context, job, submission_ids=dict(ids), unanswered_since=None)
    delete_environment(files)
    in_batch = scheduler_of(target.scheduler) is not None
    first = min(target.poll_s, FIRST_BATCH_POLL_S if in_batch else FIRST_POLL_S)
    context.store.jobs.transition(
        job.id,
        JobState.STAGING,
        JobState.PENDING if in_batch else JobState.RUNNING,
        outcome=Outcome(),
        details=replace(job.details.reachable(), submission_ids=ids, failures=0),
        due_at=time.time() + first,
    )


def _start(context: JobContext, job: Job, files: JobFiles, target: Target, transport: Transport, number: int) -> str:
    """Start a submission, or find the id of one that was begun. Raises InvalidRequest if it is refused, Unreachable if
    its result is unknown yet."""
    spec, directory = job.job_spec, job.details.directory
    script = _environment(job, files, target, context.settings.run_as) + plans.submit_script(
        target, spec, job.id, directory, number
    )
    done = transport.run(script, timeout_s=START_TIMEOUT_S)
    try:
        id = plans.parse_submit_output(target, done.text, done.errors, done.status)
    except Unreachable as error:
        id, why = "", error.message
    else:
        why = f"{transport.title} began to start it, but did not report a result."
    if id:
        return id
    # Its answer was lost. Its name identifies it, too, and a repeated start runs nothing.
    if existing := batch.find_by_name(transport, target, job_name(job.id, number)):
        return existing
    since = job.details.unanswered_since or time.time()
    _commit(context, job, unanswered_since=since)
    if time.time() - since >= UNANSWERED_TIMEOUT_S:
        if scheduler_of(target.scheduler) is None:
            raise InvalidRequest(
                f"It was started on {transport.title}, but ended without a report. If the disk of {directory} is full "
                "there, delete files. Then submit the job again."
            )
        transport.run(plans.reset_submission_script(directory, number))
        _commit(context, job, unanswered_since=None)
    raise Unreachable(why)


def _commit(context: JobContext, job: Job, **more: Any) -> Job:
    """Store it in the database. Raises StepInterrupted where another process has the job."""
    details = replace(job.details, **more)
    if not context.store.jobs.update(
        job.id, expected=JobState.STAGING, expected_attempt=job.attempt, claimed_by=context.worker, details=details
    ):
        raise StepInterrupted
    return replace(job, details=details)


def _environment(job: Job, files: JobFiles, target: Target, run_as: str) -> str:
    """sh: on this machine the program gets the environment of the submitter, as with a supervisor."""
    if target.ssh is not None:
        return ""
    if run_as:
        return ""  # Another user gets neither the worker's environment nor the submitter's.
    variables = job_environment(job.id, job.job_spec, files, os.environ)
    pairs = [f"{name}={quote(value)}" for name, value in variables.items() if _NAME.fullmatch(name)]
    return "".join(f"export {pair}\n" for pair in pairs)
