"""IBM Spectrum LSF (and Platform LSF from 9.1): bsub, bjobs, bkill, and bhist for jobs that bjobs does not know."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from ...domain.errors import InvalidRequest, Unreachable
from ...domain.jobs import Batch, JobSpec, Mpi
from ...domain.targets import BatchQueue, BatchState, BatchStatus, SchedulerName
from ..quoting import join
from ..scripts import script_text
from .common import AnswerParser, explain_words, hours_and_minutes, reject_options, script_argv
from .lsf_states import END_REASONS, STATE_TEXTS, STATES, explain_reason

ANSWERS = AnswerParser(
    "LSF",
    noise=re.compile(r"^\s*(bsub|bjobs|bkill|bhist|bqueues)\s*:\s*"),
    no_answer=re.compile(
        r"Cannot connect to LSF|LSF is down|LSF is processing your request|Failed in an? (LSF|LIM) library call|"
        r"non-LSF host|Communication time ?out|Connection (refused|reset|timed out)|daemon not responding|"
        r"LIM is down|Slave LIM|mbatchd is (down|not)|Please wait",
        re.I,
    ),
    refusals=(
        (r"RUNLIMIT|run ?limit|(?<!\S)-W\b", "wall_time", "Request a time that the queue allows."),
        ("queue", "queue", "Choose a queue that the target's check lists."),
        ("project", "project", "Choose a project that you may use there."),
        (r"resource requirement|(?<!\S)-R\b|syntax", "resources", "Correct the resource string."),
        (r"processor|slot|(?<!\S)-n\b", "ranks", "Request as many ranks and CPUs as the queue allows."),
        ("option|usage", "batch_arguments", "Correct the further arguments."),
    ),
)
SUBMITTED = re.compile(r"Job <(\d+)> is submitted to")
UNKNOWN_ID = re.compile(r"Job <(\d+)> is not found")
QUEUE = re.compile(r"^(\S+)\s+(-?\d+)\s+(Open|Closed)\S(Active|Inact\w*)(.*)$")
ALREADY_ENDED = re.compile(r"has already finished|No matching job found|is being (terminated|signaled)")
"""Messages of bkill about a job that has ended, or is about to."""
EVENT = re.compile(r"^\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d( \d{4})?: (.*(?:\n .*)*)", re.M)
"""An event of bhist -l with its continuation lines."""
ENDED = re.compile(r"Donesuccessfully|Exited(?:withexitcode(\d+)|bysignal(\d+))?")
SPREAD = re.compile(r"\bspan\s*\[|\{|\|\|")
"""Matches resource strings to which no span may be added: those with a span, and compound or alternative
requirements."""

RESERVED_OPTIONS = (
    *("-J", "-o", "-oo", "-e", "-eo", "-K", "-I", "-Ip", "-Is", "-ISp", "-ISs", "-IS", "-IX", "-r", "-Zs", "-Z", "-i"),
    *("-is", "-h", "-V", "-pack", "-f", "-H", "-jsdl", "-jsdl_strict", "-json", "-yaml"),
)
"""Options that would not result in one job that runs once and can be found by name."""

ALLOWED_OPTIONS = ("-Jd", "-env", "-eptl", "-ext", "-freq", "-hl", "-hostfile", "-outdir", "-rcacct", "-rn", "-rnc")
"""Permitted options of LSF 9.1 to 10.1 that begin like one of them."""

OPTIONS_WITHOUT_VALUE = ("-ar", "-B", "-N", "-Ne", "-x", "-hl", "-rn", "-ul", "-tty", "-ti", "-XF", "-datachk")
"""Options without a value."""

_VALUED = """
a alloc_flags app b c C clusters cn_mem core_isolation csm cwd D data datagrp E Ep env eptl ext extsched F freq G g gpu
hostfile Jd jobaff jsm k L ln_mem ln_slots Lp M m mig n network nnodes notify outdir p P ptl q Q R rcacct rnc s S sla
smt sp stage step_cgroup t T u U v w W wa We wt
"""
OPTIONS_WITH_VALUE = tuple(f"-{name}" for name in _VALUED.split())
"""Options of LSF 9.1 to 10.1 whose value is the next word (command reference of bsub)."""


FIELDS: Mapping[str, str] = MappingProxyType(
    {"queue": "Queue", "project": "Project"}
    | dict.fromkeys(("wall_time_s", "resources", "cpus", "exclusive", "arguments"), "")
)


@dataclass(frozen=True)
class Lsf:
    """At the time limit (-W) LSF sends USR2 to every process of a job, and kills it ten minutes later; bkill sends INT,
    TERM and KILL ten seconds apart. The shell in which LSF runs a job's command ignores all except KILL."""

    name: SchedulerName = SchedulerName.LSF
    title: str = ANSWERS.title
    hint: str = "Jobs are submitted with bsub."
    fields: ClassVar[Mapping[str, str]] = FIELDS
    version_pattern: str = r"^(?:IBM |Platform )?.*?LSF.*?\b(\d+(?:\.\d+)+)"
    version_commands: tuple[tuple[str, ...], ...] = (("bsub", "-V"), ("lsid",))
    job_variable: str = "LSB_JOBID"
    job_script: str = script_text("schedulers/lsf_job.sh")
    programs: tuple[str, ...] = ("bsub", "bjobs", "bkill", "bhist", "bqueues")

    def submit_command(self, spec: JobSpec, job_name: str, script: Sequence[str], output: str) -> tuple[str, ...]:
        batch, mpi = spec.batch, spec.mpi
        reject_options(self.title, "bsub", ((_option(word), word) for word in batch.arguments), RESERVED_OPTIONS)
        _refuse_commands(batch.arguments)
        # -rn: never rerun, even if the queue is configured to.
        argv = ["bsub", "-J", job_name, "-o", output, "-rn"]
        if batch.queue:
            argv += ["-q", batch.queue]
        if batch.project:
            argv += ["-P", batch.project]
        if batch.wall_time_s is not None:
            hours, minutes = hours_and_minutes(batch.wall_time_s)
            argv += ["-W", f"{hours}:{minutes:02}"]
        slots = (mpi.ranks if mpi else 1) * (batch.cpus or 1)
        if slots > 1:
            argv += ["-n", str(slots)]
        if resources := _resources(batch, mpi):
            argv += ["-R", resources]
        if batch.exclusive:
            argv.append("-x")
        # bsub passes the command to /bin/sh, so it is one word here. No exec: a queue may have a JOB_STARTER prefix.
        return (*argv, *batch.arguments, join(script))

    def parse_submit_output(self, stdout: str, stderr: str, status: int) -> str:
        match = SUBMITTED.search(stdout) or SUBMITTED.search(stderr)
        if match:
            return match[1]
        ANSWERS.check_answered("bsub", stderr or stdout, status)
        ANSWERS.raise_refused(stderr or stdout)

    def find_command(self, job_name: str) -> tuple[str, ...]:
        return _script_argv("lsf_find.sh", job_name)

    def parse_find_output(self, stdout: str, stderr: str, status: int) -> str | None:
        ids = re.findall(r"^(\d+)\^", stdout, re.M)
        if ids:
            return str(ids[0])
        if re.search(r"is not found|No (\w+ )?job found", stderr):
            return None
        ANSWERS.check_complete("bjobs", stderr, status or 1)
        return None

    def status_command(self, ids: Sequence[str]) -> tuple[str, ...]:
        return _script_argv("lsf_status.sh", *ids)

    def parse_status_output(
        self, ids: Sequence[str], stdout: str, stderr: str, status: int
    ) -> Mapping[str, BatchStatus]:
        records = _records(stdout)
        # The answer names the unknown jobs; a job that is merely missing is not known to be gone.
        lost = set(UNKNOWN_ID.findall(f"{stdout}\n{stderr}"))
        statuses = {str(record.get("JOBID", "")): _status(record) for record in records if record.get("STAT")}
        if not statuses and not lost:
            ANSWERS.check_complete("bjobs", stderr, status or 1)
        statuses = {id: BatchStatus(id, BatchState.GONE) for id in lost} | statuses
        silent = "LSF reported nothing about this job."
        return {id: statuses.get(id) or BatchStatus(id, BatchState.UNKNOWN, reason=silent) for id in ids}

    def history_command(self, id: str) -> tuple[str, ...]:
        return _script_argv("lsf_history.sh", id)

    def parse_history_output(self, id: str, stdout: str, stderr: str, status: int) -> BatchStatus:
        state, code, signal, keyword = "", "", "", ""
        for _, text in EVENT.findall(stdout):
            # bhist breaks lines in the middle of words.
            event = "".join(text.split())
            if match := ENDED.match(event):
                state, code, signal = ("EXIT" if event.startswith("E") else "DONE"), match[1] or "", match[2] or ""
            if match := re.search(r"TERM_[A-Z_]+", event if ENDED.match(event) or "Completed<exit>" in event else ""):
                keyword = match[0]
        if not state:
            if "No matching job found" not in stderr:
                ANSWERS.check_answered("bhist", stderr, status)
            return BatchStatus(id, BatchState.UNKNOWN, reason="LSF no longer knows this job.")
        code = str(128 + int(signal)) if signal else code
        return _status({"JOBID": id, "STAT": state, "EXIT_CODE": code, "EXIT_REASON": keyword})

    def cancel_command(self, ids: Sequence[str], *, gently: bool) -> tuple[str, ...]:
        return _script_argv("lsf_terminate.sh" if gently else "lsf_kill.sh", *ids)

    def parse_cancel_output(self, stdout: str, stderr: str, status: int) -> None:
        lines = stderr.splitlines()
        left = [line for line in lines if not ALREADY_ENDED.search(line)]
        if len(left) < len(lines) or ALREADY_ENDED.search(stdout):
            # It did answer in the end.
            left = [line for line in left if not ANSWERS.no_answer.search(line)]
        ANSWERS.check_answered("bkill", "\n".join(left), status)
        if status and left:
            raise InvalidRequest(f"LSF did not cancel the job: {ANSWERS.clean_text(chr(10).join(left))}.")

    def queues_command(self) -> tuple[str, ...]:
        return _script_argv("lsf_queues.sh")

    def parse_queues_output(self, stdout: str, stderr: str, status: int) -> tuple[BatchQueue, ...]:
        ANSWERS.check_complete("bqueues", stderr, status)
        match = re.search(r"Default Queues?:\s*(.*)", stdout)
        default = match[1].split() if match else []
        rows = [found for line in stdout.splitlines() if (found := QUEUE.match(line))]
        return tuple(
            BatchQueue(row[1], row[1] in default[:1], row[3] == "Open" and row[4] == "Active", None, _counts(row[5]))
            for row in rows
        )


def _option(word: str) -> str:
    """The option of a word. Its value may be joined: -Jname."""
    return max(
        (option for option in (*RESERVED_OPTIONS, *ALLOWED_OPTIONS) if word.startswith(option)), key=len, default=word
    )


def _refuse_commands(arguments: Sequence[str]) -> None:
    """Raises InvalidRequest for a word that is neither an option nor a value, and for an option that lacks its value.
    bsub would take the former as the start of the command, and pass it and the rest unquoted to a shell; the latter
    would take the command as its value."""
    lacking, may_be_value = "", False
    for word in arguments:
        if lacking:
            if word in (*OPTIONS_WITH_VALUE, *OPTIONS_WITHOUT_VALUE):
                raise _lacks_value(lacking)
            lacking, may_be_value = "", False
            continue
        option = len(word) > 1 and word.startswith("-") and word != "--"
        if not option and not may_be_value:
            raise InvalidRequest(
                f"LSF would take {word[:80]!r} for the command, as it belongs to no option. Remove it from the "
                "further arguments of bsub, or add the option that it belongs to.",
                "batch_arguments",
            )
        lacking = word if word in OPTIONS_WITH_VALUE else ""
        # An unknown option of a later version may have a value, unless a value is joined to it.
        may_be_value = option and word not in OPTIONS_WITHOUT_VALUE and re.fullmatch(r"-[A-Za-z_]+", word) is not None
    if lacking:
        raise _lacks_value(lacking)


def _lacks_value(option: str) -> InvalidRequest:
    return InvalidRequest(
        f"{option!r} in the further arguments of bsub needs a value. LSF would use the next argument. "
        "Add the value, or remove the option.",
        "batch_arguments",
    )


def _resources(batch: Batch, mpi: Mpi | None) -> str:
    """The user's -R with a span for the ranks per host, if it has none."""
    if not mpi or mpi.ranks_per_node is None or SPREAD.search(batch.resources):
        return batch.resources
    return f"{batch.resources} span[ptile={mpi.ranks_per_node * (batch.cpus or 1)}]".strip()


def _records(stdout: str) -> list[dict[str, Any]]:
    """The jobs in the output of bjobs: JSON after other messages, or, from old versions, fields separated by ^."""
    start = stdout.find("{")
    if start >= 0 and '"RECORDS"' in stdout:
        try:
            data, _ = json.JSONDecoder(strict=False).raw_decode(stdout[start:])
            return [record for record in data["RECORDS"] if isinstance(record, dict)]
        except (ValueError, KeyError, TypeError):
            raise Unreachable("LSF does not respond as expected: the output of bjobs cannot be parsed.") from None
    names = ("JOBID", "STAT", "EXIT_CODE", "EXEC_HOST")
    rows = [line.split("^") for line in stdout.splitlines() if re.match(r"\d+\^", line)]
    return [
        {name: "" if value.strip() == "-" else value.strip() for name, value in zip(names, row, strict=False)}
        for row in rows
    ]


def _status(record: Mapping[str, Any]) -> BatchStatus:
    """One job of bjobs or bhist."""
    native = str(record.get("STAT", "")).strip()
    state = STATES.get(native, BatchState.UNKNOWN)
    code = str(record.get("EXIT_CODE") or "").strip()
    exit_status, signal = _ending(int(code) if code.isdecimal() else None)
    reason = STATE_TEXTS.get(native, "")
    if state is BatchState.PENDING or native == "PSUSP":
        reason = explain_reason(str(record.get("PEND_REASON") or "")) or reason
    if native == "EXIT":
        state, reason = _end(str(record.get("EXIT_REASON") or ""), signal)
    if state is BatchState.DONE:
        exit_status = exit_status or 0
    return BatchStatus(
        id=str(record.get("JOBID", "")),
        state=state,
        native=native,
        reason=reason,
        hosts=_hosts(str(record.get("EXEC_HOST") or "")),
        exit_status=exit_status,
        signal=signal,
    )


def _end(words: str, signal: int | None) -> tuple[BatchState, str]:
    """The reason why a job failed."""
    keyword = words.partition(":")[0].strip().rstrip(".;")
    if keyword in END_REASONS:
        state, advice = END_REASONS[keyword]
        return state, f"{advice} ({words.strip().rstrip('.')})"
    if not keyword and signal == 12:
        return END_REASONS["TERM_RUNLIMIT"]
    return BatchState.FAILED, explain_words(ANSWERS.title, words.strip().rstrip("."), ())


def _ending(code: int | None) -> tuple[int | None, int | None]:
    """(exit status, signal) of LSF's exit code, which is 128 + the signal if one ended the job."""
    if code is not None and 128 < code < 128 + 65:
        return None, code - 128
    return code, None


def _hosts(text: str) -> tuple[str, ...]:
    """`4*hostA:2*hostB` → hostA, hostB."""
    names = (word.rpartition("*")[2].strip() for word in re.split(r"[:\s]+", text))
    return tuple(dict.fromkeys(name for name in names if name and name != "-"))


def _counts(rest: str) -> str:
    """The columns of bqueues after the status, for display: four limits, then slots in total, pending, and running."""
    words = rest.split()
    return f"{words[5]} slots wait, {words[6]} run" if len(words) > 6 else ""


def _script_argv(name: str, *arguments: str) -> tuple[str, ...]:
    return script_argv(script_text("schedulers/lsf_tries.sh") + script_text(f"schedulers/{name}"), *arguments)
