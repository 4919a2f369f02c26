"""The output of py-spy and memray in each form: threads, functions, files, lines, and equal numbers."""

from __future__ import annotations

import io
import json
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.tables import FrameKind, get_strings
from perfloom.domain.validation import find_error
from perfloom.ingest.losses import UNRECOGNIZED_LINE
from perfloom.readers import collapsed, detect_format, memray_csv, py_spy
from tests.support import paths
from tests.support.samples import losses_of, samples_of

DATA = paths.DATA / "samplers"
MEMRAY_HEAD = b"allocator,num_allocations,size,tid,thread_name,stack_trace\n"


def read(name_or_data: str | bytes) -> Profile:
    data = (DATA / name_or_data).read_bytes() if isinstance(name_or_data, str) else name_or_data
    found = detect_format(data[: 256 << 10]).read(io.BytesIO(data), "that")
    assert find_error(found) is None
    return found


def weights(profile: Profile) -> Counter[str]:
    found: Counter[str] = Counter()
    for sample in samples_of(profile):
        found[sample.event] += sample.weight
    return found


def test_raw_format() -> None:
    profile = read("py-spy.raw")
    told = [int(n) for n in re.findall(r" (\d+)$", (DATA / "py-spy.raw").read_text(), re.MULTILINE)]
    assert profile.meta.format == py_spy.FORMAT and weights(profile) == {"samples": sum(told)}
    assert set(get_strings(profile.threads, "name")) == {"MainThread", "helper"}
    assert all(profile.threads.column("tid").to_pylist()) and not profile.losses.num_rows
    frames = {(f.name, f.line) for s in samples_of(profile) for f in s.stack}
    assert frames & {("busy", 18), ("busy", 19), ("busy", 20)} and ("main", 27) in frames
    files = {row["name"]: row["file"] for row in profile.functions.to_pylist()}
    assert files["busy"] == "program.py" and files["Thread.run"] == "threading.py"
    assert set(profile.frames.column("kind").to_pylist()) == {int(FrameKind.PYTHON)}


def test_processes_and_multiline_commands() -> None:
    profile = read("py-spy.processes")
    threads = profile.threads.to_pylist()
    assert len({row["pid"] for row in threads}) == 2 and {row["process"] for row in threads} == {"python"}
    told = [int(n) for n in re.findall(r" (\d+)$", (DATA / "py-spy.processes").read_text(), re.MULTILINE)]
    assert weights(profile) == {"samples": sum(told)}
    # Once the first process had no Python frame.
    assert {reason: count for reason, (count, _) in losses_of(profile).items()} == {py_spy.NO_FRAMES: 1}


def test_native_functions_and_unusual_threads() -> None:
    profile = py_spy.read(
        io.BytesIO(
            b"thread (0x7F01): a: b;main (x.py:3);<module> (<string>:1);malloc (libc.so.6);0x7f10 (libc.so.6);f (a.c:7) 4\n"
            b"thread (0xFFFFFFFFFFFFFFFF);main (x.py:4) 1\nthread (12) 2\n 3\nfoo (x.py) 5\r\nbad\n"
            b"main (x.py:3) 99999999999999999999\n"
        )
    )
    assert find_error(profile) is None
    first = samples_of(profile)[0]
    assert [(f.name, f.module, FrameKind(f.kind).name, f.line) for f in first.stack] == [
        ("main", "", "PYTHON", 3),
        ("<module>", "", "PYTHON", 1),
        ("malloc", "libc.so.6", "USER", None),
        ("0x7f10", "libc.so.6", "UNKNOWN", None),
        ("f", "", "USER", 7),
    ]
    assert profile.threads.column("tid").to_pylist() == [0x7F01, None, 12, None]
    assert weights(profile) == {"samples": 15}
    assert losses_of(profile) == {
        UNRECOGNIZED_LINE: (1, "line 6: bad"),
        py_spy.NO_FRAMES: (2, "line 3: thread (12) 2"),
        collapsed.IMPOSSIBLE_STACK_WEIGHT: (1, "line 7: main (x.py:3) 99999999999999999999"),
    }


def test_speedscope_and_chrome_formats() -> None:
    profile = read("py-spy.speedscope")
    file = json.loads((DATA / "py-spy.speedscope").read_text())
    wanted = round(sum(sum(one["weights"]) for one in file["profiles"]) * 1e9)
    # A sample without a frame is time in which the thread ran no Python code.
    empty = sum(w for one in file["profiles"] for s, w in zip(one["samples"], one["weights"], strict=True) if not s)
    assert weights(profile) == {"host time": wanted - round(empty * 1e9)}
    assert {row["name"] for row in profile.threads.to_pylist()} >= {"helper"}
    assert all(profile.threads.column("tid").to_pylist())
    # Lines are those that ran: the first line of a function is unknown.
    assert set(profile.functions.column("start_line").to_pylist()) == {None}
    trace = read("py-spy.chrometrace")
    assert trace.meta.format == "chrome-trace" and {"main", "busy"} <= set(get_strings(trace.functions, "name"))
    assert trace.slices.num_rows > 5 and {row["name"] for row in trace.threads.to_pylist()} == {"MainThread", "helper"}
    files = {row["name"]: row["file"] for row in trace.functions.to_pylist()}
    assert files["busy"].endswith("program.py") and int(FrameKind.PYTHON) in trace.frames.column("kind").to_pylist()


def test_allocations() -> None:
    profile = read("memray.csv")
    told = json.loads((DATA / "memray.speedscope").read_text())["profiles"]
    wanted = {"memory": sum(told[0]["weights"]), "allocations": sum(told[1]["weights"])}
    assert weights(profile) == wanted and wanted["memory"] > 1 << 20
    assert [(row["name"], row["unit"]) for row in profile.events.to_pylist()] == [
        *(("memory", "bytes"), ("allocations", "count")),
    ]
    biggest = max(samples_of(profile), key=lambda s: s.weight)
    assert (biggest.stack[-1].name, biggest.stack[-1].line, biggest.tid) == ("main", 17, 1)
    other = read("memray.speedscope")
    assert weights(other) == wanted and other.threads.num_rows == 1
    own = {(s.event, s.stack[-1].name): 0 for s in samples_of(profile)}
    for reading, sign in ((profile, 1), (other, -1)):
        for s in samples_of(reading):
            own[s.event, s.stack[-1].name] += sign * s.weight
    assert not any(own.values())
    assert 0 < weights(read("memray.leaks.csv"))["memory"] < wanted["memory"]


def test_unusual_rows_of_allocations() -> None:
    rows = (
        b'MALLOC,2,10,7,worker,"operator|;x.cpp;3|a ""b"", c;/s/a.py;4"\r\nMMAP,1,5,7,worker,\nMALLOC,x,5,7,worker,f;a.py;1\n'
        b"MALLOC,1,99999999999999999999,7,worker,f;a.py;1\nMALLOC\nMALLOC,1,4,8,0x8,odd\n"
    )
    profile = read(MEMRAY_HEAD + rows)
    found = [(s.event, s.weight, [f.name for f in s.stack]) for s in samples_of(profile)]
    assert found[:3] == [
        *(("memory", 10, ['a "b", c', "operator|"]), ("allocations", 2, ['a "b", c', "operator|"]), ("memory", 5, [])),
    ]
    assert get_strings(profile.threads, "name") == ["worker", "thread 8"] and found[-1] == ("allocations", 1, ["odd"])
    assert losses_of(profile) == {
        memray_csv.NO_FRAMES: (1, "row 3: MMAP,1,5,7,worker,"),
        memray_csv.NO_ROW: (3, "row 4: MALLOC,x,5,7,worker,f;a.py;1"),
    }


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("py-spy.flamegraph", "is a picture.*py-spy, record with --format speedscope"),
        ("memray.bin", "only memray itself can read.*memray transform csv"),
        ("memray.gprof2dot", "made for gprof2dot.*memray transform csv"),
        ("memray.stats.json", "no call stacks.*memray transform csv"),
    ],
)
def test_unreadable_parts_are_known_losses(name: str, said: str) -> None:
    with pytest.raises(UnreadableInput, match=f"that {said}" if said.startswith("is") else said):
        detect_format((DATA / name).read_bytes(), "that")


def test_empty_files_are_refused() -> None:
    for reader, data in (
        (py_spy, b""),
        (py_spy, b"\n\n"),
        (memray_csv, MEMRAY_HEAD),
        (memray_csv, MEMRAY_HEAD + b"a\n"),
    ):
        with pytest.raises(UnreadableInput, match=r"that has no (samples|allocations)"):
            reader.read(io.BytesIO(data), "that")


@settings(max_examples=100)
@given(st.data())
def test_random_bytes_do_not_fail(data: st.DataObject) -> None:
    name, reader = data.draw(st.sampled_from([("py-spy.processes", py_spy.read), ("memray.csv", memray_csv.read)]))
    raw = bytearray((DATA / name).read_bytes()[:900])
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    try:
        detect_format(bytes(raw))
    except UnreadableInput:
        pass
    try:
        assert find_error(reader(io.BytesIO(bytes(raw)), "that")) is None
    except UnreadableInput:
        pass


def test_lines_without_a_frame_are_losses() -> None:
    """py-spy observed a thread without a Python frame: its time counts, without a frame in the flame graph."""
    profile = read(b"thread (1): a;main (a.py:1) 3\nthread (1): a 5\n 7\nthread (1): a;main (a.py:1) 2\n")
    assert weights(profile) == {"samples": 17}
    assert losses_of(profile) == {py_spy.NO_FRAMES: (2, "line 2: thread (1): a 5")}
    assert profile.meta.complete
