"""From staging to running: prepare, start. The user's program is started at most once.

The claim, with the supervisor's process, is committed to the database before the supervisor gets the environment. Of
all supervisors that get it for a job, one creates supervisor.json and runs the program. So a repeated start finds
either that file, and polls that program, or a supervisor that will never start one, and may start another.
"""

import os
import time
from dataclasses import replace

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import JobSpec, JobState, Outcome
from perfloom.recording.plan import plan_supervised_run
from perfloom.recording.recorders.preflight import Severity
from perfloom.store.jobs import Job

from ..base import json_files, processes
from ..base.context import JobContext, StepInterrupted, make_reporter
from ..base.jobfiles import JobFiles, delete_environment, job_environment, working_directory
from ..jobs import inputs
from ..targets import job_user
from ..transports import LocalTransport
from . import supervisor, supervisor_client
from .checks import check_job


def launch(context: JobContext, job: Job, files: JobFiles) -> None:
    """Prepare a claimed job and start its program, or poll the program that an earlier attempt started."""
    if _earlier_attempt_began(job, files):
        _follow(context, job, files)
        return
    if job.cancel_requested:
        raise StepInterrupted
    # It runs as the worker's user, also where other jobs run as another one.
    job_user.require_allowed(replace(context.settings, run_as=""), job.details.server)
    spec, facts = job.job_spec, context.facts()
    report = make_reporter(context, job)
    files.prepare()
    environment = job_environment(job.id, spec, files, os.environ)
    _refuse(spec, facts, context, environment, files)
    cwd = str(working_directory(spec, files))
    paths = [path for path in inputs.input_files(spec.inputs, runs=1) if not inputs.is_in_place(path, cwd)]
    if paths:
        transport, own = LocalTransport(), not spec.cwd
        inputs.send_inputs(transport, files, paths, cwd, own=own, progress=report, keep_permissions=True)
    run = plan_supervised_run(spec, facts, files.artifacts)
    supervisor_client.write_task(files, run, cwd, spec.duration_s, context.settings.reserve_bytes)
    child = supervisor_client.spawn(files)
    try:
        identity = processes.identity(child.pid)
        details = replace(job.details, supervisor=identity.to_json() if identity else None)
        committed = context.store.jobs.update(
            job.id,
            expected=JobState.STAGING,
            expected_attempt=job.attempt,
            claimed_by=context.worker,
            host=context.host,
            process_group=child.pid,
            argv=run.argv,
            details=details,
        )
    except BaseException:
        supervisor_client.abandon(child)
        raise
    present = context.store.jobs.find(job.id)
    if not committed or present is None or present.cancel_requested:
        supervisor_client.abandon(child)
        raise StepInterrupted
    supervisor_client.start_program(child, environment)
    if not supervisor_client.wait_for_start(files, child):
        text = _log_of(files)
        raise InvalidRequest(f"The supervisor of the program did not start. {text}".strip())
    _follow(context, present, files)


def _earlier_attempt_began(job: Job, files: JobFiles) -> bool:
    """Whether a program was started for this job. Waits if an earlier supervisor may still start one."""
    stored = job.details.supervisor
    if stored and not supervisor_client.read_status(files).has_begun:
        who = processes.ProcessIdentity.from_json(stored)
        end = time.monotonic() + supervisor_client.START_TIMEOUT_S
        while processes.is_alive(who) and not supervisor_client.read_status(files).has_begun:
            if time.monotonic() > end:
                # The worker that would have sent the environment has ended.
                processes.send_signal(who, 9)
            time.sleep(0.01)
    return supervisor_client.read_status(files).has_begun


def _follow(context: JobContext, job: Job, files: JobFiles) -> None:
    """The program runs, or has ended: from now on it is polled."""
    supervisor_json = json_files.read_json(files.run / supervisor.SUPERVISOR) or {}
    delete_environment(files)
    context.store.jobs.transition(
        job.id,
        JobState.STAGING,
        JobState.RUNNING,
        host=context.host,
        process_group=supervisor_json.get("pid", job.process_group),
        due_at=time.time() + 0.1,
        outcome=Outcome(),
        details=replace(job.details, failures=0),
    )


def _refuse(spec: JobSpec, facts: HostFacts, context: JobContext, environment: dict[str, str], files: JobFiles) -> None:
    """Raise if the job certainly fails; perf reports the rest."""
    certain = {"recorder", "command", "cwd", "inputs", "pid", "environment"}
    for finding in check_job(spec, facts, context.settings, environment, files):
        if finding.level is Severity.ERROR and finding.field in certain:
            raise InvalidRequest(f"{finding.message} {finding.advice}", finding.field)


def _log_of(files: JobFiles) -> str:
    try:
        return (files.run / "supervisor.log").read_text(errors="replace")[-300:]
    except OSError:
        return ""
