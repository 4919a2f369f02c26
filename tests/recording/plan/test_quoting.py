"""Every text is one word of every shell, and nothing of it is ever executed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.errors import InvalidRequest
from perfloom.recording.quoting import ShellCode, join, quote

HOSTILE = (
    "",
    " ",
    "$(touch {mark})",
    "`touch {mark}`",
    "'; touch {mark}; '",
    "'\\''",
    '"; touch {mark}; "',
    "\\",
    "a\\\nb",
    "line\nbreak\n",
    "\ttab\r",
    "*",
    "~root",
    "#no comment",
    "!event",
    "$HOME ${IFS} $((1+1))",
    "& | ; < > ( ) { } [ ]",
    "-n",
    "--",
    "a=b",
    "PATH=/nowhere",
    "if",
    "größe \N{SNOWMAN} \u202e",
    "\udcff\udc80 no UTF-8",
    "\x01\x1b[31m\x7f",
)


def given_back(shell: Path, words: list[str]) -> list[bytes]:
    """What a program gets as its arguments when a shell runs such a command line."""
    script = join(["printf", "%s\\0", *words])
    done = subprocess.run([shell, "-c", script.encode("utf-8", "surrogateescape")], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.split(b"\0")[:-1]


def test_hostile_words_arrive_as_they_are(shell: Path, tmp_path: Path) -> None:
    words = [word.replace("{mark}", str(tmp_path / "mark")) for word in HOSTILE]
    assert given_back(shell, words) == [word.encode("utf-8", "surrogateescape") for word in words]
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))), min_size=1, max_size=8))
def test_any_words_arrive_as_they_are(words: list[str]) -> None:
    assert given_back(Path("/bin/sh"), words) == [word.encode() for word in words]


@pytest.mark.parametrize("first", ["a=b", "if", "{", "!", "while"])
def test_a_command_is_no_assignment_and_no_word_of_the_shell(shell: Path, first: str) -> None:
    done = subprocess.run([shell, "-c", join([first, "x"])], capture_output=True, env={"PATH": "/nowhere"})
    assert done.returncode == 127
    assert b"not found" in done.stderr.lower() or b"No such file" in done.stderr


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_null_bytes_are_rejected(text: str) -> None:
    with pytest.raises(InvalidRequest):
        quote(text)


def test_plain_words_stay_readable() -> None:
    assert join(["perf", "record", "-F", "199", "-o", "/a/b.data", "--time=5", "a b"]) == (
        "perf record -F 199 -o /a/b.data --time=5 'a b'"
    )


def test_our_own_pieces_stay_as_they_are() -> None:
    assert join([ShellCode('"$pl_out"'), "$x"]) == "\"$pl_out\" '$x'"
