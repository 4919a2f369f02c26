"""From queued to running: claim, prepare, start. The user's program is started at most once.

Two things see to it. The claim, with the supervisor's process, is committed to the catalogue before the supervisor
gets the word; and of all supervisors that ever get the word for a job one creates supervisor.json and runs the
program. So a start that is delivered again finds either that file, and follows that program, or a supervisor that
will never begin, and may start anew.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.facts import HostFacts
from perfloom.domain.jobs import JobSpec, JobState, Outcome
from perfloom.recording.plan import argv as argv_of
from perfloom.recording.plan.plan import planned
from perfloom.recording.recorders import perf_record
from perfloom.recording.recorders.preflight import Level
from perfloom.store.files.disk import disk_errors
from perfloom.store.jobs import Job
from perfloom.workers.local import job_user, processes, supervised, supervisor
from perfloom.workers.local.checks import check
from perfloom.workers.local.jobfiles import JobFiles, copy_inputs, environment_of, forget_environment, working_directory
from perfloom.workers.road import AGAIN_S, Road, Stopped, reporter

WAIT_S = 1.0
"""How long the first in the queue waits before it asks again whether it may start."""
MOST_WAIT_S = 30.0
BUSY = (JobState.STAGING, JobState.RUNNING)


def claim(road: Road, job: Job) -> None:
    """Take a queued recording for this worker, where it is its turn and a place is free.

    What runs on this machine itself takes one of its places; what runs elsewhere or in a batch system takes none.
    """
    target = road.store.targets.get(job.target).target
    details = job.details | {"planned": planned(job.job_spec, target) or bool(road.settings.run_as)}
    if not target.here:
        host = road.host if target.ssh is None else None
        road.store.jobs.claim(job.id, road.worker, host, AGAIN_S, details=details)
        return
    with _turn(road):
        here = [name for name, target in road.store.targets.all().items() if target.here]
        busy = [one for name in here for one in road.store.jobs.list(states=BUSY, kind="record", target=name)]
        running = [one for one in busy if one.host == road.host]
        earlier = road.store.jobs.waiting_before(job, here)
        free = road.settings.recordings_at_once - len(running)
        if earlier < free:
            road.store.jobs.claim(job.id, road.worker, road.host, AGAIN_S, details=details)
            return
    names = ", ".join(one.name or one.id for one in running[:3])
    text = f"Waits for {names}" if running else "Waits for its turn"
    text += f"; {earlier} before it" if earlier else ""
    # Who is far back asks less often; who ends calls the next ones.
    due = time.time() + min(MOST_WAIT_S, WAIT_S * (1 + earlier))
    road.store.jobs.update(job.id, expected=JobState.QUEUED, due_at=due, progress_text=text)


def call_next(road: Road) -> None:
    """A place has become free: ring for those who wait longest."""
    if road.queue is None:
        return
    for one in road.store.jobs.waiting(kind="record", limit=road.settings.recordings_at_once):
        road.queue.ring(one)


@contextmanager
def _turn(road: Road) -> Iterator[None]:
    """Only one process of this host counts and claims at a time."""
    path = road.settings.data / "jobs" / ".turn"
    with disk_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def launch(road: Road, job: Job, files: JobFiles) -> None:
    """Prepare a claimed job and start its program, or follow the program that an earlier attempt started."""
    if _earlier_attempt_began(job, files):
        _follow(road, job, files)
        return
    if job.cancel_requested:
        raise Stopped
    # It runs as this worker itself, whoever others run as.
    job_user.refuse(replace(road.settings, run_as=""), job.details.get("server"))
    spec, facts = job.job_spec, road.facts()
    report = reporter(road, job)
    files.prepare()
    environment = environment_of(job.id, spec, files, os.environ)
    _refuse(spec, facts, road, environment, files)
    copy_inputs(spec, files, report)
    cwd = working_directory(spec, files)
    argv = argv_of(spec, facts, files.artefacts)
    executable = facts.perf if facts.perf and Path(argv[0]).name == Path(facts.perf).name else None
    inside = perf_record.counts_inside(argv)
    supervised.write_task(files, argv, str(cwd), spec.duration_s, road.settings.reserve_bytes, executable, inside)
    child = supervised.spawn(files)
    try:
        who = processes.identity(child.pid)
        details = job.details | {"supervisor": who.to_json() if who else None}
        committed = road.store.jobs.update(
            job.id,
            expected=JobState.STAGING,
            expected_attempt=job.attempt,
            claimed_by=road.worker,
            host=road.host,
            process_group=child.pid,
            argv=argv,
            details=details,
        )
    except BaseException:
        supervised.send_away(child)
        raise
    present = road.store.jobs.find(job.id)
    if not committed or present is None or present.cancel_requested:
        supervised.send_away(child)
        raise Stopped
    supervised.give_word(child, environment)
    if not supervised.wait_for_begin(files, child):
        text = _log_of(files)
        raise InvalidRequest(f"The supervisor of the program did not start. {text}".strip())
    _follow(road, present, files)


def _earlier_attempt_began(job: Job, files: JobFiles) -> bool:
    """Whether a program was started for this job. Where an earlier supervisor may still get there, wait to see."""
    found = job.details.get("supervisor")
    if found and not supervised.look(files).began:
        who = processes.Identity.from_json(found)
        end = time.monotonic() + supervised.APPEAR_S
        while processes.alive(who) and not supervised.look(files).began:
            if time.monotonic() > end:
                # It waits for a word that nobody can give any more.
                processes.send(who, 9)
            time.sleep(0.01)
    return supervised.look(files).began


def _follow(road: Road, job: Job, files: JobFiles) -> None:
    """The program runs, or has ended already: from now on it is looked at."""
    found = supervisor.read_json(files.run / supervisor.SUPERVISOR) or {}
    forget_environment(files)
    road.store.jobs.move(
        job.id,
        JobState.STAGING,
        JobState.RUNNING,
        host=road.host,
        process_group=found.get("pid", job.process_group),
        due_at=time.time() + 0.1,
        outcome=Outcome(),
        details=job.details | {"failures": 0},
    )


def _refuse(spec: JobSpec, facts: HostFacts, road: Road, environment: dict[str, str], files: JobFiles) -> None:
    """Raise where it is certain that nothing can come of it; perf itself judges the rest."""
    certain = {"recorder", "command", "cwd", "inputs", "pid", "environment"}
    for finding in check(spec, facts, road.settings, environment, files):
        if finding.level is Level.ERROR and finding.field in certain:
            raise InvalidRequest(f"{finding.message} {finding.advice}", finding.field)


def _log_of(files: JobFiles) -> str:
    try:
        return (files.run / "supervisor.log").read_text(errors="replace")[-300:]
    except OSError:
        return ""
