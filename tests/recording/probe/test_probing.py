"""The probe runs here, in every installed sh, and finds the facts of this machine. Text of a target is not executed."""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perfloom.domain.targets import Target, TargetFacts
from perfloom.recording.probe.probe import parse_probe, probe_script
from perfloom.workers.base import facts_probe
from tests.support.parts import require
from tests.support.servers import OrdinaryUser

SHELLS = {"dash": ("dash",), "busybox": ("busybox", "sh"), "bash": ("bash", "--posix")}
by_shell = pytest.mark.parametrize("shell", list(SHELLS))


def shell_of(name: str) -> list[str]:
    if name != "bash":
        require(name)
    return [*SHELLS[name]]


def probe(
    target: Target, home: Path, shell: tuple[str, ...] | list[str] = ("/bin/sh",), **environment: str
) -> tuple[TargetFacts, str]:
    """The facts, and what came on standard error."""
    home.mkdir(exist_ok=True)
    around = {"PATH": os.environ["PATH"], "HOME": str(home)} | environment
    argv = [*shell, "-c", probe_script(target)]
    done = subprocess.run(argv, env=around, cwd=home, capture_output=True, text=True, timeout=60, errors="replace")
    return parse_probe(done.stdout, target, time.time()), done.stderr


def stand_in(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def quick(tmp_path: Path) -> str:
    """A PATH with a perf that answers at once, for what is not about perf."""
    stand_in(tmp_path / "bin", "perf", 'echo "perf version 9.9"')
    return f"{tmp_path / 'bin'}:/usr/bin:/bin"


@pytest.mark.heavy
def test_probe_matches_facts_of_worker(tmp_path: Path) -> None:
    require("perf")
    facts, errors = probe(Target("here"), tmp_path / "home")
    own = facts_probe.probe()
    assert errors == "" and facts.problems == {}
    for word in ("host", "os", "kernel", "cpu", "cpus", "memory_bytes", "user", "root", "perf", "perf_version"):
        assert getattr(facts.host, word) == getattr(own, word), word
    for word in ("paranoid", "kptr_restrict", "hardware_counters", "lbr", "options", "stat_options"):
        assert getattr(facts.host, word) == getattr(own, word), word
    # Other processes add and remove dynamic events between the two probes.
    assert bool(facts.host.events) == bool(own.events)
    assert set(facts.host.perf_capabilities) == set(own.perf_capabilities)
    assert facts.directory == str(tmp_path / "home" / ".perfloom") and facts.free_bytes and facts.runs_programs
    assert (tmp_path / "home" / ".perfloom").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "home" / ".perfloom").iterdir()) == []


def test_pytorch_is_found_without_perf_and_without_being_imported(tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "python3", f'exec {sys.executable} "$@"')
    found = tmp_path / "packages" / "torch-9.9.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9\n")
    target = Target("x", perf="/no/perf", environment={"PYTHONPATH": str(found.parent)})
    facts, _ = probe(target, tmp_path / "home", PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert facts.host.perf is None and (facts.host.python, facts.host.torch) == (sys.executable, "9.9")


@by_shell
def test_every_shell_prints_the_same(shell: str, tmp_path: Path, quick: str) -> None:
    target = Target(
        "x",
        directory=f"{tmp_path}/a b/$WHERE'\"/c",
        scratch="${TMPDIR}/s",
        environment={"WHERE": "$HOME `id`", "perf": "x", "mark": "x", "LC_ALL": "C.UTF-8"},
    )
    facts, errors = probe(target, tmp_path / "home", shell_of(shell), PATH=quick, TMPDIR=str(tmp_path))
    assert errors == "" and facts.problems == {}
    assert facts.directory == f"{tmp_path}/a b/$HOME `id`'\"/c" and Path(facts.directory).is_dir()
    assert facts.scratch == f"{tmp_path}/s" and facts.scratch_free_bytes
    assert facts.host.perf_version == "9.9" and facts.host.host == platform.node()


@pytest.mark.heavy
@by_shell
def test_target_text_is_never_executed(shell: str, tmp_path: Path, quick: str) -> None:
    """Values that validity refuses, too: the quoting holds by itself."""
    trap = tmp_path / "trap"
    words = (f"$(touch {trap})", f"`touch {trap}`", f"'; touch {trap}; '", f"\n touch {trap}\n", f'"; touch {trap} #')
    for text in words:
        target = Target(
            "x",
            directory=f"{tmp_path}/d",
            perf=text,
            modules=(text, "-x"),
            environment={"ODD": text},
            starters={"openmpi": text},
        )
        _, errors = probe(target, tmp_path / "home", shell_of(shell), PATH=quick, SCRATCH=text)
        assert not trap.exists() and "syntax" not in errors.lower(), text


def test_the_whole_script_is_clean_for_shellcheck() -> None:
    require("shellcheck")
    target = Target("x", modules=("gcc",), environment={"A": "b'c"}, sudo=True, scratch="$TMPDIR/x")
    for script in (probe_script(target), probe_script(target, compute=True)):
        argv = ["shellcheck", "-s", "sh", "--exclude=SC1090,SC2086,SC2154", "-"]
        done = subprocess.run(argv, input=script, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout


def test_an_ordinary_user_has_fewer_rights(ordinary_user: OrdinaryUser) -> None:
    require("perf")
    target = Target("x", scratch="/proc/nothing")
    argv = ordinary_user.command("/bin/sh", "-c", probe_script(target))
    done = subprocess.run(
        argv, env=ordinary_user.environment(), cwd="/", capture_output=True, text=True, timeout=60, errors="replace"
    )
    facts = parse_probe(done.stdout, target, time.time())
    assert (facts.host.user, facts.host.root) == (ordinary_user.name, False)
    assert facts.directory == str(ordinary_user.home / ".perfloom") and "scratch" in facts.problems


def test_a_directory_that_cannot_be_made(tmp_path: Path, quick: str) -> None:
    (tmp_path / "file").write_text("")
    facts, _ = probe(Target("x", directory=f"{tmp_path}/file/below"), tmp_path / "home", PATH=quick)
    assert "Not a directory" in facts.problems["directory"]
    facts, _ = probe(Target("x", directory="$NOT_THERE/x"), tmp_path / "home", PATH=quick)
    assert "NOT_THERE" in facts.problems["directory"] and facts.directory == ""
    facts, _ = probe(Target("x", directory="$RELATIVE"), tmp_path / "home", PATH=quick, RELATIVE="x")
    assert "not an absolute path" in facts.problems["directory"] and facts.host.perf_version == "9.9"


@pytest.mark.heavy
@by_shell
def test_modules(shell: str, tmp_path: Path, quick: str) -> None:
    """As old Tcl modules bring them: a function from a file, which says its errors with status 0."""
    init = tmp_path / "modules" / "init"
    init.mkdir(parents=True)
    (init / "sh").write_text(
        'module() { shift; for m; do case $m in good*) PATH="/opt/$m/bin:$PATH"; export PATH;;'
        " *) echo \"ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for '$m'\" >&2;; esac; done; }\n"
    )
    home, words = str(tmp_path / "modules"), shell_of(shell)
    for modules, problem in ((("good/1", "good/2"), None), (("good/1", "b ad'x"), "modulefile for 'b ad'x'")):
        target = Target("x", modules=modules)
        facts, errors = probe(target, tmp_path / "home", words, PATH=quick, MODULESHOME=home)
        assert errors == "" and (facts.problems.get("modules") is None) == (problem is None)
        assert problem is None or problem in facts.problems["modules"]
        assert facts.module_command
    # Asked whether the target has modules or not, as a job may; what brings them changes nothing else.
    (init / "sh").write_text("module() { :; }; PATH=/nowhere; HOME=/nowhere\n")
    facts, errors = probe(Target("x"), tmp_path / "home", words, PATH=quick, MODULESHOME=home)
    assert errors == "" and facts.module_command and facts.host.perf_version == "9.9"
    assert facts.directory == str(tmp_path / "home" / ".perfloom")
    # What this shell does not understand must not end it.
    (init / "sh").write_text("function ( { [[ oops\n")
    facts, _ = probe(Target("x", modules=("good",)), tmp_path / "home", words, PATH=quick, MODULESHOME=home)
    assert "module" in facts.problems["modules"] and facts.host.perf_version == "9.9"
    assert facts.module_command is False


def test_mpi_of_this_machine(tmp_path: Path, quick: str) -> None:
    require("openmpi")
    require("mpich")
    facts, _ = probe(Target("x"), tmp_path / "home", PATH=quick)
    assert {"openmpi", "mpich"} <= set(facts.mpi_launchers)
    assert facts.versions["openmpi"].startswith("Open MPI ") and facts.versions["mpich"].startswith("MPICH ")


def test_programs_that_hang_are_ended(tmp_path: Path) -> None:
    """A launcher that waits for standard input gets none; sleeping programs are ended."""
    folder = tmp_path / "bin"
    stand_in(folder, "perf", 'case "$*" in --version) echo "perf version 9.9";; *) cat; sleep 300;; esac')
    stand_in(folder, "timeout", 'shift 3; [ "$1" = true ] || case "$*" in *--version*) "$@";; *) exit 124;; esac')
    facts, _ = probe(Target("x"), tmp_path / "home", PATH=f"{folder}:/usr/bin:/bin")
    assert facts.host.perf_version == "9.9" and facts.host.hardware_counters is None and "probe" not in facts.problems


def test_a_batch_system_that_is_not_chosen_is_seen(tmp_path: Path, quick: str) -> None:
    stand_in(tmp_path / "bin", "bsub", 'echo "IBM Spectrum LSF Standard 10.1.0.14, Apr 20 2023" >&2')
    facts, _ = probe(Target("x"), tmp_path / "home", PATH=quick)
    assert "lsf" in facts.schedulers and facts.scheduler_version == ""
