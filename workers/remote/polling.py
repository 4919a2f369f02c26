"""Looking at jobs: all those of a target together, with one question to its batch system and one script for the rest.

What is seen of a job goes into `run/sight.json` of its directory here, what it printed into its log; and it moves on
where what is seen says so. How soon the target is looked at again depends on how much happens there.
"""

import hashlib
import json
import logging
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from perfloom.domain.errors import InvalidRequest, PerfloomError, Unavailable, Unreachable
from perfloom.domain.jobs import JobState, Outcome
from perfloom.domain.targets import BatchState, BatchStatus, Target
from perfloom.recording.evidence import with_signs
from perfloom.recording.plan.plan import Followed, Found, end_script, look_script, looked
from perfloom.recording.plan.plan import with_batch as with_states
from perfloom.recording.progress import Sight, SubmissionSight
from perfloom.store.jobs import POLLED, Job
from perfloom.workers import states
from perfloom.workers.local import launching
from perfloom.workers.local.jobfiles import JobFiles, alone
from perfloom.workers.remote import batch, judging, leaving, patience, wishes
from perfloom.workers.remote.access import reach, together
from perfloom.workers.remote.output import FarOutput
from perfloom.workers.road import Road
from perfloom.workers.transports import Transport

SIGHT = "sight.json"
OUTPUT_BYTES = 256 << 10
ALL_OUTPUT_BYTES = 16 << 20
"""New output that is brought with one look: of one job, and of all together."""
LOOK_BYTES = 256 << 20
LOOK_S = 120.0
SOON_S = 0.25
SOON_BATCH_S = 1.0
ENDING_S = 0.5
CALM_S = 30.0
"""How soon is looked again: at first, where the end was asked for, and where nothing has changed for long."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Seen:
    """What a look found of one job. at: which byte of its output `output` begins with. there: whether its directory
    exists."""

    sight: Sight
    output: bytes = b""
    at: int = 0
    there: bool = True


def poll(road: Road, name: str) -> None:
    """Look at all jobs of a target that this worker can follow. Does nothing where another one is at it."""
    with alone(_lock_of(road, name)) as mine:
        if not mine:
            return
        known = road.store.targets.find(name)
        jobs = [job for job in road.store.jobs.together(name) if not states.elsewhere(road, job)]
        for some in together(known.target, jobs) if known is not None else [jobs] if jobs else []:
            _look(road, some, locked=False)
        if known is not None:
            leaving.clear(road, known.target)
    if road.queue is None:
        return
    still = {job.id for job in road.store.jobs.together(name)}
    gone_on = [present for job in jobs if job.id not in still and (present := road.store.jobs.find(job.id))]
    for present in gone_on:
        if not present.state.final:
            road.queue.ring(present)
    if gone_on and known is not None and known.target.here:
        launching.call_next(road)


def look_at_one(road: Road, job: Job, files: JobFiles) -> None:
    """The same for one job, whose lock is held."""
    _look(road, [job], locked=True)


def _lock_of(road: Road, name: str) -> Path:
    """The lock of who looks at a target."""
    return road.settings.data / "jobs" / f".poll-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


def _look(road: Road, jobs: Sequence[Job], *, locked: bool) -> None:
    jobs = [wishes.noted(road, job) for job in jobs]
    try:
        target = road.store.targets.get(jobs[0].target).target
        with reach(road, target, jobs) as there:
            seen = _see(road, there, target, jobs)
            jobs = _see_to_wishes(road, there, target, jobs, seen)
    except PerfloomError as error:
        patience.unreached(road, jobs, error)
        return
    jobs = _without_unseen(road, target, jobs, seen)
    # Most wait as they did; what is new of them is a word at most.
    waiting = {job.id: text for job in jobs if (text := _still_waits(road, job, seen[job.id]))}
    said = {job.id: job.progress_text for job in jobs}
    news = {id: {"progress_text": text} for id, text in waiting.items() if text != said[id]}
    road.store.jobs.update_all(news, POLLED)
    for job in jobs:
        if job.id in waiting:
            continue
        try:
            _apply(road, job, seen[job.id], locked=locked)
        except Unavailable as error:
            if isinstance(error.__cause__, SQLAlchemyError):
                raise  # The catalogue does not answer for any of them.
            road.store.jobs.update(job.id, expected=job.state, progress_text=error.message)
    now = time.time()
    pause = min((_pause(road, job, target, now) for job in jobs), default=0.0)
    road.store.jobs.postpone([job.id for job in jobs], now + pause)


def _pause(road: Road, job: Job, target: Target, now: float) -> float:
    """How long nobody needs to look at a job."""
    soon = SOON_S if target.here else SOON_BATCH_S
    if job.details.get("ending"):
        return min(target.poll_s, ENDING_S)
    files = JobFiles(road.store.jobs.directory(job.id))
    try:
        quiet = now - max(job.changed, files.output.stat().st_mtime)
    except OSError:
        quiet = now - job.changed
    return max(min(target.poll_s, max(soon, quiet / 4)), min(CALM_S, quiet / 20))


# ---- seeing ------------------------------------------------------------------------------------------------


def _see(road: Road, there: Transport, target: Target, jobs: Sequence[Job]) -> Mapping[str, Seen]:
    """What can be seen of these jobs now, by their ids. A job that nothing was heard of is not in it."""
    now = time.time()
    ids = [id for job in jobs for id in _natives(job)]
    silent = False
    try:
        statuses = dict(batch.states(there, target, ids))
    except (Unreachable, Unavailable) as error:
        # Whether a job that ran still runs, or has ended, can be seen in its directory all the same.
        silent = True
        statuses = {id: BatchStatus(id, BatchState.UNKNOWN, reason=error.message) for id in ids}
    seen = {}
    closer = []
    for job in jobs:
        bare = tuple(SubmissionSight(number, native) for number, native in enumerate(_natives(job)))
        sight = with_states(Sight(bare, seen_at=now), statuses)
        waits = all(judging.phase(one) is judging.Phase.WAITS for one in sight.submissions)
        if bare and (waits or silent) and job.state is not JobState.RUNNING:
            seen[job.id] = Seen(sight)
        else:
            closer.append(job)
    seen |= _see_closer(road, there, closer, statuses, now)
    seen |= {job.id: _with_signs(road, job, seen[job.id], now) for job in closer if job.id in seen}
    gone = [one.native for job in closer if job.id in seen for one in _forgotten(seen[job.id].sight)]
    if found := batch.look_back(there, target, gone):
        statuses |= found
        seen |= {job.id: _with(seen[job.id], statuses) for job in closer if job.id in seen}
    return seen


def _natives(job: Job) -> tuple[str, ...]:
    """What the job's submissions are called at the target, in their order."""
    ids = job.details.get("submissions", {})
    return tuple(str(ids[key]) for key in sorted(ids, key=int))


def _see_closer(
    road: Road, there: Transport, jobs: Sequence[Job], statuses: Mapping[str, BatchStatus], now: float
) -> dict[str, Seen]:
    """What lies in the directories of these jobs."""
    if not jobs:
        return {}
    most = max(4096, min(OUTPUT_BYTES, ALL_OUTPUT_BYTES // len(jobs)))
    followed = []
    # What cannot be understood of one hides those after it: next time they are others.
    for job in random.sample(jobs, len(jobs)):
        files = JobFiles(road.store.jobs.directory(job.id))
        known = last_sight(files)
        offset = FarOutput(files).wanted(known.output_bytes if known else 0, most)
        followed.append(Followed(job.id, job.details["directory"], offset, _natives(job)))
    done = there.run(look_script(followed, most), timeout_s=LOOK_S, limit_bytes=LOOK_BYTES)
    found: Mapping[str, Found] = looked(followed, done.stdout)
    return {
        one.id: _with(
            Seen(
                replace(found[one.id].sight, seen_at=now), found[one.id].output, one.output_offset, found[one.id].there
            ),
            statuses,
        )
        for one in followed
        if one.id in found
    }


def _with(seen: Seen, statuses: Mapping[str, BatchStatus]) -> Seen:
    return replace(seen, sight=with_states(seen.sight, statuses))


def _with_signs(road: Road, job: Job, seen: Seen, now: float) -> Seen:
    last = last_sight(JobFiles(road.store.jobs.directory(job.id)))
    return replace(seen, sight=with_signs(seen.sight, last, now))


def _forgotten(sight: Sight) -> Iterator[SubmissionSight]:
    for one in sight.submissions:
        if one.batch is not None and one.batch.state is BatchState.GONE and one.exit_status is None:
            yield one


def directory_gone(job: Job) -> str:
    """What is said of a job whose directory was removed at its target."""
    return f"Its directory {job.details['directory']} is not there any more, and what it held is lost."


def last_sight(files: JobFiles) -> Sight | None:
    """What was last seen of a job; None where nothing was."""
    try:
        return Sight.from_json(json.loads((files.run / SIGHT).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError):
        return None


# ---- acting on it ------------------------------------------------------------------------------------------


def _see_to_wishes(
    road: Road, there: Transport, target: Target, jobs: Sequence[Job], seen: Mapping[str, Seen]
) -> list[Job]:
    """End at the target what was asked for: all that is to be ended gently with one request, and the same for hard."""
    now = time.time()
    gently, hard = [], []
    for job in jobs:
        ending = wishes.of(job)
        if not ending.times or job.id not in seen or judging.quiet(seen[job.id].sight):
            continue
        if ending.wants_hard(now, job.job_spec):
            # Said again each time, until it has ended.
            hard.append(job)
        elif not ending.gentle:
            gently.append(job)
    for some, softly in ((gently, True), (hard, False)):
        if some:
            _end(there, target, some, seen, gently=softly)
    changed = {job.id: wishes.write(road, job, replace(wishes.of(job), gentle=True)) for job in gently}
    return [changed.get(job.id, job) for job in jobs]


def _end(there: Transport, target: Target, jobs: Sequence[Job], seen: Mapping[str, Seen], *, gently: bool) -> None:
    """End jobs by their batch system, and those that it denies by their processes, where these are on this host."""
    denied = [job for job in jobs if any(judging.doubted(one) for one in seen[job.id].sight.submissions)]
    for job in denied:
        there.run(end_script(job.details["directory"], gently=gently))
    ids = [id for job in jobs for id in _natives(job)]
    try:
        batch.end(there, target, ids, [job.details["directory"] for job in jobs], gently=gently)
    except InvalidRequest as error:
        # Some are not ours to end, say. The others are looked at all the same.
        log.warning("%s does not end jobs: %s", target.name, error.message)
    except (Unreachable, Unavailable) as error:
        if len(denied) < len(jobs):
            raise
        log.warning("%s does not end jobs at present: %s", target.name, error.message)


def _without_unseen(road: Road, target: Target, jobs: Sequence[Job], seen: Mapping[str, Seen]) -> list[Job]:
    """The jobs of which it can be said whether they run. The others (hidden directories, lost hosts, what cannot be
    understood) wait as if the target could not be reached."""
    unsure: dict[str, list[Job]] = {}
    for job in jobs:
        sight = seen[job.id].sight if job.id in seen else Sight()
        if job.id not in seen:
            why = f"What {target.name} says of it cannot be understood."
        elif seen[job.id].there and {judging.phase(one) for one in sight.submissions} == {judging.Phase.UNKNOWN}:
            said = [one.batch.reason for one in sight.submissions if one.batch is not None and one.batch.reason]
            why = next(iter((*sight.notes, *said)), f"Nobody at {target.name} can say at present whether it runs.")
            _keep(JobFiles(road.store.jobs.directory(job.id)), sight)
        else:
            continue
        unsure.setdefault(why, []).append(job)
    for why, those in unsure.items():
        patience.unreached(road, those, Unreachable(why))
    gone = {job.id for those in unsure.values() for job in those}
    return [job for job in jobs if job.id not in gone]


def _still_waits(road: Road, job: Job, seen: Seen) -> str:
    """What is to be said of a job that waits in the queue as it did when it was last seen; nothing of any other."""
    if job.state is not JobState.PENDING or {"unreached", "needs", "quiet", "ending"} & job.details.keys():
        return ""
    if {judging.phase(one) for one in seen.sight.submissions} != {judging.Phase.WAITS}:
        return ""
    _keep(JobFiles(road.store.jobs.directory(job.id)), seen.sight)
    return judging.judge(job.job_spec, seen.sight, 0.0).text


def _apply(road: Road, job: Job, seen: Seen, *, locked: bool) -> None:
    """Keep what was seen of a job, and move it on where that says so."""
    files = JobFiles(road.store.jobs.directory(job.id))
    if locked:
        _apply_alone(road, job, files, seen)
        return
    with files.lock() as mine:
        present = road.store.jobs.find(job.id)
        if mine and present is not None and present.state is job.state and present.details == job.details:
            _apply_alone(road, job, files, seen)


def _apply_alone(road: Road, job: Job, files: JobFiles, seen: Seen) -> None:
    now = time.time()
    ending = wishes.of(job)
    details = patience.cleared(job.details)
    details.pop("quiet", None)
    if not seen.there:
        reason = directory_gone(job)
        outcome = Outcome(cancelled=bool(ending.times), reasons=(reason,))
        states.end(road, job, files, JobState.CANCELLED if ending.times else JobState.LOST, reason, outcome=outcome)
        return
    FarOutput(files).take(seen.output, seen.at)
    _keep(files, seen.sight)
    quiet = judging.quiet(seen.sight)
    since = float(job.details.get("quiet") or now)
    verdict = judging.judge(job.job_spec, seen.sight, now - since if quiet else 0.0, asked=bool(ending.times))
    if quiet:
        details["quiet"] = since
    if ending.dropped and (verdict.over or now - ending.last > wishes.DROP_S):
        reason = "It was cancelled, and what was recorded was dropped."
        reason += "" if verdict.over else f" {patience.CANNOT_END}"
        outcome = Outcome(cancelled=True, reasons=(reason,))
        states.end(road, job, files, JobState.CANCELLED, reason, outcome=outcome)
        return
    if verdict.over:
        found = judging.ending(job.job_spec, seen.sight, asked=bool(ending.times))
        details |= {"short": list(found.short), "vanished": judging.vanished(seen.sight), "failures": 0}
        road.store.jobs.move(
            job.id,
            POLLED,
            JobState.COLLECTING,
            outcome=found.outcome,
            started=job.started or now,
            details=details,
            # Whoever asked for its end meanwhile has it; asked again, it means what follows.
            cancel_requested=False,
            due_at=now,
        )
        return
    text = wishes.TEXT if ending.times else verdict.text
    state = JobState.PENDING if verdict.waits else JobState.RUNNING
    if state is not job.state:
        road.store.jobs.move(job.id, POLLED, state, details=details, progress_text=text, due_at=now + SOON_S)
    elif (text, details) != (job.progress_text, job.details):
        road.store.jobs.update(job.id, expected=state, details=details, progress_text=text)


def _keep(files: JobFiles, sight: Sight) -> None:
    """Write it down whole or not at all. It needs not outlast a power cut, and a full disk is no reason to stop."""
    path = files.run / SIGHT
    temporary = path.with_name(f".{SIGHT}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary.write_text(json.dumps(sight.to_json()), encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        log.warning("%s is not written: %s", path, error)
