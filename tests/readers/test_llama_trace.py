"""Text traces of llama.cpp's tracer and of perfloom_trace.h, complete and damaged."""

import io
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.tables import TABLES, records
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_strings
from perfloom.domain.validation import find_error
from perfloom.ingest import text_lines
from perfloom.ingest.losses import UNRECOGNIZED_LINE
from perfloom.readers import detect_format, llama_trace
from perfloom.readers.llama_trace import assembly as llama_assembly
from perfloom.readers.llama_trace import format as llama_format
from perfloom.readers.llama_trace import lines as llama_lines
from perfloom.readers.llama_trace.names import parse_operator_name
from tests.support import paths
from tests.support.parts import require

HEADERS = paths.ROOT / "static/tracers"
PROGRAMS = paths.TESTS / "tracers/programs"


def read(text: str | bytes) -> Profile:
    data = text.encode() if isinstance(text, str) else text
    assert detect_format(data[:4096]).name == llama_trace.FORMAT
    found = llama_trace.read(io.BytesIO(data))
    assert find_error(found) is None
    return found


def slices(profile: Profile) -> list[tuple[str, int, int, int, str]]:
    """(name, start, duration, depth, thread) of each."""
    names, threads = get_strings(profile.functions, "name"), get_strings(profile.threads, "name")
    return [
        (names[row["function"]], row["start_ns"], row["duration_ns"], row["depth"], threads[row["thread"]])
        for row in profile.slices.to_pylist()
    ]


def losses(profile: Profile) -> dict[str, tuple[int, str]]:
    return {row["reason"]: (row["count"], row["example"]) for row in profile.losses.to_pylist()}


WHOLE = """start_time: 1000
thr: 77, name: build graph_0, time: 1010
thr: 77, name: matmul_ffn_up-12_1, time: 1020
thr: 77, name: end_matmul_ffn_up-12_1, time: 1030
thr: 77, name: end_build graph_0, time: 1040
thr: 77, name: build graph_3, time: 1050.5
thr: 77, name: end_build graph_3, time: 1060.125
thr: 12, name: matmul_ffn_up-12_2, time: 1021
thr: 12, name: end_matmul_ffn_up-12_2, time: 1036
thr: 12, counter: tokens, made so far, value: 2, time: 1040
end_time: 1100
"""


def test_complete_trace() -> None:
    found = read(WHOLE)
    assert sorted(slices(found)) == [
        ("build graph", 0, 30_000, 0, "thread 77"),
        ("build graph", 40_500, 9_625, 0, "thread 77"),
        ("matmul_ffn_up-12", 10_000, 10_000, 1, "thread 77"),
        ("matmul_ffn_up-12", 11_000, 15_000, 0, "thread 12"),
    ]
    assert found.series.column("name").to_pylist() == ["tokens, made so far"]
    assert [(row["name"], row["start_ns"], row["end_ns"]) for row in found.steps.to_pylist()] == [
        ("prefill", 0, 30_000),
        ("decode 1", 40_500, 50_125),
    ]
    assert found.meta.complete and not found.losses.num_rows
    operators: Any = {row["name"]: row for row in records(TABLES["operators"].compute(found, Selection()))}
    assert operators["matmul_ffn_up-12"]["calls"] == 2 and operators["matmul_ffn_up-12"]["host_total_us"] == 25


def evaluations(*marks: tuple[str, int, int], counters: tuple[tuple[int, int], ...] = ()) -> str:
    """A trace of marks, each with start and end, and of a counter of tokens: (time, number)."""
    lines = ["start_time: 0"]
    for number, (name, begin, end) in enumerate(marks):
        lines += [f"thr: 1, name: {name}_{number}, time: {begin}", f"thr: 1, name: end_{name}_{number}, time: {end}"]
    lines += [f"thr: 1, counter: n_tokens, value: {value}, time: {time}" for time, value in counters]
    return "\n".join([*lines, "end_time: 9999", ""])


def get_step_rates(profile: Profile) -> tuple[list[tuple[str, float, Any, Any]], Any, Any]:
    """(name, length, tokens and tokens per second of each step, those of the prompt, those generated)."""
    steps = records(TABLES["steps"].compute(profile, Selection())) if profile.steps.num_rows else []
    (summary,) = records(TABLES["summary"].compute(profile, Selection()))
    rows = [(row["step"], row["total_us"], row["tokens"], row["tokens_per_s"]) for row in steps]
    return rows, summary["prefill_tokens_per_s"], summary["decode_tokens_per_s"]


def test_tokens_per_second() -> None:
    """Generated tokens per second include the time between steps; only a counter shows the length of the prompt."""
    marks = (("prefill", 100, 500), ("decode", 600, 700), ("sampling", 700, 790), ("decode", 800, 900))
    steps, prefill, decode = get_step_rates(read(evaluations(*marks)))
    assert steps == [("prefill", 400, None, None), ("decode 1", 100, 1, 10_000), ("decode 2", 100, 1, 10_000)]
    assert (prefill, decode) == (None, pytest.approx(2 / 300e-6))
    counted = read(evaluations(*marks, counters=((510, 8), (705, 9), (905, 12))))
    assert get_step_rates(counted) == (
        [("prefill", 400, 8, 20_000), ("decode 1", 100, 1, 10_000), ("decode 2", 100, 3, 30_000)],
        20_000,
        pytest.approx(4 / 300e-6),
    )
    (half,) = records(TABLES["summary"].compute(counted, Selection(step="decode 2")))
    assert half["decode_tokens_per_s"] == 30_000 and half["prefill_tokens_per_s"] is None
    backwards = read(evaluations(*marks, counters=((510, 8), (705, 2))))
    assert get_step_rates(backwards)[0][0][2] is None, "a counter that goes back counts something else"


def test_evaluations_without_step_marks() -> None:
    graphs = read(evaluations(("build graph", 0, 50), ("eval", 50, 400), ("build graph", 400, 410), ("eval", 410, 500)))
    assert [row[:2] for row in get_step_rates(graphs)[0]] == [("prefill", 350), ("decode 1", 90)], (
        "what took most of the time"
    )
    tensors = read(
        evaluations(("matmul_x-0", 10, 20), ("matmul_result_output", 20, 40), ("matmul_result_output", 50, 70))
    )
    assert [row[:2] for row in get_step_rates(tensors)[0]] == [("prefill", 30), ("decode 1", 30)]
    assert get_step_rates(read(evaluations(("matmul_x-0", 10, 20), ("once", 30, 40)))) == ([], None, None)
    two = read(evaluations(("prompt eval", 0, 9), ("decode", 10, 20), ("prompt eval", 20, 30), ("decode 7", 31, 40)))
    assert [row[0] for row in get_step_rates(two)[0]] == ["prefill 1", "decode 1", "prefill 2", "decode 2"]


def test_windows_line_ends_and_byte_order_mark() -> None:
    assert slices(read(b"\xef\xbb\xbf" + WHOLE.replace("\n", "\r\n").encode())) == slices(read(WHOLE))


DAMAGED = """start_time: 5
thr: 1, name: end_gone_9, time: 6
thr: 1, name: a, b: c, time: 7_4, time: 10
thr: 1, name: open_5, time: 11
thr: 1, name: end_a, b: c, time: 7_4, time: 20
this is nothing
thr: 1, name: late_6, time: 99999999999999999999999
thr: 1, counter: c, value: x, time: 21
thr: 2, name: end_open_5, time: 12
"""


def test_losses() -> None:
    found = read(DAMAGED)
    assert [(name, length) for name, _, length, _, _ in slices(found)][:2] == [
        ("a, b: c, time: 7", 10_000),
        ("open", 9_000),
    ]
    assert not found.meta.complete and found.meta.reasons == (llama_assembly.CUT_OFF,)
    lost = losses(found)
    assert lost[llama_assembly.NO_BEGIN] == (2, "line 2: thr: 1, name: end_gone")
    assert lost[UNRECOGNIZED_LINE] == (1, "line 6: this is nothing")
    assert lost[llama_format.NO_TIME][0] == lost[llama_assembly.NO_VALUE][0] == 1
    assert sum(count for count, _ in lost.values()) == 6, "slices that never ended are losses"


def test_names_that_look_like_ends() -> None:
    text = """start_time: 1
thr: 1, name: end_round_5, time: 10
thr: 1, name: inner_6, time: 11
thr: 1, name: end_inner_6, time: 12
thr: 1, name: end_end_round_5, time: 15
end_time: 20
"""
    found = read(text)
    assert [row[:4] for row in slices(found)] == [("end_round", 0, 5000, 0), ("inner", 1000, 1000, 1)]
    assert not losses(found)


PIECES = st.sampled_from(
    [
        *(
            "thr: 1, name: ",
            "thr:7, name: ",
            "thr: x, y, name: ",
            "thr: 1, counter: ",
            ", value: 5",
            ", value: ",
            "a_1",
        ),
        *("end_", "a_01", "a_1234567890123456789", "_7", "matmul_x-3_2", ", time: 12", ", time: 1.5", ", time: 9.1234"),
        *(
            ", time: 12345678901234567890",
            ".",
            " ",
            "\r",
            "\n",
            "\n",
            "\n",
            "é",
            "\xff",
            "start_time: 1",
            "end_time: 9",
        ),
    ]
)


LINE = re.compile(r"thr: *(.*?), (name|counter): (.*), time: *([0-9]+)(?:\.([0-9]*))?[ \t\v\f]*", re.DOTALL)
NUMBERED = re.compile(r"(end_)?(?:(.+)_([0-9]+)|(.*))", re.DOTALL)
COUNTED = re.compile(r"(.*), value: ([^ \t\v\f]+)", re.DOTALL)
EDGE = re.compile(r"(start_time|end_time|lost): *([0-9]+)(?:\.[0-9]*)?[ \t\v\f]*")


def parse_with_regex(line: str) -> tuple[int, str, str, str | None, int] | str | None:
    """(kind, thread, name, number or value, time in ns) of a line; the reason of its loss; None for a line to
    ignore."""
    if EDGE.fullmatch(line) or not line.strip(" \t\v\f"):
        return None
    match = LINE.fullmatch(line)
    if match is None or ", name: " in match[1] or ", counter: " in match[1]:
        return UNRECOGNIZED_LINE
    counted, numbered = COUNTED.fullmatch(match[3]), NUMBERED.fullmatch(match[3])
    if match[2] == "counter" and counted is None:
        return UNRECOGNIZED_LINE
    time_ns = int(match[4]) * 1000 + int((match[5] or "").ljust(3, "0")[:3])
    if len(match[4]) > 18 or time_ns >= 1 << 61:
        return llama_format.NO_TIME
    if match[2] == "counter":
        assert counted is not None
        return llama_lines.COUNTER, match[1], counted[1], counted[2], time_ns
    assert numbered is not None
    kind = llama_lines.END if numbered[1] else llama_lines.BEGIN
    return kind, match[1], numbered[2] or numbered[4] or "", numbered[3], time_ns


@settings(max_examples=150)
@given(st.lists(PIECES, max_size=60), st.integers(3, 60))
def test_compiled_loop_equals_regular_expressions(pieces: list[str], chunk: int) -> None:
    """Even if a line spans two chunks."""
    text = (WHOLE + "".join(pieces) + "\n" + WHOLE).replace("\r", "")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(text_lines, "CHUNK_BYTES", chunk)
        lines = llama_lines.read_lines(io.BytesIO(text.encode("latin-1")))
    results = [(number, parse_with_regex(line)) for number, line in enumerate(text.split("\n"), 1)]
    rows = [(number, one) for number, one in results if isinstance(one, tuple)]
    assert lines.line.tolist() == [number for number, _ in rows]
    numbers: dict[str, int] = {}
    for row, (_, (kind, thread, name, number, time_ns)) in enumerate(rows):
        assert (kind, time_ns) == (lines.kind[row], lines.time_ns[row])
        for one, place in ((thread, lines.thread[row]), (name, lines.name[row])):
            assert one.encode("latin-1").decode("utf-8", "replace") == lines.texts[place]
        seen = int(lines.number[row])
        if kind == llama_lines.COUNTER:
            assert number is not None and lines.texts[seen] == number.encode("latin-1").decode("utf-8", "replace")
        elif number is None:
            assert seen == llama_lines.NONE
        else:
            assert numbers.setdefault(number, seen) == seen
            assert seen < llama_lines.NONE or str(seen) == number
    assert len(set(numbers.values())) == len(numbers)
    assert {reason: count for reason, (count, _) in lines.lost.items()} == Counter(
        one for _, one in results if isinstance(one, str)
    )
    assert lines.edges == {"start_time": 1000, "end_time": 1100}


def test_too_long_line_is_skipped_quickly() -> None:
    """Longer than memory should hold: it is a loss, and the following text is read."""
    data = b"start_time: 5\n" + b"x" * (3 * text_lines.CHUNK_BYTES) + b"\n" + WHOLE.encode()
    found = llama_trace.read(io.BytesIO(data))
    assert found.slices.num_rows == 4 and losses(found)[UNRECOGNIZED_LINE][0] == 1


def test_large_times_are_exact() -> None:
    lines = [
        f"thr: 1, name: {end}big_{number}, time: {2 * 10**12 + 1000 * number}.00{n}"
        for number in (0, 1)
        for n, end in ((1, ""), (3, "end_"))
    ]
    found = read("start_time: 5\n" + "\n".join(lines) + "\nend_time: 6\n")
    assert [row[:3] for row in slices(found)] == [("big", 0, 2), ("big", 1_000_000, 2)]


@settings(max_examples=40)
@given(st.data())
def test_truncated_anywhere(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(WHOLE) - 1))
    try:
        found = llama_trace.read(io.BytesIO(WHOLE[:at].encode()))
    except UnreadableInput as error:
        assert "has no events" in error.message
        return
    assert find_error(found) is None and found.meta.complete == ("end_time: 1" in WHOLE[:at])


@pytest.mark.parametrize(
    ("name", "expected"),
    {
        "matmul_ffn_up-12": {"kind": "matmul", "tensor": "ffn_up", "layer": 12},
        "MUL_MAT_blk.3.attn_q.weight": {"kind": "mul_mat", "tensor": "attn_q.weight", "layer": 3},
        "get_rows_inp_embd": {"kind": "get_rows", "tensor": "inp_embd"},
        "soft_max_kq_soft_max_ext-0": {"kind": "soft_max", "tensor": "kq_soft_max_ext", "layer": 0},
        "rms_norm_norm-31 (view)": {"kind": "rms_norm", "tensor": "norm (view)", "layer": 31},
        "rope": {"kind": "rope"},
        "build graph": {},
        "address_of": {},
    }.items(),
)
def test_operator_names(name: str, expected: dict[str, object]) -> None:
    assert parse_operator_name(name) == expected


@pytest.mark.heavy
def test_trace_of_perfloom_trace_h(tmp_path: Path) -> None:
    """From a program with the header to its profile."""
    program = tmp_path / "threads"
    options = ("-D_GNU_SOURCE", "-DPERFLOOM_TRACE", f"-I{HEADERS}", "-O2", "-pthread")
    subprocess.run([require("gcc"), *options, str(PROGRAMS / "threads.c"), "-o", str(program)], check=True)
    subprocess.run([program, "trace.txt", "400"], cwd=tmp_path, check=True)
    found = read((tmp_path / "trace.txt").read_bytes())
    assert found.slices.num_rows == 16 * 200 and found.threads.num_rows == 16 and not found.losses.num_rows
    assert found.meta.complete and found.counters.num_rows == 16
    assert {(name, depth) for name, _, _, depth, _ in slices(found)} == {
        ("layer, with a comma: and a colon", 0),
        ("matmul_ffn_up-12", 1),
    }
