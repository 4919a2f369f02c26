"""The Dockerfile, checked line by line; no image is built here."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.support import paths, servers

Instruction = tuple[str, str]


@pytest.fixture(scope="module")
def instructions() -> list[Instruction]:
    """(keyword, rest) of each instruction, with continued lines joined."""
    text = (paths.ROOT / "Dockerfile").read_text()
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    return [(keyword, rest) for keyword, rest in lines]


def last(instructions: list[Instruction], keyword: str) -> str:
    return [rest for word, rest in instructions if word == keyword][-1]


def test_copied_files_exist_and_are_not_ignored(root: Path, instructions: list[Instruction]) -> None:
    ignore = [line for line in (root / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert ignore[0] == "*"
    let_in = {line[1:] for line in ignore if line.startswith("!")}
    copied = set()
    for keyword, rest in instructions:
        words = shlex.split(rest)
        if keyword == "COPY" and not words[0].startswith("--from"):
            copied.update(words[:-1])
    assert {"setup.cfg", "app", "workers", "templates", "static", "perfloom"} <= copied
    for path in copied:
        assert (root / path).exists()
        assert any(fnmatch(path, pattern) for pattern in let_in), f".dockerignore keeps {path} out"


def test_files_for_the_wheel_are_copied(root: Path, instructions: list[Instruction]) -> None:
    """The files that setup.cfg reads when the wheel is built are copied."""
    parser = configparser.RawConfigParser()
    parser.read(root / "setup.cfg")
    readme = parser["metadata"]["long_description"].removeprefix("file:").strip()
    assert any(keyword == "COPY" and readme in rest for keyword, rest in instructions)


def test_command_runs_as_unprivileged_user(root: Path, instructions: list[Instruction]) -> None:
    parser = configparser.RawConfigParser()
    parser.read(root / "setup.cfg")
    scripts = {
        line.partition("=")[0].strip() for line in parser["options.entry_points"]["console_scripts"].splitlines()
    }
    program, *arguments = json.loads(last(instructions, "CMD"))
    assert program in scripts
    assert arguments[:1] == ["web"]
    assert last(instructions, "USER") not in {"root", "0"}
    order = [keyword for keyword, _ in instructions]
    assert order.index("USER") < order.index("CMD")


def test_extras_exist(root: Path, instructions: list[Instruction]) -> None:
    parser = configparser.RawConfigParser()
    parser.read(root / "setup.cfg")
    named = re.findall(r"perfloom\[([\w,]+)\]", " ".join(rest for word, rest in instructions if word == "RUN"))
    assert named
    assert {extra for names in named for extra in names.split(",")} <= set(parser["options.extras_require"])


def test_command_starts_and_health_check_passes(
    instructions: list[Instruction],
    redis_server: servers.RedisServer,
    postgres_database: str,
    tmp_path: Path,
) -> None:
    """The image's two commands, run here with another port and an external broker and database."""
    program, *arguments = json.loads(last(instructions, "CMD"))
    check = json.loads(last(instructions, "HEALTHCHECK").partition("CMD")[2])
    assert arguments[-2] == "--port"
    environment = {
        **os.environ,
        "PERFLOOM_DATA": str(tmp_path / "data"),
        "PERFLOOM_BROKER_URL": redis_server.url,
        "PERFLOOM_DATABASE_URL": postgres_database,
        "PERFLOOM_TOKEN": "a-token-that-was-chosen-by-somebody",
        "PYTHONUNBUFFERED": "1",
    }
    beside = Path(sys.executable).parent
    argv = ["setpriv", "--pdeathsig", "KILL", "--", str(beside / program), *arguments[:-1], "0"]
    log = tmp_path / "log"
    with log.open("w") as output, subprocess.Popen(argv, env=environment, stdout=output, stderr=output) as server:
        try:
            deadline = time.monotonic() + 30
            while not (found := re.search(r"http://\S+?:(\d+)/", log.read_text())):
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            code = check[-1].replace(f":{arguments[-1]}/", f":{found[1]}/")
            assert code != check[-1]
            for address in ("127.0.0.1", "localhost"):
                asked = [sys.executable, "-c", code.replace("127.0.0.1", address)]
                # Repeated, as Docker does: on a busy machine the first answer takes a while.
                while (done := subprocess.run(asked, env=environment, capture_output=True, text=True)).returncode:
                    assert time.monotonic() < deadline, done.stderr + log.read_text()
        finally:
            server.terminate()
        assert server.wait(20) == 0, log.read_text()
    assert "a-token" not in log.read_text()
