"""Slurm: sbatch, squeue, scancel, and for jobs that squeue does not know sacct, scontrol or the list of completed
jobs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from ...domain.errors import InvalidRequest, Unreachable
from ...domain.jobs import JobSpec
from ...domain.targets import BatchQueue, BatchState, BatchStatus, SchedulerName
from ..quoting import join
from ..scripts import script_text
from .common import AnswerParser, hours_and_minutes, reject_options, script_argv
from .sbatch_options import parse
from .slurm_states import (
    HELD_REASONS,
    STATE_TEXTS,
    STATES,
    explain_reason,
    readable_reason,
)

ANSWERS = AnswerParser(
    "Slurm",
    noise=re.compile(r"^\s*(sbatch|squeue|scancel|sinfo|scontrol|sacct|slurm_\w+)?\s*:?\s*(error|fatal)\s*:\s*"),
    no_answer=re.compile(
        r"Unable to contact slurm controller|Socket timed out|Connection (refused|timed out|reset)|Zero Bytes were|"
        r"backup controller|Unable to establish control|Communication connection failure|Transport endpoint|"
        r"Could not establish a configuration source|Insufficient|Slurm temporarily unable|try again later"
    ),
    refusals=(
        ("partition", "queue", "Choose a partition that the target's check lists."),
        ("account", "project", "Choose an account that you may use there."),
        ("time", "wall_time", "Request a time that the partition allows."),
        ("node count|node configuration", "nodes", "Request no more nodes, ranks and CPUs than the partition has."),
        ("option|qos|constraint|memory", "batch_arguments", "Correct the further arguments."),
    ),
)
ID = re.compile(r"^(\d+)(?:;[\w.-]+)?$", re.M)
"""`;cluster` follows if SLURM_CLUSTERS is set, which the other programs use, too."""

MAX_HOSTS = 10_000
NO_OUTPUT = 53
"""The pseudo-signal of a job whose output file Slurm could not open."""

RESERVED_OPTIONS = (
    *(
        "--parsable",
        "--wrap",
        "--external",
        "--autocomplete",
        "--job-name",
        "-J",
        "--array",
        "-a",
        "--wait",
        "-W",
        "--test-only",
        "--requeue",
    ),
    *("--output", "-o", "--error", "-e", "--help", "-h", "--usage", "--version", "-V", "--clusters", "--cluster", "-M"),
)
"""Options that would not result in one job that runs once and can be found by name."""

FIELDS: Mapping[str, str] = MappingProxyType(
    {"queue": "Partition", "project": "Account"}
    | dict.fromkeys(("wall_time_s", "nodes", "cpus", "exclusive", "arguments"), "")
)


@dataclass(frozen=True)
class Slurm:
    """At the time limit Slurm sends CONT and TERM to every process of a job, and KILL after KillWait (usually 30 s).
    That is enough for perf to complete its files, so no earlier signal is requested, which would come up to a minute
    too early. For more time, add the argument --signal=B:USR2@300.
    """

    name: SchedulerName = SchedulerName.SLURM
    title: str = ANSWERS.title
    hint: str = "Jobs are submitted with sbatch."
    fields: ClassVar[Mapping[str, str]] = FIELDS
    version_pattern: str = r"^slurm(?:-wlm)? ([\w.-]+)"
    version_commands: tuple[tuple[str, ...], ...] = (("sbatch", "--version"),)
    job_variable: str = "SLURM_JOB_ID"
    job_script: str = script_text("schedulers/slurm_job.sh")
    programs: tuple[str, ...] = ("sbatch", "squeue", "scancel", "sinfo")

    def submit_command(self, spec: JobSpec, job_name: str, script: Sequence[str], output: str) -> tuple[str, ...]:
        batch, mpi = spec.batch, spec.mpi
        reject_options(self.title, "sbatch", parse(batch.arguments), RESERVED_OPTIONS)
        # % has a special meaning in the name of the output. The environment is that of the submitting shell, whatever
        # SBATCH_EXPORT is. An --export in the user's arguments follows and takes precedence: the job's scripts set the
        # variables of job and target themselves, in the batch script and in each rank.
        argv = ["sbatch", "--parsable", f"--job-name={job_name}", f"--output={output.replace('%', '%%')}"]
        argv += ["--no-requeue", "--export=ALL"]
        if batch.queue:
            argv.append(f"--partition={batch.queue}")
        if batch.project:
            argv.append(f"--account={batch.project}")
        if batch.wall_time_s is not None:
            hours, minutes = hours_and_minutes(batch.wall_time_s)
            argv.append(f"--time={hours}:{minutes:02}:00")
        if batch.nodes is not None:
            argv.append(f"--nodes={batch.nodes}")
        argv.append(f"--ntasks={mpi.ranks if mpi else 1}")
        if mpi and mpi.ranks_per_node is not None:
            argv.append(f"--ntasks-per-node={mpi.ranks_per_node}")
        if batch.cpus is not None:
            argv.append(f"--cpus-per-task={batch.cpus}")
        if batch.exclusive:
            argv.append("--exclusive")
        # exec: Slurm then signals job.sh as the batch script. Before the user's arguments: after a word that sbatch
        # takes as a script, --wrap would not be an option.
        return (*argv, f"--wrap=exec {join(script)}", *batch.arguments)

    def parse_submit_output(self, stdout: str, stderr: str, status: int) -> str:
        found = ID.findall(stdout)
        if status == 0 and found:
            return str(found[-1])
        ANSWERS.check_answered("sbatch", stderr, status)
        ANSWERS.raise_refused(stderr or stdout)

    def find_command(self, job_name: str) -> tuple[str, ...]:
        return script_argv(script_text("schedulers/slurm_find.sh"), job_name)

    def parse_find_output(self, stdout: str, stderr: str, status: int) -> str | None:
        _check_end_line(stdout, stderr, status)
        found = ID.findall(stdout)
        return found[0] if found else None

    def status_command(self, ids: Sequence[str]) -> tuple[str, ...]:
        return script_argv(script_text("schedulers/slurm_status.sh"), *ids)

    def parse_status_output(
        self, ids: Sequence[str], stdout: str, stderr: str, status: int
    ) -> Mapping[str, BatchStatus]:
        _check_end_line(stdout, stderr, status)
        found = {}
        for line in stdout.splitlines():
            words = line.split("|", 6)
            if len(words) == 7:
                id, place, state, _, nodes, start, reason = words
                position = int(place) if place.isdecimal() else None
                found[id] = _status(id, state, reason, nodes=nodes, position=position, start=start)
        return {id: found.get(id) or BatchStatus(id, BatchState.GONE) for id in ids}

    def history_command(self, id: str) -> tuple[str, ...]:
        return script_argv(script_text("schedulers/slurm_history.sh"), id)

    def parse_history_output(self, id: str, stdout: str, stderr: str, status: int) -> BatchStatus:
        ANSWERS.check_complete("squeue", stderr, status)
        line = (stdout.strip().splitlines() or [""])[0]
        if line.startswith("sacct|"):
            state, code, nodes = f"{line}||".split("|")[1:4]
            history_output = _status(id, state, "", nodes=nodes, code=code)
            # If accounting reports a job as running that the controller does not know, its end was never recorded.
            if history_output.state.final:
                return history_output
        elif line.startswith("JobId="):
            words = dict(word.split("=", 1) for word in line.split() if "=" in word)
            nodes = words.get("NodeList", "")
            return _status(
                id, words.get("JobState", ""), words.get("Reason", ""), nodes=nodes, code=words.get("ExitCode", "")
            )
        return BatchStatus(id, BatchState.UNKNOWN, reason="Slurm no longer knows this job.")

    def cancel_command(self, ids: Sequence[str], *, gently: bool) -> tuple[str, ...]:
        # Without --batch: CONT and TERM for every process of the job, and KILL after KillWait.
        return script_argv(script_text("schedulers/slurm_terminate.sh"), *ids) if gently else ("scancel", *ids)

    def parse_cancel_output(self, stdout: str, stderr: str, status: int) -> None:
        lines = [line for line in stderr.splitlines() if "Invalid job id" not in line and "already complet" not in line]
        ANSWERS.check_answered("scancel", "\n".join(lines), status)
        if status and any("denied" in line for line in lines):
            raise InvalidRequest(f"Slurm did not cancel the job: {ANSWERS.clean_text(chr(10).join(lines))}.")

    def queues_command(self) -> tuple[str, ...]:
        return ("sinfo", "--noheader", "--format=%P|%a|%l|%F")

    def parse_queues_output(self, stdout: str, stderr: str, status: int) -> tuple[BatchQueue, ...]:
        ANSWERS.check_complete("sinfo", stderr, status)
        found: dict[str, BatchQueue] = {}
        for line in stdout.splitlines():
            words = line.split("|")
            if len(words) == 4 and (name := words[0].removesuffix("*")) not in found:
                found[name] = BatchQueue(
                    name, words[0].endswith("*"), words[1] == "up", parse_time_limit(words[2]), _nodes_text(words[3])
                )
        return tuple(found.values())


def parse_time_limit(limit: str) -> int | None:
    """A time limit of Slurm ([days-]hours:minutes:seconds, minutes:seconds or minutes); null for none or unknown."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", limit.strip())
    if not match:
        return None
    days, *parts = (int(part) if part is not None else None for part in match.groups())
    given = [part for part in parts if part is not None]
    if days is not None:
        hours, minutes, rest = (*given, 0, 0)[:3]
    else:
        hours, minutes, rest = {1: (0, *given, 0), 2: (0, *given), 3: (*given,)}[len(given)][:3]
    return (((days or 0) * 24 + hours) * 60 + minutes) * 60 + rest


def expand_host_list(text: str) -> tuple[str, ...]:
    """The names in a host list such as `login,node[01-03,7]`. Invalid ones are returned unchanged."""
    words: list[str] = []
    for word in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        match = re.fullmatch(r"([^\[]+)\[([\d,-]+)\]([^\[]*)", word)
        if not match:
            words.append(word)
            continue
        for part in match[2].split(","):
            first, _, last = part.partition("-")
            if len(words) > MAX_HOSTS or not (re.fullmatch(r"[0-9]{1,9}", first) and re.fullmatch("[0-9]{0,9}", last)):
                break
            numbers = range(int(first), int(last or first) + 1)[:MAX_HOSTS]
            words += [f"{match[1]}{number:0{len(first)}}{match[3]}" for number in numbers]
    return tuple(words)


def _status(
    id: str, native: str, reason: str, *, nodes: str = "", position: int | None = None, start: str = "", code: str = ""
) -> BatchStatus:
    """One job. native: its state, which sacct may write with "by UID" or + after it."""
    word = (native.split() or [""])[0].rstrip("+")
    state = STATES.get(word, BatchState.UNKNOWN)
    waits = state is BatchState.PENDING
    if waits and HELD_REASONS.match(readable_reason(reason)):
        state = BatchState.HELD
    text = explain_reason(reason) if waits or state in (BatchState.HELD, BatchState.FAILED) else ""
    if native == "PENDING" and not text:
        text = "Slurm has not scheduled it yet."
    if waits and re.match(r"\d{4}-", start):
        text = f"{text} Slurm expects to start it at {start.replace('T', ' ')}.".strip()
    exit_status = signal = None
    if re.fullmatch(r"\d+:\d+", code) and state in (BatchState.DONE, BatchState.FAILED):
        ended, by = (int(part) for part in code.split(":"))
        if by == NO_OUTPUT:
            text = "Its output could not be opened on its node. Its directory must be shared by all nodes."
        exit_status = ended if by == 0 else None
        signal = by if 0 < by < NO_OUTPUT else None
    return BatchStatus(
        id,
        state,
        native,
        text or STATE_TEXTS.get(word, ""),
        position,
        expand_host_list(nodes) if nodes not in ("", "(null)", "None assigned") else (),
        exit_status,
        signal,
    )


def _check_end_line(stdout: str, stderr: str, status: int) -> None:
    """Raises Unreachable if squeue failed, or its output lacks the end line of the script."""
    ANSWERS.check_complete("squeue", stderr, status)
    if not stdout.endswith("end\n"):
        raise Unreachable("Slurm does not respond as expected: the end of squeue's output is missing.")


def _nodes_text(counts: str) -> str:
    """`allocated/idle/other/total` for display."""
    match = re.fullmatch(r"(\d+)/(\d+)/(\d+)/(\d+)", counts.strip())
    return f"{match[2]} of {match[4]} nodes idle" if match else ""
