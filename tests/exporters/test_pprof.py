"""pprof: out and in again, and what pprof's own tool says of it."""

import gzip
import io
import json
import re
import subprocess
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.sample_rollup import sum_call_weights
from perfloom.analysis.core.sample_selection import event_id
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.losses import SAMPLE_LABELS
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import ROOT, FrameKind, get_column, get_strings
from perfloom.exporters import get_exporter
from perfloom.ingest import protobuf_wire
from perfloom.readers import detect_format, pprof
from tests.support import paths
from tests.support.parts import require
from tests.support.profiles import profile_of, profiles
from tests.support.traced import Trace, traces

DATA = paths.DATA


def written(profile: Profile, **selection: object) -> bytes:
    return b"".join(get_exporter("pprof").write(profile, Selection(**selection), {}))  # type: ignore[arg-type]


def read(data: bytes) -> Profile:
    return pprof.read(io.BytesIO(data))


def weighed(profile: Profile) -> Counter[tuple[object, ...]]:
    """What each call stack of each thread weighs, by the names that a file of pprof can hold."""
    names, shown, modules = (get_strings(profile.functions, name) for name in ("name", "display", "module"))
    frame, parent = (get_column(profile.stacks, name).tolist() for name in ("frame", "parent"))
    function = get_column(profile.frames, "function").tolist()
    address, line = (profile.frames.column(name).to_pylist() for name in ("address", "line"))
    paths: list[tuple[object, ...]] = [()]
    for node in range(1, len(frame)):
        of = frame[node]
        place = (names[function[of]] or shown[function[of]], modules[function[of]], address[of] or None, line[of])
        paths.append((*paths[parent[node]], place))
    threads = [(row["rank"], row["pid"], row["tid"]) for row in profile.threads.to_pylist()]
    found: Counter[tuple[object, ...]] = Counter()
    events = get_strings(profile.events, "name")
    for row in profile.samples.to_pylist():
        if row["weight"]:
            found[events[row["event"]], paths[row["stack"]], threads[row["thread"]]] += row["weight"]
    return found


@pytest.mark.heavy
@settings(max_examples=60)
@given(profiles(max_weight=1 << 40) | traces())
def test_out_and_in_again(profile: Profile) -> None:
    wanted = weighed(profile)
    data = gzip.decompress(written(profile))
    try:
        again = read(data)
    except UnreadableInput:
        assert not wanted
        return
    assert pprof.sniff(data[:4096])
    got = weighed(again)
    for key in [key for key in got if key[0] == "samples" and key not in wanted]:
        del got[key]
    assert got == wanted
    assert again.losses.to_pylist() == []


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_numbers_of_the_wire(values: list[int]) -> None:
    data = protobuf_wire.encode_packed(5, values)
    found = [protobuf_wire.decode_packed(content).tolist() for _, _, content in protobuf_wire.iterate_fields(data)]
    assert found == ([values] if values else [])
    for value in values[:3]:
        ((number, kind, back),) = protobuf_wire.iterate_fields(protobuf_wire.encode_number(7, value) or b"\x38\x00")
        assert (number, kind, protobuf_wire.to_signed(back)) == (7, protobuf_wire.VARINT, value)


@pytest.mark.heavy
@settings(max_examples=150)
@given(st.binary(max_size=300), st.data())
def test_bytes_of_any_sort(noise: bytes, data: st.DataObject) -> None:
    """What can be read is read, and never anything else than a profile or a message comes out."""
    good = gzip.decompress(written(profile_of([("a;b", 3), ("a;c", 4)])))
    at = data.draw(st.integers(0, len(good)))
    for damaged in (noise, good[:at], good[:at] + noise + good[at:]):
        try:
            found = read(damaged)
        except UnreadableInput:
            continue
        assert found.samples.num_rows or found.losses.num_rows


def test_a_file_that_is_cut_off() -> None:
    good = gzip.decompress(written(profile_of([(f"a;b{n}", n) for n in range(1, 50)])))
    found = read(good[:-3])
    assert found.samples.num_rows == 2 * 49
    assert [row["reason"] for row in found.losses.to_pylist()] == [pprof.format.CUT_OFF, pprof.format.NO_STRING]


def test_what_other_tools_say() -> None:
    """Types, units, inlined functions, labels, periods and places of a file as others write it."""
    strings = [
        "",
        "cpu",
        "milliseconds",
        "alloc_space",
        "bytes",
        "main",
        "inner",
        "/src/a.go",
        "/bin/x",
        "colour",
        "red",
        "pid",
    ]

    def names(*words: str) -> list[int]:
        return [strings.index(word) for word in words]

    cpu, ms, space, of_bytes, main, inner, file, binary, colour, red, pid = names(*strings[1:])
    data = b"".join(
        (
            protobuf_wire.encode_message(1, protobuf_wire.encode_number(1, cpu), protobuf_wire.encode_number(2, ms)),
            protobuf_wire.encode_message(
                1, protobuf_wire.encode_number(1, space), protobuf_wire.encode_number(2, of_bytes)
            ),
            # Numbers one by one, as old writers have them.
            protobuf_wire.encode_message(
                2,
                protobuf_wire.encode_number(1, 7),
                *(protobuf_wire.encode_varint(2 << 3) + protobuf_wire.encode_varint(v) for v in (5, 100)),
            ),
            protobuf_wire.encode_message(
                2,
                protobuf_wire.encode_packed(1, [8, 7]),
                protobuf_wire.encode_packed(2, [-1, 9]),
                protobuf_wire.encode_message(
                    3, protobuf_wire.encode_number(1, colour), protobuf_wire.encode_number(2, red)
                ),
            ),
            protobuf_wire.encode_message(
                2, protobuf_wire.encode_packed(1, [99]), protobuf_wire.encode_packed(2, [1, 1])
            ),
            protobuf_wire.encode_message(2, protobuf_wire.encode_packed(1, [7]), protobuf_wire.encode_packed(2, [1])),
            protobuf_wire.encode_message(
                2,
                protobuf_wire.encode_packed(1, [7]),
                protobuf_wire.encode_packed(2, [2, 0]),
                protobuf_wire.encode_message(
                    3, protobuf_wire.encode_number(1, pid), protobuf_wire.encode_number(3, 42)
                ),
            ),
            protobuf_wire.encode_message(3, protobuf_wire.encode_number(1, 1), protobuf_wire.encode_number(5, binary)),
            protobuf_wire.encode_message(
                *(
                    4,
                    protobuf_wire.encode_number(1, 7),
                    protobuf_wire.encode_number(2, 1),
                    protobuf_wire.encode_number(3, 0x400),
                ),
                protobuf_wire.encode_message(4, protobuf_wire.encode_number(1, 2), protobuf_wire.encode_number(2, 12)),
                protobuf_wire.encode_message(4, protobuf_wire.encode_number(1, 1), protobuf_wire.encode_number(2, 99)),
            ),
            protobuf_wire.encode_message(4, protobuf_wire.encode_number(1, 8), protobuf_wire.encode_number(3, 0x500)),
            protobuf_wire.encode_message(
                5,
                protobuf_wire.encode_number(1, 1),
                protobuf_wire.encode_number(2, main),
                protobuf_wire.encode_number(4, file),
                protobuf_wire.encode_number(5, 90),
            ),
            protobuf_wire.encode_message(
                5,
                protobuf_wire.encode_number(1, 2),
                protobuf_wire.encode_number(2, inner),
                protobuf_wire.encode_number(4, file),
            ),
            *(protobuf_wire.encode_message(6, text.encode()) for text in strings),
            protobuf_wire.encode_number(9, 1_700_000_000_000_000_000),
            protobuf_wire.encode_number(10, 2_000_000_000),
            protobuf_wire.encode_message(11, protobuf_wire.encode_number(1, cpu), protobuf_wire.encode_number(2, ms)),
            protobuf_wire.encode_number(12, 10),
        )
    )
    found = read(data)
    assert found.events.select(["name", "unit", "sampling", "rate"]).to_pylist() == [
        {"name": "cpu", "unit": "ns", "sampling": "period", "rate": 10e6},
        {"name": "alloc_space", "unit": "bytes", "sampling": None, "rate": None},
    ]
    assert (found.meta.main_event, found.meta.duration_ns) == ("alloc_space", 2_000_000_000)
    inlined = [("main", "/bin/x", 0x400, 99), ("inner", "/bin/x", 0x400, 12)]
    assert weighed(found) == Counter(
        {
            ("cpu", tuple(inlined), (None, None, None)): 5_000_000,
            ("alloc_space", tuple(inlined), (None, None, None)): 100,
            ("alloc_space", (*inlined, ("0x500", "", 0x500, None)), (None, None, None)): 9,
            ("cpu", (), (None, None, None)): 1_000_000,
            ("alloc_space", (), (None, None, None)): 1,
            ("cpu", tuple(inlined), (None, 42, None)): 2_000_000,
        }
    )
    assert sorted(found.frames.column("kind").to_pylist()) == [FrameKind.USER, FrameKind.INLINED, FrameKind.UNKNOWN]
    lost = {row["reason"]: (row["count"], row["example"]) for row in found.losses.to_pylist()}
    assert lost == {
        pprof.format.NEGATIVE: (1, "-1 of cpu"),
        SAMPLE_LABELS: (1, "colour=red"),
        pprof.format.NO_LOCATION: (1, "location 99"),
        pprof.format.NO_VALUES: (1, "1 of 2"),
    }


def go(data: bytes, folder: Path, *words: str) -> str:
    """What `go tool pprof` prints. It checks the file first, and says so where it is not right."""
    path = folder / "x.pb.gz"
    path.write_bytes(data)
    command = [require("go"), "tool", "pprof", *words, str(path)]
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "PPROF_TMPDIR": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def test_pprof_itself_reads_it(tmp_path: Path) -> None:
    """What a trace did is there once: the total is the time in which its threads did anything, not that of all calls."""
    trace = Trace()
    host, stream = trace.thread(11, "main"), trace.thread(7, stream=True)
    trace.slice(host, 0, 1_000_000, "train", "annotation")
    trace.slice(host, 100_000, 600_000, "aten::mm")
    launch = trace.slice(host, 200_000, 250_000, 'cuda"Launch<Kernel>', "runtime")
    trace.slice(stream, 300_000, 900_000, "gemm", "kernel", launch)
    profile = trace.finish()
    data = written(profile)
    top = go(data, tmp_path, "-top", "-unit=ns", "-sample_index=host time")
    assert "Total samples = 1000000ns" in top or re.search(r"Total samples = 1000000 ?ns", top), top
    rows = {line.split()[-1]: line.split()[0] for line in top.splitlines() if line.endswith(("train", "aten::mm"))}
    assert rows == {"train": "500000ns", "aten::mm": "450000ns"}
    device = go(data, tmp_path, "-top", "-unit=ns", "-sample_index=device time")
    assert "600000ns" in next(line for line in device.splitlines() if line.endswith("gemm"))
    raw = go(data, tmp_path, "-raw")
    assert "host time/nanoseconds[dflt]" in raw and "thread:[main]" in raw and "tid:[11]" in raw and "stream:[7]" in raw


def test_one_event_and_what_the_selection_leaves() -> None:
    profile = profile_of(
        [("a;b", 3, 0, 10, 0), ("a;c", 5, 1, 20, 1), ("a;b;d", 7, 1, 30, 0)],
        events=(("cycles", "count"), ("faults", "count")),
    )
    found = read(gzip.decompress(written(profile, event="cycles", hide="^b$")))
    assert get_strings(found.events, "name") == ["samples", "cycles"]
    cycles = sum_call_weights(found, Selection(event="cycles"), event_id(found, "cycles"))
    names = get_strings(found.functions, "name")
    of_call = get_column(found.calls, "function")
    assert {names[of_call[n]]: int(w) for n, w in enumerate(cycles) if w and n != ROOT} == {"a": 3, "d": 7}
    assert int(np.sum(cycles)) == 10


def traces_of(data: bytes, folder: Path, *words: str) -> Counter[tuple[str, ...]]:
    """The weight of each stack that `go tool pprof -traces` prints, innermost function first."""
    found: Counter[tuple[str, ...]] = Counter()
    for block in re.split(r"^-+\+-+$", go(data, folder, "-traces", "-sample_index=cycles", *words), flags=re.M)[1:]:
        lines = [line.split() for line in block.strip().splitlines() if ":" not in line]
        if lines:
            found[tuple(line[-1] for line in lines)] += int(lines[0][0])
    return found


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ({"show": "^[ab]$"}, 10),
        ({"show": "^none$"}, 0),
        ({"show_from": "^b$"}, 10),
        ({"show_from": "^[xb]$"}, 17),
        ({"show_from": "^b$", "hide": "^a$"}, 10),
        # What is hidden is no match: hide and show come first, and the order of the parameters does not matter.
        ({"show_from": "^b$", "hide": "^b$"}, 0),
        ({"show_from": "^a$", "show": "^[bc]$"}, 0),
        ({"show_from": "^b$", "show": "^[abc]$", "hide": "^c$"}, 10),
        ({"show": "^[ab]$", "focus": "^c$", "ignore": "^x$"}, 3),
        ({"show_from": "^b$", "focus": "^main$"}, 8),
    ],
)
def test_pprof_shows_the_same_frames(words: dict[str, str], left: int, tmp_path: Path) -> None:
    stacks = [("main;a;b;c", 3), ("main;b;a;b", 5), ("x;y", 7), ("main", 11), ("b", 2), ("", 13)]
    profile = profile_of(stacks, events=(("cycles", "count"),))
    options = [f"-{word}={pattern}" for word, pattern in words.items()]
    expected = traces_of(written(profile), tmp_path, *options)
    assert traces_of(written(profile, **words), tmp_path) == expected
    assert expected.total() == left


def test_of_a_real_trace_the_total_is_the_time_that_went_by(tmp_path: Path) -> None:
    """As pprof itself adds it up, of each thread: how long anything of it ran by the file, however deep it is nested."""
    text = gzip.decompress((DATA / "pytorch" / "training.pt.trace.json.gz").read_bytes())
    spans: dict[int, list[tuple[int, int]]] = {}
    for event in json.loads(text, parse_float=Decimal)["traceEvents"]:
        if event["ph"] == "X" and event["cat"] in ("cpu_op", "user_annotation", "python_function"):
            start = int(Decimal(event["ts"]) * 1000)
            spans.setdefault(event["tid"], []).append((start, start + int(Decimal(event["dur"]) * 1000)))
    data = written(detect_format(text[: 1 << 18], "t").read(io.BytesIO(text), "t"))
    for tid, found in spans.items():
        wall, until = 0, 0
        for start, end in sorted(found):
            wall += max(0, end - max(start, until))
            until = max(until, end)
        top = go(
            data,
            tmp_path,
            "-top",
            "-unit=ns",
            "-sample_index=host time",
            "-nodefraction=0",
            f"-tagfocus=tid={tid}:{tid}",
        )
        assert f"Showing nodes accounting for {wall}ns" in top, top[:400]
        assert wall < sum(end - start for start, end in found) / 4, "most of it is nested"
