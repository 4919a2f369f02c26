"""Command lines as people type them."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.errors import InvalidRequest
from perfloom.recording.fields import command_line

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
ARGV = st.lists(TEXT, max_size=6).map(tuple)


@given(ARGV)
def test_joined_arguments_split_again(argv: tuple[str, ...]) -> None:
    assert command_line.split(command_line.join(argv)).argv == argv


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=8), max_size=4))
def test_joined_line_survives_form(argv: list[str]) -> None:
    """A textarea turns every line break into \\r\\n, and the form turns it into \\n."""
    line = command_line.join(tuple(argv))
    sent = line.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
    assert command_line.split(sent.replace("\r\n", "\n")).argv == tuple(argv)


@given(st.text(st.sampled_from("ab '\"\\\t=-/.,é€") | st.characters(categories=("L",)), max_size=20))
def test_quoting_is_that_of_shlex(line: str) -> None:
    try:
        expected = shlex.split(line)
    except ValueError:
        with pytest.raises(InvalidRequest):
            command_line.split(line)
        return
    assert list(command_line.split(line).argv) == expected


PIECES = [
    "a",
    "7",
    " ",
    '"',
    "é",
    r"\n",
    r"\'",
    r"\\",
    r"\x41",
    r"\xc3\xa9",
    r"\101",
    r"\1",
    r"\q",
    r"\"",
    r"\u00e9",
    r"\e",
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_dollar_quotes_are_those_of_bash(inner: str) -> None:
    (ours,) = command_line.split(f"$'{inner}'").argv
    shell = subprocess.run(["bash", "-c", f"printf %s $'{inner}'"], capture_output=True, check=True)
    assert ours.encode("utf-8", "surrogateescape") == shell.stdout


@given(TEXT)
def test_formatted_value_is_parsed_again(value: str) -> None:
    line = command_line.format_value(value)
    assert "\n" not in line and "\r" not in line
    assert command_line.parse_value(line) == value


def test_values_stay_readable() -> None:
    assert command_line.format_value("/data/my file.txt") == "/data/my file.txt"
    assert command_line.format_value("a\nb") == r"$'a\nb'"
    assert command_line.join(("python3", "-c", "print(1)\nprint(2)")) == "python3 -c 'print(1)\nprint(2)'"


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("echo 'a b", "single quote that opens at “'a b”"),
        ('echo "a b', 'double quote that opens at “"a b”'),
        ('"; rm -rf ~ #', "double quote"),
        ("echo $'a", "single quote"),
        ("echo a\\", "last character is a backslash"),
        ("ls | wc -l", "“|” at “| wc -l” needs a shell"),
        ("a && b", "sh -c '…'"),
        ("a > out.txt", "needs a shell"),
        ("echo `date`", "needs a shell"),
        ("echo $'\\Uffffffff'", "not a character"),
    ],
)
def test_invalid_command_line_is_reported(line: str, part: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        command_line.split(line)
    assert part in error.value.message


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("echo $HOME", "The variable in $HOME is not expanded"),
        ('echo "a ${X} b"', 'The variable in "a ${X} b"'),
        ("cat ~/notes", "The ~ in ~/notes is not expanded"),
        ("cat *.txt", "The pattern *.txt is not expanded"),
        ("OMP_NUM_THREADS=4 ./solve", "under Environment"),
    ],
)
def test_what_may_be_meant_is_hinted_at(line: str, part: str) -> None:
    (hint,) = command_line.split(line).hints
    assert part in hint


def test_what_is_quoted_is_meant() -> None:
    line = r"""awk '{print $1 | "sort"}' '*' '~' "\$x" a\$b \| --url='http://x?a=1&b=2' x=~y"""
    assert command_line.split(line).hints == ()
    assert command_line.split(line).argv[1] == '{print $1 | "sort"}'


def test_lines_may_be_continued() -> None:
    assert command_line.split("mpirun \\\n  -n 4 \\\r\n  ./solve").argv == ("mpirun", "-n", "4", "./solve")
