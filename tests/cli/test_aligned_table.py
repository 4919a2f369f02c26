"""Tables of the terminal: alignment, and what gives way where there is not enough room."""

import os
import pty
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from perfloom.cli.aligned_table import MIN_TEXT_WIDTH, align

ROWS = st.lists(st.tuples(st.text("ab", max_size=60), st.integers(0, 10**9).map(str), st.text("ab", max_size=60)))


def test_numbers_are_right_aligned() -> None:
    assert align(["name", "n"], [["a", "1"], ["long name", "22"]], [False, True]) == (
        ["name        n", "a           1", "long name  22"],
        [],
    )


def test_widest_text_loses_its_middle_first() -> None:
    lines, hidden = align(["name", "file", "n"], [["f" * 50, "short.c", "12345"]], [False, False, True], 40)
    assert len(lines[1]) == 40
    assert lines[1].endswith("  short.c  12345")
    assert "…" in lines[1]
    assert not hidden


def test_names_that_do_not_fit_are_shortened_if_they_remain_different() -> None:
    names = [
        "std::vector<int, std::allocator<int> >::push_back(int const&)",
        "a::b::f(int, long)",
        "a::b::f(long, int)",
    ]
    lines, hidden = align(["name", "n"], [[name, "1"] for name in names], [False, True], 25)
    assert [line.removesuffix("  1").rstrip() for line in lines[1:]] == ["vector<…>::push_back", *names[1:]]
    assert not hidden


def test_last_columns_are_left_out_and_named() -> None:
    def fit(width: int) -> tuple[list[str], list[str]]:
        row = ["f" * 50, "g" * 50, "12", "13"]
        return align(["name", "file", "self", "total"], [row], [False, False, True, True], width)

    lines, hidden = fit(35)
    # The first column of numbers remains.
    assert hidden == ["file", "total"]
    assert len(lines[1]) == 35 and lines[1].endswith("…" + "f" * 14 + "    12")
    assert fit(44)[1] == ["total"]
    lines, hidden = fit(20)
    assert hidden == ["file", "self", "total"]
    assert len(lines[1]) == 20


def test_columns_of_equal_texts_are_left_out_first() -> None:
    rows = [["function_name_1", "main.so", "cycles", "-", "12"], ["function_name_2", "lib.so", "cycles", "-", "3"]]
    lines, hidden = align(["name", "module", "event", "kind", "self"], rows, [False, False, False, False, True], 30)
    assert lines[1] == "function_name_1  main.so    12"
    assert hidden == ["event: cycles", "kind"]


@given(ROWS, st.integers(1, 150))
def test_lines_fit_and_numbers_are_whole(rows: list[tuple[str, str, str]], width: int) -> None:
    lines, hidden = align(["name", "number", "file"], rows, [False, True, False], width)
    shown = 3 - len(hidden)
    assert len(lines) == len(rows) + 1
    if shown > 1:
        assert all(len(line) <= max(width, MIN_TEXT_WIDTH) for line in lines)
        assert all(row[1] in line for row, line in zip(rows, lines[1:], strict=True))
    whole, nothing = align(["name", "number", "file"], rows, [False, True, False])
    assert not nothing
    assert all(line.startswith(row[0]) for row, line in zip(rows, whole[1:], strict=True))


def test_hotspots_fit_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "x.folded"
    file.write_text("main;" + "std::vector<" * 30 + " 5\n")
    main, terminal = pty.openpty()
    command = [sys.executable, "-m", "perfloom.cli", "report", str(file), "hotspots"]
    done = subprocess.run(
        command, stdout=terminal, stderr=subprocess.PIPE, env=os.environ | {"COLUMNS": "70"}, check=True, timeout=60
    )
    os.close(terminal)
    lines = os.read(main, 1 << 16).decode().splitlines()
    os.close(main)
    assert all(len(line) <= 70 for line in lines)
    assert any("std::vec" in line and "…" in line for line in lines)
    assert b"Left out, because the terminal has 70 columns: " in done.stderr
