"""What is recorded about where a program starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from perfloom.workers.local.conditions import read_conditions


def test_allowed_cpus_of_a_process() -> None:
    cpu = min(os.sched_getaffinity(0))
    with subprocess.Popen(["taskset", "-c", str(cpu), "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.read(1)
        assert read_conditions(process.pid)["cpus"] == str(cpu)
        process.stdin.close()


def test_governors(tmp_path: Path) -> None:
    for cpu, governor in enumerate(("powersave", "performance", "powersave")):
        directory = tmp_path / f"cpu{cpu}" / "cpufreq"
        directory.mkdir(parents=True)
        (directory / "scaling_governor").write_text(f"{governor}\n")
    assert read_conditions(os.getpid(), tmp_path)["governor"] == "performance, powersave"


def test_no_governor(tmp_path: Path) -> None:
    (tmp_path / "cpu0").mkdir()
    assert read_conditions(os.getpid(), tmp_path)["governor"] == "none"
    assert "governor" not in read_conditions(os.getpid(), tmp_path / "missing")


def test_process_that_has_ended() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert "cpus" not in read_conditions(process.pid)
