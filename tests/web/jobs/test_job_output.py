"""Output of programs on a page: any bytes, harmless and complete."""

import re
import unicodedata
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.web.views.jobs import output
from perfloom.web.views.jobs.output import apply_carriage_returns, read_after, read_tail, sanitize_output
from perfloom.workers.local.capture import OutputLog

PIECES = [
    b"plain\n",
    b"\x1b[1;31m",
    b"\x1b[0m",
    b"\xff\xfe",
    b"\r",
    b"\r\n",
    b"\x1b]0;title\x07",
    b"\0",
    b"\x9b",
    b"\xc2\x9b",
]
PIECES += [b"\x1b(B", b"\x1b7", b"\x1b", b"\x1b[", b"\x08", b"<b>", b"\xe2\x82", "\u202e".encode(), "é€😀".encode()]
BYTES = st.lists(st.sampled_from(PIECES) | st.binary(max_size=6), max_size=30).map(b"".join)
START = f"{zlib.crc32(b''):08x}"
DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


@given(BYTES)
def test_no_control_character_is_left(data: bytes) -> None:
    left = {
        c
        for c in sanitize_output(data)
        if unicodedata.category(c) == "Cc" or unicodedata.bidirectional(c) in DIRECTIONS
    }
    assert left <= {"\n", "\t", "\r"}


@given(data=BYTES, steps=st.lists(st.integers(1, 40), min_size=1, max_size=40))
def test_pieces_of_a_growing_file_read_like_the_whole(
    data: bytes, steps: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("job") / "output.log"
    shown, offset, mark, written = "", 0, START, 0
    for step in steps:
        written += step
        path.write_bytes(data[:written])
        piece = read_after(path, offset, mark)
        assert piece.offset == offset
        shown, offset, mark = shown + piece.text, piece.next, piece.mark
    path.write_bytes(data)
    shown += read_after(path, offset, mark, final=True).text
    assert shown == sanitize_output(data)


def test_colors_and_titles_are_omitted_and_the_rest_is_shown() -> None:
    assert sanitize_output(b"\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1b(B") == "red link "
    assert sanitize_output(b"a\0b\x07c\x7f") == "a␀b␇c␡"
    assert sanitize_output("user\u202egnp.exe".encode()) == "user\ufffdgnp.exe"
    assert sanitize_output(b"<script>alert(1)</script>") == "<script>alert(1)</script>"  # escaping is the page's task


def test_progress_bars_end_as_on_a_terminal() -> None:
    assert apply_carriage_returns("start\n 10%\r 50%\r100%\ndone\r\nrest\r") == "start\n100%\ndone\nrest"


def test_the_end_of_a_huge_output_is_cheap_and_starts_with_a_line(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    with path.open("wb") as file:
        file.truncate(5 * 1024**3)  # sparse: 5 GiB of zero bytes
        file.seek(0, 2)
        file.write(b"".join(b"line %06d\n" % n for n in range(20_000)))
    piece = read_tail(path)
    assert re.fullmatch(r"(line \d{6}\n)+", piece.text)
    assert piece.size == piece.next == path.stat().st_size
    behind = read_after(path, 17, START)
    assert behind == piece
    assert len(piece.text) <= output.CHUNK_BYTES


def test_one_endless_line_is_shown_too(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes("é".encode() * 500_000 + b"x")
    text = read_tail(path).text
    assert set(text) == {"é", "x"}


def test_what_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read_tail(tmp_path / "none").text == ""
    assert read_after(tmp_path / "none", 99, START).next == 0


def test_an_offset_beyond_the_end_gets_the_end(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"short\n")
    assert read_after(path, 10_000, START).text == "short\n"
    assert read_after(path, -3, START).text == "short\n"


def test_an_end_that_was_written_anew_is_sent_anew(tmp_path: Path) -> None:
    """Of a program that prints without end the file keeps the beginning and, ever anew, the end."""
    path = tmp_path / "output.log"
    capture = OutputLog(path, head=1_000, tail=1_000)
    capture.write(b"".join(b"%07d\n" % n for n in range(200)))
    piece = read_tail(path)
    assert piece.text.endswith("0000199\n")
    capture.write(b"".join(b"%07d\n" % n for n in range(200, 900)))
    capture.close()
    again = read_after(path, piece.next, piece.mark, final=True)
    assert again.offset == 0
    assert "bytes are left out here" in again.text
    assert again.text.endswith("0000899\n")
