"""The supervisor: a small process in a separate session that owns the user's program. Standard library only.

It outlives the worker that started it. Its state is in files of the job's run directory, each written
completely or not at all, so that any worker, now or after a restart, can see how far the program got:

    task.json        what to do (written by the worker)
    supervisor.json  who the supervisor is; made exclusively, so of several supervisors one runs the program
    program.json     who the program is, once it runs
    conditions.json  which CPUs it may use, and the governor of CPU frequencies
    cancel           asks to end (made by anyone; SIGTERM says the same); holding "now", to end at once
    exit.json        how it ended; after it nothing more happens

On standard input comes one JSON object with the environment, and only then, when the worker has committed the claim,
the end of the file. Without it nothing is started.
"""

import contextlib
import errno
import fcntl
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ..base import processes
from ..base.json_files import read_json, sync_directory, write_json
from .capture import OutputLog
from .conditions import CONDITIONS_FILE, read_conditions
from .recorded_process import RecordedProcess, parse_signal

TICK_S = 0.25
# At the beginning, the processes that perf starts are searched this often.
BEGIN_S, BEGIN_TICK_S = 2.0, 0.01
REMAINING_GRACE_S = 2.0
REMAINING_LIMIT_S = 10.0

# After asking the program (perf) to finish: when its descendants get TERM, and when KILL, so that a perf that waits for
# them can complete its file.
TERM_TREE_S = 1.0
KILL_TREE_S = 3.0

TIME_LIMIT = "time_limit"
CANCELLED = "cancelled"
DISK = "disk"
NOW = "now"

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
TASK, SUPERVISOR, PROGRAM, CANCEL, EXIT = (
    "task.json",
    "supervisor.json",
    "program.json",
    "cancel",
    "exit.json",
)


class Supervisor:
    """Runs one task to its end. `task` is task.json:

    argv, cwd: what to start, and where. executable: its file, null to look in PATH for argv[0]. output: path of the
    log. head_bytes, tail_bytes: how much of the output's beginning and end is kept. duration_s: null or the limit.
    finish_s: how long the program may take to complete its files when it is asked to end. watch: a directory whose
    file system must keep reserve_bytes free. inside: argv is perf record with perf stat as its command.
    """

    def __init__(self, run: Path, task: dict[str, Any], environment: dict[str, str]) -> None:
        self.run_directory = run
        self.task = task
        self.environment = environment
        self.capture = OutputLog(Path(task["output"]), int(task["head_bytes"]), int(task["tail_bytes"]))
        self.selector = selectors.DefaultSelector()
        self.pid: int | None = None
        self.wait_status: int | None = None
        self.pipe: int | None = None
        self.stop_reason = ""
        self.stop_at = 0.0
        self.asked_tree = False
        self.asked_counter = False
        self.ended_processes = 0
        self.term_received = False
        self.survivors: list[int] = []
        self.inside = bool(task.get("inside"))
        self.lineage: RecordedProcess | None = None
        self.recorder_signal: int | None = None

    def main(self) -> None:
        """Start the program, follow it, end what it leaves, and write exit.json."""
        started = time.time()
        began = time.monotonic()
        error = None
        if (self.run_directory / CANCEL).exists():
            self.stop_reason = CANCELLED
        else:
            error = self.start()
        if self.pid is not None:
            self.follow(began)
            while self.recorder_died():
                self.follow(began)
            self.end_remaining()
        self.finish(started, error)

    def start(self) -> str | None:
        """Start the program; returns why it could not be."""
        self._listen()
        reading, writing = _persistent_pipe()
        own = os.getpid()

        def prepare() -> None:
            # If the supervisor is killed, perf gets SIGINT and completes its file.
            processes.die_with_parent(signal.SIGINT, own)
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])

        try:
            child = subprocess.Popen(
                self.task["argv"],
                executable=self.task.get("executable"),
                cwd=self.task["cwd"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                process_group=0,
                preexec_fn=prepare,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as failure:
            os.close(reading)
            return _cannot_execute(failure, self.task)
        finally:
            os.close(writing)
        child.returncode = 0  # Reaped by `reap`, as all other children.
        self.pid = child.pid
        self.lineage = RecordedProcess(child.pid, inside=self.inside)
        self.pipe = reading
        self.selector.register(reading, selectors.EVENT_READ, "output")
        write_json(self.run_directory / CONDITIONS_FILE, read_conditions(child.pid))
        identity = processes.identity(child.pid)
        if identity is not None:
            write_json(self.run_directory / PROGRAM, identity.to_json())
        return None

    def _listen(self) -> None:
        """Make signals readable by `select`."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (*STOP_SIGNALS, signal.SIGCHLD):
            signal.signal(number, self._handle_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        self.selector.register(reading, selectors.EVENT_READ, "signal")

    def _handle_signal(self, number: int, _frame: object) -> None:
        if number != signal.SIGCHLD:
            self.term_received = True

    def follow(self, began: float) -> None:
        """Until the program has ended: save its output, check the limits, handle requests."""
        limit = self.task.get("duration_s")
        next_look = 0.0
        while self.wait_status is None:
            now = time.monotonic()
            if limit is not None and now - began >= limit:
                self.stop(TIME_LIMIT)
            if now >= next_look:
                next_look = now + TICK_S
                self.check_limits()
            if self.stop_reason:
                self.escalate()
            wait = TICK_S if limit is None else max(0.0, min(TICK_S, began + limit - now))
            if self.lineage is not None and not self.lineage.complete and now - began < BEGIN_S:
                self.lineage.update()
                wait = min(wait, BEGIN_TICK_S)
            self.wait_for_input(wait if not self.stop_reason else 0.02)
            self.reap()

    def recorder_died(self) -> bool:
        """Whether perf was killed and its program still exists: then that is followed from now on."""
        if self.lineage is None or self.stop_reason or self.wait_status is None or not os.WIFSIGNALED(self.wait_status):
            return False
        successor = self.lineage.remaining()
        if successor is None or successor[0] == self.pid:
            return False
        if self.recorder_signal is None:
            self.recorder_signal = os.WTERMSIG(self.wait_status)
        self.pid, self.wait_status = successor
        return self.wait_status is None or self.recorder_died()

    def check_limits(self) -> None:
        """Check what no signal reports: a cancel file, a full disk."""
        if self.term_received or (self.run_directory / CANCEL).exists():
            self.stop(CANCELLED)
            with contextlib.suppress(OSError):
                if (self.run_directory / CANCEL).read_text() == NOW:
                    processes.send_all(processes.descendants(os.getpid()), signal.SIGKILL)
        watch = self.task.get("watch")
        if watch:
            try:
                disk = os.statvfs(watch)
            except OSError:
                return
            if disk.f_bavail * disk.f_frsize < int(self.task.get("reserve_bytes", 0)):
                self.stop(DISK)
        self.capture.flush()
        if self.lineage is not None:
            self.lineage.update()

    def stop(self, reason: str) -> None:
        """Ask the program to end: SIGINT, on which perf completes its file and ends its command."""
        if self.stop_reason:
            return
        self.stop_reason = reason
        self.stop_at = time.monotonic()
        if self.recorder_signal is not None:
            self._send_program(signal.SIGTERM)
        elif self.lineage is None or not self.lineage.request_end():
            self._send_program(signal.SIGINT)

    def escalate(self) -> None:
        """Signal what does not end again: first the tree below the program, then the program."""
        since = time.monotonic() - self.stop_at
        if since < TERM_TREE_S:
            return
        counter = self.lineage.counter if self.lineage else None
        spared = {self.pid, counter.pid if counter else None}
        below = [descendant for descendant in processes.descendants(os.getpid()) if descendant.pid not in spared]
        if since >= KILL_TREE_S:
            processes.send_all(below, signal.SIGKILL)
        elif not self.asked_tree:
            self.asked_tree = True
            processes.send_all(below, signal.SIGTERM)
        finish = KILL_TREE_S + float(self.task.get("finish_s", 30.0))
        if since >= KILL_TREE_S + TERM_TREE_S and counter is not None and not self.asked_counter:
            # It has no process to wait for any more, and does not end.
            self.asked_counter = True
            self._send_program(signal.SIGINT)
        if since >= finish + 2:
            self._send_program(signal.SIGKILL)
        elif since >= finish:
            self._send_program(signal.SIGTERM)

    def _send_program(self, number: int) -> None:
        # Not reaped yet, so its pid is not reused.
        if self.pid is not None and self.wait_status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)
                os.kill(self.pid, signal.SIGCONT)

    def wait_for_input(self, wait_s: float) -> None:
        """Wait for output or a signal, at most `wait_s`, and handle it."""
        for key, _ in self.selector.select(wait_s):
            if key.data == "signal":
                with contextlib.suppress(BlockingIOError):
                    os.read(key.fd, 512)
                if self.term_received:
                    self.stop(CANCELLED)
            else:
                self._take_output(1 << 20)

    def _take_output(self, most: int) -> int:
        """Read up to `most` bytes from the pipe; returns how many."""
        if self.pipe is None:
            return 0
        try:
            data = os.read(self.pipe, most)
        except BlockingIOError:
            return 0
        if data:
            self.capture.write(data)
        else:
            self.selector.unregister(self.pipe)
            os.close(self.pipe)
            self.pipe = None
        return len(data)

    def reap(self) -> None:
        """Wait for processes that have ended: the program, and those that lost their parent and were reparented."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is None:
                    return
                about = processes.read_stat(ended.si_pid)
                pid, wait_status = os.waitpid(ended.si_pid, 0)
            except ChildProcessError:
                return
            if pid == self.pid:
                self.wait_status = wait_status
            elif self.lineage is not None:
                self.lineage.record_exit(pid, wait_status, about.started if about else 0)

    def end_remaining(self) -> None:
        """The program has ended: end everything it started. TERM, then KILL until no process remains."""
        began = time.monotonic()
        own = os.getpid()
        remaining = processes.descendants(own)
        self.ended_processes = len(remaining)
        processes.send_all(remaining, signal.SIGTERM)
        while remaining and time.monotonic() - began < REMAINING_LIMIT_S:
            self.wait_for_input(0.02)
            self.reap()
            remaining = processes.descendants(own)
            if time.monotonic() - began >= (0.0 if self.stop_reason else REMAINING_GRACE_S):
                processes.send_all(remaining, signal.SIGKILL)
        self.reap()
        for _ in range(64):
            if not self._take_output(1 << 20):
                break
        self.survivors = [one.pid for one in remaining]

    def finish(self, started: float, error: str | None) -> None:
        """Complete the log and say how it ended."""
        self.capture.close()
        result: dict[str, Any] = {
            "started": started,
            "ended": time.time(),
            "exit_status": None,
            "signal": None,
            "stopped": self.stop_reason,
            "error": error,
            "output_bytes": self.capture.total,
            "output_dropped": self.capture.dropped,
            "ended_processes": self.ended_processes,
            "survivors": self.survivors,
            "recorder_signal": self.recorder_signal,
        }
        if self.wait_status is not None:
            if os.WIFSIGNALED(self.wait_status):
                result["signal"] = os.WTERMSIG(self.wait_status)
            else:
                result["exit_status"] = os.WEXITSTATUS(self.wait_status)
        if self.inside and result["exit_status"] == 0 and not self.stop_reason:
            result |= self.find_nested_end()
        write_exit(self.run_directory, result)

    def find_nested_end(self) -> dict[str, int | None]:
        """How the program below perf stat ended, if that ended with 0."""
        unreported_exit = self.lineage.unreported_exit() if self.lineage else None
        if unreported_exit is None:
            number = parse_signal(self.task["argv"], Path(self.task["output"]), self.environment)
            return {"exit_status": None, "signal": number} if number else {}
        if os.WIFSIGNALED(unreported_exit):
            return {"exit_status": None, "signal": os.WTERMSIG(unreported_exit)}
        return {"exit_status": os.WEXITSTATUS(unreported_exit)}


def _persistent_pipe() -> tuple[int, int]:
    """A pipe whose writing end is also a reader, so that perf gets no SIGPIPE for its last message, before it has
    completed its file, when its supervisor is killed."""
    reading, writing = os.pipe()
    both = os.open(f"/proc/self/fd/{writing}", os.O_RDWR | os.O_CLOEXEC)
    os.close(writing)
    with contextlib.suppress(OSError):
        fcntl.fcntl(both, fcntl.F_SETPIPE_SZ, 1 << 20)
    os.set_blocking(reading, False)
    return reading, both


def reserve_exit(run: Path) -> None:
    """Allocate the space of exit.json now, so that it can be written on a full disk."""
    with open(run / ".exit.reserve", "wb") as stream:
        stream.write(b" " * 8192)
        stream.flush()
        os.fsync(stream.fileno())


def write_exit(run: Path, result: dict[str, Any]) -> None:
    """Write exit.json into its reserved space."""
    reserved = run / ".exit.reserve"
    data = json.dumps(result).encode()
    with open(reserved, "r+b" if reserved.exists() else "wb") as stream:
        stream.write(data)
        stream.truncate()
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(reserved, run / EXIT)
    sync_directory(run)


def _cannot_execute(failure: Exception, task: dict[str, Any]) -> str:
    """The reason, as a sentence with what to do."""
    program, cwd = str(task.get("executable") or task["argv"][0]), str(task["cwd"])
    number = failure.errno if isinstance(failure, OSError) else None
    if number in (errno.ENOENT, errno.ENOTDIR, errno.EACCES) and not os.access(cwd, os.X_OK, effective_ids=True):
        return f"The working directory {cwd} does not exist or may not be entered. Choose another."
    if number == errno.ENOENT:
        return f"{program} does not exist. Check its name, or use its absolute path."
    if number == errno.EACCES:
        return f"{program} may not be executed by this user. Check its permissions."
    if number == errno.ENOEXEC:
        return f"{program} is not a program that this machine can run. A script needs a first line such as #!/bin/sh."
    if number == errno.E2BIG:
        return "The command and its environment are too long for this system. Shorten them."
    return f"{program} cannot be executed: {failure}."


def main() -> None:
    """`supervisor RUN_DIRECTORY`, with the environment as JSON on standard input."""
    run = Path(sys.argv[1])
    processes.name_process("perfloom-superv")
    processes.disable_dumping()
    # Ctrl-C in a terminal or the end of a worker must not end it; requests come later, or by file.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        order = json.loads(sys.stdin.buffer.read())
        environment = {str(name): str(value) for name, value in order["environment"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        sys.exit(3)  # The worker ended before it had committed the claim.
    task = read_json(run / TASK)
    identity = processes.identity()
    if task is None or identity is None:
        sys.exit(3)
    processes.become_subreaper()
    # From here on it can be asked to stop; the signal is delivered once the program can be stopped.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    if not write_json(run / SUPERVISOR, identity.to_json(), exclusive=True):
        sys.exit(0)  # Another supervisor runs it.
    supervisor = None
    try:
        reserve_exit(run)
        supervisor = Supervisor(run, task, environment)
        supervisor.main()
    except BaseException as failure:
        processes.send_all(processes.descendants(os.getpid()), signal.SIGKILL)
        text = f"The supervisor failed: {type(failure).__name__}: {failure}"
        write_exit(run, {"started": None, "ended": time.time(), "error": text, "stopped": ""})
        raise
