"""Formats are detected by content, never by name."""

from __future__ import annotations

import bz2
import io
import marshal
import random
import sqlite3
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from perfloom.domain.errors import UnreadableInput
from perfloom.readers import READERS, detect_format, perf_data
from perfloom.readers.formats import HEAD_BYTES
from tests.support import paths

DATA = paths.DATA / "perf"


@pytest.mark.parametrize("name", ["spin", "events", "dwarf", "flat"])
def test_perf_script(name: str) -> None:
    raw = (DATA / f"{name}.script.txt").read_bytes()
    assert detect_format(raw).name == "perf-script"
    # Without its header too, and with only the beginning.
    body = b"\n".join(line for line in raw.split(b"\n") if not line.startswith(b"#"))
    assert detect_format(body).name == "perf-script"
    assert detect_format(body[:600]).name == "perf-script"


def test_collapsed() -> None:
    assert detect_format((DATA / "spin.collapsed-all.txt").read_bytes()).name == "collapsed"


def test_perf_data() -> None:
    with open(DATA / "spin.perf.data.zst", "rb") as file:
        raw = zstandard.ZstdDecompressor().stream_reader(file).read()
    reader = detect_format(raw)
    assert (reader.name, reader.needs_perf) == ("perf-data", True)
    assert not perf_data.is_piped(raw)
    assert perf_data.is_piped(b"PERFILE2" + (16).to_bytes(8, "little"))
    assert perf_data.is_piped(b"2ELIFREP" + (16).to_bytes(8, "big"))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"", "x is empty"),
        (bytes(1000), "only zero bytes"),
        (bytes(9) + b"\x7fELF\x02\x01\x01" + bytes(99), "The format of x is unknown. Use "),
        (random.Random(5).randbytes(100_000), "The format of x is unknown"),
        (b"hello world\n" * 50, "The format of x is unknown"),
        (b'{"a": 1}', "The format of x is unknown"),
    ],
)
def test_unknown_files_are_refused_with_advice(head: bytes, message: str) -> None:
    with pytest.raises(UnreadableInput, match=message) as caught:
        detect_format(head, "x")
    if "is unknown" in message:
        assert all(reader.label in caught.value.message for reader in READERS.values())


@pytest.mark.heavy
def test_random_bytes_have_no_format() -> None:
    for seed in range(200):
        with pytest.raises(UnreadableInput):
            detect_format(random.Random(seed).randbytes(5000))


def test_messages_of_perf_before_the_text() -> None:
    raw = b"Warning:\nProcessed 10 events and lost 2 chunks!\n\n" + (DATA / "spin.script.txt").read_bytes()
    reader = detect_format(raw)
    assert reader.name == "perf-script"
    assert reader.read(io.BytesIO(raw), "x").losses.num_rows == 1


def test_first_requested_event_is_main_event() -> None:
    heading = "# event : name = cpu-clock, , id = { 1 }\n# event : name = page-faults, , id = { 2 }\n"
    samples = [f"a 1/1 [000] {at}.000000000: 5 {event}: 10 f (/bin/a)\n" for at, event in enumerate(EVENTS)]
    meta = perf_data.read(io.BytesIO((heading + "".join(samples)).encode())).meta
    assert meta.main_event == "cpu-clock"
    without = perf_data.read(io.BytesIO((heading + samples[0]).encode())).meta
    assert without.main_event == "page-faults"


EVENTS = ("page-faults", "cpu-clock")


def elf(kind: int) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(9) + kind.to_bytes(2, "little") + bytes(50)


def packed(write: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def zipped(file: io.BytesIO) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.trace/form.template", "x")


def tarred(file: io.BytesIO) -> None:
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"))


def database(table: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.sqlite"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"create table {table} (id)")
            connection.commit()
        return path.read_bytes()


GPERFTOOLS = b"".join(number.to_bytes(8, "little") for number in (0, 3, 0, 10_000, 0, 1, 2, 0x400000, 0x400100))


@pytest.mark.parametrize(
    ("head", "what", "advice"),
    [
        (b"FLR\0\0\2\0\1" + bytes(60), "Java Flight Recorder", "jfrconv"),
        (GPERFTOOLS, "gperftools", "go tool pprof -proto"),
        (b"goroutine profile: total 5\n1 @ 0x1 0x2\n", "debug=1", "protobuf"),
        (b"heap profile: 1: 2 [3: 4] @ heap/1048576\n", "gperftools", "go tool pprof -proto"),
        (b"go 1.22 trace\0\0\0", "Go execution trace", "go tool trace -pprof"),
        (b'<?xml version="1.0"?>\n<trace-query-result>\n<node xpath="x">', "Instruments", "inferno-collapse-xctrace"),
        (b"Weight\tSelf Weight\t\tSymbol Name\n1 s  100%\t0 s\t \tmain\n", "Instruments", "speedscope"),
        (b'{"meta":{"interval":1,"startTime":1.5,"processType":0},"libs":[]', "Firefox", "speedscope"),
        (b'{"meta":{"product":"Firefox"},"threads":[]}', "Firefox", "speedscope"),
        (b'{"libs":[],"threads":[{"name":"GeckoMain"}],"meta":{"version":29}}', "Firefox", "speedscope"),
        (b"Nettrace\x14\0\0\0!FastSerialization.1" + bytes(60), ".NET", "dotnet-trace convert"),
        (b'{"head":{"callFrame":{"functionName":"(root)"}}', "V8 sampled heap profile", "speedscope"),
        (b"v8-version,10,2,154,26,1\nshared-library,x,1,2\n", "V8 log", "--cpu-prof"),
        (b"v 10500 3\nX ./program\nI 1000 5\n", "heaptrack", "heaptrack_print"),
        (b"desc: --massif-out-file=x\ncmd: ./a\ntime_unit: i\n#---\nsnapshot=0\n", "massif", "callgrind"),
        (marshal.dumps({("a.py", 1, "f"): (1, 1, 0.5, 0.5, {})}), "cProfile", "py-spy"),
        (b"PERFFILE" + bytes(60), "before Linux", "perf script"),
        (database("CUPTI_ACTIVITY_KIND_KERNEL"), "Nsight Systems", "ncu"),
        (database("other"), "SQLite", "Export"),
        (elf(4), "core dump", "perf record"),
        (elf(3), "program or library", "perfloom record"),
        (packed(zipped), "archive", "Unpack"),
        (packed(tarred), "archive", "Unpack"),
        (bz2.compress(b"main;f 3\n"), "compressed", "Unpack"),
        (b"\x89PNG\r\n\x1a\n" + bytes(60), "picture", "made from"),
        (b"%PDF-1.7\n" + bytes(60), "document", "made from"),
        (b"<!DOCTYPE html>\n<html><title>403 Forbidden</title>", "web page", "Download it again"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12345\n", "Git LFS", "git lfs pull"),
    ],
)
def test_unsupported_files_are_named_with_advice(head: bytes, what: str, advice: str) -> None:
    with pytest.raises(UnreadableInput, match=r"^x (is|looks like) ") as caught:
        detect_format(head, "x")
    assert what in caught.value.message and advice in caught.value.message


TEXTS = (
    *("perf/spin.script.txt", "perf/spin.collapsed-all.txt", "samplers/py-spy.raw", "samplers/py-spy.speedscope"),
    *("samplers/py-spy.chrometrace", "samplers/memray.csv", "samplers/memray.speedscope", "callgrind/calls.out"),
)


@pytest.mark.parametrize("name", TEXTS)
def test_text_may_begin_with_empty_lines(name: str) -> None:
    text = (DATA.parent / name).read_bytes()
    reader = detect_format(text[:HEAD_BYTES])
    after = detect_format((b"\n\n" + text)[:HEAD_BYTES])
    assert after.name == reader.name == detect_format((b"\n" + text)[:HEAD_BYTES]).name
    plain, moved = (one.read(io.BytesIO(data), "x") for one, data in ((reader, text), (after, b"\n\n" + text)))
    assert moved.samples.equals(plain.samples) and moved.slices.equals(plain.slices)
    assert moved.meta.complete == plain.meta.complete


def test_text_after_an_empty_line_is_no_perfetto_trace() -> None:
    """The first letter of the second line would be the size of a packet, the others its fields."""
    for letter in range(0x20, 0x7F):
        text = b"\n" + bytes([letter]) + b"@ PAX;main;Py;PP 12\nb;c 3\n" * 20
        assert detect_format(text).name == "collapsed"


def test_metadata_before_the_events_can_be_longer_than_the_head() -> None:
    """Nested more deeply than the scanner supports, or long."""
    events = b',"traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":5}]}'
    for metadata in (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, b'"' + b"a" * 400_000 + b'"'):
        data = b'{"metadata":' + metadata + events
        reader = detect_format(data[:HEAD_BYTES])
        assert reader.name == "chrome-trace"
        assert reader.read(io.BytesIO(data), "x").slices.num_rows == 1
    with pytest.raises(UnreadableInput):
        detect_format(b'{"metadata":{}}')
