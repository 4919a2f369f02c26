"""Programs that run as another user than the worker: a real worker, as root and by sudo. The user is in a /etc/passwd, and
the rule for sudo in a /etc/sudoers.d, that are visible only in a mount namespace of the test."""

import contextlib
import dataclasses
import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.errors import InvalidRequest, NotFound, Refused, Unreachable
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.isolation import INITIAL_PID_NAMESPACE, ProcessNamespaces, find_exposed_secret
from perfloom.paths import process_boundary
from perfloom.store.files import columns
from perfloom.workers.base.jobfiles import JobFiles
from perfloom.workers.serve import services
from perfloom.workers.transports import FileCopy, as_user
from perfloom.workers.transports.as_user import UserTransport, require_usable
from tests.support.marks import slow_except
from tests.support.parts import missing, own_mounts, require
from tests.support.servers import OrdinaryUser
from tests.workers.running import PERFLOOM
from tests.workers.waiting import until

USER, UID = "plrunner", 54321
SNOOP = """
echo "I am $(id -u) in $HOME"
for file in "$@"; do cat "$file" >/dev/null 2>&1 && echo "could read $file"; done
cat /proc/[0-9]*/environ 2>/dev/null | tr '\\000' '\\n' | grep -e PERFLOOM_TOKEN -e PERFLOOM_BROKER
printf 'worker sees: %s\\n' "${SECRET_OF_THE_WORKER-nothing}"
i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done
"""


@pytest.fixture
def place(ordinary_user: OrdinaryUser) -> Iterator[Path]:
    """A folder with the files that are put in place, and a home of the user."""
    require("perf")
    require("sudo")
    if os.geteuid() != 0:
        missing("permission to become another user", "run the tests as root")
    with tempfile.TemporaryDirectory(prefix="pl-user-", dir="/tmp") as made:
        place = Path(made)
        place.chmod(0o755)
        (place / "home").mkdir()
        os.chown(place / "home", UID, UID)
        line = f"{USER}:x:{UID}:{UID}::{place}/home:/bin/sh\n"
        (place / "passwd").write_text(Path("/etc/passwd").read_text() + line)
        (place / "rules").mkdir()
        (place / "rules" / "perfloom").write_text(f"{ordinary_user.name} ALL=({USER}) NOPASSWD: ALL\n")
        (place / "rules" / "perfloom").chmod(0o440)
        yield place


def inside(place: Path, *argv: str) -> list[str]:
    """A command where the user exists and sudo knows the rule."""
    bound = f"mount --bind {place}/passwd /etc/passwd && mount --bind {place}/rules /etc/sudoers.d"
    return [*own_mounts(), "sh", "-c", f'{bound} && exec "$@"', "sh", *argv]


@pytest.mark.slow
@pytest.mark.parametrize("by", slow_except(["sudo"], ["root", "sudo"]))
def test_a_job_of_another_user(place: Path, ordinary_user: OrdinaryUser, by: str) -> None:
    owner = ordinary_user.home if by == "sudo" else place / "server"
    data = owner / "data"
    settings = Settings.load(data, environ={}, runtime=owner / "run", reserve_bytes=0, port=0)
    settings = dataclasses.replace(settings, configured_token="t0ken" * 8)
    own = ordinary_user.command if by == "sudo" else (lambda *argv: list(argv))
    environ = services.environment_for(settings) | {"SECRET_OF_THE_WORKER": "seen", "HOME": str(owner)}
    log = place / "log"
    with open(log, "wb") as output:
        server = subprocess.Popen(
            inside(place, *own(*PERFLOOM, "serve", "--run-as", USER)), env=environ, stdout=output, stderr=output
        )
    try:
        until(lambda: "http://" in log.read_text(), "it serves", 60)
        secrets = [str(data / name) for name in ("catalogue.sqlite", "token", "jobs", "results")]
        asked = [*PERFLOOM, "record", "--frequency", "99", "--", "/bin/sh", "-c", SNOOP, "sh", *secrets]
        done = subprocess.run(inside(place, *own(*asked)), env=environ, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (done.stderr, log.read_text()[-3000:])
        id = done.stdout.strip()
        said = JobFiles(data / "jobs" / id).output.read_text()
        assert said.split("\n")[:2] == [f"I am {UID} in {place}/home", "worker sees: nothing"]
        assert columns.read(data / "results" / id).samples.num_rows > 0
        # Nothing of it is left in that user's home.
        assert not list((place / "home" / ".perfloom").glob("*/plan.sh"))
        with contextlib.closing(sqlite3.connect(f"file:{data}/catalogue.sqlite?mode=ro", uri=True)) as catalogue:
            ((text,),) = catalogue.execute("select facts from hosts where facts is not null").fetchall()
        facts = HostFacts.from_json(json.loads(text))
        assert facts.jobs is not None and (facts.jobs.uid, facts.readable_secrets, facts.root) == (UID, (), False)
        assert not find_exposed_secret(dataclasses.replace(facts.jobs, uid=os.geteuid()), facts.jobs)
    finally:
        server.send_signal(signal.SIGINT)
        status = server.wait(60)
    assert status == 0, log.read_text()


def test_a_user_who_does_not_exist_or_is_no_other_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequest, match="No such user here: 'nosuch'"):
        require_usable("nosuch")
    with pytest.raises(InvalidRequest, match="who can access everything"):
        require_usable("root")
    with pytest.raises(InvalidRequest, match="who can access everything"):
        require_usable(os.environ.get("LOGNAME", "root"))


def test_missing_sudo_rule_has_advice(place: Path, ordinary_user: OrdinaryUser) -> None:
    (place / "rules" / "perfloom").unlink()
    done = subprocess.run(
        inside(place, *ordinary_user.command(*PERFLOOM, "worker", "--run-as", USER)),
        env=ordinary_user.environment() | {"PERFLOOM_DATA": str(ordinary_user.home / "data")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (2, 4), done.stderr
    assert "Start the worker as root" in done.stderr and f"ALL=({USER}) NOPASSWD: ALL" in done.stderr


def test_files_and_scripts_of_another_user(
    ordinary_user: OrdinaryUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root, with an existing user."""
    if os.geteuid() != 0:
        missing("permission to become another user", "run the tests as root")
    there = UserTransport(ordinary_user.name)
    home = ordinary_user.home
    script = f"id -u; cat; cd {shlex.quote(str(home))} && ln -s /etc/shadow link && umask 077 && echo mine > mine"
    done = there.run(script, input=b"given\n")
    assert done.text == f"{ordinary_user.uid}\ngiven\n", done.errors
    there.get([FileCopy(str(home / "mine"), tmp_path / "got")])
    assert (tmp_path / "got").read_text() == "mine\n"
    with pytest.raises(Refused, match="Permission denied"):
        there.get([FileCopy(str(home / "link"), tmp_path / "shadow")])
    assert not (tmp_path / "shadow").exists()
    with pytest.raises(NotFound):
        there.get([FileCopy(str(home / "nothing"), tmp_path / "nothing")])
    there.get([FileCopy(str(home / "mine"), tmp_path / "listed", 3)])
    assert (tmp_path / "listed").read_text() == "min", "no more than was listed"
    os.mkfifo(home / "pipe")
    for name in (str(home / "pipe"), "/dev/zero"):
        with pytest.raises(Refused, match="not a regular file"):
            there.get([FileCopy(name, tmp_path / "never", 1)])
    monkeypatch.setattr(as_user, "worker_script", {"transports/get_file.sh": 'exec head -c "$2" -- "$1"'}.get)
    monkeypatch.setattr(as_user, "MIN_TIMEOUT_S", 0.6)
    with pytest.raises(Refused, match="took too long"):
        there.get([FileCopy(str(home / "pipe"), tmp_path / "never", 1)])
    monkeypatch.undo()
    there.put([FileCopy(str(home / "it's new"), tmp_path / "got")])
    status = (home / "it's new").stat()
    assert (status.st_uid, status.st_mode & 0o777) == (ordinary_user.uid, 0o600)
    with pytest.raises((NotFound, Refused)):
        there.put([FileCopy("/root/new", tmp_path / "got")])
    with pytest.raises(Unreachable, match="did not end within"):
        there.run("sleep 600", timeout_s=0.5)


WEB = ProcessNamespaces(7, "boot", "mnt:1", "pid:1", "user:1")
APART = {"mounts": "mnt:2", "pids": "pid:2"}


@pytest.mark.parametrize(
    ("changed", "readable", "words"),
    [
        ({}, (), "as the server's own user"),
        ({"uid": 0}, (), "as root"),
        ({"uid": 8}, (), ""),
        ({"uid": 8}, ("/d/token",), "could read /d/token"),
        # A private /tmp, a user namespace, a chroot: the processes of the server are seen all the same.
        ({"mounts": "mnt:2"}, (), "as the server's own user"),
        ({"uid": 0, "mounts": "mnt:2"}, (), "as root"),
        ({"pids": "pid:2"}, (), "as the server's own user"),
        ({"mounts": "mnt:2", "users": "user:2"}, (), "as the server's own user"),
        ({"uid": 100007, "mounts": "mnt:2", "users": "user:2"}, (), ""),
        ({"uid": 100000, "root": True}, (), "as root"),
        ({"uid": 100000, "root": True, "users": "user:2"}, (), ""),
        # Containers, and the machine that they are on.
        (APART, (), ""),
        (APART | {"uid": 0, "root": True}, (), ""),
        (APART, ("/d/token",), "could read /d/token"),
        (APART | {"pids": INITIAL_PID_NAMESPACE}, (), "as the server's own user"),
        (APART | {"pids": INITIAL_PID_NAMESPACE, "uid": 0}, (), "as root"),
        # Another machine.
        ({"boot": "other"}, (), ""),
        ({"boot": "other"}, ("/d/token",), "could read /d/token"),
    ],
)
def test_process_boundary(changed: dict[str, object], readable: tuple[str, ...], words: str) -> None:
    reason = find_exposed_secret(WEB, dataclasses.replace(WEB, **changed), readable)  # type: ignore[arg-type]
    assert words in reason and bool(words) == bool(reason)
    assert not reason or "PERFLOOM_TRUST_USERS" in reason


def test_unknown_worker_has_no_boundary() -> None:
    assert "No worker has reported" in find_exposed_secret(WEB, HostFacts("h").jobs)


def test_other_mount_namespace_is_no_boundary() -> None:
    code = "import dataclasses, json; from perfloom.paths import process_boundary as p; print(json.dumps(dataclasses.asdict(p())))"
    seen = [
        ProcessNamespaces(**json.loads(subprocess.check_output([*prefix, sys.executable, "-P", "-c", code])))
        for prefix in ((), tuple(own_mounts()))
    ]
    assert seen[0] == process_boundary() and seen[1].mounts != seen[0].mounts
    assert find_exposed_secret(seen[0], seen[1]) and find_exposed_secret(seen[1], seen[0])
