"""The reader that a command forks: it has nothing of the command's, and the limits of every reader."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfloom.config import SETTINGS
from perfloom.secret_settings import SECRETS
from perfloom.workers import forked_reader
from perfloom.workers.read import prefork
from tests.support import paths
from tests.workers.running import environment
from tests.workers.waiting import has_ended, until

TRACE = paths.DATA / "pytorch" / "spans_0.pt.trace.json.gz"
CANARY = "a-value-that-only-the-command-knows"
CODE = """
import json, os, resource, sys
from pathlib import Path
inherited = os.open("/etc/hostname", os.O_RDONLY)
os.set_inheritable(inherited, True)
from perfloom.workers import forked_reader
forked_reader.prefork_readers([sys.argv[1]], shares_libraries=sys.argv[3:] != ["import"])
from perfloom.config import Settings
from perfloom.workers.read import prefork, reading
[reader] = prefork._waiting
forked, pid = isinstance(reader.process, prefork.ForkedProcess), reader.process.pid
with prefork.ReaderKeeper() as keeper:
    folder = Path(sys.argv[2])
    settings = Settings.load(folder / "data", read_memory_bytes=3_000_000_000)
    (folder / "scratch").mkdir()
    request = reading.make_request(settings, [sys.argv[1]], folder / "scratch", folder / "out", stays=True)
    reading._answer(request, lambda part, text: None, keeper)
    print(json.dumps({
        "forked": forked,
        "pid": pid,
        "rows": len(os.listdir(folder / "out")),
        "environment": Path(f"/proc/{pid}/environ").read_bytes().replace(bytes(1), b"").decode(),
        "files": {os.readlink(f"/proc/{pid}/fd/{name}").partition(":")[0] for name in os.listdir(f"/proc/{pid}/fd")},
        "directory": os.readlink(f"/proc/{pid}/cwd"),
        "own_session": os.getsid(pid) == pid,
        "memory": resource.prlimit(pid, resource.RLIMIT_AS)[1],
        "name": Path(f"/proc/{pid}/comm").read_text().strip(),
        "variables": [name for name in forked_reader.LOADED_BEFORE if name in os.environ],
    }, default=sorted), flush=True)
    if len(sys.argv) > 3:
        os.kill(os.getpid(), 9)
"""


def start_forked(folder: Path, *arguments: str, **variables: str) -> dict[str, Any]:
    """What a command that forks a reader prints about it."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(TRACE), str(folder), *arguments],
        env=environment() | {"CANARY": CANARY} | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == (-9 if arguments else 0), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("command", ["report", "import"])
def test_forked_reader_has_nothing_of_the_command(tmp_path: Path, command: str) -> None:
    found = start_forked(tmp_path, command)
    assert found["forked"] and found["rows"] > 1
    assert found["environment"] == ""
    assert all(file.startswith(("/dev/null", "pipe", "/tmp/", str(tmp_path))) for file in found["files"]), found
    assert found["directory"] == str(tmp_path / "scratch")
    assert found["own_session"] and found["memory"] == 3_000_000_000 and found["name"] == "perfloom-read"
    assert found["variables"] == []
    until(lambda: has_ended(found["pid"]), "the reader ends with the command")


def test_command_with_secrets_does_not_fork(tmp_path: Path) -> None:
    assert tuple(setting.variable for setting in SETTINGS if setting.secret) == SECRETS
    found = start_forked(tmp_path, PERFLOOM_TOKEN="x" * 40)
    assert not found["forked"] and found["rows"] > 1 and CANARY not in found["environment"]


def test_process_with_threads_does_not_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_reader.os, "listdir", lambda path: ["1", "2"])
    forked_reader.prefork_readers([str(TRACE)], shares_libraries=True)
    try:
        [reader] = prefork._waiting
        assert isinstance(reader.process, subprocess.Popen)
    finally:
        prefork.end_reader()
