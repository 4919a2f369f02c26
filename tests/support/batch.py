"""Batch systems for tests: a real Slurm of one node, and a simulated LSF.

Both are available to processes with `path` first in PATH: the programs in that directory know their own cluster, so
that they can be used over SSH, by another user and inside a job as well. `environment` does the same for those in
/usr/bin. Everything ends with the test run, however that ends: see `tests.support.guard`.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfloom.domain.targets import SchedulerName
from perfloom.recording.schedulers import Scheduler, scheduler_of
from tests.support.parts import require

GUARD = Path(__file__).with_name("guard.py")
DOUBLE = Path(__file__).with_name("lsf")
LSF_PROGRAMS = ("bsub", "bjobs", "bkill", "bhist", "bqueues", "bparams", "bstop", "bresume", "blaunch", "lsid")
SLURM_PROGRAMS = ("sbatch", "squeue", "scancel", "sinfo", "scontrol", "sacct", "srun")


@dataclass(frozen=True)
class BatchSystem:
    """A running batch system. path: the directory of its programs. environment: variables for programs in another
    directory. folder: its own, with its logs."""

    name: SchedulerName
    folder: Path
    path: Path
    environment: Mapping[str, str]

    @property
    def scheduler(self) -> Scheduler:
        """Perfloom's adapter for it."""
        found = scheduler_of(self.name)
        assert found is not None
        return found

    @property
    def variables(self) -> dict[str, str]:
        """The environment of this test run with the programs on PATH."""
        return {**os.environ, **self.environment, "PATH": f"{self.path}:{os.environ['PATH']}"}

    def run(self, argv: Sequence[str], **more: str) -> tuple[str, str, int]:
        """Run one of its programs: (stdout, stderr, exit status), as the methods of `scheduler` take it."""
        done = subprocess.run(
            argv, env={**self.variables, **more}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
        return done.stdout, done.stderr, done.returncode

    def logs(self) -> str:
        """The end of its daemons' logs."""
        return "\n".join(f"{log}:\n{log.read_text(errors='replace')[-1500:]}" for log in self.folder.glob("*.log"))


@dataclass(frozen=True)
class Slurm(BatchSystem):
    """A real Slurm."""

    def reach_time_limit(self, id: str) -> None:
        """Let a running job reach its time limit now, without waiting for the minutes that Slurm counts in. Slurm
        notices within 30 s."""
        stdout, stderr, status = self.run(["scontrol", "update", f"JobId={id}", "EndTime=now"])
        assert status == 0, stdout + stderr


@dataclass(frozen=True)
class LsfDouble(BatchSystem):
    """The simulated LSF."""

    def control(self, **settings: object) -> None:
        """Change its behavior from now on; see tests/support/lsf/mbatchd.py. Without settings: the defaults."""
        path = self.folder / "control.json"
        known = json.loads(path.read_text()) if settings else {}
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(known | settings))
        fresh.replace(path)


@contextlib.contextmanager
def guarded(servers: Sequence[tuple[Sequence[str | Path], Path]]) -> Iterator[subprocess.Popen[bytes]]:
    """Servers (argv, log) for the time of the block; then they and all processes that they started are killed."""
    words = [{"argv": [str(word) for word in argv], "log": str(log)} for argv, log in servers]
    argv = [sys.executable, "-I", "-S", str(GUARD), json.dumps(words)]
    guard = subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield guard
    finally:
        assert guard.stdin
        guard.stdin.close()
        guard.wait(30)


@contextlib.contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """A directory with a short path that is readable for all users."""
    made = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def wait_for(ready: Callable[[], object], system: BatchSystem, limit_s: float = 40) -> None:
    """Return when `ready` is true; fail with the logs after a time limit."""
    deadline = time.monotonic() + limit_s
    while not ready():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{system.name} is not up:\n{system.logs()}")
        time.sleep(0.1)


@contextlib.contextmanager
def slurm() -> Iterator[Slurm]:
    """A cluster of one node with 16 CPUs, whatever this machine has, for the user who runs the tests, and for all users
    if that is root. Partitions: debug (the default), short (a limit of a minute), closed."""
    require("slurm")
    with folder("pl-slurm-") as place:
        system = _slurm_files(place)
        programs = [shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("slurmctld", "slurmd")]
        servers = [([str(program), "-D"], place / f"{Path(str(program)).name}.log") for program in programs]
        with guarded([(["env", f"SLURM_CONF={place}/slurm.conf", *argv], log) for argv, log in servers]):
            wait_for(lambda: system.run(["sinfo", "--noheader", "--format=%T"])[0].startswith("idle"), system)
            yield system


@dataclass(frozen=True)
class Daemons:
    """A Slurm whose daemons can be killed and restarted. Processes of slurmd survive meanwhile."""

    system: Slurm
    stack: contextlib.ExitStack

    def start(self, *names: str) -> None:
        """Start slurmctld or slurmd."""
        for name in names:
            program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
            assert program, name
            conf = f"SLURM_CONF={self.system.folder}/slurm.conf"
            log = self.system.folder / f"{name}.log"
            self.stack.enter_context(guarded([(["env", conf, program, "-D"], log)]))

    def kill(self, *names: str, by: signal.Signals = signal.SIGKILL) -> None:
        """End them by a signal, but not the processes that they started."""
        for name in names:
            pid = int((self.system.folder / f"{name}.pid").read_text())
            os.kill(pid, by)
            # Path.exists raises ProcessLookupError if a process ends at that moment.
            wait_for(lambda pid=pid: not os.path.exists(f"/proc/{pid}/exe"), self.system)  # type: ignore[misc]
            (self.system.folder / f"{name}.pid").unlink(missing_ok=True)

    def idle(self) -> None:
        """Wait until the node takes jobs."""
        wait_for(lambda: self.system.run(["sinfo", "--noheader", "--format=%T"])[0].strip() == "idle", self.system)


@contextlib.contextmanager
def restartable_slurm(more: str = "") -> Iterator[Daemons]:
    """A separate cluster, like `slurm`. more: lines for its configuration."""
    require("slurm")
    with folder("pl-slurm-") as place, contextlib.ExitStack() as stack:
        system = _slurm_files(place)
        with (place / "slurm.conf").open("a") as conf:
            conf.write(more)
        daemons = Daemons(system, stack)
        daemons.start("slurmctld", "slurmd")
        daemons.idle()
        yield daemons


SLURM_CONF = """\
ClusterName=perfloom
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={place}/completed
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
KillWait=10
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmdParameters=config_overrides
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 Sockets=1 CoresPerSocket=16 RealMemory=4000 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES State=UP
PartitionName=short Nodes=ALL MaxTime=1 State=UP
PartitionName=closed Nodes=ALL State=DOWN
"""


def _slurm_files(place: Path) -> Slurm:
    """The configuration, and programs that know where it is."""
    # Two free ports; both are taken before either is released, or they would be the same.
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in (first, second)]
    for name in ("state", "spool", "bin"):
        (place / name).mkdir()
    host = socket.gethostname().partition(".")[0]
    text = SLURM_CONF.format(host=host, user=pwd.getpwuid(os.geteuid()).pw_name, place=place, ports=ports)
    (place / "slurm.conf").write_text(text)
    for name in SLURM_PROGRAMS:
        program = shutil.which(name)
        assert program, name
        command = f'exec {shlex.quote(program)} "$@"'
        executable(place / "bin" / name, f"#!/bin/sh\nexport SLURM_CONF={place}/slurm.conf\n{command}\n")
    return Slurm(SchedulerName.SLURM, place, place / "bin", {"SLURM_CONF": f"{place}/slurm.conf"})


def executable(path: Path, text: str) -> None:
    """A program that all users may start."""
    path.write_text(text)
    path.chmod(0o755)


@contextlib.contextmanager
def lsf() -> Iterator[LsfDouble]:
    """The simulated LSF. Queues: normal (the default), short, closed (inactive). Its clock: see `control`."""
    with folder("pl-lsf-") as place:
        (place / "bin").mkdir()
        # The Python of a virtual environment may be in a directory that other users cannot enter.
        python = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
        client = (DOUBLE / "client.py").read_text()
        for name in LSF_PROGRAMS:
            executable(place / "bin" / name, f"#!{python} -IS\nFOLDER = {str(place)!r}\n{client}")
        (place / "control.json").write_text("{}")
        system = LsfDouble(SchedulerName.LSF, place, place / "bin", {"LSF_DOUBLE_DIR": str(place)})
        with guarded([([python, "-I", "-S", DOUBLE / "mbatchd.py", place], place / "mbatchd.log")]):
            wait_for((place / "socket").exists, system)
            yield system
