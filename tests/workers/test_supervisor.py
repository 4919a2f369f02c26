"""The supervisor, alone: real programs, real signals."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfloom.workers.base import json_files, processes
from tests.support.marks import slow_except
from tests.support.parts import missing, require
from tests.workers.waiting import has_ended, pids_in, until


class Supervised:
    """A supervisor that a test started, and what it left."""

    def __init__(self, folder: Path, argv: list[str], **task: Any) -> None:
        self.run = folder / "run"
        self.log = folder / "output.log"
        self.run.mkdir(exist_ok=True)
        order = {
            "argv": argv,
            "cwd": str(folder),
            "output": str(self.log),
            "head_bytes": 4096,
            "tail_bytes": 4096,
            "finish_s": 5,
        }
        json_files.write_json(self.run / "task.json", order | task)
        self.environment = dict(os.environ) | {"PERFLOOM_JOB": folder.name}
        self.process = self.spawn()

    def spawn(self) -> subprocess.Popen[bytes]:
        argv = [*processes.python_argv("perfloom.workers.local.supervisor", isolated=True), str(self.run)]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True)

    def go(self) -> "Supervised":
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"environment": self.environment}).encode())
        self.process.stdin.close()
        return self

    def result(self, limit_s: float = 20.0) -> dict[str, Any]:
        self.process.wait(limit_s)
        report = json_files.read_json(self.run / "exit.json")
        assert report is not None
        return report

    def program(self) -> processes.ProcessIdentity:
        identity = until(lambda: json_files.read_json(self.run / "program.json"), "program.json")
        return processes.ProcessIdentity.from_json(identity)


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Any]:
    made: list[Supervised] = []

    def make(*argv: str, **task: Any) -> Supervised:
        made.append(Supervised(tmp_path, list(argv), **task))
        return made[-1]

    yield make
    for one in made:
        if one.process.stdin and not one.process.stdin.closed:
            one.process.stdin.close()
        one.process.kill()
        one.process.wait()
    processes.terminate_by_variable("PERFLOOM_JOB", tmp_path.name, grace_s=0)


PY = sys.executable


def test_output_and_exit_status_of_a_program(supervised: Any) -> None:
    one = supervised("/bin/sh", "-c", "echo out; echo err >&2; exit 7").go()
    result = one.result()
    assert (result["exit_status"], result["signal"], result["stopped"], result["error"]) == (7, None, "", None)
    assert one.log.read_text() == "out\nerr\n"
    assert result["output_bytes"] == 8 and result["output_dropped"] == 0
    assert 0 <= result["ended"] - result["started"] < 10


def test_signal_is_distinguished_from_exit_status(supervised: Any) -> None:
    result = supervised("/bin/sh", "-c", "kill -SEGV $$").go().result()
    assert (result["exit_status"], result["signal"]) == (None, signal.SIGSEGV)


def test_supervisor_without_commit_starts_nothing(supervised: Any, tmp_path: Path) -> None:
    one = supervised("/bin/sh", "-c", f"touch {tmp_path}/started")
    one.process.stdin.write(b'{"environment": {"A":')  # The worker died in mid-sentence.
    one.process.stdin.close()
    assert one.process.wait(10) == 3
    assert not (tmp_path / "started").exists()
    assert not (one.run / "supervisor.json").exists()


STOPPED_EARLY = """
import os, signal, sys
sys.path.append({root!r})
from perfloom.workers.local import supervisor
reserve = supervisor.reserve_exit
def stop(run):
    # What `supervisor_client.request_stop` does, as soon as it sees the supervisor.
    if {by_file}:
        (run / supervisor.CANCEL).write_text("")
    os.kill(os.getpid(), signal.SIGTERM)
    reserve(run)
supervisor.reserve_exit = stop
supervisor.main()
"""


@pytest.mark.parametrize("by_file", [True, False])
def test_stopped_before_the_program_is_started(supervised: Any, root: Path, by_file: bool) -> None:
    one = supervised("sleep", "60")
    one.process.stdin.close()
    one.process.wait(10)
    code = STOPPED_EARLY.format(root=str(root), by_file=by_file)
    one.process = subprocess.Popen([PY, "-c", code, str(one.run)], stdin=subprocess.PIPE, start_new_session=True)
    result = one.go().result()
    assert result["stopped"] == "cancelled" and one.process.returncode == 0


def test_of_two_supervisors_one_starts_the_program(supervised: Any, tmp_path: Path) -> None:
    one = supervised("/bin/sh", "-c", f"echo x >>{tmp_path}/started; sleep 0.2")
    two = one.spawn()
    assert two.stdin is not None
    one.go()
    two.stdin.write(json.dumps({"environment": one.environment}).encode())
    two.stdin.close()
    assert two.wait(10) == 0
    one.process.wait(10)
    until(lambda: (one.run / "exit.json").exists(), "exit.json")
    assert (tmp_path / "started").read_text() == "x\n"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: [str(f / "nothing")], "does not exist"),
        (lambda f: [_file(f / "plain", "echo", 0o644)], "may not be executed"),
        (lambda f: [_file(f / "binary", "\x01\x02garbage", 0o755)], "not a program that this machine can run"),
        (lambda f: ["/bin/echo", "x" * (1 << 18)], "too long"),
    ],
)
def test_missing_program_has_reason(supervised: Any, tmp_path: Path, make: Any, words: str) -> None:
    result = supervised(*make(tmp_path)).go().result()
    assert words in result["error"] and result["exit_status"] is None


def _file(path: Path, text: str, mode: int) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_working_directory_that_is_not_there(supervised: Any, tmp_path: Path) -> None:
    result = supervised("/bin/true", cwd=str(tmp_path / "none")).go().result()
    assert "working directory" in result["error"]


TREE = """
import os, subprocess, sys, time
out = open(sys.argv[1], "a", buffering=1)
def loop():
    if sys.argv[2] == "deaf":
        import signal
        for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(n, signal.SIG_IGN)
    out.write(f"{os.getpid()}\\n")
    while True: time.sleep(60)
if os.fork() == 0:                      # a child with a grandchild
    if os.fork() == 0: loop()
    loop()
if os.fork() == 0:                      # one in another session, with no parent left
    os.setsid()
    if os.fork() == 0: loop()
    os._exit(0)
if os.fork() == 0:                      # one that forgot where it came from
    code = "import os, sys, time; open(sys.argv[1], 'a').write(f'{os.getpid()}\\\\n'); time.sleep(60)"
    os.execve(sys.executable, [sys.executable, "-c", code, sys.argv[1]], {})
loop()
"""


@pytest.mark.slow
@pytest.mark.parametrize("temper", ["willing", "deaf"])
@pytest.mark.parametrize("how", ["file", "signal", "now"])
def test_cancel_ends_the_whole_tree(supervised: Any, tmp_path: Path, temper: str, how: str) -> None:
    pids = tmp_path / "pids"
    one = supervised(PY, "-c", TREE, str(pids), temper, finish_s=0).go()
    tree = pids_in(pids, 5)
    if how == "signal":
        one.process.send_signal(signal.SIGTERM)
    else:
        (one.run / "cancel").write_text("now" if how == "now" else "")
    result = one.result()
    assert result["stopped"] == "cancelled" and result["survivors"] == []
    assert [pid for pid in tree if not has_ended(pid)] == []


def test_cancel_before_the_start(supervised: Any, tmp_path: Path) -> None:
    one = supervised("/bin/sh", "-c", f"touch {tmp_path}/started")
    (one.run / "cancel").touch()
    result = one.go().result()
    assert result["stopped"] == "cancelled" and not (tmp_path / "started").exists()


def test_time_limit_is_enforced(supervised: Any) -> None:
    began = time.monotonic()
    result = supervised("/bin/sleep", "60", duration_s=0.3).go().result()
    assert result["stopped"] == "time_limit"
    assert 0.3 <= time.monotonic() - began < 5


def test_forked_processes_are_ended(supervised: Any, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    one = supervised("/bin/sh", "-c", f"(setsid sleep 60 & echo $! >{pids}; sleep 60 & echo $! >>{pids}); exit 3").go()
    result = one.result()
    assert result["exit_status"] == 3 and result["ended_processes"] >= 2
    assert all(has_ended(pid) for pid in pids_in(pids, 2))


def test_output_beyond_the_cap_keeps_beginning_and_end(supervised: Any) -> None:
    lines = 200_000
    result = (one := supervised("/usr/bin/seq", str(lines))).go().result()
    text = one.log.read_text()
    size = sum(len(str(n)) + 1 for n in range(1, lines + 1))
    assert result["output_bytes"] == size
    assert text.startswith("1\n2\n3\n") and text.endswith(f"\n{lines}\n")
    assert "left out" in text and len(text.encode()) < 8192 + 100
    assert result["output_dropped"] == size - 8192


def test_gigabyte_of_output_does_not_block(supervised: Any) -> None:
    began = time.monotonic()
    result = (one := supervised("/usr/bin/head", "-c", "1000000000", "/dev/zero")).go().result(60)
    assert result["output_bytes"] == 10**9 and result["exit_status"] == 0
    assert one.log.stat().st_size < 10_000
    assert time.monotonic() - began < 30


def test_output_just_at_the_cap_is_whole(supervised: Any) -> None:
    result = (one := supervised("/usr/bin/head", "-c", "8192", "/dev/zero")).go().result()
    assert one.log.stat().st_size == 8192 and result["output_dropped"] == 0


def test_a_full_disk_ends_the_recording(supervised: Any, tmp_path: Path) -> None:
    free = os.statvfs(tmp_path)
    more = free.f_bavail * free.f_frsize * 2
    result = supervised("/bin/sleep", "60", watch=str(tmp_path), reserve_bytes=more).go().result()
    assert result["stopped"] == "disk"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, which only root may")
def test_full_disk_loses_only_output(supervised: Any, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small], check=False).returncode:
        missing("permission to mount", "run the tests as root of the machine, not of a container")
    try:
        one = supervised("/usr/bin/seq", "100000", output=str(small / "log"), head_bytes=1 << 20, tail_bytes=1 << 20)
        result = one.go().result()
        assert result["exit_status"] == 0 and result["output_dropped"] > 0
        assert (small / "log").read_text().startswith("1\n2\n")
    finally:
        subprocess.run(["umount", small], check=True)


def test_perf_completes_its_file_when_the_supervisor_is_killed(supervised: Any, tmp_path: Path) -> None:
    perf = str(require("perf"))
    data = tmp_path / "perf.data"
    loop = "while True: pass"
    # Small buffers, from which perf writes early also while the program gets little of a busy CPU.
    words = ["record", "-N", "--no-bpf-event", "-e", "cpu-clock:u", "-m", "4", "-o", str(data), "--", PY, "-c", loop]
    one = supervised(perf, *words)
    one.go()
    who = one.program()
    until(lambda: data.exists() and data.stat().st_size > 20_000, "samples in the file", 30)
    one.process.kill()
    one.process.wait()
    until(lambda: not processes.is_alive(who), "perf has ended")
    assert not (one.run / "exit.json").exists()
    shown = subprocess.run([perf, "script", "-i", data, "-F", "ip"], capture_output=True)
    assert shown.returncode == 0, (shown.stderr, data.stat().st_size, data.read_bytes()[:104].hex())
    assert len(shown.stdout.splitlines()) > 10
    assert b"size field is 0" not in shown.stderr


def test_perf_completes_its_file_at_the_time_limit(supervised: Any, tmp_path: Path) -> None:
    """Also when its command will not end by itself, so that perf would wait for it for ever."""
    perf = str(require("perf"))
    data = tmp_path / "perf.data"
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass"
    words = ["record", "-N", "--no-bpf-event", "-e", "cpu-clock:u", "-F", "99", "-o", str(data), "--", PY, "-c", deaf]
    result = supervised(perf, *words, duration_s=2).go().result(30)
    assert result["stopped"] == "time_limit"
    shown = subprocess.run([perf, "script", "-i", data, "-F", "ip"], capture_output=True, check=True)
    assert shown.stdout.splitlines() and b"size field is 0" not in shown.stderr


RUNS_ON = (
    "import sys, time; end = time.monotonic() + 4\nwhile time.monotonic() < end: pass\nprint('to the end'); sys.exit(6)"
)


def words_of(perf: str, tmp_path: Path, *, inside: bool) -> list[str]:
    record = [perf, "record", "-N", "--no-bpf-event", "-e", "cpu-clock:u", "-F", "999", "-g", "-m", "2"]
    count = ["--", perf, "stat", "-x,", "-o", str(tmp_path / "perf-stat.txt"), "-e", "page-faults:u"] if inside else []
    return [*record, "-o", str(tmp_path / "perf.data"), *count, "--", PY, "-S", "-c", RUNS_ON]


def child_of(pid: int) -> int:
    return next(one.pid for one in processes.list_processes().values() if one.parent == pid)


@pytest.mark.parametrize("killed", slow_except(["perf"], ["perf", "perf above perf stat", "perf stat"]))
def test_a_program_runs_on_when_perf_is_killed(supervised: Any, tmp_path: Path, killed: str) -> None:
    """Its end and that of perf are reported; what was recorded until then is kept."""
    words = words_of(str(require("perf")), tmp_path, inside=killed != "perf")
    one = supervised(*words, inside=killed != "perf")
    one.go()
    perf = one.program().pid
    data = tmp_path / "perf.data"
    until(lambda: data.exists() and data.stat().st_size > 20_000, "samples in the file", 30)
    os.kill(child_of(perf) if killed == "perf stat" else perf, signal.SIGKILL)
    result = one.result(30)
    assert (result["exit_status"], result["signal"], result["recorder_signal"]) == (6, None, signal.SIGKILL)
    assert "to the end" in one.log.read_text()
    assert data.stat().st_size > 20_000


@pytest.mark.parametrize(
    ("end", "wanted"),
    [("exit 7", (7, None)), ("kill -SEGV $$", (None, signal.SIGSEGV)), ("kill -KILL $$", (None, signal.SIGKILL))],
)
def test_the_end_of_a_program_below_perf_stat(
    supervised: Any, tmp_path: Path, end: str, wanted: tuple[int | None, int | None]
) -> None:
    perf = str(require("perf"))
    words = [*words_of(perf, tmp_path, inside=True)[:-4], "/bin/sh", "-c", end]
    result = supervised(*words, inside=True).go().result(30)
    assert (result["exit_status"], result["signal"]) == wanted


@pytest.mark.parametrize("how", ["cancel", "limit"])
def test_program_of_perf_stat_is_ended_and_counted(supervised: Any, tmp_path: Path, how: str) -> None:
    perf = str(require("perf"))
    code = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (print('terminated'), sys.exit(0)))"
    words = [*words_of(perf, tmp_path, inside=True)[:-1], code + "\nwhile True: time.sleep(0.01)"]
    one = supervised(*words, inside=True, **({"duration_s": 2} if how == "limit" else {}))
    one.go()
    if how == "cancel":
        time.sleep(2)
        (one.run / "cancel").write_text("")
    result = one.result(30)
    assert result["stopped"] in ("cancelled", "time_limit")
    assert "terminated" in one.log.read_text()
    assert ",page-faults:u," in (tmp_path / "perf-stat.txt").read_text()
