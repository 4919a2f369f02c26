"""Checks of a job that only its host can make before it is queued: command, directory and files exist."""

import os
import pwd
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from perfloom.config import Settings
from perfloom.domain.errors import InvalidRequest, PerfloomError
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.isolation import ProtectedServer
from perfloom.domain.jobs import JobSpec, Scope
from perfloom.domain.units import format_bytes
from perfloom.recording.quoting import join
from perfloom.recording.recorders import recorder_of
from perfloom.recording.recorders.events import is_privileged
from perfloom.recording.recorders.languages import interpreter_of, language_of
from perfloom.recording.recorders.permissions import setcap_command
from perfloom.recording.recorders.preflight import PreflightFinding, Severity, preflight

from ..base import processes
from ..base.jobfiles import JobFiles, command_path, working_directory
from ..base.scripts import worker_script
from ..targets import job_user
from ..transports.as_user import UserTransport

PROGRAM_TIMEOUT_S = 2.0
"""Timeout of questions to a Python: whether it has PyTorch, and its version. A page waits for the answer."""
_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(\.[0-9]{1,3})?")


def check_job(
    spec: JobSpec, facts: HostFacts, settings: Settings, environment: Mapping[str, str], files: JobFiles | None = None
) -> list[PreflightFinding]:
    """All findings about `spec` on this host: those of the preflight, and of checks on the host.

    files: the job's directory, where it has one.
    """
    host = facts.host
    own = files or JobFiles(settings.data)
    findings = preflight(spec, facts)
    if settings.run_as:
        # That user has to find these files, and no other user may run any of them.
        findings += _by_user(spec, host, settings.run_as)
    else:
        access = FileAccess(_user())
        findings += [
            *_directory(spec, host, access),
            *_inputs(spec, host, access),
            *_command(spec, host, environment, own),
        ]
        findings += [
            *_torch(spec, host, environment, own),
            *_interpreter(spec, host, environment, own),
            *_process(spec, facts),
        ]
    findings += _disk(settings, host)
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.level))


def check_json(question: dict[str, object], facts: HostFacts, settings: Settings) -> dict[str, object]:
    """The answer to a check: `{"findings": […]}`. `server` in the question: see `job_user`."""
    if reason := job_user.refusal(settings, ProtectedServer.from_request(question.get("server"))):
        return {"findings": [PreflightFinding(Severity.ERROR, "target", reason, "").to_json()]}
    try:
        spec = JobSpec.from_json(question)
    except InvalidRequest as error:
        return {"findings": [PreflightFinding(Severity.ERROR, "command", error.message, "Correct it.").to_json()]}
    environment = {**os.environ, **spec.environment}
    return {"findings": [finding.to_json() for finding in check_job(spec, facts, settings, environment)]}


class FileAccess:
    """Access of a user to paths: here of this process's user."""

    def __init__(self, user: str) -> None:
        self.user = user

    def allows(self, path: Path, kind: str) -> bool:
        """kind: whether it exists ("e"), is a directory ("d"), may be read ("r") or entered ("x")."""
        if kind in "ed":
            return _exists(path) and (kind == "e" or path.is_dir())
        return os.access(path, os.R_OK if kind == "r" else os.X_OK, effective_ids=True)


class OtherUserFileAccess(FileAccess):
    """Access of another user to the given paths."""

    def __init__(self, user: str, paths: Sequence[str]) -> None:
        """Raises Unavailable if nothing can be started as that user."""
        super().__init__(user)
        script = f"set -- {join(paths)}\n{worker_script('local/file_access.sh')}"
        text = UserTransport(user).run(script).text if paths else ""
        self._seen = dict(zip(paths, text.split("\n"), strict=False))

    def allows(self, path: Path, kind: str) -> bool:
        """See FileAccess."""
        return kind in self._seen.get(str(path), "")


def _by_user(spec: JobSpec, host: str, user: str) -> list[PreflightFinding]:
    """Findings about directory and input files if another user runs the job."""
    paths = [str(Path(one)) for one in (spec.cwd, *spec.inputs) if one and "\0" not in one]
    try:
        access = OtherUserFileAccess(user, paths)
    except (PerfloomError, OSError) as error:
        text = error.message if isinstance(error, PerfloomError) else str(error)
        return [
            PreflightFinding(
                Severity.WARNING, "", f"Paths are not checked: {text}", "Perfloom checks them when the job starts."
            )
        ]
    return [*_directory(spec, host, access), *_inputs(spec, host, access)]


def _directory(spec: JobSpec, host: str, access: FileAccess) -> Iterator[PreflightFinding]:
    if not spec.cwd:
        return
    path = Path(spec.cwd)
    why = None
    if not path.is_absolute():
        why = f"The working directory {spec.cwd} is not an absolute path."
    elif not access.allows(path, "e"):
        why = f"The directory {path} does not exist on {host}, or {access.user} cannot access it."
    elif not access.allows(path, "d"):
        why = f"{path} on {host} is not a directory."
    elif not (access.allows(path, "r") and access.allows(path, "x")):
        why = f"{access.user} may not enter the directory {path} on {host}."
    if why:
        advice = "Use an existing directory, or leave it empty to use the job's directory."
        yield PreflightFinding(Severity.ERROR, "cwd", why, advice)


def _inputs(spec: JobSpec, host: str, access: FileAccess) -> Iterator[PreflightFinding]:
    for name in spec.inputs:
        path = Path(name)
        advice = "Check its spelling and its permissions, or remove it."
        if not path.is_absolute():
            yield PreflightFinding(
                Severity.ERROR, "inputs", f"The input file {name} is not an absolute path.", "Start it with /."
            )
        elif not access.allows(path, "e"):
            yield PreflightFinding(
                Severity.ERROR,
                "inputs",
                f"The input file {name} does not exist on {host}, or {access.user} cannot access it.",
                advice,
            )
        elif not access.allows(path, "r"):
            yield PreflightFinding(Severity.ERROR, "inputs", f"{access.user} may not read {name} on {host}.", advice)


def _command(spec: JobSpec, host: str, environment: Mapping[str, str], files: JobFiles) -> Iterator[PreflightFinding]:
    if not spec.command or not spec.command[0] or spec.scope is Scope.PROCESS:
        return
    name = spec.command[0]
    cwd = working_directory(spec, files)
    path = ":".join((*spec.path, environment.get("PATH", os.defpath)))
    if command_path(spec, cwd, {**environment, "PATH": path}) is not None:
        return
    # It may come with the input files.
    if "/" in name and Path(name).name in {Path(given).name for given in spec.inputs}:
        return
    if "/" in name and not Path(name).is_absolute() and not spec.cwd:
        text = f"{name} is relative to the working directory, which is empty for this job."
        yield PreflightFinding(
            Severity.ERROR, "command", text, "Use its absolute path or a working directory, or add it as an input file."
        )
    elif "/" in name and _exists(cwd / name):
        advice = f"Make it executable: chmod +x {cwd / name}"
        yield PreflightFinding(Severity.ERROR, "command", f"{_user()} may not execute {name} on {host}.", advice)
    else:
        where = "does not exist" if "/" in name else "was not found in PATH"
        advice = "Check the spelling, or use the absolute path."
        yield PreflightFinding(Severity.ERROR, "command", f"{name} {where} on {host}.", advice)


def _torch(spec: JobSpec, host: str, environment: Mapping[str, str], files: JobFiles) -> Iterator[PreflightFinding]:
    """Whether the Python of a command has PyTorch. It is not imported, which takes long."""
    if not recorder_of(spec).needs_torch or not spec.command or spec.modules:
        return
    program = _program(spec, environment, files)
    if program is None or not Path(program).name.startswith("python"):
        return
    look = "import importlib.util, sys; sys.exit(9 if importlib.util.find_spec('torch') is None else 0)"
    try:
        done = subprocess.run(
            [program, "-c", look], env=dict(environment), capture_output=True, timeout=PROGRAM_TIMEOUT_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return
    if done.returncode == 9:
        text = f"{spec.command[0]} on {host} has no PyTorch."
        yield PreflightFinding(
            Severity.WARNING, "command", text, "Use the path of Python in the environment that has it."
        )


def _interpreter(
    spec: JobSpec, host: str, environment: Mapping[str, str], files: JobFiles
) -> Iterator[PreflightFinding]:
    """Whether the interpreter of a command is too old to name its functions."""
    interpreter = interpreter_of(spec)
    if interpreter is None or spec.modules or language_of(spec.command[0]) is not spec.language:
        return
    program = _program(spec, environment, files)
    if program is None:
        return
    words = [program, interpreter.version_option]
    try:
        done = subprocess.run(
            words, env=dict(environment), capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return
    # Java says first which options it takes from the environment.
    lines = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("Picked up ")]
    version = _VERSION.search("\n".join(lines))
    if version is not None and (int(version[1]), int(version[2])) < interpreter.oldest:
        text = f"{spec.command[0]} on {host} is version {version[0]}, which cannot name its functions."
        oldest = ".".join(map(str, interpreter.oldest))
        yield PreflightFinding(Severity.WARNING, "language", text, f"Use {interpreter.title} {oldest} or later.")


def _program(spec: JobSpec, environment: Mapping[str, str], files: JobFiles) -> str | None:
    """The path of the command's program; None if it was not found."""
    path = ":".join((*spec.path, environment.get("PATH", os.defpath)))
    return (
        command_path(spec, working_directory(spec, files), {**environment, "PATH": path}) if spec.command[0] else None
    )


def _process(spec: JobSpec, facts: HostFacts) -> Iterator[PreflightFinding]:
    for pid in spec.pids if spec.scope is Scope.PROCESS else ():
        if pid <= 0:
            continue
        if processes.read_stat(pid) is None:
            text = f"Process {pid} does not exist on {facts.host}."
            yield PreflightFinding(Severity.ERROR, "pid", text, "It ended, or runs on another machine. Check with ps.")
            continue
        try:
            owner = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            continue
        if owner != os.geteuid() and not is_privileged(facts) and "cap_sys_ptrace" not in facts.perf_capabilities:
            text = f"Process {pid} belongs to {_user(owner)}; {facts.user} may not record it."
            advice = f"As root: {setcap_command(facts.perf)}"
            yield PreflightFinding(Severity.ERROR, "pid", text, advice)


def _disk(settings: Settings, host: str) -> Iterator[PreflightFinding]:
    try:
        disk = os.statvfs(settings.data)
    except OSError:
        return
    free = disk.f_bavail * disk.f_frsize
    if free < settings.reserve_bytes:
        text = f"The disk of {settings.data} on {host} has {format_bytes(free)} left."
        yield PreflightFinding(Severity.ERROR, "recorder", text, "Delete results or other files there.")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _user(uid: int | None = None) -> str:
    number = os.geteuid() if uid is None else uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
