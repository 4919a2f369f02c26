"""Texts with unrecognized lines: a few are losses, more make a result incomplete, most are refused."""

from __future__ import annotations

import io

import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.readers import READERS, detect_format
from tests.support import paths

DATA = paths.DATA
OTHER = b"what is this\n"
TRACE = b"".join(
    b"thr: 1, name: %sf_%d, time: %d\n" % (end, n, 10 * n + len(end)) for n in range(300) for end in (b"", b"end_")
)
FUNCTIONS = b"# tracer: function\n#\n" + b"".join(
    b"          <idle>-0     [000] d..1. %d.%06d: tick_nohz <-do_idle\n" % (n // 100, n) for n in range(300)
)
TEXTS: dict[str, bytes] = {
    "perf-script": (DATA / "perf/spin.script.txt").read_bytes(),
    "collapsed": b"".join(b"main;f%d 3\n" % n for n in range(300)),
    "py-spy": b"".join(b"main (a.py:%d);f (a.py:7) 3\n" % n for n in range(1, 300)),
    "austin": (DATA / "samplers/austin.wall").read_bytes(),
    "memray": (DATA / "samplers/memray.csv").read_bytes(),
    "callgrind": (DATA / "callgrind/calls.out").read_bytes(),
    "llama-trace": TRACE,
    "ftrace": FUNCTIONS,
}


def lines_of(text: bytes) -> int:
    return sum(1 for line in text.split(b"\n") if line.strip(b"\r"))


@pytest.mark.parametrize("name", TEXTS)
def test_share_of_unrecognized_lines_determines_result(name: str) -> None:
    text, reader = TEXTS[name], READERS[name]
    assert detect_format(text).name == name
    plain, lines = reader.read(io.BytesIO(text), "x").meta, lines_of(text)

    def read_with(count: int) -> bytes:
        # After the first third, at the end of a line.
        at = text.index(b"\n", len(text) // 3) + 1
        return text[:at] + OTHER * count + text[at:]

    few = reader.read(io.BytesIO(read_with(lines // 200)), "x").meta
    assert few.reasons == plain.reasons and few.complete == plain.complete
    count = lines // 20 + 1
    found = reader.read(io.BytesIO(read_with(count)), "x")
    assert not found.meta.complete and len(found.meta.reasons) == len(plain.reasons) + 1
    told = found.meta.reasons[-1]
    assert told.startswith(f"{count:,} of {lines + count:,} lines of x are not "), told
    assert "what is this" in told or name == "memray"
    with pytest.raises(UnreadableInput, match=r"lines of x are not .*The first is (?:line|row) \d+"):
        reader.read(io.BytesIO(read_with(2 * lines)), "x")
