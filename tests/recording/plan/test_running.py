"""A planned job of one process: started once, followed, ended, its recording read where it was made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.jobs import CallGraph, EventSplitting, RecorderName, Scope
from perfloom.domain.rank_state import parse_state
from perfloom.recording.plan import plan as plans
from perfloom.workers.local.conditions import read_conditions
from tests.recording.plan.conftest import MakeJob
from tests.recording.plan.jobs import HERE
from tests.support.parts import own_mounts, require, require_whole_system
from tests.workers.waiting import until

BUSY = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
ON = "while :; do :; done"
DEAF = "trap '' TERM INT HUP; while :; do sleep 0.1; done"


@pytest.fixture(autouse=True)
def perf() -> Path:
    return require("perf")


@contextmanager
def busy_process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that computes until the block ends, however it ends."""
    with subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_job_is_recorded_by_any_shell(make_job: MakeJob, shell: Path) -> None:
    job = make_job("sh", "-c", f"{BUSY}; echo said; echo and >&2; exit 7", shell=shell).start()
    sight = job.until_ended()
    [submission], [run], [rank] = sight.submissions, sight.runs, sight.ranks
    assert (submission.exit_status, run.exit_status, rank.exit_status) == (7, 7, 7), job.log()
    assert (rank.rank, rank.state, rank.note) == (None, "done", "")
    assert submission.native == job.natives[0] and submission.host == rank.host
    assert run.started_ns and rank.started_ns and rank.ended_ns and run.ended_ns
    assert run.started_ns <= rank.started_ns < rank.ended_ns <= run.ended_ns
    assert b"said\nand\n" in job.output and len(job.output) == sight.output_bytes
    assert set(job.listed()) == {f"run0/all/{name}" for name in ("perf.data", "perf.script.zst", "state")}
    assert job.samples("run0/all") > 2
    state = parse_state((job.directory / "run0/all/state").read_bytes())
    assert state.cpus == read_conditions(os.getpid())["cpus"] and state.governor, "the same as of this process"
    job.well(plans.remove_script(job.place))
    assert not job.directory.exists()


def test_baseline_runs_without_recording(make_job: MakeJob, shell: Path, tmp_path: Path) -> None:
    job = make_job("sh", "-c", f"{BUSY}; echo {{run}} >>{tmp_path}/ran", shell=shell, baseline=True).start()
    sight = job.until_ended()
    assert [(rank.exit_status, rank.recorded) for rank in sight.ranks] == [(0, True), (0, False)], job.log()
    assert (tmp_path / "ran").read_text() == "0\n1\n"
    assert set(job.listed()) >= {"run0/all/perf.data", "run1/all/state"}
    assert not any(name.startswith("run1/") and not name.endswith("/state") for name in job.listed())


def test_submission_starts_once(make_job: MakeJob, tmp_path: Path) -> None:
    job = make_job("sh", "-c", f"echo once >>{tmp_path}/count; {BUSY}", events=("task-clock",))
    job.lay_down()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(job.begin())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    job.until_ended()
    assert len(set(found)) == 1 and job.begin() == found[0]
    assert (tmp_path / "count").read_text() == "once\n"
    again = subprocess.run(["/bin/sh", job.directory / "job.sh", job.directory, "0"], capture_output=True, text=True)
    assert again.returncode == 125 and "is not started again" in again.stderr


def test_unknown_start_result_is_distinguished(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job("true")
    job.lay_down()
    (job.directory / "sub0.ran").mkdir()
    monkeypatch.setattr("perfloom.recording.plan.submission.ID_WAIT_S", 0)
    assert job.begin() == ""


def test_job_continues_after_its_parent(make_job: MakeJob, tmp_path: Path) -> None:
    """The end of a connection ends the processes of its session, and waits for those that have its pipes open."""
    job = make_job("sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; {BUSY}")
    job.lay_down()
    script = plans.submit_script(job.target, job.spec, job.id, job.place, 0)
    shell = subprocess.Popen(
        ["/bin/sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    stdout, stderr = shell.communicate(timeout=30)
    assert plans.parse_submit_output(job.target, stdout.decode(), stderr.decode(), shell.returncode)
    with pytest.raises(ProcessLookupError):
        os.killpg(shell.pid, 0)
    assert job.until_recording().submissions[0].alive is True
    (tmp_path / "go").touch()
    assert job.until_ended().submissions[0].exit_status == 0


@pytest.mark.parametrize("command", [ON, DEAF], ids=["listens", "deaf"])
def test_a_cancel_keeps_what_was_recorded(make_job: MakeJob, shell: Path, command: str) -> None:
    job = make_job("sh", "-c", f"{BUSY}; {command}", shell=shell).start()
    job.until_recording()
    job.end(gently=True)
    job.end(gently=True)
    sight = job.until_ended()
    assert (sight.submissions[0].exit_status, sight.submissions[0].stopped) == (143, "signal TERM"), job.log()
    assert (sight.ranks[0].exit_status, sight.ranks[0].stopped) == (None, "signal TERM")
    assert "run0/all/perf.script.zst" in job.listed(), job.log()
    job.until_gone()


@pytest.mark.slow
@pytest.mark.parametrize("before", [False, True], ids=["once-it-is-known", "before-it-is-known"])
def test_early_cancellation_is_sent_once(make_job: MakeJob, shell: Path, before: bool) -> None:
    """The trap requests the end, and the check after the start finds that this is done."""
    job = make_job("sh", "-c", ON, shell=shell)
    job.lay_down()
    script = job.directory / "rank.sh"
    known = "    pl_child=$pl_begun\n"
    told = "    kill -s TERM $$\n"
    text = script.read_text()
    assert text.count(known) == 1
    script.write_text(text.replace(known, told + known if before else known + told))
    job.natives.append(job.begin())
    assert job.until_ended().ranks[0].stopped == "signal TERM", job.log()
    job.until_gone()


def test_killed_job_leaves_no_process(make_job: MakeJob, shell: Path) -> None:
    """What left the session is known by its mark, what cleared its environment by the session."""
    command = f"setsid sh -c '{DEAF}' & env -i sh -c '{DEAF}' & {ON}"
    job = make_job("sh", "-c", command, shell=shell).start()
    job.until_recording()
    leader = job.natives[0].split()[0]
    job.end(gently=False)
    assert job.survivors() == []
    left = subprocess.run(["ps", "-o", "stat=,pid=,args=", "-s", leader], capture_output=True, text=True).stdout
    assert [line for line in left.splitlines() if not line.startswith("Z")] == []
    assert job.look().submissions[0].alive is False


def test_background_processes_are_ended(make_job: MakeJob) -> None:
    job = make_job("sh", "-c", f"sleep 1000 & setsid sleep 1000 & {BUSY}").start()
    sight = job.until_ended()
    assert sight.ranks[0].exit_status == 0
    assert "that still ran when the program ended" in sight.ranks[0].note
    job.until_gone()


def test_a_time_limit_ends_the_recording_and_is_no_failure(make_job: MakeJob) -> None:
    job = make_job("sh", "-c", ON, duration_s=1.5).start()
    sight = job.until_ended()
    assert (sight.submissions[0].exit_status, sight.submissions[0].stopped) == (0, "")
    assert (sight.ranks[0].stopped, sight.ranks[0].exit_status) == ("limit", None)
    assert job.samples("run0/all") > 0


def test_exit_status_is_recorded(make_job: MakeJob) -> None:
    job = make_job("sh", "-c", f"{BUSY}; kill -s SEGV $$").start()
    sight = job.until_ended()
    assert sight.ranks[0].exit_status == 128 + 11
    assert job.state("run0/all/state")["signal"] == "11"
    assert "exit" not in job.state("run0/all/state")


@pytest.mark.slow
def test_a_program_runs_on_when_perf_is_killed(make_job: MakeJob, tmp_path: Path, shell: Path) -> None:
    """Like the kernel when memory is low. The killed perf is reported, and the recording is collected."""
    mark = tmp_path / "to the end"
    line = f"{BUSY}; {BUSY}; {BUSY}; sleep 3; {BUSY}; : >'{mark}'"
    job = make_job("sh", "-c", line, shell=shell, frequency=999)
    job.start()
    job.until_recording()
    noted = next(iter(job.directory.glob("run0/all"))) / ".program"
    until(noted.exists, "the program is known", 30)
    os.kill(int(job.state("run0/all/state")["pid"]), signal.SIGKILL)
    sight = job.until_ended()
    assert mark.exists()
    state = job.state("run0/all/state")
    assert state["killed"] == "9" and "signal" not in state and "exit" not in state
    assert sight.submissions[0].exit_status == 0


def test_missing_program_is_reported(make_job: MakeJob) -> None:
    job = make_job("/no/such/program").start()
    sight = job.until_ended()
    assert sight.ranks[0].exit_status == 255
    assert b"No such file" in job.output
    assert job.samples("run0/all") == 0


def test_missing_perf_is_reported(make_job: MakeJob) -> None:
    job = make_job("true", target=replace(HERE, perf="/no/such/perf")).start()
    assert job.until_ended().ranks[0].exit_status == 127
    assert b"perfloom: perf was not found on" in job.output and b"/no/such/perf" in job.output


def test_the_program_finds_its_environment(make_job: MakeJob, tmp_path: Path, shell: Path) -> None:
    for name in ("bin", "lib", "here"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "tool").write_text("#!/bin/sh\necho tool of ours\n")
    (tmp_path / "bin" / "tool").chmod(0o755)
    script = 'tool; echo "$PWD|$A|$B|$LD_LIBRARY_PATH|$IFS|$(umask)"; trap; readlink /proc/self/fd/0'
    job = make_job(
        "sh",
        "-c",
        script,
        target=replace(HERE, environment={"A": "of the target", "B": "of the target"}),
        environment={"A": 'of the job\'s "own"\n$(x)', "IFS": "-", "LD_LIBRARY_PATH": "/before"},
        path=(f"{tmp_path}/bin",),
        library_path=(f"{tmp_path}/lib", "/lib"),
        cwd=f"{tmp_path}/here",
        shell=shell,
    ).start()
    assert job.until_ended().ranks[0].exit_status == 0, job.log()
    said = job.output.decode()
    assert "tool of ours\n" in said
    mask = os.umask(0)
    os.umask(mask)
    expected = f'{tmp_path}/here|of the job\'s "own"\n$(x)|of the target|{tmp_path}/lib:/lib:/before|'
    assert expected in said and f"|{mask:04o}\n" in said
    assert "\n/dev/null\n" in said


def test_inaccessible_directory_is_reported(make_job: MakeJob) -> None:
    job = make_job("true", cwd="/no/such/place").start()
    assert job.until_ended().submissions[0].exit_status == 125
    assert b"perfloom: The working directory /no/such/place cannot be entered" in job.output


def test_modules_are_loaded(make_job: MakeJob, tmp_path: Path) -> None:
    """Environment Modules is a function that its own file brings; here a small one of that sort."""
    (tmp_path / "init").mkdir()
    (tmp_path / "init" / "sh").write_text(
        'module() { [ "$2" != bad ] || { echo "ERROR: no module bad" >&2; return 0; }; LOADED="$LOADED $2"; export LOADED; }'
    )
    target = replace(HERE, modules=("gcc/12",))
    job = make_job("sh", "-c", "echo with$LOADED", target=target, modules=("of mine",))
    job.host_environment = {"MODULESHOME": str(tmp_path)}
    job.start()
    assert job.until_ended().submissions[0].exit_status == 0, job.log()
    assert b"with gcc/12 of mine\n" in job.output


@pytest.mark.parametrize("there", [True, False], ids=["module", "no-module"])
def test_unloadable_module_is_reported(make_job: MakeJob, tmp_path: Path, there: bool) -> None:
    (tmp_path / "init").mkdir()
    (tmp_path / "init" / "sh").write_text('module() { echo "ERROR: no module bad" >&2; return 0; }' if there else "")
    job = make_job("echo", "not run", modules=("bad",))
    job.host_environment = {"MODULESHOME": str(tmp_path)}
    job.start()
    assert job.until_ended().submissions[0].exit_status == 125
    said = job.output.decode()
    assert "not run" not in said
    assert ("The module bad could not be loaded" if there else "has no module command") in said


def test_runs_follow_each_other_and_have_their_numbers(make_job: MakeJob) -> None:
    job = make_job(
        "sh",
        "-c",
        f"{BUSY}; echo run {{run}} $R",
        environment={"R": "is {run}"},
        events=("task-clock:u", "cpu-clock:u", "page-faults:u"),
        splitting=EventSplitting.SEQUENTIAL,
        events_per_run=2,
    ).start()
    sight = job.until_ended()
    assert [(run.run, run.exit_status) for run in sight.runs] == [(0, 0), (1, 0)], job.log()
    assert "run 0 is 0\n" in (said := job.output.decode()) and said.index("run 0 is 0") < said.index("run 1 is 1")
    assert "task-clock:u" in job.text("run0/all") and "page-faults" not in job.text("run0/all")
    assert "page-faults:u" in job.text("run1/all")


def test_simultaneous_runs_are_separate_submissions(make_job: MakeJob, tmp_path: Path) -> None:
    meet = f"touch {tmp_path}/{{run}}; until [ -e {tmp_path}/0 ] && [ -e {tmp_path}/1 ]; do sleep 0.05; done"
    job = make_job(
        "sh",
        "-c",
        f"{meet}; {BUSY}",
        events=("task-clock:u", "cpu-clock:u"),
        splitting=EventSplitting.AT_ONCE,
        events_per_run=1,
    ).start()
    sight = job.until_ended()
    assert [one.exit_status for one in sight.submissions] == [0, 0], job.log()
    assert [run.run for run in sight.runs] == [0, 1]


def test_perf_stat_counts_and_repeats(make_job: MakeJob) -> None:
    job = make_job("true", recorder=RecorderName.PERF_STAT, events=("task-clock:u",), repeat=3).start()
    assert job.until_ended().ranks[0].exit_status == 0
    assert set(job.listed()) == {"run0/all/perf-stat.txt", "run0/all/state"}
    assert '"variance"' in (job.directory / "run0/all/perf-stat.txt").read_text()


def test_a_process_is_recorded_until_its_end_or_the_limit(make_job: MakeJob) -> None:
    with busy_process() as busy:
        job = make_job(scope=Scope.PROCESS, pid=busy.pid, duration_s=1.5).start()
        sight = job.until_ended()
        assert busy.poll() is None
    assert sight.ranks[0].stopped == "limit"
    assert job.samples("run0/all") > 0


@pytest.mark.slow
def test_several_processes_are_observed_until_all_have_ended(make_job: MakeJob) -> None:
    with busy_process() as first, busy_process() as second:
        job = make_job(scope=Scope.PROCESS, pid=(first.pid, second.pid)).start()
        # perf gives up when one of them ends before it has listed their mappings. Samples follow the mappings.
        recording = job.directory / "run0/all/perf.data"
        until(lambda: recording.exists() and recording.stat().st_size > 64 * 1024, "perf has written samples")
        first.kill()
        first.wait()
        time.sleep(2)
        assert job.look().ranks[0].state == "recording", job.log()
    job.until_ended()
    assert job.samples("run0/all") > 0


def test_each_run_has_fresh_input_files(make_job: MakeJob) -> None:
    job = make_job(
        *("sh", "-c", "cat data sub/data; echo changed | tee data >sub/data; pwd"),
        recorder=RecorderName.PERF_STAT,
        repeat=2,
        inputs=("/data",),
        fresh_inputs=True,
    )
    job.lay_down()
    (job.directory / "work" / "sub").mkdir()
    for name in ("data", "sub/data"):
        (job.directory / "work" / name).write_text("fresh\n")
    job.begin()
    sight = job.until_ended()
    assert [run.exit_status for run in sight.runs] == [0, 0], job.log()
    assert job.output.decode().splitlines() == [
        word for run in (0, 1) for word in ("fresh", "fresh", f"{job.directory}/work{run}")
    ]


@pytest.mark.parametrize("recorder", [RecorderName.PERF_RECORD, RecorderName.PERF_STAT])
def test_the_whole_system_on_one_cpu_with_further_arguments(make_job: MakeJob, recorder: RecorderName) -> None:
    require_whole_system()
    own_counters = {RecorderName.PERF_RECORD: ("-m", "64"), RecorderName.PERF_STAT: ("--no-merge",)}
    job = make_job(
        *("sh", "-c", BUSY),
        scope=Scope.SYSTEM,
        recorder=recorder,
        events=("context-switches", "cpu-clock"),
        cpu_list="0",
        cgroup="/",
        perf_arguments=own_counters[recorder],
    ).start()
    sight = job.until_ended()
    assert sight.runs[0].exit_status == 0, job.log()


def test_recording_is_removed_unless_requested(make_job: MakeJob) -> None:
    job = make_job("sh", "-c", BUSY, keep_recordings=False).start()
    job.until_ended()
    assert set(job.listed()) == {"run0/all/perf.script.zst", "run0/all/state"}


@pytest.mark.parametrize("scratch", ["{}/own/$NAME", "$NOT_SET/x"], ids=["there", "not-there"])
def test_scratch_is_cleaned_up(make_job: MakeJob, tmp_path: Path, scratch: str) -> None:
    target = replace(HERE, scratch=scratch.format(tmp_path))
    job = make_job("sh", "-c", BUSY, target=target, host_environment={"NAME": "a b"}).start()
    sight = job.until_ended()
    assert {"run0/all/perf.data", "run0/all/perf.script.zst"} <= set(job.listed()), job.log()
    assert job.samples("run0/all") > 2
    if "NOT_SET" in scratch:
        assert "NOT_SET" in sight.ranks[0].note


def test_link_as_scratch_directory_is_not_followed(make_job: MakeJob, tmp_path: Path) -> None:
    """Otherwise a user who can write there could make perf write anywhere."""
    (tmp_path / "own").mkdir()
    (tmp_path / "elsewhere").mkdir()
    job = make_job("sh", "-c", BUSY, target=replace(HERE, scratch=str(tmp_path / "own")))
    (tmp_path / "own" / f"perfloom-{job.id}-0-all").symlink_to(tmp_path / "elsewhere")
    sight = job.start().until_ended()
    assert "cannot be used" in sight.ranks[0].note and job.samples("run0/all") > 2
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, list[str | Path]]]:
    """A directory on a disk of 3 MB, and what to put before a command line for it to see that disk."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = 'mount -t tmpfs -o size=3m none "$1" && echo && exec sleep 1000'
    with subprocess.Popen([*own_mounts(), "sh", "-c", mount, "sh", disk], stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout and keeper.stdout.readline() == b"\n"
        # In a chroot the mount namespace alone would lead out of it.
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        yield disk, ["nsenter", *user, f"--target={keeper.pid}", "--root", "--mount", "--"]
        keeper.kill()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["job", "scratch"])
def test_full_disk_keeps_recorded_samples(
    make_job: MakeJob, tmp_path: Path, small_disk: tuple[Path, list[str | Path]], where: str
) -> None:
    disk, prefix = small_disk
    target = replace(HERE, scratch=str(disk)) if where == "scratch" else HERE
    directory = disk / "job" if where == "job" else tmp_path / "job"
    job = make_job("sh", "-c", ON, call_graph=CallGraph.DWARF, frequency=999, duration_s=60.0)
    job.directory, job.target, job.prefix = directory, target, prefix
    for name, text in plans.make_plan(job.spec, target, None, job.id, job.place).files.items():
        job.well(f"mkdir -p {directory} && chmod 700 {directory} && cat >{directory}/{name} <<'E O F'\n{text}E O F\n")
    job.well(f"printf 'perfloom job directory\n' >{directory}/.perfloom; mkdir {directory}/work")
    job.natives.append(job.begin())
    sight = job.until_ended()
    assert (sight.ranks[0].stopped, sight.ranks[0].state) == ("disk", "done"), job.log()
    assert "is full. The recording ended early." in sight.ranks[0].note
    packed = job.well(f"cat {directory}/run0/all/perf.script.zst")
    text = subprocess.run(["zstd", "-dc"], input=packed, capture_output=True, check=True).stdout.decode()
    assert text.count(" cpu-clock") > 50
    assert "# incomplete : The recording is incomplete" in text
    assert job.listed()["run0/all/perf.data"] > 2_000_000
    job.prefix = ()
