"""Perfetto's traces, written by its own classes (tests/data/perfetto/make.py), compared with expected values; damaged
ones."""

import io
import json
import random

import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.tables import get_strings
from perfloom.domain.validation import find_error
from perfloom.ingest.protobuf_wire import encode_bytes, encode_message, encode_number
from perfloom.ingest.trace.scheduler import BY_WAKER, RUNNABLE, RUNNING, SLEEPING, SWITCHES
from perfloom.readers import detect_format, perfetto_trace
from perfloom.readers.perfetto_trace.format import (
    BAD_COMPRESSED,
    BAD_PACKET,
    MISSING_STATE,
    NO_CLOCK,
    NO_STACK,
    SKIPPED,
)
from perfloom.readers.perfetto_trace.packets import CUT_OFF
from perfloom.readers.perfetto_trace.samples import EVENT
from tests.support import paths
from tests.support.made import events_of, losses, slices

DATA = paths.DATA / "perfetto"
US = 1_000


def read(data: bytes) -> Profile:
    assert detect_format(data[:4096]).name == perfetto_trace.FORMAT
    found = perfetto_trace.read(io.BytesIO(data))
    assert find_error(found) is None
    return found


def test_track_events() -> None:
    profile = read((DATA / "app.pftrace").read_bytes())
    # The first is 10 µs after the clock's snapshot; times of the sequence are increments in µs.
    assert slices(profile) == [
        ("main", "draw", 0, 30 * US, 0),
        ("main", "layout", 5 * US, 20 * US, 1),
        ("loader", "load", 2 * US, 18 * US, 0),
        ("requests", "GET /", 5 * US, 10 * US, 0),
    ]
    assert profile.meta.start_epoch_ns == 17 * 10**17 + 10 * US
    assert [(row["pid"], row["tid"], row["process"], row["kind"]) for row in profile.threads.to_pylist()] == [
        (41, 41, "viewer", "thread"),
        (41, 42, "viewer", "thread"),
        (41, None, "viewer", "track"),
    ]
    (draw,) = (json.loads(text) for text in get_strings(profile.argument_sets, "text"))
    assert draw == {
        "frame": 3,
        "half": 0.5,
        "word": "first",
        "at": "0xff",
        "less": -4,
        "good": True,
        "size": {"w": 640, "tags": ["a"]},
        "file": "view.cc",
        "function": "Draw",
    }
    assert get_strings(profile.categories, "name") == ["gfx", "", "requests"]
    assert [(row["time_ns"], row["thread"]) for row in profile.instants.to_pylist()] == [(21 * US, 1)]
    assert [(row["source"], row["target"]) for row in profile.flows.to_pylist()] == [(0, 2)]
    series = get_strings(profile.series, "name")
    assert [(series[row["series"]], row["time_ns"], row["value"]) for row in profile.counters.to_pylist()] == [
        ("memory (bytes)", 1 * US, 1024),
        ("memory (bytes)", 11 * US, 1536),
        ("speed", 10 * US, 0.25),
    ]
    assert losses(profile) == {
        MISSING_STATE: (1, "packet 21"),
        "packet whose content is not shown: field 38 (battery)": (1, "packet 22"),
        SKIPPED: (1, "packet 27"),
        NO_STACK: (1, "reference to an undefined stack"),
    }
    # Samples are of the thread that has slices, too.
    assert events_of(profile) == {"host time": 48 * US, EVENT: 3}
    sampled = [row for row in profile.samples.to_pylist() if row["event"] == 1]
    assert [(row["time_ns"], row["thread"], row["cpu"]) for row in sampled] == [(at * US, 1, 1) for at in (3, 4, 5)]
    assert {("load_all", "/system/libapp.so"), ("do_syscall_64", "[kernel.kallsyms]")} <= {
        (row["name"], row["module"]) for row in profile.functions.to_pylist()
    }


def test_kernel_events() -> None:
    profile = read((DATA / "kernel.pftrace").read_bytes())
    assert slices(profile) == [
        ("com.app", "frame", 7_500, 1_000, 0),
        ("CPU 0", "com.app", 0, 4_000, 0),
        ("CPU 0", "render", 4_000, 3_000, 0),
        ("CPU 0", "com.app", 7_000, 2_000, 0),
        ("CPU 1", "render", 10_000, 6_000, 0),
        ("com.app", "running", 0, 4_000, 0),
        ("com.app", "runnable (preempted)", 4_000, 3_000, 0),
        ("com.app", "running", 7_000, 2_000, 0),
        ("com.app", "uninterruptible sleep", 9_000, 6_000, 0),
        ("com.app", "runnable", 15_000, 1_000, 0),
        ("render", "running", 4_000, 3_000, 0),
        ("render", "sleeping", 7_000, 1_000, 0),
        ("render", "runnable", 8_000, 2_000, 0),
        ("render", "running", 10_000, 6_000, 0),
    ]
    # CPU time counts once, as its threads' time; the mark is the only host time.
    of_states = {RUNNING: 15_000, RUNNABLE: 6_000, SLEEPING: 7_000, BY_WAKER: 1_000, SWITCHES: 4}
    assert events_of(profile) == {"host time": 1_000} | of_states
    assert {row["cpu"] for row in profile.samples.to_pylist()} == {-1, 0, 1}
    assert get_strings(profile.series, "name") == ["queue", "CPU 0 frequency (kHz)"]


@pytest.mark.heavy
def test_damaged_trace() -> None:
    made = random.Random(7)
    whole = {name: (DATA / f"{name}.pftrace").read_bytes() for name in ("app", "kernel")}
    for data in whole.values():
        for turn in range(60):
            bad = bytearray(data)
            for at in made.sample(range(len(bad)), 1 + turn % 5):
                bad[at] = made.randrange(256)
            try:
                found = perfetto_trace.read(io.BytesIO(bytes(bad[: made.randrange(1, len(bad))] if turn % 2 else bad)))
            except UnreadableInput:
                continue
            assert find_error(found) is None
    cut = read(whole["app"][:-5])
    assert CUT_OFF in cut.meta.reasons and not cut.meta.complete
    assert slices(cut) == slices(read(whole["app"]))


def test_legacy_events_and_states() -> None:
    def legacy(time: int, phase: str, *parts: bytes, name: str = "", more: bytes = b"") -> bytes:
        event = encode_message(
            11, encode_bytes(23, name.encode()), more, encode_message(6, encode_number(2, ord(phase)), *parts)
        )
        return encode_number(8, time) + encode_number(10, 4) + event

    thread = (
        encode_number(13, 1)
        + encode_number(10, 4)
        + encode_message(44, encode_number(1, 3), encode_number(2, 5), encode_bytes(5, b"io"))
    )
    track = encode_message(60, encode_number(1, 9), encode_bytes(2, b"power"))

    def state(time: int, name: str) -> bytes:
        return (
            encode_number(8, time)
            + encode_number(10, 6)
            + encode_message(11, encode_number(9, 5), encode_number(11, 9), encode_bytes(23, name.encode()))
        )

    # On the thread of the sequence; one on another thread; two asynchronous ones with the same number.
    profile = read(
        b"".join(
            encode_message(1, one)
            for one in (
                thread,
                legacy(1_000, "X", encode_number(3, 4), name="work"),
                legacy(2_000, "B", name="inner"),
                legacy(3_000, "E"),
                legacy(2_000, "X", encode_number(3, 1), encode_number(18, 3), encode_number(19, 8), name="other"),
                legacy(1_500, "b", encode_number(6, 77), name="load", more=encode_bytes(22, b"net")),
                legacy(9_000, "e", encode_number(6, 77), name="load", more=encode_bytes(22, b"net")),
                legacy(9_500, "P", name="sampled"),
                track + encode_number(10, 6),
                state(1_000, "on"),
                state(6_000, "off"),
                state(7_000, ""),
            )
        )
    )
    assert sorted(slices(profile)) == [
        ("io", "inner", 1_000, 1_000, 1),
        ("io", "work", 0, 4_000, 0),
        ("net", "load", 500, 7_500, 0),
        ("power", "off", 5_000, 1_000, 0),
        ("power", "on", 0, 5_000, 0),
        ("thread 8", "other", 1_000, 1_000, 0),
    ]
    assert [(row["pid"], row["tid"]) for row in profile.threads.to_pylist() if row["tid"]] == [(3, 5), (3, 8)]
    assert list(losses(profile)) == ["event of phase 'P', which is not shown"]


def test_invalid_packets_are_losses() -> None:
    descriptor = encode_message(
        60, encode_number(1, 9), encode_message(4, encode_number(1, 3), encode_number(2, 4), encode_bytes(5, b"main"))
    )
    begin = encode_message(11, encode_number(9, 1), encode_number(11, 9), encode_bytes(23, "größer".encode()))
    # Of an unknown clock; and damage after the last valid event.
    packets = [
        descriptor + encode_number(10, 1),
        encode_number(8, 5) + encode_number(58, 3) + begin + encode_number(10, 1),
        encode_number(8, 25)
        + encode_number(58, 3)
        + encode_message(11, encode_number(9, 2), encode_number(11, 9))
        + encode_number(10, 1)
        + b"\x07",
        encode_bytes(50, b"nothing packed") + encode_number(10, 1),
    ]
    profile = read(b"".join(encode_message(1, one) for one in packets))
    assert slices(profile) == [("main", "größer", 0, 20, 0)]
    assert {reason: count for reason, (count, _) in losses(profile).items()} == {
        BAD_COMPRESSED: 1,
        BAD_PACKET: 1,
        NO_CLOCK: 2,
    }
    with pytest.raises(UnreadableInput, match="Record again with data sources"):
        perfetto_trace.read(io.BytesIO(encode_message(1, encode_number(10, 1), encode_number(8, 5))))
    # Files of pprof and others are not recognized.
    assert not perfetto_trace.sniff(
        encode_message(1, encode_number(1, 1), encode_number(2, 2)) + encode_message(2, encode_number(1, 1))
    )
    assert not perfetto_trace.sniff(b"\nsome text\n") and not perfetto_trace.sniff(b"")
