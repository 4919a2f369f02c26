"""Staging: the job is laid down at its target and started there, each of its submissions at most once.

Everything before the first submission may be done again. Before a submission is started, the job's row says that it is
about to be (`begun`), and from then on the job is never given up for an error of the way to the target; the script that
starts it does so once, however often it is run, and says each time what it is called there.
"""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from perfloom.domain.errors import InvalidRequest, Unreachable
from perfloom.domain.jobs import JobSpec, JobState, Outcome
from perfloom.domain.targets import Target, TargetFacts
from perfloom.recording.plan import plan as plans
from perfloom.recording.plan.quoting import quote
from perfloom.recording.plan.starting import DIRECTORY, job_name, place_script
from perfloom.recording.schedulers import scheduler_of
from perfloom.store.files.disk import disk_errors
from perfloom.store.jobs import Job
from perfloom.store.targets import StoredTarget
from perfloom.workers.local import job_user
from perfloom.workers.local.jobfiles import JobFiles, environment_of, forget_environment
from perfloom.workers.local.supervisor import write_json
from perfloom.workers.read.rank_folders import PLAN
from perfloom.workers.remote import batch, inputs, patience, wishes
from perfloom.workers.remote.access import reach, staging_slot
from perfloom.workers.remote.finding import facts_of
from perfloom.workers.road import Road, Stopped, reporter
from perfloom.workers.transports import Copy, Transport
from perfloom.workers.transports.as_user import UserTransport

FOLDER = "plan"
"""In the job's directory here: what is laid down at the target."""
START_S = 120.0
"""How long starting may take: a busy batch system answers slowly."""
HALF_S = 60.0
"""How long a submission without an answer is looked for before it is handed over anew."""
FIRST_LOOK_S = 0.2
FIRST_LOOK_BATCH_S = 1.0

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def stage(road: Road, job: Job, files: JobFiles) -> None:
    """Lay a claimed job down at its target and start it, or go on where an earlier attempt was broken off."""
    known = road.store.targets.get(job.target)
    if job.details.get("begun"):
        job = wishes.noted(road, job)
    elif job.cancel_requested:
        raise Stopped
    with staging_slot(), reach(road, known.target, [job]) as there:
        if not job.details.get("begun"):
            job = _lay_down(road, job, files, known, there)
        _start_all(road, job, files, known.target, there)


def _lay_down(road: Road, job: Job, files: JobFiles, known: StoredTarget, there: Transport) -> Job:
    """The job's directory at the target, with everything in it that it needs."""
    report = reporter(road, job)
    files.prepare()
    directory = job.details.get("directory") or _place(there, known.target, job.id)
    spec = job.job_spec
    facts = facts_of(road, known, there)
    plan = plans.plan(spec, known.target, facts, job.id, directory)
    given = inputs.names(spec.inputs, len(plan.groups))
    if given and (why := job_user.refusal(road.settings, job.details.get("server"))):
        raise InvalidRequest(f"Input files are read on the server's machine. {why}", "inputs")
    report(None, f"Prepares a directory on {there.where}")
    # Before anything is made there, so that it is found again.
    job = replace(job, details=patience.cleared(job.details))
    job = _commit(road, job, directory=directory, runs=[list(part) for part in plan.submissions])
    _run(there, plans.make_script(directory), "The job's directory cannot be made")
    to = spec.cwd or f"{directory}/work"
    if spec.cwd:
        _check_cwd(there, spec.cwd)
    there.put(_written(files, plan.files, directory))
    given = tuple(one for one in given if not _same(known.target, one, to))
    reader = UserTransport(road.settings.run_as) if road.settings.run_as else None
    inputs.send(there, spec, files, given, to, own=not spec.cwd, reader=reader, progress=report)
    _note_plan(files, known.target, facts, spec, plan)
    return job


def _place(there: Transport, target: Target, job_id: str) -> str:
    """The job's directory there, in full."""
    done = there.run(place_script(target, job_id))
    place = done.text.strip()
    if done.status != 0 or not place.startswith("/"):
        said = (done.errors.strip().splitlines() or ["it was not said why"])[-1]
        raise InvalidRequest(
            f"Jobs on {there.where} cannot have their directories in {target.directory or DIRECTORY}: {said[:300]}. "
            "Give the target another directory."
        )
    return place


def _check_cwd(there: Transport, cwd: str) -> None:
    if not PurePosixPath(cwd).is_absolute():
        raise InvalidRequest(f"The working directory {cwd} is no full path. Begin it with /.", "cwd")
    done = there.run(f"cd -- {quote(cwd)} && exec test -r . -a -x .")
    if done.status != 0:
        raise InvalidRequest(
            f"The directory {cwd} does not exist on {there.where}, or may not be entered. Give one that is there, or "
            "leave it empty for one of the job's own.",
            "cwd",
        )


def _run(there: Transport, script: str, what: str) -> None:
    done = there.run(script)
    if done.status != 0:
        said = " ".join(done.errors.split())[:400] or "it was not said why"
        raise InvalidRequest(f"{what} on {there.where}: {said}")


def _written(files: JobFiles, texts: Mapping[str, str], directory: str) -> list[Copy]:
    folder = files.root / FOLDER
    copies = []
    with disk_errors(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        for name, text in texts.items():
            data = text.encode("utf-8", "surrogateescape")
            (folder / name).write_bytes(data)
            copies.append(Copy(f"{directory}/{name}", folder / name, len(data)))
    return copies


def _same(target: Target, source: str, to: str) -> bool:
    """Whether an input lies where it is to be copied."""
    if target.ssh is None and PurePosixPath(source) == PurePosixPath(to) / PurePosixPath(source).name:
        return True
    try:
        return target.ssh is None and Path(source).samefile(Path(to) / Path(source).name)
    except OSError:
        return False


def _note_plan(files: JobFiles, target: Target, facts: TargetFacts | None, spec: JobSpec, plan: plans.Plan) -> None:
    """What who reads the recordings must know of the plan. It lies with them before they are here; what the job's page
    shows of it stays when they have gone into the result."""
    runs = [{"run": run.number, "events": list(run.events), "command": list(run.command)} for run in plan.runs]
    known = {
        "runs": runs,
        "flavour": spec.mpi.flavour.value if spec.mpi else None,
        "ranks": spec.mpi.ranks if spec.mpi else None,
        "target": spec.target,
        "recorder": spec.recorder.value,
        "clock_ns": facts.clock_ns if facts else None,
    }
    shown = {"runs": runs, "preview": plans.preview(spec, target, facts)}
    with disk_errors(files.artefacts):
        write_json(files.artefacts / PLAN, known)
        write_json(files.run / PLAN, shown)


def _start_all(road: Road, job: Job, files: JobFiles, target: Target, there: Transport) -> None:
    """Start what was not started yet, unless the end was asked for meanwhile."""
    ids: dict[str, str] = dict(job.details.get("submissions", {}))
    for number in range(len(job.details["runs"])):
        if str(number) in ids:
            continue
        present = road.store.jobs.get(job.id)
        begun = int(job.details.get("begun", 0)) > number
        if present.cancel_requested or wishes.of(job).times:
            found = batch.named(there, target, job_name(job.id, number)) if begun else None
            ids |= {str(number): found} if found else {}
            if not ids:
                # What may run there all the same is ended with the job.
                raise Stopped
            break
        job = job if begun else _commit(road, job, begun=number + 1)
        ids[str(number)] = _start(road, job, files, target, there, number)
        job = _commit(road, job, submissions=ids, half=None)
    forget_environment(files)
    in_batch = scheduler_of(target.scheduler) is not None
    first = min(target.poll_s, FIRST_LOOK_BATCH_S if in_batch else FIRST_LOOK_S)
    road.store.jobs.move(
        job.id,
        JobState.STAGING,
        JobState.PENDING if in_batch else JobState.RUNNING,
        outcome=Outcome(),
        details=patience.cleared(job.details) | {"submissions": ids, "failures": 0},
        due_at=time.time() + first,
    )


def _start(road: Road, job: Job, files: JobFiles, target: Target, there: Transport, number: int) -> str:
    """Start a submission, or find out what one that was begun is called. Raises InvalidRequest where it is refused,
    Unreachable where nobody knows yet what came of it."""
    spec, directory = job.job_spec, job.details["directory"]
    script = _environment(job, files, target, road.settings.run_as) + plans.start_script(
        target, spec, job.id, directory, number
    )
    done = there.run(script, timeout_s=START_S)
    try:
        id = plans.started(target, done.text, done.errors, done.status)
    except Unreachable as error:
        id, why = "", error.message
    else:
        why = f"{there.where} began to start it and does not say what came of it."
    if id:
        return id
    # Its answer was lost. It goes by its name, too; and whatever is started twice runs once.
    if found := batch.named(there, target, job_name(job.id, number)):
        return found
    since = float(job.details.get("half") or time.time())
    _commit(road, job, half=since)
    if time.time() - since >= HALF_S:
        if scheduler_of(target.scheduler) is None:
            raise InvalidRequest(
                f"It was begun on {there.where} and ended before it could say so. Is the disk of {directory} full "
                "there? Make room, then submit the job again."
            )
        there.run(plans.forget_script(directory, number))
        _commit(road, job, half=None)
    raise Unreachable(why)


def _commit(road: Road, job: Job, **more: Any) -> Job:
    """Have it stand in the catalogue. Raises Stopped where the job is not ours any more."""
    details = job.details | more
    if not road.store.jobs.update(
        job.id, expected=JobState.STAGING, expected_attempt=job.attempt, claimed_by=road.worker, details=details
    ):
        raise Stopped
    return replace(job, details=details)


def _environment(job: Job, files: JobFiles, target: Target, run_as: str) -> str:
    """sh: on this machine the program gets the environment of who asked for it, as it does without a plan."""
    if target.ssh is not None:
        return ""
    if run_as:
        return ""  # Another user has nothing of ours, and nothing of who asked.
    given = environment_of(job.id, job.job_spec, files, os.environ)
    pairs = [f"{name}={quote(value)}" for name, value in given.items() if _NAME.fullmatch(name)]
    return "".join(f"export {pair}\n" for pair in pairs)
