"""What a job, as the same user, sees of the server's secrets in /proc: nothing, whether they were given by the environment
or in files."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perfloom import secret_settings
from perfloom.config import Settings
from perfloom.domain.errors import InvalidRequest
from perfloom.secret_settings import SECRETS
from perfloom.workers.base import processes
from perfloom.workers.serve import services
from tests.support.marks import slow_except
from tests.support.parts import require
from tests.support.servers import OrdinaryUser, RedisServer
from tests.workers.running import PERFLOOM, environment
from tests.workers.waiting import until

TOKEN, KEY = "t0ken" * 8, "c00kie" * 8
SNOOP = (
    "import glob, os\n"
    "text, denied = b'', 0\n"
    "for path in glob.glob('/proc/[0-9]*/environ'):\n"
    "    try: text += open(path, 'rb').read()\n"
    "    except OSError: denied += 1\n"
    "open(os.environ['SEEN'], 'wb').write(text + b' denied %d' % denied)\n"
    "sum(range(3_000_000))\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("way", slow_except(["environment"], ["environment", "files"]))
def test_secrets_are_in_no_environment(ordinary_user: OrdinaryUser, way: str) -> None:
    require("perf")
    env = environment() | ordinary_user.environment() | {"XDG_RUNTIME_DIR": "", "XDG_DATA_HOME": ""}
    env |= {"PERFLOOM_RESERVE_BYTES": "0", "PERFLOOM_DATA": str(ordinary_user.home / "data")}
    given = {"PERFLOOM_TOKEN": TOKEN, "PERFLOOM_SECRET_KEY": KEY}
    if way == "files":
        for name, value in given.items():
            (ordinary_user.home / name).write_text(f"{value}\n")
        given = {f"{name}_FILE": str(ordinary_user.home / name) for name in given}
    log, seen = ordinary_user.home / "log", ordinary_user.home / "seen"
    # Control: this user can read the variables of a process that does not hide them.
    open_one = subprocess.Popen(ordinary_user.command("sleep", "600"), env=env | {"PLAIN": "not hidden"})
    with open(log, "wb") as output:
        argv = ordinary_user.command(*PERFLOOM, "serve", "--port", "0")
        server = subprocess.Popen(argv, env=env | given, cwd=ordinary_user.home, stdout=output, stderr=output)
    try:
        until(lambda: "http://" in log.read_text(), "it serves", 60)
        snoop = [*PERFLOOM, "record", "--frequency", "99", "--env", f"SEEN={seen}", "--", sys.executable, "-c", SNOOP]
        done = subprocess.run(
            ordinary_user.command(*snoop), env=env, cwd=ordinary_user.home, capture_output=True, text=True, timeout=90
        )
        found = seen.read_bytes()
        assert b"PLAIN=not hidden" in found, done.stderr
        assert TOKEN.encode() not in found and KEY.encode() not in found
        tree = [server.pid, *(one.pid for one in processes.descendants(server.pid))]
        hidden = 0
        for pid in tree:
            # Not even root finds them in the environment that a process was started with. Short processes may have ended.
            text = b""
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                text = Path(f"/proc/{pid}/environ").read_bytes() if os.geteuid() == 0 else b""
            assert TOKEN.encode() not in text and KEY.encode() not in text
            looks = subprocess.run(ordinary_user.command("cat", f"/proc/{pid}/environ"), capture_output=True)
            hidden += looks.returncode != 0 and Path(f"/proc/{pid}").exists()
        # The command, its workers and its web server; Redis and what reads files have no secrets.
        assert hidden >= 5, tree
    finally:
        server.send_signal(signal.SIGINT)
        status = server.wait(60)
        open_one.kill()
        open_one.wait()
    assert status == 0, log.read_text()


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_can_be_in_files(tmp_path: Path, name: str) -> None:
    values = {
        "PERFLOOM_TOKEN": "t" * 40,
        "PERFLOOM_SECRET_KEY": "k" * 40,
        "PERFLOOM_DATABASE_URL": "postgresql+psycopg://u:p@h/n",
        "PERFLOOM_BROKER_URL": "redis://:p@h:6379/0",
    }
    path = tmp_path / "secret"
    path.write_text(f"{values[name]}\n")
    loaded = Settings.load(tmp_path, environ={f"{name}_FILE": str(path)})
    assert loaded == Settings.load(tmp_path, environ={name: values[name]})
    with pytest.raises(InvalidRequest, match="are set"):
        Settings.load(tmp_path, environ={f"{name}_FILE": str(path), name: values[name]})
    for content, words in ((b"", "is empty"), (b"\xff\xfe", "it is not text"), (None, "No such file")):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InvalidRequest, match=words):
            Settings.load(tmp_path, environ={f"{name}_FILE": str(path)})


def test_children_take_them_from_a_descriptor(settings: Settings) -> None:
    handle = services.settings_descriptor(settings)
    try:
        environ = services.environment_for(settings, handle)
        assert not set(environ) & set(SECRETS)
        code = "from perfloom.config import Settings as S; a, b = S.load(), S.load(); print(a == b, a.broker_url)"
        for _ in range(2):  # As one that is started again.
            done = subprocess.run(
                [sys.executable, "-P", "-c", code], env=environ, pass_fds=[handle], capture_output=True, text=True
            )
            assert done.stdout == f"True {settings.broker_url}\n", done.stderr
    finally:
        os.close(handle)
    with pytest.raises(InvalidRequest, match="that Perfloom starts"):
        Settings.load(environ={secret_settings.DESCRIPTOR_VARIABLE: "987654"})
    assert json.dumps(environ).count(settings.database_url) == 0


@pytest.fixture
def settings(tmp_path: Path, short_path: Path) -> Settings:
    return Settings.load(tmp_path / "data", environ={}, runtime=short_path / "run", reserve_bytes=0)


def test_a_worker_of_a_team_works_with_secrets_from_files(
    settings: Settings, redis_server: RedisServer, tmp_path: Path
) -> None:
    path = tmp_path / "broker"
    path.write_text(redis_server.url)
    environ = services.environment_for(settings) | {"PERFLOOM_BROKER_URL_FILE": str(path)}
    del environ["PERFLOOM_BROKER_URL"]
    log = tmp_path / "log"
    with open(log, "wb") as output:
        worker = subprocess.Popen([*PERFLOOM, "worker"], env=environ, stdout=output, stderr=output)
    try:
        until(lambda: "Working on" in log.read_text(), "it works", 60)
    finally:
        worker.send_signal(signal.SIGINT)
        assert worker.wait(40) == 0, log.read_text()
