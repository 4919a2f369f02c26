"""Many jobs are polled in one call; output and files of their programs cannot confuse the parser."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.targets import BatchState, BatchStatus
from perfloom.recording.job_status import JobStatus, SubmissionStatus
from perfloom.recording.plan.polling import PollRequest, PollResult, parse_poll_output, poll_script, with_batch_status

BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
HOSTILE = b"job bbbbbbbbbbbb\nthere\nstates 0\n\noutput 5 5\nhello\nend\n\0\xff\x1b[2J" + b"x" * 2000


def job_in(place: Path, id: str = "a" * 12, **files: str | bytes) -> PollRequest:
    """A job's directory with these files: __ means a slash, _ a dot."""
    directory = place / id
    directory.mkdir(exist_ok=True)
    for name, content in files.items():
        path = directory / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return PollRequest(id, str(directory), 0)


def look(*jobs: PollRequest, shell: Path = Path("/bin/sh"), most: int = 1000) -> dict[str, PollResult]:
    done = subprocess.run([shell, "-c", poll_script(jobs, most)], capture_output=True, check=True)
    assert done.stderr == b""
    return dict(parse_poll_output(jobs, done.stdout))


def test_heartbeat_is_any_change(tmp_path: Path, shell: Path) -> None:
    """Also for a job without any, of another version."""

    def life(**files: str) -> str:
        job = job_in(tmp_path, **files)
        return look(job, shell=shell)[job.id].status.submissions[0].life

    seen = [
        life(output="said\n", sub0_state="start 1\nhost n\n"),
        life(sub0_life="0000000001\n"),
        life(sub0_life="0000000002\n"),
        life(output="said\nmore\n"),
        life(run0__all__state="state recording\n"),
    ]
    assert len(set(seen)) == len(seen)
    assert life() == seen[-1] and life(sub0_life="no number\n") != ""


def test_existing_job_is_observed(tmp_path: Path, shell: Path) -> None:
    state = "host n1\nrank 3\nsize 8\nrecorded 1\nstate recording\nstart 17\npid 5\nnote careful\tnow\nnote and\n"
    job = job_in(
        tmp_path,
        output="said\n",
        sub0_state="start 1\nhost login\npid 3\nstopped signal TERM\nexit 143\nend 9\n",
        run0__state="state running\nstart 2\nexit 4\nend 8\nstate ended\nnote of the run\n",
        run0__3__state=state + "exit 4\nend 99\nstate reading\ntext failed no room\nstate done\n",
        run0__all__state="host n1\nstate ended\nsignal 11\n",
        **{"run0__on-n1__state": "host n1\nrecorded 0\n"},
    )
    found = look(job, shell=shell)[job.id]
    assert found.directory_exists and found.output == b"said\n"
    sight = found.status
    assert [(one.number, one.host, one.exit_status, one.stopped) for one in sight.submissions] == [
        (0, "login", 143, "signal TERM")
    ]
    assert [(run.run, run.state, run.exit_status, run.started_ns, run.ended_ns) for run in sight.runs] == [
        (0, "ended", 4, 2, 8)
    ]
    rank, host, single = sight.ranks
    assert (rank.rank, rank.host, rank.state, rank.exit_status, rank.size) == (3, "n1", "done", 4, 8)
    assert (rank.started_ns, rank.ended_ns, rank.note) == (17, 99, "careful now and no room")
    assert {(one.rank, one.state, one.exit_status, one.recorded) for one in (host, single)} == {
        (None, "ended", 139, True),
        (None, "started", None, False),
    }
    assert sight.notes == ("of the run",) and sight.output_bytes == 5


def test_missing_directory_is_gone(tmp_path: Path) -> None:
    jobs = [
        PollRequest("a" * 12, f"{tmp_path}/no", 0),
        job_in(tmp_path, "b" * 12),
        PollRequest("c" * 12, "/no/such/place", 0),
    ]
    found = look(*jobs)
    assert [found[job.id].directory_exists for job in jobs] == [False, True, True]
    assert "is not accessible" in found["c" * 12].status.notes[0]


def test_output_is_delimited_by_length(tmp_path: Path, shell: Path) -> None:
    first = job_in(tmp_path, "a" * 12, output=HOSTILE)
    second = job_in(tmp_path, "b" * 12, output=b"")
    got = b""
    while len(got) < len(HOSTILE):
        found = look(PollRequest(first.id, first.directory, len(got)), second, shell=shell, most=700)
        assert found[first.id].status.output_bytes == len(HOSTILE)
        assert found[second.id].output == b"" and found[second.id].directory_exists
        assert found[first.id].output
        got += found[first.id].output
    assert got == HOSTILE
    beyond = look(PollRequest(first.id, first.directory, len(HOSTILE) + 10), second, shell=shell)
    assert beyond[first.id].output == b"" and beyond[second.id].directory_exists


@pytest.mark.parametrize("kind", ["alive", "dead", "another", "rebooted", "elsewhere"])
def test_whether_a_job_lives_is_known_of_this_host_only(tmp_path: Path, shell: Path, kind: str) -> None:
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    pid, start, boot, host = os.getpid(), ticks, BOOT, os.uname().nodename
    if kind == "dead":
        pid = 2**22 + 5
    elif kind == "another":
        start += 1
    elif kind == "rebooted":
        boot = "0" * 36
    elif kind == "elsewhere":
        boot, host = "0" * 36, "another.host"
    job = job_in(tmp_path, sub0_id=f"{pid} {start} {boot}\n", sub0_state=f"host {host}\n")
    [submission] = look(job, shell=shell)[job.id].status.submissions
    assert submission.alive is {"alive": True, "elsewhere": None}.get(kind, False)
    assert submission.native == f"{pid} {start} {boot}"


def test_a_thousand_ranks_cost_as_many_processes_as_one(tmp_path: Path) -> None:
    """Each program that the script calls notes itself."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("awk", "cat", "grep", "head", "tail", "tr", "wc", "uname", "cut", "sed", "stat"):
        (tools / name).write_text(f'#!/bin/sh\necho >>{tmp_path}/count\nPATH=${{PATH#*:}} exec {name} "$@"\n')
        (tools / name).chmod(0o755)
    for id, ranks in (("a" * 12, 1), ("b" * 12, 1024)):
        lines = {f"run0__{n}__state": f"host h\nrank {n}\nsize {ranks}\nstate recording\n" for n in range(ranks)}
        lines |= {f"run0__{n}__perf_data": "x" for n in range(ranks)}
        job = job_in(tmp_path, id, output="x", **lines)
        environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
        script = poll_script([job], 10)
        done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True, env=environment)
        found = parse_poll_output([job], done.stdout)[id].status.ranks
        assert [rank.written for rank in found] == [1] * ranks
        assert (tmp_path / "count").read_text().count("\n") <= 14
        (tmp_path / "count").unlink()


def test_sizes_of_growing_recordings_are_read(tmp_path: Path, shell: Path) -> None:
    """The file of a rank that records; what a rank reports that has ended, or that records on another disk."""
    job = job_in(
        tmp_path,
        run0__0__state="host h\nstate recording\n",
        run0__0__perf_data=b"x" * 300,
        run0__1__state="host h\nstate recording\n",
        run0__1__written="written 00000000000000004096\n",
        run0__2__state="host h\nstate recording\nwritten 77\nstate ended\n",
        run0__2__perf_data=b"x" * 300,
        run0__3__state="host h\nstate started\n",
        run0__3__perf_data=b"x" * 300,
        run0__4__state="host h\nstate recording\n",
        **{"run0__on-n1__state": "host n1\nstate recording\n", "run0__on-n1__perf_data": b"x"},
    )
    ranks = look(job, shell=shell)[job.id].status.ranks
    assert [rank.written for rank in ranks] == [300, 4096, 77, None, None, 1]


@pytest.mark.parametrize(
    "content",
    ["written 9223372036854775808", "written -1", "written 1e9", "written", "no words", "written " + "9" * 400],
)
def test_size_that_is_no_size_is_ignored(tmp_path: Path, shell: Path, content: str) -> None:
    job = job_in(
        tmp_path,
        run0__0__state="state recording\n",
        run0__0__written=content + "\n",
        run0__1__state=f"state ended\n{content}\n",
    )
    assert [rank.written for rank in look(job, shell=shell)[job.id].status.ranks] == [None, None]


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "link to a folder"])
def test_only_regular_files_have_sizes(tmp_path: Path, shell: Path, kind: str) -> None:
    """Nor is anything read that waits, or that is elsewhere."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "written").write_text("written 4242\n")
    job = job_in(tmp_path, run0__0__state="state recording\n")
    folder = Path(job.directory, "run0", "0")
    for name in ("written", "perf.data"):
        if kind == "link":
            (folder / name).symlink_to(secret / "written")
        elif kind == "fifo":
            os.mkfifo(folder / name)
        elif kind == "directory":
            (folder / name).mkdir()
        else:
            (folder / name).symlink_to(secret)
    [rank] = look(job, shell=shell)[job.id].status.ranks
    assert (rank.state, rank.written) == ("recording", None)


def test_linked_state_is_not_read(tmp_path: Path, shell: Path) -> None:
    (tmp_path / "other").write_text("state done\nnote of another file\n")
    job = job_in(tmp_path, run0__0__state="state recording\n")
    Path(job.directory, "run0", "1").mkdir()
    Path(job.directory, "run0", "1", "state").symlink_to(tmp_path / "other")
    os.mkfifo(Path(job.directory, "run0", "state"))
    assert [rank.rank for rank in look(job, shell=shell)[job.id].status.ranks] == [0]


HARM = st.binary(max_size=200) | st.sampled_from([b"output 99999999999999 9", b"states -5", b"job x", b"end", b"\n"])


@given(st.lists(HARM, max_size=8), st.integers(0, 400))
def test_arbitrary_output_is_parsed_without_error(pieces: list[bytes], cut: int) -> None:
    good = b"job aaaaaaaaaaaa\nthere\nwho ./sub0.id 1 2 b-c yes\nstates 0\n\nsizes 0\n\noutput 5 5\nhello\nend\n"
    jobs = [PollRequest("a" * 12, "/a", 0), PollRequest("b" * 12, "/b", 0)]
    assert set(parse_poll_output(jobs, good[:cut] + b"".join(pieces))) <= {"a" * 12, "b" * 12}
    assert parse_poll_output(jobs, good + b"".join(pieces))["a" * 12].output == b"hello"


def test_hostile_state_files_are_read_as_far_as_they_make_sense(tmp_path: Path, shell: Path) -> None:
    job = job_in(
        tmp_path,
        run0__1__state=b"\0\xff\xfe exit\nexit $(touch x)\nend 1e99\nrank -1\nsize "
        + b"9" * 500
        + b"\nnote "
        + b"n" * 9000,
        run0__x__state="state done\n",
        sub0_id="$(id) ` 1\n",
        sub1_id="",
        **{"run0__1=2__state": "rank 1\n", "runx__state": "state running\n", "run0__-f__state": "rank 2\n"},
    )
    (Path(job.directory) / "run0" / "2\n3").mkdir()
    (Path(job.directory) / "run0" / "2\n3" / "state").write_text("rank 2\n")
    found = look(job, shell=shell)[job.id]
    assert [(rank.rank, rank.exit_status, rank.ended_ns, rank.size) for rank in found.status.ranks] == [
        (1, None, None, None)
    ]
    assert len(found.status.ranks[0].note) <= 4000
    assert found.status.submissions == ()


def test_batch_status_is_added_to_submission() -> None:
    sight = JobStatus(submissions=(SubmissionStatus(0, "7"), SubmissionStatus(1, "8")))
    status = BatchStatus("8", BatchState.PENDING, reason="Priority")
    assert with_batch_status(sight, {"8": status}).submissions == (
        SubmissionStatus(0, "7"),
        SubmissionStatus(1, "8", batch=status),
    )


def test_ids_of_a_batch_system_are_those_of_the_submissions(tmp_path: Path) -> None:
    job = job_in(tmp_path, sub0_id=f"1 2 {BOOT}\n", sub0_state="host h\n")
    [found] = look(PollRequest(job.id, job.directory, 0, ("77",))).values()
    assert [one.native for one in found.status.submissions] == ["77"]
