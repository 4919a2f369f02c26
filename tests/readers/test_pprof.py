"""pprof files of Go's own runtime, compared with the output of Go's own tool."""

from __future__ import annotations

import gzip
import io
import os
import random
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.losses import SAMPLE_LABELS
from perfloom.domain.profile import Profile
from perfloom.domain.tables import get_column, get_strings
from perfloom.ingest import protobuf_wire
from perfloom.ingest.compression import open_decompressed
from perfloom.readers import detect_format, pprof
from perfloom.readers.formats import HEAD_BYTES
from perfloom.readers.pprof.format import NO_STRING
from tests.support import nsight_made, paths
from tests.support.parts import require

DATA = paths.DATA
KINDS = ("cpu", "heap", "allocs", "goroutine", "block", "mutex", "threadcreate")
UNITS = {"nanoseconds": "ns"}
Stacks = Counter[tuple[str, str, tuple[str, ...]]]


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with all profiles of Go's runtime, recorded here."""
    folder = tmp_path_factory.mktemp("go")
    environment = {**os.environ, "GOCACHE": str(folder / "cache"), "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    source = DATA / "go" / "profiles.go"
    subprocess.run([require("go"), "build", "-o", folder / "program", source], check=True, env=environment)
    subprocess.run([folder / "program"], check=True, cwd=folder)
    return folder


def go(path: Path, *words: str) -> str:
    """The output of `go tool pprof` for a file."""
    environment = {"HOME": str(path.parent), "PATH": "/usr/bin:/bin", "PPROF_TMPDIR": str(path.parent)}
    command = [require("go"), "tool", "pprof", *words, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def read(path: Path) -> Profile:
    data = gzip.decompress(path.read_bytes())
    reader = detect_format(data, path.name)
    assert reader.name == "pprof"
    return reader.read(io.BytesIO(data), path.name)


def of_profile(profile: Profile) -> Stacks:
    """The values by event, unit and call stack, innermost first."""
    names, function = get_strings(profile.functions, "name"), get_column(profile.frames, "function").tolist()
    parent, frame = (get_column(profile.stacks, name).tolist() for name in ("parent", "frame"))
    events = list(zip(get_strings(profile.events, "name"), get_strings(profile.events, "unit"), strict=True))
    found: Stacks = Counter()
    for sample in profile.samples.to_pylist():
        path, node = [], sample["stack"]
        while node > 0:
            path.append(names[function[frame[node]]])
            node = parent[node]
        found[(*events[sample["event"]], tuple(path))] += sample["weight"]
    return found


def of_go(raw: str) -> Stacks:
    """The same from the output of `go tool pprof -raw`."""
    samples, _, rest = raw.partition("Samples:\n")[2].partition("Locations\n")
    locations: dict[str, list[str]] = {}
    for line in rest.partition("Mappings\n")[0].splitlines():
        head = re.match(r" *(\d+): (?:0x[0-9a-f]+ )?(?:M=\d+ )?(?:\[F\] )?", line)
        if head:
            number, line = head[1], line[head.end() :]
        # Since Go 1.22, functions without a name are written like this.
        names = [name if name != ":0:0" else "[unknown]" for name in line.split()[:1]]
        locations.setdefault(number, []).extend(names)
    types, *lines = samples.splitlines()
    events = [word.partition("[dflt]")[0].split("/") for word in types.split()]
    found: Stacks = Counter()
    for line in lines:
        if values := re.fullmatch(r" *(\d+(?: +\d+)*): ?([\d ]*)", line):
            path = tuple(name for place in values[2].split() for name in locations[place])
            for (name, unit), value in zip(events, values[1].split(), strict=True):
                if int(value):
                    found[name, UNITS.get(unit, unit), path] += int(value)
    return found


@pytest.mark.slow
@pytest.mark.heavy
@pytest.mark.parametrize("kind", KINDS)
def test_values_equal_go_tool_pprof(profiles: Path, kind: str) -> None:
    path = profiles / f"{kind}.prof"
    profile = read(path)
    raw, found = go(path, "-raw"), of_profile(profile)
    wanted = of_go(raw)
    # Go's own tool omits samples without a stack, such as those of created threads.
    assert {key: value for key, value in found.items() if key[2]} == wanted
    assert found and (wanted or kind == "threadcreate")
    assert {row["reason"] for row in profile.losses.to_pylist()} <= {SAMPLE_LABELS}
    main = profile.meta.main_event
    total = sum(value for (event, _, _), value in wanted.items() if event == main)
    if total:
        top = go(path, "-top", "-unit=ns" if "/nanoseconds" in raw else "-unit=B", "-nodefraction=0")
        assert re.search(rf"of {total}(?:ns|B)? total", top), top[:300]


@pytest.mark.heavy
def test_profiles_contain_the_program(profiles: Path) -> None:
    """The profiles contain the functions of the program, in addition to agreeing with Go's tool."""
    weights = {kind: of_profile(read(profiles / f"{kind}.prof")) for kind in KINDS}
    spins = {
        spin: sum(
            v for (event, _, path), v in weights["cpu"].items() if event == "cpu" and ("main.spin" in path) is spin
        )
        for spin in (True, False)
    }
    assert spins[True] > max(10_000_000, spins[False])
    for kind, event in (("heap", "inuse_space"), ("allocs", "alloc_space")):
        held = sum(v for (name, _, path), v in weights[kind].items() if name == event and "main.allocate" in path)
        assert 10e6 < held < 60e6
    for kind in ("block", "mutex"):
        assert any(event == "delay" and "main.main.func2" in path for event, _, path in weights[kind])


def shuffled(data: bytes, order: random.Random) -> bytes:
    """The same Profile with its fields in another order; fields with one number keep theirs."""
    fields: dict[int, list[bytes]] = {}
    at = 0
    for number, kind, value in protobuf_wire.iterate_fields(data):
        size = len(protobuf_wire.encode_varint(number << 3)) + (
            len(value) + len(protobuf_wire.encode_varint(len(value)))
            if kind == protobuf_wire.BYTES
            else len(protobuf_wire.encode_varint(value))
        )
        fields.setdefault(number, []).append(data[at : at + size])
        at += size
    assert at == len(data)
    pieces = [number for number, parts in fields.items() for _ in parts]
    order.shuffle(pieces)
    return b"".join(fields[number].pop(0) for number in pieces)


@pytest.mark.parametrize("kind", KINDS)
def test_fields_in_any_order(profiles: Path, kind: str) -> None:
    data = gzip.decompress((profiles / f"{kind}.prof").read_bytes())
    wanted = of_profile(pprof.read(io.BytesIO(data)))
    for seed in range(20):
        other = shuffled(data, random.Random(seed))
        assert detect_format(other).name == "pprof"
        assert of_profile(pprof.read(io.BytesIO(other))) == wanted
        assert len(other) < 300 or pprof.sniff(other[: len(other) // 2])


def test_truncated_file_is_incomplete() -> None:
    data = b"".join(
        (
            protobuf_wire.encode_message(6),
            protobuf_wire.encode_bytes(6, b"cpu"),
            protobuf_wire.encode_message(1, protobuf_wire.encode_number(1, 1)),
            protobuf_wire.encode_message(2, protobuf_wire.encode_packed(2, [7])),
            protobuf_wire.encode_message(5, protobuf_wire.encode_number(1, 1)),
        )
    )
    assert pprof.read(io.BytesIO(data)).meta.complete
    cut = pprof.read(io.BytesIO(data[:-1]))
    assert not cut.meta.complete and f"byte {len(data) - 4}" in cut.meta.reasons[0]


def small_file(*strings: bytes, types: tuple[tuple[int, int], ...] = ((1, 2), (3, 4))) -> bytes:
    """A file with types (indices of name and unit) and one sample in one function, whose name is string 5."""
    message, number, packed = protobuf_wire.encode_message, protobuf_wire.encode_number, protobuf_wire.encode_packed
    parts = [message(1, number(1, name), number(2, unit)) for name, unit in types]
    parts.append(message(2, packed(1, [1]), packed(2, [7] * len(types))))
    parts.append(message(4, number(1, 1), message(4, number(1, 1))))
    parts.append(message(5, number(1, 1), number(2, 5)))
    return b"".join((*parts, *(message(6, text) for text in strings)))


STRINGS = (b"", b"contentions", b"count", b"delay", b"nanoseconds", b"main.work")


def test_names_that_are_not_in_the_string_table_are_a_loss() -> None:
    """A file that was truncated between two strings looks valid."""
    whole = pprof.read(io.BytesIO(small_file(*STRINGS)))
    assert whole.meta.complete and not whole.losses.num_rows
    cut = pprof.read(io.BytesIO(small_file(*STRINGS[:5])))
    assert of_profile(cut) == Counter({("contentions", "count", ("[unknown]",)): 7, ("delay", "ns", ("[unknown]",)): 7})
    assert [(row["reason"], row["count"], row["example"]) for row in cut.losses.to_pylist()] == [
        (NO_STRING, 1, "string 5")
    ]
    assert not cut.meta.complete and "string 5" in cut.meta.reasons[0]


@pytest.mark.parametrize("count", range(5))
def test_file_without_names_of_types_is_refused(count: int) -> None:
    with pytest.raises(UnreadableInput, match="x is not complete: the names of its sample types"):
        pprof.read(io.BytesIO(small_file(*STRINGS[:count])), "x")


def test_types_with_the_same_name_are_refused() -> None:
    same = pprof.read(io.BytesIO(small_file(*STRINGS, types=((1, 2),))))
    assert of_profile(same) == Counter({("contentions", "count", ("main.work",)): 7})
    with pytest.raises(UnreadableInput, match="x has two sample types of one name"):
        pprof.read(io.BytesIO(small_file(*STRINGS, types=((1, 2), (1, 2)))), "x")


def test_mangled_names_are_readable() -> None:
    (function,) = pprof.read(io.BytesIO(small_file(*STRINGS[:5], b"_ZN3foo3barEv"))).functions.to_pylist()
    assert (function["name"], function["display"]) == ("_ZN3foo3barEv", "foo::bar()")


def test_invalid_utf8_and_duplicate_strings() -> None:
    names = (b"", b"cpu", b"f\xff", b"same", b"same")
    functions = [
        protobuf_wire.encode_message(5, protobuf_wire.encode_number(1, n), protobuf_wire.encode_number(2, n + 1))
        for n in (1, 2, 3)
    ]
    locations = [
        protobuf_wire.encode_message(
            4, protobuf_wire.encode_number(1, n), protobuf_wire.encode_message(4, protobuf_wire.encode_number(1, n))
        )
        for n in (1, 2, 3)
    ]
    samples = [
        protobuf_wire.encode_message(2, protobuf_wire.encode_packed(1, [n]), protobuf_wire.encode_packed(2, [n]))
        for n in (1, 2, 3)
    ]
    strings = [protobuf_wire.encode_message(6, name) for name in names]
    profile = pprof.read(
        io.BytesIO(
            b"".join(
                (
                    protobuf_wire.encode_message(1, protobuf_wire.encode_number(1, 1)),
                    *samples,
                    *locations,
                    *functions,
                    *strings,
                )
            )
        )
    )
    assert of_profile(profile) == Counter({("cpu", "count", ("f\ufffd",)): 1, ("cpu", "count", ("same",)): 5})
    assert get_strings(profile.functions, "name") == ["f\ufffd", "same"]


def test_values_that_overflow_are_lost() -> None:
    values = [protobuf_wire.encode_message(2, protobuf_wire.encode_packed(2, [value])) for value in ((1 << 63) - 1, 3)]
    strings = [protobuf_wire.encode_message(6, text) for text in (b"", b"cpu", b"seconds")]
    data = b"".join(
        (
            protobuf_wire.encode_message(1, protobuf_wire.encode_number(1, 1), protobuf_wire.encode_number(2, 2)),
            *values,
            *strings,
        )
    )
    profile = pprof.read(io.BytesIO(data))
    assert get_column(profile.samples, "weight").tolist() == [3_000_000_000]
    assert profile.losses.column("count").to_pylist() == [1]


def test_other_protobuf_is_not_recognized() -> None:
    plain = (DATA / "perfetto" / "kernel.pftrace").read_bytes()
    message, number, chunk = protobuf_wire.encode_message, protobuf_wire.encode_number, protobuf_wire.encode_bytes
    for head in (
        plain[: 1 << 18],
        # A model of ONNX, planes of TensorBoard's profiler, OpenTelemetry, and strings of another format.
        number(1, 8) + chunk(2, b"pytorch") + message(7, chunk(1, b"node")),
        message(1, number(1, 1), chunk(2, b"/host:CPU"), message(3, number(1, 1), chunk(2, b"main"))),
        message(1, message(1, message(1, chunk(1, b"service.name")))),
        b"".join(chunk(6, name) for name in (b"one", b"two", b"three")),
        message(6) + number(1, 5),
        number(9, 1_700_000_000) + number(12, 5),
    ):
        assert not pprof.sniff(head)


def test_other_recordings_are_not_recognized() -> None:
    files = [path for path in DATA.rglob("*") if path.is_file()]
    assert any(path.suffix == ".pftrace" for path in files)
    for path in files:
        with open_decompressed(path, 1 << 30) as stream:
            assert not pprof.sniff(stream.peek(HEAD_BYTES)), path
    report = nsight_made.report()
    # As a whole, and only its protobuf.
    assert not any(pprof.sniff(report[at:]) for at in range(64))
