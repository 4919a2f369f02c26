"""Variables in paths are filled in by the target's own sh, and nothing else in a path is obeyed."""

import subprocess
from pathlib import Path

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.recording.plan.path_variables import expand_path, path_variables

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/home/a b", "SCRATCH": "/scr/$HOME", "X": "*", "EMPTY": ""}


def shown(path: str) -> str:
    script = f"printf '%s' {expand_path(path).text}"
    done = subprocess.run(["/bin/sh", "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        ("/plain", "/plain"),
        ("~", "/home/a b"),
        ("~/x y", "/home/a b/x y"),
        ("/a/~", "/a/~"),
        ("~other/x", "~other/x"),
        ("$SCRATCH/p", "/scr/$HOME/p"),
        ("${SCRATCH}p/$X", "/scr/$HOMEp/*"),
        ("/a'b\"c\\d", "/a'b\"c\\d"),
        ("/`touch x`;touch y&", "/`touch x`;touch y&"),
        ("/a\nb\n", "/a\nb\n"),
        ("", ""),
    ],
)
def test_path_variables_are_expanded(path: str, whole: str) -> None:
    assert shown(path) == whole


@pytest.mark.parametrize("path", ["$", "/a$/b", "$(touch x)", "${a b}", "${X:-$(touch x)}", "$1", "${", "$é"])
def test_invalid_variable_is_rejected(path: str) -> None:
    for read in (expand_path, path_variables):
        with pytest.raises(InvalidRequest, match="is not followed by a name"):
            read(path)


@pytest.mark.parametrize("name", ["EMPTY", "NOT_THERE"])
def test_empty_variable_is_named(name: str, tmp_path: Path) -> None:
    script = f"mkdir {expand_path(f'${name}/x').text}; echo reached"
    done = subprocess.run(["/bin/sh", "-c", script], env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode and name in done.stderr and "reached" not in done.stdout


def test_path_variables_are_listed() -> None:
    assert path_variables("$A/${B_2}x~") == ("A", "B_2")
