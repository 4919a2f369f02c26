"""`perfloom target` as a user types it: added, shown, checked, keys accepted, exchanged, deleted."""

import io
import json
import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from perfloom.cli import group as cli
from perfloom.config import Settings
from perfloom.domain.jobs import MpiFlavor
from perfloom.domain.targets import SchedulerName, Ssh, Target
from perfloom.recording.probe.check_messages import KIND
from perfloom.recording.probe.target_text import fingerprint
from perfloom.store import Store, open_store
from perfloom.workers.serve import services
from perfloom.workers.transports import close_all
from tests.support import sshd as servers
from tests.support.batch import LsfDouble
from tests.workers.running import PERFLOOM


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path / "data", environ={}, runtime=tmp_path / "run", reserve_bytes=0)


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    store = open_store(settings)
    yield store
    store.close()
    close_all()


@pytest.fixture
def perf(tmp_path: Path) -> str:
    """A perf that answers at once."""
    path = tmp_path / "perf"
    path.write_text('#!/bin/sh\n[ "$1" != --version ] || echo "perf version 9.9"\n')
    path.chmod(0o755)
    return str(path)


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


class Command(Protocol):
    def __call__(self, *arguments: str, input: str = "") -> Done: ...


@pytest.fixture
def perfloom(settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line in this process, which starts sooner."""
    for name, value in services.environment_for(settings).items():
        if name.startswith("PERFLOOM_"):
            monkeypatch.setenv(name, value)

    def call(*arguments: str, input: str = "") -> Done:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(input.encode())))
        capsys.readouterr()
        status = cli.run(list(arguments))
        printed = capsys.readouterr()
        return Done(status, printed.out, printed.err)

    return call


def test_adding_showing_listing_deleting(perfloom: Command, store: Store) -> None:
    options = (
        "--ssh",
        "node7",
        "--user",
        "ada",
        "--port",
        "2222",
        "--key",
        "~/.ssh/id",
        "--jump",
        "gate",
        "--jump",
        "b:22",
    )
    more = ("--no-agent", "--no-config", "--password", "--timeout", "9", "--scheduler", "lsf", "--directory", "$HOME/x")
    rest = (
        "--module",
        "gcc",
        "--module",
        "mpi",
        "--env",
        "A=b=c",
        "--mpi",
        "openmpi",
        "--starter",
        "openmpi=mpirun.openmpi",
    )
    last = (
        "--sudo",
        "--counters",
        "4",
        "--poll",
        "30",
        "--notes",
        "hello",
        "--perf",
        "/opt/perf",
        "--scratch",
        "$TMPDIR",
    )
    assert perfloom("target", "add", "far", *options, *more, *rest, *last).returncode == 0
    assert store.targets.get("far").target == Target(
        "far",
        ssh=Ssh("node7", "ada", 2222, "~/.ssh/id", False, False, ("gate", "b:22"), True, (), 9.0),
        scheduler=SchedulerName.LSF,
        directory="$HOME/x",
        scratch="$TMPDIR",
        perf="/opt/perf",
        modules=("gcc", "mpi"),
        environment={"A": "b=c"},
        mpi=MpiFlavor.OPENMPI,
        starters={"openmpi": "mpirun.openmpi"},
        sudo=True,
        counters=4,
        poll_s=30.0,
        notes="hello",
    )
    listed = json.loads(perfloom("target", "list", "--format", "json").stdout)
    assert [row["name"] for row in listed] == ["local", "far"]
    assert listed[1]["where"] == "ada@node7:2222 through gate, b:22" and listed[1]["checked"] is None
    shown = perfloom("target", "show", "far")
    assert 'host = "node7"' in shown.stdout and "never checked" in shown.stderr
    assert json.loads(perfloom("target", "show", "far", "--format", "json").stdout)["target"]["poll_s"] == 30.0
    assert perfloom("target", "delete", "far", "nowhere").returncode == 2
    assert store.targets.find("far") is not None
    assert perfloom("target", "delete", "far").returncode == 0
    assert store.targets.find("far") is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "a/b", "--ssh", "x"), "name starts"),
        (("add", "x", "--ssh", "-oProxyCommand=x"), "cannot be the name"),
        (("add", "x", "--user", "ada"), "--ssh"),
        (("add", "x", "--ssh", "y", "--env", "A"), "NAME=VALUE"),
        (("add", "x", "--ssh", "y", "--scheduler", "pbs"), "pbs"),
        (("add", "x", "--ssh", "y", "--counters", "0", "--poll", "9999"), "--counters: 0 is out of range. Use 1 to 64"),
        (("add", "x", "--ssh", "y", "--counters", "0", "--poll", "9999"), "--poll: The polling interval is out of"),
        (("add", "x", "--ssh", "y", "--port", "x", "--poll", "9999"), "--poll: The polling interval is out of"),
        (("add", "local", "--sudo"), "--replace"),
        (("show", "nowhere"), "No target 'nowhere'"),
        (("check", "nowhere"), "No target 'nowhere'"),
        (("check", "local", "--queue", "x"), "--probe"),
        (("check", "local", "--probe"), "no batch system"),
        (("accept", "local"), "is this machine"),
        (("delete", "local"), "cannot be deleted"),
        (("import", "/does/not/exist"), "cannot be read"),
        (("export", "local", "-o", "/does/not/exist"), "cannot be written"),
        (("import", "-"), "empty"),
        (("nonsense",), "nonsense"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_impossible_target_commands(perfloom: Command, arguments: tuple[str, ...], words: str) -> None:
    done = perfloom("target", *arguments)
    assert (done.returncode, done.stdout) == (2, "") and words in done.stderr and "Traceback" not in done.stderr


def test_exported_target_is_imported(perfloom: Command, store: Store, tmp_path: Path) -> None:
    store.targets.save(Target("far", ssh=Ssh("node7"), environment={"TOKEN": "hush", "A": "b"}))
    for form in ("toml", "json"):
        path = str(tmp_path / f"far.{form}")
        assert perfloom("target", "export", "far", "--format", form, "-o", path).returncode == 0
        assert "hush" not in Path(path).read_text()
        assert perfloom("target", "import", path).returncode == 2
        done = perfloom("target", "import", path, "--name", f"of {form}")
        assert (done.returncode, done.stdout) == (0, f"of {form}\n")
        assert store.targets.get(f"of {form}").target == Target(f"of {form}", ssh=Ssh("node7"), environment={"A": "b"})
    text = perfloom("target", "export", "far").stdout
    assert perfloom("target", "import", "-", "--replace", input=text).stdout == "far\n"


def test_a_check_of_this_machine(perfloom: Command, store: Store, tmp_path: Path, perf: str) -> None:
    store.targets.save(Target("here", perf=perf, directory=f"{tmp_path}/jobs"))
    done = perfloom("target", "check", "here")
    assert done.returncode == 0 and f"Version 9.9 at {perf}" in done.stdout, done.stderr
    store.targets.save(Target("here", perf="/no/perf", directory="/proc/nothing/jobs"))
    done = perfloom("target", "check", "here")
    assert done.returncode == 4 and "TO DO  perf" in done.stdout and "→" in done.stdout
    again = perfloom("target", "show", "here")
    assert again.returncode == 0 and "TO DO  perf" in again.stdout


def test_host_key_is_shown_and_accepted(perfloom: Command, store: Store, perf: str) -> None:
    with servers.sshd() as server:
        store.targets.save(server.target("far host", perf=perf, ssh=server.ssh(host_keys=())))
        mark = fingerprint(server.known)
        done = perfloom("target", "check", "far host")
        assert done.returncode == 2 and mark in done.stderr and "perfloom target accept 'far host'" in done.stderr
        # Its page offers to accept it, too.
        asked = store.checks.latest(KIND, "far host")
        assert asked is not None and mark in str(asked.answer)
        for answer in ("", "n\n"):
            done = perfloom("target", "accept", "far host", input=answer)
            assert done.returncode != 0 and mark in done.stderr
        done = perfloom("target", "accept", "far host", "--fingerprint", "SHA256:other")
        assert done.returncode == 2 and "Nothing was accepted" in done.stderr
        ssh = store.targets.get("far host").target.ssh
        assert ssh is not None and ssh.host_keys == ()
        assert perfloom("target", "accept", "far host", input="y\n").returncode == 0
        ssh = store.targets.get("far host").target.ssh
        assert ssh is not None and [fingerprint(line) for line in ssh.host_keys] == [mark]
        done = perfloom("target", "check", "far host")
        assert done.returncode == 0 and "ok     Connection" in done.stdout
        assert "already accepted" in perfloom("target", "accept", "far host").stderr


def test_password_prompt_on_terminal(settings: Settings, store: Store, perf: str) -> None:
    with servers.sshd(account=servers.Account(password=True)) as server:
        there = Path(perf).rename(server.folder / "perf")
        store.targets.save(server.target(perf=str(there), ssh=server.ssh(key_file="", password=True)))
        terminal, inner = pty.openpty()
        argv = ["setsid", "--ctty", "--wait", *PERFLOOM, "target", "check", "far"]
        process = subprocess.Popen(
            argv, env=services.environment_for(settings), stdin=inner, stdout=inner, stderr=inner
        )
        os.close(inner)
        said, end, typed = b"", time.monotonic() + 60, False
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    said += os.read(terminal, 4096)
                except OSError:
                    break
            if b"Password" in said and not typed:
                typed = os.write(terminal, servers.WORD.encode() + b"\n") > 0
        os.close(terminal)
        assert process.wait(30) == 0, said
        assert typed and b"Connection" in said and servers.WORD.encode() not in said


def test_a_probe_job(perfloom: Command, store: Store, lsf: LsfDouble, tmp_path: Path, perf: str) -> None:
    target = Target(
        "cluster",
        scheduler=SchedulerName.LSF,
        directory=f"{tmp_path}/jobs",
        perf=perf,
        environment={"PATH": f"{lsf.path}:/usr/bin:/bin"},
    )
    store.targets.save(target)
    done = perfloom("target", "check", "cluster", "--probe", "--queue", "short")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The probe job" in done.stderr and "share the directory" in done.stdout
    assert perfloom("target", "check", "cluster", "--probe", "--queue", "nowhere").returncode == 4
