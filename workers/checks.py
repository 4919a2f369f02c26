"""What only the host itself can answer about a job before it is queued: are command, directory and files there?"""

import os
import pwd
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from perfloom.config import Settings
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.facts import HostFacts
from perfloom.domain.jobs import JobSpec, RecorderName, Scope
from perfloom.recorders.events import privileged
from perfloom.recorders.preflight import Finding, Level, preflight
from perfloom.workers import processes
from perfloom.workers.jobfiles import JobFiles, command_path, working_directory

TORCH_S = 2.0
"""How long a Python may take to say whether it has PyTorch: somebody waits for it."""


def check(
    spec: JobSpec, facts: HostFacts, settings: Settings, environment: Mapping[str, str], files: JobFiles | None = None
) -> list[Finding]:
    """All findings about `spec` on this host: those of the preflight, and what the host itself tells.

    files: the job's directory, where it has one.
    """
    host = facts.host
    own = files or JobFiles(settings.data)
    found = preflight(spec, facts)
    found += [*_directory(spec, host), *_inputs(spec, host), *_command(spec, host, environment, own)]
    found += _torch(spec, host, environment, own)
    found += [*_process(spec, facts), *_disk(settings, host)]
    order = list(Level)
    return sorted(found, key=lambda finding: order.index(finding.level))


def check_json(question: dict[str, object], facts: HostFacts, settings: Settings) -> dict[str, object]:
    """The answer to a question of the catalogue: `{"findings": […]}`."""
    try:
        spec = JobSpec.from_json(question)
    except InvalidRequest as error:
        return {"findings": [Finding(Level.ERROR, "command", error.message, "Correct it.").to_json()]}
    environment = {**os.environ, **spec.environment}
    return {"findings": [finding.to_json() for finding in check(spec, facts, settings, environment)]}


def _directory(spec: JobSpec, host: str) -> Iterator[Finding]:
    if not spec.cwd:
        return
    path = Path(spec.cwd)
    why = None
    if not path.is_absolute():
        why = f"The working directory {spec.cwd} is no full path."
    elif not _exists(path):
        why = f"The directory {path} does not exist on {host}."
    elif not path.is_dir():
        why = f"{path} on {host} is no directory."
    elif not os.access(path, os.R_OK | os.X_OK, effective_ids=True):
        why = f"The directory {path} may not be entered by {_user()} on {host}."
    if why:
        advice = "Give a directory that is there, or leave it empty for one of the job's own."
        yield Finding(Level.ERROR, "cwd", why, advice)


def _inputs(spec: JobSpec, host: str) -> Iterator[Finding]:
    for given in spec.inputs:
        path = Path(given)
        advice = "Check its spelling and its permissions, or leave it out."
        if not path.is_absolute():
            yield Finding(Level.ERROR, "inputs", f"The input file {given} is no full path.", "Begin it with /.")
        elif not _exists(path):
            yield Finding(Level.ERROR, "inputs", f"The input file {given} does not exist on {host}.", advice)
        elif not os.access(path, os.R_OK, effective_ids=True):
            yield Finding(Level.ERROR, "inputs", f"{_user()} may not read {given} on {host}.", advice)


def _command(spec: JobSpec, host: str, environment: Mapping[str, str], files: JobFiles) -> Iterator[Finding]:
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
        text = f"{name} is meant from the working directory, which is empty for this job."
        yield Finding(Level.ERROR, "command", text, "Give its full path, a working directory, or it as input file.")
    elif "/" in name and _exists(cwd / name):
        advice = f"Make it executable: chmod +x {cwd / name}"
        yield Finding(Level.ERROR, "command", f"{name} may not be executed by {_user()} on {host}.", advice)
    else:
        where = "does not exist" if "/" in name else "is not found in PATH"
        advice = "Check the spelling, or give the full path."
        yield Finding(Level.ERROR, "command", f"{name} {where} on {host}.", advice)


def _torch(spec: JobSpec, host: str, environment: Mapping[str, str], files: JobFiles) -> Iterator[Finding]:
    """Whether the Python of a command has what is to be recorded. It is not imported, which takes long."""
    if spec.recorder is not RecorderName.PYTORCH or not spec.command or spec.modules:
        return
    cwd = working_directory(spec, files)
    path = ":".join((*spec.path, environment.get("PATH", os.defpath)))
    program = command_path(spec, cwd, {**environment, "PATH": path}) if spec.command[0] else None
    if program is None or not Path(program).name.startswith("python"):
        return
    look = "import importlib.util, sys; sys.exit(9 if importlib.util.find_spec('torch') is None else 0)"
    try:
        done = subprocess.run(
            [program, "-c", look], env=dict(environment), capture_output=True, timeout=TORCH_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return
    if done.returncode == 9:
        text = f"{spec.command[0]} on {host} has no PyTorch."
        yield Finding(Level.WARNING, "command", text, "Name the Python of the environment that has it, by its path.")


def _process(spec: JobSpec, facts: HostFacts) -> Iterator[Finding]:
    if spec.scope is not Scope.PROCESS or spec.pid is None or spec.pid <= 0:
        return
    if processes.status(spec.pid) is None:
        text = f"There is no process {spec.pid} on {facts.host}."
        yield Finding(Level.ERROR, "pid", text, "It has ended, or runs on another machine: look with ps.")
        return
    try:
        owner = os.stat(f"/proc/{spec.pid}").st_uid
    except OSError:
        return
    if owner != os.geteuid() and not privileged(facts) and "cap_sys_ptrace" not in facts.perf_capabilities:
        text = f"Process {spec.pid} belongs to {_user(owner)}; {facts.user} may not observe it."
        advice = f"As root: setcap cap_perfmon,cap_sys_ptrace,cap_syslog=ep {facts.perf or 'perf'}"
        yield Finding(Level.ERROR, "pid", text, advice)


def _disk(settings: Settings, host: str) -> Iterator[Finding]:
    try:
        disk = os.statvfs(settings.data)
    except OSError:
        return
    free = disk.f_bavail * disk.f_frsize
    if free < settings.reserve_bytes:
        text = f"The disk of {settings.data} on {host} has {free / 1e9:.1f} GB left."
        yield Finding(Level.ERROR, "recorder", text, "Delete results or other files there.")


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
