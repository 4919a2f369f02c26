"""austin's samples, as text and as MOJO: time in ns, and memory allocated and freed."""

from __future__ import annotations

import io
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.losses import ASYNC_TASKS
from perfloom.domain.profile import Profile
from perfloom.domain.tables import FrameKind
from perfloom.domain.validation import find_error
from perfloom.ingest import text_lines
from perfloom.ingest.losses import UNRECOGNIZED_LINE
from perfloom.readers import austin, detect_format
from perfloom.readers.austin import mojo as austin_mojo
from perfloom.readers.austin import samples as austin_samples
from tests.support import paths
from tests.support.samples import losses_of, samples_of

DATA = paths.DATA / "samplers"
HEAD = b"# austin: 3.7.0\n# interval: 100\n# mode: wall\n\n"


def read(data: bytes) -> Profile:
    found = austin.read(io.BytesIO(data), "that")
    assert find_error(found) is None
    return found


def sums(profile: Profile) -> dict[str, int]:
    found: Counter[str] = Counter()
    for sample in samples_of(profile):
        found[sample.event] += sample.weight
    return dict(found)


def stacks(profile: Profile) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for s in samples_of(profile):
        frames = tuple((f.name, f.line) for f in s.stack if f.name != ":INVALID:")
        found[s.event, s.pid, s.tid, frames] += s.weight
    return found


def numbers(name: str) -> list[list[int]]:
    """The metrics of every sample of a text."""
    found = re.findall(r"^P.* ([-\d,]+)$", (DATA / name).read_text(), re.MULTILINE)
    return [[int(word) for word in words.split(",")] for words in found]


def test_wall_time() -> None:
    profile = read((DATA / "austin.wall").read_bytes())
    assert sums(profile) == {"wall time": sum(us for (us,) in numbers("austin.wall")) * 1000}
    assert profile.samples.num_rows == len(numbers("austin.wall"))
    threads = profile.threads.to_pylist()
    assert len({row["pid"] for row in threads}) == 1 and len({row["tid"] for row in threads}) == 2
    assert profile.meta.facts["austin"] == "3.7.0" and profile.meta.complete and not profile.losses.num_rows
    (event,) = profile.events.to_pylist()
    assert (event["unit"], event["sampling"], event["rate"]) == ("ns", "period", 20_000_000)
    sample = max(samples_of(profile), key=lambda s: len(s.stack))
    assert FrameKind(sample.stack[-1].kind) is FrameKind.PYTHON
    busy = next(f for s in samples_of(profile) for f in s.stack if f.name == "busy")
    assert busy.line in (17, 18, 19, 20)
    files = {row["name"]: row["file"] for row in profile.functions.to_pylist()}
    assert files["busy"].endswith("/program.py") and profile.meta.duration_ns == 1000 * int(
        profile.meta.facts["duration"]
    )


def test_memory_and_full_mode() -> None:
    grown = [bytes_ for (bytes_,) in numbers("austin.memory")]
    assert sums(read((DATA / "austin.memory").read_bytes())) == {
        "memory allocated": sum(b for b in grown if b > 0),
        **({"memory freed": -sum(b for b in grown if b < 0)} if min(grown) < 0 else {}),
    }
    profile = read((DATA / "austin.full").read_bytes())
    told = numbers("austin.full")
    assert sums(profile) == {
        "wall time": 1000 * sum(us for us, _, _ in told),
        "CPU time": 1000 * sum(us for us, idle, _ in told if not idle),
        "memory allocated": sum(b for _, _, b in told if b > 0),
        **({"memory freed": -sum(b for _, _, b in told if b < 0)} if min(b for _, _, b in told) < 0 else {}),
    }
    assert "[garbage collection]" in profile.functions.column("display").to_pylist()


def test_mojo_equals_its_own_reader() -> None:
    binary, text = (read((DATA / name).read_bytes()) for name in ("austin.mojo", "austin.mojo.txt"))
    assert stacks(binary) == stacks(text) and binary.meta == text.meta
    assert binary.threads.to_pylist() == text.threads.to_pylist()
    full = read((DATA / "austin.full-mojo").read_bytes())
    assert {"wall time", "CPU time", "memory allocated"} <= set(sums(full))
    assert sums(full)["CPU time"] < sums(full)["wall time"] and not full.losses.num_rows


def test_times_are_consecutive() -> None:
    profile = read(HEAD + b"P1;T0:5;a.py:f:1 10\nP1;T0:5;a.py:g:2 20\nP1;T0:6;a.py:f:1 20\nP1;T0:5;a.py:f:3 5\n")
    assert [(s.time_ns, s.tid, s.weight, s.stack[0].name) for s in samples_of(profile)] == [
        *((10_000, 5, 10_000, "f"), (30_000, 5, 20_000, "g"), (30_000, 6, 20_000, "f"), (35_000, 5, 5_000, "f")),
    ]
    assert profile.meta.reasons == (austin_samples.CUT_OFF,)


def test_kinds_of_frames() -> None:
    line = rb"P1;T7f3b00;C:\a.py:f:3;a;b.py:g:4;libc.so.6:malloc:0;kernel:do_syscall:0;:INVALID:;x:y;z 7"
    (sample,) = samples_of(profile := read(HEAD + line + b"\r\n"))
    names = [(f.name, f.module, FrameKind(f.kind).name, f.line) for f in sample.stack]
    assert names == [
        ("f", "", "PYTHON", 3),
        ("g", "", "PYTHON", 4),
        ("malloc", "libc.so.6", "USER", None),
        ("do_syscall", "[kernel]", "KERNEL", None),
        (":INVALID:", "", "UNKNOWN", None),
        ("x:y;z", "", "PYTHON", None),
    ]
    assert sample.tid is None and profile.thread_names.column("name").to_pylist() == ["thread 7f3b00"]
    assert [row["file"] for row in profile.functions.to_pylist()][:2] == [r"C:\a.py", "a;b.py"]


def test_losses() -> None:
    profile = read(HEAD + b"P1;T0:5;a.py:f:1 10\nnonsense\nP1;T0:5;a.py:f:1 -4\nP1;T0:5;a.py:f:1 999999999999999999\n")
    assert losses_of(profile) == {
        UNRECOGNIZED_LINE: (1, "line 6: nonsense"),
        austin_samples.NO_METRIC: (2, "-4 µs, None bytes"),
    }


def integer(value: int) -> bytes:
    """A number as MOJO has it."""
    negative, value = 64 if value < 0 else 0, abs(value)
    found = [value & 63 | negative]
    value >>= 6
    while value:
        found[-1] |= 128
        found.append(value & 127)
        value >>= 7
    return bytes(found)


def event(number: int, *values: int | str) -> bytes:
    return bytes([number]) + b"".join(integer(v) if isinstance(v, int) else v.encode() + b"\0" for v in values)


def test_events_of_version_4() -> None:
    m = austin_mojo
    told = (
        event(m.STRING, 9, "a.py") + event(m.STRING, 10, "f") + event(m.STRING, 11, "g") + event(m.STRING, 12, "x.so")
    )
    places = event(m.FRAME, 1, 9, 10, 3, 3, 0, 0) + event(m.FRAME, 2, 9, 11, 4, 4, 0, 0)
    places += event(m.FRAME, 3, 12, 10, 0, 0, 0, 0)
    data = b"MOJ" + integer(4) + event(m.METADATA, "mode", "full") + event(m.STACK, 70_000, 1, "ff") + told + places
    data += event(m.FRAME_REF, 1) + event(m.FRAME_REF, 3) + event(m.TIME, 100) + event(m.MEMORY, -512)
    data += event(m.STACK, 70_000, 1, "ff") + event(m.FRAME_REF, 2) + event(m.STACK_REPEAT) + event(m.IDLE)
    data += event(m.TASK_STACK, 5, 0, 1) + event(m.FRAME_REF, 3) + event(m.TASK_WAITER, 5, 6) + event(m.TASK_RUNNING, 5)
    data += event(m.TIME, 50) + event(m.MEMORY, 64) + event(m.IN_GC) + event(m.FRAME_REF, 77)
    profile = read(data)
    found = [(s.event, s.weight, s.pid, s.tid, [f.name for f in s.stack]) for s in samples_of(profile)]
    later = ["f", "g", ":INVALID:", ":GC:"]
    assert found == [
        *(("wall time", 100_000, 70_000, 255, ["f", "f"]), ("CPU time", 100_000, 70_000, 255, ["f", "f"])),
        ("memory freed", 512, 70_000, 255, ["f", "f"]),
        *(("wall time", 50_000, 70_000, 255, later), ("CPU time", 0, 70_000, 255, later)),
        ("memory allocated", 64, 70_000, 255, later),
    ]
    assert set(losses_of(profile)) == {ASYNC_TASKS, austin_mojo.UNKNOWN_KEY}
    assert "of interpreter 1" in profile.thread_names.column("name").to_pylist()[0]


def test_truncated_anywhere() -> None:
    data = (DATA / "austin.mojo").read_bytes()
    most = read(data).samples.num_rows
    for end in range(3, len(data), 67):
        try:
            assert read(data[:end]).samples.num_rows <= most
        except UnreadableInput:
            continue
    assert losses_of(read(data + b"\xff")) == {austin_mojo.NO_EVENT: (1, f"byte {len(data)}: 255")}


def test_chunk_size_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {name: stacks(read((DATA / name).read_bytes())) for name in ("austin.wall", "austin.mojo")}
    for module in (text_lines, austin_mojo):
        monkeypatch.setattr(module, "CHUNK_BYTES", 7)
    assert {name: stacks(read((DATA / name).read_bytes())) for name in whole} == whole


@pytest.mark.parametrize("data", [b"", HEAD, b"MOJ", b"MOJ\x03\x01mode\0wall\0", b"MOJ\x03\x02\x01"])
def test_empty_files_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableInput, match="that has no samples"):
        austin.read(io.BytesIO(data), "that")


def test_detection() -> None:
    for path in DATA.glob("austin.*"):
        assert detect_format(path.read_bytes()).name == austin.FORMAT
    for data in (b"P1;T0:5;a.py:f:1 10\n", b"P1;T5;a.py:f:1 10,1,-3\nP1;T5 4\nP1;", b"P1;T0x7f;:GC: 3"):
        assert detect_format(data).name == austin.FORMAT
    assert detect_format(b"P1;T5;main;f 10\n").name == "collapsed"


@settings(max_examples=120)
@given(st.data())
@pytest.mark.heavy
def test_random_bytes_do_not_fail(data: st.DataObject) -> None:
    source = data.draw(
        st.sampled_from([HEAD + b"P1;T0:5;a.py:f:1;a.py:g:2 10,1,-5\n" * 2, (DATA / "austin.mojo").read_bytes()[:400]])
    )
    raw = bytearray(source)
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    try:
        read(bytes(raw))
    except UnreadableInput:
        pass
