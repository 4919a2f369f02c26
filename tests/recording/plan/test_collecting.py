"""What a job left is completed, listed and removed, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.jobs import CallGraph, JobSpec
from perfloom.recording.plan import plan as plans
from tests.recording.plan.conftest import MakeJob
from tests.support.parts import require

SPEC = JobSpec(command=("x",))


def run(script: str, shell: Path = Path("/bin/sh")) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([shell, "-c", script], capture_output=True, timeout=60)


def test_only_our_files_are_listed(tmp_path: Path, shell: Path) -> None:
    job = tmp_path / "a job"
    for path in ("run0/0/perf.data", "run0/0/other", "run12/all/perf-stat.txt", "run0/on-h.1/state", "runs/0/state"):
        (job / path).parent.mkdir(parents=True, exist_ok=True)
        (job / path).write_text("x" * len(path))
    (job / "run0/0/state").write_text("")
    (job / "run0/0/perf.script.zst").symlink_to("/etc/passwd")
    (job / "run0/7").symlink_to("/etc")
    (job / "run3").symlink_to(job / "run0")
    for name in ("9\n0 run0", "$(touch x)", "-n"):
        (job / "run0" / name).mkdir()
        (job / "run0" / name / "state").write_text("x")
    listed = plans.parse_list_output(run(plans.list_script(str(job), SPEC), shell).stdout, SPEC)
    assert listed == (("run0/0/perf.data", 16), ("run0/on-h.1/state", 17), ("run12/all/perf-stat.txt", 23))


def test_missing_artifacts_are_an_empty_list(tmp_path: Path, shell: Path) -> None:
    done = run(plans.list_script(str(tmp_path), SPEC), shell)
    assert (done.returncode, plans.parse_list_output(done.stdout, SPEC)) == (0, ())


@pytest.mark.parametrize("path", ["/etc/passwd", "run0/../../x", "../x"])
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    with pytest.raises(UnreadableInput):
        plans.parse_list_output(f"  12 {path}\n".encode(), SPEC)


def test_arbitrary_list_is_parsed_without_error() -> None:
    assert plans.parse_list_output(b"\xff\xfe 5\n 12 run0/0/perf.data\n12 run0/x/state\nwc: no\n 99 total\n", SPEC) == (
        ("run0/0/perf.data", 12),
    )


def test_a_directory_is_made_again_and_removed(tmp_path: Path, shell: Path) -> None:
    place = tmp_path / "new" / "a b"
    for _ in range(2):
        done = run(plans.create_directory_script(str(place)), shell)
        assert done.returncode == 0, done
    assert place.stat().st_mode & 0o777 == 0o700 and (place / "work").is_dir()
    (place / "work" / "deep").mkdir()
    (place / "work" / "deep" / "closed").write_text("")
    (place / "work" / "deep").chmod(0o500)
    (place / "work" / "link").symlink_to(tmp_path)
    for _ in range(2):
        done = run(plans.remove_script(str(place)), shell)
        assert done.returncode == 0, done
    assert not place.exists() and tmp_path.exists()


def test_foreign_directory_is_not_used_or_removed(tmp_path: Path, shell: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "precious").write_text("")
    link = tmp_path / "link"
    link.symlink_to(mine)
    (tmp_path / "file").write_text("")
    for name in ("mine", "link", "file"):
        for script in (plans.create_directory_script, plans.remove_script):
            done = run(script(str(tmp_path / name)), shell)
            assert done.returncode != 0 and done.stderr, (name, done)
    assert (mine / "precious").exists() and link.is_symlink()


def test_failed_directory_creation_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(plans.create_directory_script(f"{tmp_path}/file/job"))
    assert done.returncode != 0 and b"file" in done.stderr


def test_unread_recording_is_read_later(make_job: MakeJob, shell: Path) -> None:
    """The recordings of a rank that was killed at it, of a perf that was killed, and of one that makes no sense."""
    perf = require("perf")
    job = make_job("true", shell=shell)
    job.lay_down()
    for rank in (0, 1, 2, 3):
        (job.directory / "run0" / str(rank)).mkdir(parents=True)
        (job.directory / f"run0/{rank}/state").write_text("host here\nstate reading\n")
    recording = job.directory / "run0/0/perf.data"
    argv = [perf, "record", "-q", "-N", "-e", "task-clock:u", "--call-graph", str(CallGraph.FP), "-o", recording]
    subprocess.run([*argv, "--", "sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"], check=True)
    whole = recording.read_bytes()
    data, size = int.from_bytes(whole[40:48], "little"), int.from_bytes(whole[48:56], "little")
    cut = whole[:48] + bytes(8) + whole[56 : data + size - 20]
    (job.directory / "run0/1/perf.data").write_bytes(cut)
    (job.directory / "run0/2/perf.data").write_bytes(b"no recording")
    (job.directory / "run0/3/perf.data").write_bytes(whole)
    (job.directory / "run0/3/.once").touch()
    (job.directory / "run0/3/.twice").touch()
    said = job.well(plans.symbolize_script(job.place)).decode()
    assert [line.rpartition("/")[2] for line in said.splitlines()] == ["0 ok", "1 ok", "2 failed", "3 failed"]
    assert job.text("run0/0").count("task-clock:u:") > 10
    assert job.text("run0/1").count("task-clock") > 5 and "# incomplete : " in job.text("run0/1")
    assert job.state("run0/2/state")["text"].startswith("failed perf script ended with status")
    assert "each time" in job.state("run0/3/state")["text"]
    assert "read on" in job.state("run0/0/state")["note"]
    # Once is enough, and there is always an end.
    assert job.well(plans.symbolize_script(job.place)) == b""
    (job.directory / "run0/0/perf.script.zst").unlink()
    assert job.well(plans.symbolize_script(job.place, most_s=0)) == b"more\n"


def test_perf_with_fewer_fields_is_retried(make_job: MakeJob, shell: Path) -> None:
    """An older perf says which field or option it lacks, one after another."""
    job = make_job("true", shell=shell)
    old = job.directory.parent / "perf"
    old.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        '*show-lost*) echo "  Error: unknown option \\`show-lost-events\'" >&2; exit 129 ;;\n'
        "*period*) echo \"Samples do not have PERIOD attribute set. Cannot print 'period' field.\" >&2; exit 1 ;;\n"
        '*symoff*) echo "Invalid field requested." >&2; exit 1 ;;\nesac\necho "asked $*"\n'
    )
    old.chmod(0o755)
    job.lay_down()
    plan = job.directory / "plan.sh"
    plan.write_text(plan.read_text().replace("pl_perf=perf", f"pl_perf={old}"))
    (job.directory / "run0/0").mkdir(parents=True)
    (job.directory / "run0/0/state").touch()
    (job.directory / "run0/0/perf.data").write_bytes(b"x")
    assert b"0 ok" in job.well(plans.symbolize_script(job.place)), job.log()
    fields = "comm,pid,tid,cpu,time,event,ip,sym,dso"
    assert job.text("run0/0") == f"asked script -i perf.data -F {fields} --ns --header --no-inline --force\n"


@pytest.mark.parametrize(("tools", "suffix"), [((), ""), (("gzip",), ".gz"), (("zstd", "gzip"), ".zst")])
def test_the_text_is_packed_with_what_is_there(make_job: MakeJob, tools: tuple[str, ...], suffix: str) -> None:
    require("zstd")
    job = make_job("true")
    job.lay_down()
    (job.directory / "run0/0").mkdir(parents=True)
    (job.directory / "run0/0/state").touch()
    (job.directory / "run0/0/perf.data").write_bytes(b"x")
    script = plans.symbolize_script(job.place)
    fake = (
        'command() { case $2 in zstd|gzip) case " '
        + " ".join(tools)
        + ' " in *" $2 "*) ;; *) return 1 ;; esac ;; esac; }\n'
    )
    perf = "pl_script() { echo text; }\n"
    script = script.replace(". ./plan.sh || exit 1", f". ./plan.sh || exit 1\n{fake}{perf}")
    job.well(script)
    assert (job.directory / f"run0/0/perf.script{suffix}").exists()
    assert job.text("run0/0") == "text\n"
