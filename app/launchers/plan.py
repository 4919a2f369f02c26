"""What is laid down at a target to run a job there, and how it is started, looked at and ended. Pure: texts and argv.

At the target a job has a directory of its own (0700), in the target's directory:

    plan.sh             the job, as shell functions and variables: the only text that is made, and all its quoting
    job.sh, rank.sh     POSIX sh, the same for every job; no other program is needed there but perf
    begun               a directory: made exclusively, so a submission is started at most once
    work/               where the command runs, unless the job says otherwise
    output              what the command printed
    sub<k>.*            the k-th submission: its id, its state, what it was told
    run<r>/state        the r-th run of the command
    run<r>/<rank>/      a rank of it ("all" without MPI, "on-HOST" for one recording per host): state and artefacts
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..domain.jobs import JobSpec, Splitting
from ..domain.progress import Sight
from ..domain.targets import BatchStatus, Target, TargetFacts


@dataclass(frozen=True)
class Plan:
    """A job as it is laid down. files: text by name. submissions: the runs that each hands over. groups: the events of
    each run (empty: the recorder's own choice)."""

    files: Mapping[str, str]
    submissions: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Followed:
    """A job to be looked at: its directory there, and how much of its output is here already."""

    id: str
    directory: str
    output_offset: int


@dataclass(frozen=True)
class Found:
    """What `look` found of one job. output: what it printed since. there: whether its directory exists."""

    sight: Sight
    output: bytes
    there: bool


def planned(spec: JobSpec, target: Target) -> bool:
    """Whether a job goes the planned road; what is left is one process on this machine, started as it is."""
    of_target = target.modules or target.environment or target.perf or target.scratch or target.directory
    of_job = spec.modules or spec.path or spec.library_path or spec.preload or spec.sudo or spec.leave_files
    more = spec.mpi is not None or spec.splitting is not Splitting.ONE_RUN or not spec.keep_recordings
    return not target.here or bool(of_target or of_job or more)


def plan(spec: JobSpec, target: Target, facts: TargetFacts | None, job_id: str, directory: str) -> Plan:
    """The plan of a job in its directory there (a full path). Raises InvalidRequest for what cannot be run so."""
    raise NotImplementedError


def make_script(directory: str) -> str:
    """sh: make the job's directory and those in it. Fails where it is not ours or the disk is full, and says why."""
    raise NotImplementedError


def start_script(target: Target, spec: JobSpec, job_id: str, directory: str, number: int) -> str:
    """sh: start the submission `number` at most once, however often it is run, and print how it is known there.

    Without a batch system: the script goes on in a session of its own when the connection ends. With one: submits it.
    """
    raise NotImplementedError


def started(target: Target, stdout: str, stderr: str, status: int) -> str:
    """The id of what `start_script` started: of the batch system, or "pid start-time boot". Raises InvalidRequest with
    the reason where it was refused."""
    raise NotImplementedError


def look_script(jobs: Sequence[Followed], most_output: int) -> str:
    """sh: print the state of all these jobs, and at most `most_output` bytes of new output of each."""
    raise NotImplementedError


def looked(jobs: Sequence[Followed], stdout: bytes) -> Mapping[str, Found]:
    """What `look_script` printed, by job id."""
    raise NotImplementedError


def with_batch(sight: Sight, statuses: Mapping[str, BatchStatus]) -> Sight:
    """The sight with what the batch system says of its submissions, by their native ids."""
    raise NotImplementedError


def end_script(directory: str, *, gently: bool) -> str:
    """sh: end what `start_script` started without a batch system: asked to complete its files, or at once and all."""
    raise NotImplementedError


def symbolise_script(directory: str) -> str:
    """sh: have perf script read, here and now, what no rank could (it was killed); prints what it did."""
    raise NotImplementedError


def list_script(directory: str) -> str:
    """sh: print the artefacts of all ranks that hold anything, with their sizes."""
    raise NotImplementedError


def listed(stdout: bytes) -> tuple[tuple[str, int], ...]:
    """(path in the job's directory, bytes) of the artefacts. Raises UnreadableInput for paths that lead out of it."""
    raise NotImplementedError


def remove_script(directory: str) -> str:
    """sh: remove the job's directory, with everything in it and nothing else."""
    raise NotImplementedError


def preview(spec: JobSpec, target: Target, facts: TargetFacts | None) -> str:
    """The command lines that a job means, for a person: transport, batch system, launcher, recorder, command."""
    raise NotImplementedError
