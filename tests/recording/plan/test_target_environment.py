"""A command at a target has the target's variables and modules around it."""

import subprocess
from pathlib import Path

from perfloom.domain.targets import Target
from perfloom.recording.plan.target_environment import in_target_environment


def run(
    target: Target, *argv: str, shell: Path = Path("/bin/sh"), **environment: str
) -> subprocess.CompletedProcess[str]:
    around = {"PATH": "/usr/bin:/bin", "HOME": "/"} | environment
    return subprocess.run(
        [shell, "-c", in_target_environment(target, argv)], env=around, capture_output=True, text=True, timeout=30
    )


def test_variables_and_modules(shell: Path, tmp_path: Path) -> None:
    (tmp_path / "init").mkdir()
    (tmp_path / "init" / "sh").write_text('module() { echo loading; shift; MINE="$MINE[$*]"; export MINE; }\n')
    hostile = f"$(touch {tmp_path}/trap) `touch {tmp_path}/trap`\n'\""
    plain = Target("x", environment={"MINE": hostile})
    target = Target("x", modules=("a/1", "b"), environment={"MINE": hostile})
    done = run(target, "printenv", "MINE", shell=shell, MODULESHOME=str(tmp_path))
    assert (done.stdout, done.stderr, done.returncode) == (f"{hostile}[a/1 b]\n", "", 0)
    assert run(plain, "printenv", "MINE", shell=shell).stdout == f"{hostile}\n"
    assert not (tmp_path / "trap").exists()


def test_without_modules_the_command_is_tried_all_the_same() -> None:
    target = Target("x", modules=("nothing",))
    done = run(target, "sh", "-c", "echo out; echo err >&2; exit 3", MODULESHOME="/nonexistent")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)


def test_signals_reach_the_command_itself() -> None:
    done = run(Target("x", environment={"A": "b"}), "sh", "-c", "kill -9 $$")
    assert done.returncode == -9
