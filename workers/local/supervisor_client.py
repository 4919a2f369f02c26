"""A worker's side of the supervisor: start it, read its status, ask it to end, clean up after it."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base import json_files, processes
from ..base.jobfiles import JOB_VARIABLE, JobFiles
from . import supervisor

if TYPE_CHECKING:
    # Not imported at run time: imports of files do not start programs.
    from perfloom.recording.plan import SupervisedRun

HEAD_BYTES = 1 << 20
TAIL_BYTES = 1 << 20
FINISH_TIMEOUT_S = 120.0
"""How long perf may take to complete its file after it was asked to end."""
START_TIMEOUT_S = 10.0
"""How long a supervisor may take from its environment to its first file."""
_LOST_PERF_TIMEOUT_S = 10.0

_spawned: list[int] = []
"""Supervisors that this process started and has not reaped; they may outlive it."""


@dataclass(frozen=True)
class SupervisorStatus:
    """The status of a job's supervisor. has_begun: whether it wrote its first file. exit: how it ended."""

    alive: bool
    has_begun: bool
    exit: dict[str, Any] | None


def write_task(
    files: JobFiles,
    run: "SupervisedRun",
    cwd: str,
    duration_s: float | None,
    reserve_bytes: int,
) -> None:
    """Write what the supervisor is to do."""
    task = {
        "argv": list(run.argv),
        "executable": run.executable,
        "cwd": cwd,
        "inside": run.nests_stat,
        "output": str(files.output),
        "head_bytes": HEAD_BYTES,
        "tail_bytes": TAIL_BYTES,
        "duration_s": duration_s,
        "finish_s": FINISH_TIMEOUT_S,
        "watch": str(files.artifacts),
        "reserve_bytes": reserve_bytes,
    }
    json_files.write_json(files.run / supervisor.TASK, task)


def spawn(files: JobFiles) -> subprocess.Popen[bytes]:
    """Start a supervisor in a separate session. It waits for `start_program` and does nothing before."""
    _reap()
    argv = [*processes.python_argv("perfloom.workers.local.supervisor", isolated=True), str(files.run)]
    with open(files.run / "supervisor.log", "ab") as log:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd="/",
            # Nothing of the worker's or the user's environment changes how the supervisor itself runs.
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
    return child


def start_program(child: subprocess.Popen[bytes], environment: Mapping[str, str]) -> None:
    """Let a spawned supervisor start the program with `environment`. Call it when the claim is committed."""
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        with child.stdin:
            child.stdin.write(json.dumps({"environment": dict(environment)}).encode())


def abandon(child: subprocess.Popen[bytes]) -> None:
    """End a spawned supervisor that must not start a program."""
    if child.stdin is not None:
        child.stdin.close()
    child.wait()


def wait_for_start(files: JobFiles, child: subprocess.Popen[bytes]) -> bool:
    """Wait until a supervisor (this, or another that was faster) has begun. False if none has."""
    end = time.monotonic() + START_TIMEOUT_S
    began = files.run / supervisor.SUPERVISOR
    while not began.exists() and child.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    if child.poll() is None:
        _spawned.append(child.pid)
        child.returncode = 0  # It is reaped by `_reap`.
    return began.exists()


def read_status(files: JobFiles) -> SupervisorStatus:
    """The status of the supervisor of a job."""
    stored = json_files.read_json(files.run / supervisor.SUPERVISOR)
    alive = False
    if stored is not None:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            alive = processes.is_alive(processes.ProcessIdentity.from_json(stored))
    # Read after the check of the process, so that one that ended in between is not reported as lost.
    return SupervisorStatus(alive, stored is not None, json_files.read_json(files.run / supervisor.EXIT))


def request_stop(files: JobFiles, *, at_once: bool = False) -> None:
    """Ask the supervisor to end the program and all its descendants; may be repeated. at_once: without the time for
    perf to complete its file.
    """
    text = supervisor.NOW if at_once else ""
    path = files.run / supervisor.CANCEL
    with contextlib.suppress(OSError):
        if not path.exists() or at_once:
            path.write_text(text)
    stored = json_files.read_json(files.run / supervisor.SUPERVISOR)
    if stored is not None:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            processes.send_signal(processes.ProcessIdentity.from_json(stored), signal.SIGTERM)


def clean_up(files: JobFiles, job_id: str) -> int:
    """End what a killed supervisor left running; returns how many processes.

    perf got SIGINT when the supervisor ended, and gets the time to complete its file.
    """
    program = json_files.read_json(files.run / supervisor.PROGRAM)
    end = time.monotonic() + _LOST_PERF_TIMEOUT_S
    with contextlib.suppress(KeyError, TypeError, ValueError):
        from_json = processes.ProcessIdentity.from_json(program or {})
        processes.send_signal(from_json, signal.SIGINT)
        while processes.is_alive(from_json) and time.monotonic() < end:
            time.sleep(0.02)
            # perf waits for its command, so a command that does not end is ended.
            others = [one for one in processes.find_by_variable(JOB_VARIABLE, job_id) if one.pid != from_json.pid]
            processes.send_all(
                others, signal.SIGTERM if end - time.monotonic() > _LOST_PERF_TIMEOUT_S / 2 else signal.SIGKILL
            )
    return processes.terminate_by_variable(JOB_VARIABLE, job_id)


def _reap() -> None:
    """Wait for supervisors that ended, so that they do not stay in the process table."""
    for pid in list(_spawned):
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                _spawned.remove(pid)
        except ChildProcessError:  # It is the child of the process that this one was forked from.
            _spawned.remove(pid)
