"""`perfloom record` as a user types it: what goes to which channel, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.jobs import JobState
from perfloom.ingest.stat_counts import UNREADABLE_COUNTS
from perfloom.store import open_store
from perfloom.workers import job_client
from perfloom.workers.base import facts_probe, processes
from perfloom.workers.base.facts_probe import host_name
from perfloom.workers.serve import services
from tests.cli.conftest import Run
from tests.support import paths
from tests.support.jobspecs import spec_of
from tests.support.marks import SLOW, slow_except
from tests.support.parts import missing, require
from tests.support.servers import OrdinaryUser, RedisServer
from tests.workers.running import PERFLOOM, environment, running_worker
from tests.workers.waiting import pids_in, until

LIGHT = ("-e", "cpu-clock:u", "--call-graph", "none")
BUSY = ("--", sys.executable, "-S", "-c", "print('hello'); sum(i * i for i in range(3_000_000))")
ENDLESS = "import os\nopen('pid', 'w').write(f'{os.getpid()}\\n')\nwhile True: pass"


@pytest.fixture
def settings(tmp_path: Path, short_path: Path) -> Iterator[Settings]:
    require("perf")
    settings = Settings.load(tmp_path / "data", environ={}, runtime=short_path / "run", reserve_bytes=0)
    yield settings
    if (settings.data / "catalogue.sqlite").exists():
        store = open_store(settings, migrate=False)
        for job in store.jobs.list(active=True):
            processes.terminate_by_variable("PERFLOOM_JOB", job.id, grace_s=0)
        store.close()


def perfloom(settings: Settings, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PERFLOOM, *arguments],
        env=services.environment_for(settings),
        cwd=cwd,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
    )


@pytest.mark.slow
def test_the_id_alone_is_on_standard_output(settings: Settings, tmp_path: Path) -> None:
    done = perfloom(settings, "record", "--name", "my run", *LIGHT, *BUSY, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"[a-z0-9]{12}\n", done.stdout)
    assert "hello\n" in done.stderr and "perfloom: running\n" in done.stderr and "perfloom: stored\n" in done.stderr
    shown = perfloom(settings, "list")
    assert "my run" in shown.stdout and done.stdout.strip() in shown.stdout


@pytest.mark.slow
def test_hotspots_of_python_name_its_evaluation_loop(settings: Settings) -> None:
    code = "sum(i*i for i in range(10**7))"
    done = perfloom(settings, "record", "--", sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    report = perfloom(settings, "report", done.stdout.strip(), "hotspots", "--format", "json")
    assert "_PyEval_EvalFrameDefault" in {row["name"] for row in json.loads(report.stdout)}


def test_the_command_runs_here_with_this_environment(settings: Settings, tmp_path: Path) -> None:
    environment = services.environment_for(settings) | {"MY_OWN": "value"}
    line = 'pwd; echo "$MY_OWN/$PERFLOOM_DATA"'
    argv = [*PERFLOOM, "record", *LIGHT, "--", "/bin/sh", "-c", line]
    done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert f"{tmp_path}\nvalue/\n" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--", "/does/not/exist"), 2, "COMMAND: /does/not/exist does not exist on "),
        (("--per-cpu", "-e", "nosuch/", "--", "true"), 2, "--event: “nosuch/” has one / too few"),
        (("--", "/bin/sh", "-c", "exit 9"), 4, "exit status 9"),
        (("-e", "nonsense-event", "--", "true"), 4, "nonsense-event"),
        (("--pid", "4194304"), 2, "--pid: Process 4194304 does not exist"),
        ((), 2, "Nothing to record"),
        (("--frequency", "0", "--", "true"), 2, "frequency"),
        (("--frequency", "9", "--period", "9", "--", "true"), 2, "exclude"),
        (("--pid", "1", "--", "true"), 2, "one process"),
        (("--call-graph", "magic", "--", "true"), 2, "magic"),
        (("--on", "elsewhere", "--", "true"), 2, "elsewhere"),
        (("--no-such-option",), 2, "no-such-option"),
    ],
)
def test_exit_statuses(run: Run, arguments: tuple[str, ...], status: int, words: str) -> None:
    found, out, err = run("record", *arguments)
    assert (found, out) == (status, "")
    assert words in err.replace("\n", " ") and "Traceback" not in err


def test_preflight_error_creates_no_job(settings: Settings, run: Run) -> None:
    """Of an event that this host does not have, whichever way it is written."""
    events = ("node-prefetches/period=10/", "nosuchpmu/event=1/,{cpu-clock,L1-icache-loads/period=3/}:S")
    if facts_probe.probe().hardware_counters:
        events = ("rN",)
    for event in events:
        status, out, err = run("record", "-e", event, "--", "true")
        assert (status, out) == (2, "") and err.startswith("perfloom: --event: "), err
    store = open_store(settings)
    try:
        assert not store.jobs.list()
    finally:
        store.close()


def test_events_with_individual_terms_are_recorded(run: Run) -> None:
    """What perf takes is not refused, and is named by what it measures."""
    events = "cpu-clock/freq=199/u,{page-faults/period=10/u}"
    status, out, err = run("record", *LIGHT[-2:], "-e", events, "--", sys.executable, "-c", "sum(range(10**6))")
    assert status == 0, err
    found = run("report", out.strip(), "events", "--format", "json")[1]
    assert {(row["event"], row["attributes"]) for row in json.loads(found)} == {
        ("cpu-clock:u", "freq=199"),
        ("page-faults:u", "period=10"),
    }


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> str:
    """tests/data/perf/faults.c, built."""
    program = tmp_path_factory.mktemp("faults") / "faults"
    source = paths.DATA / "perf" / "faults.c"
    subprocess.run([str(require("gcc")), "-O1", "-g", "-fno-omit-frame-pointer", source, "-o", program], check=True)
    return str(program)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rate", [pytest.param(("-F", "499"), marks=SLOW), pytest.param(("--period", "10"), marks=SLOW), ()]
)
def test_page_faults_over_children_are_counted_while_they_are_sampled(
    settings: Settings, faults: str, rate: tuple[str, ...]
) -> None:
    done = perfloom(settings, "record", *rate, "--call-graph", "fp", "-e", "page-faults:u", "--", faults, "3", "2000")
    assert done.returncode == 0, done.stderr
    noted = int(re.search(r"faults: (\d+)", done.stderr)[1])  # type: ignore[index]
    id = done.stdout.strip()
    report = {
        table: json.loads(perfloom(settings, "report", id, table, "--format", "json").stdout)
        for table in ("events", "counts", "threads")
    }
    (event,) = report["events"]
    # By frequency perf may take no sample at all of what is over so soon.
    assert event["note"] is None and (event["samples"] > 0 or "-F" in rate)
    # getrusage counts a few more: those before the program was started, and of the kernel on its behalf.
    assert noted * 0.98 - 50 < event["value"] <= noted
    counted = [row for row in report["counts"] if row["source"] == "counted"]
    assert [(row["value"], row["status"]) for row in counted] == [(event["value"], "ok")]
    # perf stat itself has left no trace.
    processes = {row["process"] for row in report["threads"] if row["process"]}
    assert processes == ({"faults"} if event["samples"] else set())
    if rate == ("-F", "499"):
        assert {row["status"] for row in report["counts"] if row["source"] == "sampled"} <= {"sampled, not counted"}
    elif not rate:
        assert event["attributes"] == "period=1"
        sampled = sum(row["value"] for row in report["counts"] if row["source"] == "sampled")
        assert abs(sampled - event["value"]) <= 0.02 * event["value"]


@SLOW
def test_running_process_is_sampled_and_counted(settings: Settings) -> None:
    if os.geteuid() != 0 and int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 1:
        missing("permission to see the kernel with perf", "sudo sysctl kernel.perf_event_paranoid=1")
    code = "import time; end = time.time() + 30; print(1, flush=True)\nwhile time.time() < end: time.sleep(0.001)"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline()
            words = ("--pid", str(process.pid), "--duration", "1", "-e", "context-switches", "-F", "999")
            done = perfloom(settings, "record", "--call-graph", "none", *words)
        finally:
            process.kill()
    assert done.returncode == 0, done.stderr
    rows = json.loads(perfloom(settings, "report", done.stdout.strip(), "counts", "--format", "json").stdout)
    (counted,) = [row for row in rows if row["source"] == "counted"]
    assert 50 < counted["value"] < 1200


def test_counts_that_perf_stat_did_not_write_are_a_loss(run: Run) -> None:
    """Its parent is perf stat; what it wrote is emptied, and it is killed before it writes again."""
    code = (
        "import os, signal; parent = os.getppid(); words = open(f'/proc/{parent}/cmdline').read().split('\\0');"
        "os.truncate(words[words.index('-o') + 1], 0); os.kill(parent, signal.SIGKILL); b = bytearray(1 << 22)"
    )
    arguments = ("--call-graph", "none", "--period", "1", "-e", "page-faults", "--", sys.executable, "-S", "-c", code)
    status, out, err = run("record", *arguments)
    assert status == 0, err
    (loss,) = json.loads(run("report", out.strip(), "losses", "--format", "json")[1])
    assert loss["reason"] == UNREADABLE_COUNTS and "no counts of perf stat" in loss["example"]


def test_a_failing_command_with_samples_has_a_result(run: Run) -> None:
    code = "sum(i * i for i in range(3_000_000)); raise SystemExit(3)"
    status, out, err = run("record", *LIGHT, "--", sys.executable, "-S", "-c", code)
    assert status == 0 and "exit status 3" in err and len(out) == 13


def test_duration_ends_recording(run: Run) -> None:
    loop = (sys.executable, "-S", "-c", "while True: pass")
    status, _, err = run("record", *LIGHT, "--duration", "0.5", "--", *loop)
    assert status == 0 and "limit of 0.5 s" in err


@pytest.mark.slow
@pytest.mark.parametrize("times", slow_except([1], [1, 2]))
def test_interrupts(settings: Settings, tmp_path: Path, times: int) -> None:
    """The first one keeps what was recorded, the second one drops it."""
    argv = [*PERFLOOM, "record", "-e", "cpu-clock:u", "--", sys.executable, "-S", "-c", ENDLESS]
    process = subprocess.Popen(
        argv,
        env=services.environment_for(settings),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    (pid,) = pids_in(tmp_path / "pid", 1)
    until(lambda: any(_size(p) > 3000 for p in settings.data.glob("jobs/*/artefacts/perf.data")), "samples", 40)
    process.send_signal(signal.SIGINT)
    if times == 2:
        process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    found = processes.read_stat(pid)
    assert found is None or found.state == "Z"
    if times == 1:
        assert process.returncode == 0 and re.fullmatch(r"[a-z0-9]{12}\n", out), err
        assert "It was cancelled." in err
    else:
        # Both may have come at once, and then mean one.
        assert (process.returncode, out) == (4, "") or "It was cancelled." in err


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@SLOW
def test_long_output_is_shortened(run: Run) -> None:
    status, _, err = run("record", *LIGHT, "--", "head", "-c", "1000000000", "/dev/zero")
    assert status == 0, err[-1000:]
    assert len(err) < 2_200_000 and "bytes are left out here" in err


@pytest.mark.slow
def test_closed_output_pipe(settings: Settings) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    argv = [*PERFLOOM, "record", *LIGHT, *BUSY]
    done = subprocess.run(argv, env=services.environment_for(settings), stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.returncode == 141 and b"Traceback" not in done.stderr and b"Exception" not in done.stderr


@pytest.mark.slow
def test_an_ordinary_user(ordinary_user: OrdinaryUser) -> None:
    require("perf")
    argv = ordinary_user.command(*PERFLOOM, "record", *BUSY)
    env = environment() | ordinary_user.environment() | {"XDG_RUNTIME_DIR": ""}
    env |= {"PERFLOOM_RESERVE_BYTES": "0", "XDG_DATA_HOME": ""}
    done = subprocess.run(argv, env=env, cwd=ordinary_user.home, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    data = ordinary_user.home / ".local/share/perfloom"
    assert data.stat().st_mode & 0o777 == 0o700
    assert (data / "results" / done.stdout.strip()).is_dir()


# ---- with a running worker ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_running_worker_runs_job(settings: Settings, tmp_path: Path, redis_server: RedisServer) -> None:
    with running_worker(settings, tmp_path / "log", redis_server) as (settings, store):
        env = services.environment_for(settings) | {"MY_OWN": "hush-hush"}
        argv = [*PERFLOOM, "record", *LIGHT, "--", "/bin/sh", "-c", 'pwd; echo "$MY_OWN"; seq 3000000 | tail -1']
        done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert f"{tmp_path}\nhush-hush\n3000000\n" in done.stderr
        assert (job := store.jobs.get(done.stdout.strip())).state is JobState.STORED
        assert "hush-hush" not in json.dumps(job.spec)


def test_recording_continues_without_its_worker(
    settings: Settings, tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_client, "WORKER_TIMEOUT_S", 1.0)
    settings = Settings.load(
        settings.data, environ={}, runtime=settings.runtime, broker_url=redis_server.url, reserve_bytes=0
    )
    store = open_store(settings)
    # A worker that says it is there, and takes nothing.
    store.hosts.heartbeat(host_name())
    forget = threading.Timer(0.5, lambda: store.hosts.delete(host_name()))
    forget.start()
    with open(tmp_path / "output", "wb") as output:
        job = job_client.record(settings, spec_of("true"), "alone", lambda job: None, output=output)
    forget.join()
    store.close()
    assert job.state is JobState.STORED


def test_hints_are_printed_once(settings: Settings) -> None:
    done = perfloom(settings, "record", "--count", "--interval", "50", "-e", "task-clock", "--", "sleep", "0.3")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("perfloom: hint: An interval below 100 ms slows the recorded program") == 1
    assert len(done.stdout.split()) == 1
