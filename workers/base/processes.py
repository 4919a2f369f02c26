"""Processes of this machine: their identity, their descendants, and ending process trees. Standard library only.

A process is named by its pid together with its start time and the boot it belongs to, never by the pid alone: pids are
reused. Definitions of /proc/PID/stat and /proc/PID/environ: proc(5).
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import perfloom

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36


class MallocOption(IntEnum):
    """Options of glibc's malloc (malloc.h), named as the variables MALLOC_… (mallopt(3))."""

    TRIM_THRESHOLD_ = -1
    TOP_PAD_ = -2
    MMAP_THRESHOLD_ = -3
    ARENA_MAX = -8


@dataclass(frozen=True)
class ProcessIdentity:
    """The identity of a process, also after its end. started: clock ticks after boot (field 22 of /proc/PID/stat)."""

    pid: int
    started: int
    boot: str

    def to_json(self) -> dict[str, Any]:
        return {"pid": self.pid, "started": self.started, "boot": self.boot}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ProcessIdentity":
        """Raises KeyError, TypeError or ValueError where `data` is none."""
        return cls(int(data["pid"]), int(data["started"]), str(data["boot"]))


@dataclass(frozen=True)
class ProcessStat:
    """The fields of /proc/PID/stat. state: its letter, Z for a process that has ended and was not waited for."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int


def boot_id() -> str:
    """This boot of this machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def read_stat(pid: int) -> ProcessStat | None:
    """The present state of process `pid`; None if it does not exist."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            text = stat.read()
        # The name is in parentheses and may contain anything, also parentheses and spaces.
        words = text[text.rindex(b")") + 2 :].split()
        return ProcessStat(pid, words[0].decode(), int(words[1]), int(words[2]), int(words[3]), int(words[19]))
    except (OSError, ValueError, IndexError):
        return None


def identity(pid: int | None = None) -> ProcessIdentity | None:
    """The identity of `pid` (default: this process); None if it does not exist."""
    status = read_stat(os.getpid() if pid is None else pid)
    return None if status is None else ProcessIdentity(status.pid, status.started, boot_id())


def is_alive(process_identity: ProcessIdentity) -> bool:
    """Whether that same process still runs. A zombie does not."""
    status = read_stat(process_identity.pid)
    return (
        status is not None
        and status.started == process_identity.started
        and status.state not in "ZX"
        and process_identity.boot == boot_id()
    )


def list_processes() -> dict[int, ProcessStat]:
    """Every visible process, by pid."""
    processes = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (one := read_stat(int(name))):
            processes[one.pid] = one
    return processes


def descendants(root: int) -> list[ProcessStat]:
    """Every process below `root`, however it was forked, also in other sessions and groups; without zombies.

    Complete where `root` is a subreaper (prctl(2)): a process that loses its parent becomes a child of `root`.
    """
    processes = list_processes()
    children: dict[int, list[ProcessStat]] = {}
    for one in processes.values():
        children.setdefault(one.parent, []).append(one)
    below: list[ProcessStat] = []
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            waiting.append(child.pid)
            if child.state not in "ZX":
                below.append(child)
    return below


def find_by_variable(name: str, value: str) -> list[ProcessStat]:
    """Every living process that was started with the environment variable `name` set to `value`.

    Finds processes that lost their ancestors, but none that cleared its environment or is of another user.
    """
    variable = f"{name}={value}".encode()
    marked = []
    for pid, process in list_processes().items():
        if process.state in "ZX" or pid == os.getpid():
            continue
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                if variable in environ.read().split(b"\0"):
                    marked.append(process)
        except OSError:
            continue
    return marked


def send_signal(one: ProcessStat | ProcessIdentity, number: int) -> bool:
    """Signal that same process; False if it has ended or may not be signalled. A descriptor refers to the process
    before its start time is compared, so that its pid is not reused in between.
    """
    if isinstance(one, ProcessIdentity) and one.boot != boot_id():
        return False
    try:
        handle = os.pidfd_open(one.pid)
    except (OSError, AttributeError):
        return _send_by_number(one, number)
    try:
        status = read_stat(one.pid)
        if status is None or status.started != one.started:
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def _send_by_number(one: ProcessStat | ProcessIdentity, number: int) -> bool:
    """For kernels before 5.3."""
    status = read_stat(one.pid)
    if status is None or status.started != one.started:
        return False
    try:
        os.kill(one.pid, number)
        return True
    except OSError:
        return False


def send_all(targets: Iterable[ProcessStat], number: int) -> int:
    """Signal them all, and continue stopped ones so that they handle it; returns how many got the signal."""
    reached = 0
    for target in targets:
        reached += send_signal(target, number)
        if number != signal.SIGKILL:
            send_signal(target, signal.SIGCONT)
    return reached


def terminate_by_variable(name: str, value: str, *, grace_s: float = 1.0, limit_s: float = 5.0) -> int:
    """End every process with this variable: TERM, then KILL, until none is left or `limit_s` has passed.

    Returns how many there were. For trees whose supervisor has ended; they are not children of this process.
    """
    first = find_by_variable(name, value)
    send_all(first, signal.SIGTERM)
    start = time.monotonic()
    remaining = first
    while remaining and time.monotonic() - start < limit_s:
        time.sleep(0.02)
        remaining = find_by_variable(name, value)
        if time.monotonic() - start >= grace_s:
            send_all(remaining, signal.SIGKILL)
    return len(first)


def clean_environment(own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment for programs, by default of this process, without the settings of Perfloom, as some are secret."""
    return {name: value for name, value in own.items() if not name.startswith("PERFLOOM_")}


def _prctl(option: int, value: int | bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    argument = ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value)
    if libc.prctl(option, argument, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def limit_malloc_arenas() -> None:
    """Use few memory arenas for the threads of this process, so that they reuse each other's freed memory. Not by an
    environment variable, which recorded programs would inherit. Nothing where the C library has no such choice."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(MallocOption.ARENA_MAX, 2)


def set_malloc_options(values: Mapping[MallocOption, int]) -> None:
    """Set options of malloc in this process. Nothing where the C library has none."""
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        for option, value in values.items():
            library.mallopt(option, value)


def trim_malloc() -> None:
    """Return freed, fragmented memory to the kernel. Takes some milliseconds."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def become_subreaper() -> None:
    """From now on orphaned descendants become children of this process."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def disable_dumping() -> None:
    """Let no other process of this user read this one: /proc/PID/environ, mem, fd and others belong to root from now
    on, and ptrace(2) is refused. Holds for what is forked, and ends with exec: see PR_SET_DUMPABLE in prctl(2)."""
    _prctl(PR_SET_DUMPABLE, 0)


def name_process(name: str) -> None:
    """Set the name of this process in ps and top, at most 15 bytes."""
    _prctl(PR_SET_NAME, name.encode()[:15])


def die_with_parent(number: int, parent: int) -> None:
    """For a child between fork and exec: be sent signal `number` when the thread that forked it ends.

    The kernel forgets this for programs with file capabilities or set-user-ID (prctl(2)).
    """
    _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def python_argv(module: str, *arguments: str, isolated: bool = False) -> list[str]:
    """argv that calls `main()` of a module of this package in a new interpreter, the one that runs this.

    Neither the current directory nor PYTHON… variables can replace the module. isolated: only with the standard library
    and this package, which starts faster.
    """
    root = str(Path(perfloom.__file__).absolute().parent.parent)
    code = f"import sys; sys.path.append({root!r}); from {module} import main; main()"
    flags = ["-I", "-S"] if isolated else ["-P"]
    return [sys.executable, *flags, "-X", "utf8", "-c", code, *arguments]
