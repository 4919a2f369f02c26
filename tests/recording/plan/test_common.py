"""What the scripts of a job have in common."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

import perfloom.recording.plan.plan
from tests.recording.plan.jobs import marked

COMMON = Path(perfloom.recording.plan.plan.__file__).parent / "common.sh"


def until(text: str, count: int) -> None:
    """Return when so many processes bear that mark."""
    end = time.monotonic() + 20
    while len(left := marked(text)) != count:
        assert time.monotonic() < end, left
        time.sleep(0.02)


DEAF = 'sleep() { trap "" TERM; exec sleep "$1"; }; '
"""Between fork and exec a child of a shell does not end on TERM either."""


@pytest.mark.parametrize("stage", ["before", "within", "just-begun"])
def test_forgotten_timer_leaves_no_sleep(shell: Path, tmp_path: Path, stage: str) -> None:
    mark = f"PERFLOOM_JOB={tmp_path.name}-{os.getpid()}"
    delay = "300" if stage == "before" else "0"
    script = (
        f'. {COMMON}; work() {{ pl_sleep 300; }}; pl_later {delay} work; read -r line; pl_forget "$pl_timer"; exit 7'
    )
    if stage == "just-begun":
        script = DEAF + script
    variables = os.environ | dict([mark.split("=", 1)])
    with subprocess.Popen([shell, "-c", script], stdin=subprocess.PIPE, env=variables) as process:
        until(mark, 3)
        process.communicate(b"\n", timeout=20)
    assert process.returncode == 7
    until(mark, 0)
