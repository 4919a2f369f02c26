"""Profiles from the records of perf.data are those from the text of `perf script`."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import zstandard

from perfloom.domain.arrays import Array
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.ingest.jit.decorators import HAS_NUMBA
from perfloom.ingest.perf_records.code_objects import CodeObject, SymbolNames, SymbolSource
from perfloom.ingest.perf_records.file_header import read_header
from perfloom.ingest.perf_records.losses import RECORD_LOSSES, UNKNOWN_RECORD
from perfloom.ingest.perf_records.unsupported import UnsupportedRecords
from perfloom.ingest.perf_text.losses import LOST_IN_KERNEL
from perfloom.readers import perf_data, perf_records
from perfloom.workers.read import perf_tool
from perfloom.workers.read.record_reading import DAMAGED
from perfloom.workers.read.symbol_files import make_symbol_source
from tests.support import paths
from tests.support.parts import require, require_reference_perf
from tests.support.perf.recordings import (
    FORK_EXEC,
    HYPERVISOR_MARK,
    KERNEL,
    KERNEL_MARK,
    TEXT,
    USER,
    USER_MARK,
    WRONG_MARK,
    MadeRecording,
    record,
)
from tests.support.samples import samples_of, without_additional_names

DATA = paths.ROOT / "tests" / "data" / "perf"
MAX_BYTES = 1 << 30
TABLES = ("runs", "threads", "thread_names", "events", "counts")
PROGRAM = r"""
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile double sink;
__attribute__((noinline)) static void burn(int n) { for (int i = 0; i < n * 100000; i++) sink += sqrt(i); }
__attribute__((noinline)) static void recurse(int depth) { if (depth) recurse(depth - 1); else burn(3); sink += depth; }
static void *renamed(void *unused) { burn(3); prctl(PR_SET_NAME, "a/b c [1] 2:"); recurse(9); return unused; }
int main(int count, char **argv) {
    pthread_t threads[2];
    if (count > 1) { burn(3); prctl(PR_SET_NAME, "after exec"); recurse(5); return 0; }
    for (int i = 0; i < 2; i++) pthread_create(threads + i, 0, renamed, 0);
    for (int i = 0; i < 3; i++) {
        if (fork()) continue;
        recurse(i);
        if (i) execl("/proc/self/exe", argv[0], "again", (char *)0);
        _exit(0);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    while (wait(0) > 0) { }
    for (int i = 0; i < 2000; i++) { char *block = malloc(100000); block[i] = 1; free(block); }
    return 0;
}
"""


def read_natively(path: Path) -> Profile:
    return read_twice(path.read_bytes(), make_symbol_source(None), path.stat().st_mtime)


def read_twice(data: bytes, symbols: SymbolSource, changed_at: float) -> Profile:
    """The profile, read as a small file and as a large one, with the same outcome."""
    outcomes: list[Profile | Exception] = []
    for least in (sys.maxsize, 0):
        with patch.object(perf_records, "LARGE_BYTES", least):
            try:
                outcomes.append(perf_records.read(memoryview(data), symbols, changed_at, MAX_BYTES))
            except (UnsupportedRecords, UnreadableInput, *DAMAGED) as error:
                outcomes.append(error)
    assert ("perfloom.ingest.perf_records.record_loops" in sys.modules) >= HAS_NUMBA
    small, large = outcomes
    if isinstance(small, Exception):
        assert repr(large) == repr(small)
        raise small
    assert isinstance(large, Profile)
    assert large.meta == small.meta
    for name, table in small.tables().items():
        assert large.tables()[name].equals(table), name
    return small


def read_text(path: Path, scratch: Path) -> Profile:
    scratch.mkdir(exist_ok=True)
    with perf_tool.open_script(str(require_reference_perf()), path, scratch) as stream:
        return perf_data.read(stream)  # type: ignore[arg-type]


def assert_equal(path: Path, scratch: Path) -> Profile:
    """Both ways of reading give the same profile. Returns it."""
    native, text = read_natively(path), read_text(path, scratch)
    wanted = samples_of(text)
    assert without_additional_names(samples_of(native), wanted) == wanted
    for table in TABLES:
        assert getattr(native, table).to_pylist() == getattr(text, table).to_pylist(), table
    assert count_losses(native) == count_losses(text)
    assert native.meta == text.meta
    return native


def count_losses(profile: Profile) -> dict[str, int]:
    rows = profile.losses.to_pylist()
    # Examples name a line of the text.
    return {row["reason"]: row["count"] for row in rows if row["reason"] not in RECORD_LOSSES}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "tasks"
    argv = [require("gcc"), "-O1", "-fno-omit-frame-pointer", "-pthread", "-x", "c", "-o", path, "-", "-lm"]
    subprocess.run(argv, input=PROGRAM, text=True, check=True)
    return path


def test_events_that_share_identifiers_are_left_to_perf() -> None:
    count, id_count = 20, 1000
    attributes = struct.pack("<IIQQQQQ", 1, 128, 0, 1000, 7, 0, 1 << 18).ljust(128, b"\0")
    start = 104 + 144 * count
    head = struct.pack("<8sQQ10Q", b"PERFILE2", 104, 144, 104, 144 * count, start + 8 * id_count, 0, *[0] * 6)
    table = (attributes + struct.pack("<QQ", start, 8 * id_count)) * count
    with pytest.raises(UnsupportedRecords, match="identifiers of its events are damaged"):
        read_header(head + table + bytes(8 * id_count))


@pytest.mark.heavy
@pytest.mark.parametrize(
    "options",
    [
        ("-g", "--sample-cpu", "-F", "1999"),
        ("-z", "-g", "-F", "1999"),
        ("-e", "cpu-clock,page-faults,context-switches", "-F", "1999", "--sample-cpu"),
        ("-k", "CLOCK_MONOTONIC", "-e", "{cpu-clock,page-faults}:S,context-switches", "-g", "--buildid-mmap"),
        ("-c", "500000", "-e", "cpu-clock", "-d", "--namespaces", "-g"),
        ("--per-thread", "-g", "-e", "page-faults", "-c", "1"),
    ],
    ids=["stacks", "compressed", "events", "group", "period", "no times"],
)
def test_fresh_recordings(program: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    path = tmp_path / "perf.data"
    subprocess.run([require_reference_perf(), "record", "-q", *options, "-o", path, "--", program], check=True)
    assert assert_equal(path, tmp_path / "scratch").samples.num_rows > 5


@pytest.mark.heavy
def test_a_recording_in_a_pipe(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    with open(path, "wb") as file:
        argv = [require_reference_perf(), "record", "-q", "-g", "-F", "1999", "-e", "cpu-clock,page-faults", "-o", "-"]
        subprocess.run([*argv, "--", program], stdout=file, check=True)
    assert assert_equal(path, tmp_path / "scratch").samples.num_rows > 5


@pytest.fixture
def spin(tmp_path: Path) -> Path:
    path = tmp_path / "spin.perf.data"
    path.write_bytes(zstandard.ZstdDecompressor().decompress((DATA / "spin.perf.data.zst").read_bytes()))
    return path


def test_the_recording_of_the_tests(spin: Path, tmp_path: Path) -> None:
    assert assert_equal(spin, tmp_path / "scratch").samples.num_rows == 98


def make_odd_recording() -> MadeRecording:
    """Everything at once that real recordings seldom have."""
    made = MadeRecording()
    made.map_kernel()
    made.name(10, b"first")
    made.map(10, 0x1000, 0x9000, b"/nowhere/first", offset=0x2000)
    made.sample(10, 100, USER_MARK, 0x1800, 0x5000)
    # A map over the middle of the other one: what is around it remains.
    made.map(10, 0x4000, 0x2000, b"/nowhere/second", 150)
    made.map(10, 0x20000, 0x1000, b"//anon", 150)
    made.map(10, 0x30000, 0x1000, b"//anon", 150, protection=3)
    made.map(10, 0x40000, 0x1000, b"[stack]", 150, protection=3)
    made.map(10, 0x50000, 0x2000, b"[vdso]", 150)
    made.map(10, 0x60000, 0x2000, b"/nowhere/gone (deleted)", 150)
    made.sample(10, 200, USER_MARK, 0x1800, 0x4100, 0x6000, 0x20010, 0x30010, 0x40010, 0x50010, 0x60010, 0x70010)
    # Its child has its maps and its name, until it has others.
    made.fork(11, 10, 210)
    made.sample(11, 220, USER_MARK, 0x4100)
    made.name(11, b"second", 230)
    made.map(11, 0x4000, 0x800, b"/nowhere/third", 240)
    made.sample(11, 250, USER_MARK, 0x4100, 0x4900)
    made.sample(10, 260, USER_MARK, 0x4100)
    # Nothing is known of this one, or of its child.
    made.sample(12, 270, USER_MARK, 0x4100)
    made.fork(13, 12, 280)
    made.sample(13, 290, USER_MARK, 0x4100, tid=13)
    # A number that is used again. Of running processes, no maps are copied.
    made.fork(11, 10, 300, flags=USER | FORK_EXEC)
    made.sample(11, 310, USER_MARK, 0x4100)
    made.sample(10, 320, KERNEL_MARK, TEXT + 5, 0x1800, USER_MARK, 0x1800, flags=KERNEL)
    made.sample(10, 330, HYPERVISOR_MARK, 0x1800, USER_MARK, 0x1900)
    # perf drops a chain with an invalid marker, and what is further out than its 127 entries.
    made.sample(10, 340, USER_MARK, 0x1800, WRONG_MARK, 0x1900)
    made.sample(10, 350, *([0x1800] * 140), WRONG_MARK)
    made.sample(10, 360)
    made.sample(-1, 370, USER_MARK, 0x1800)
    made.sample(0, 380, KERNEL_MARK, TEXT + 5, flags=KERNEL)
    # The clock goes back; a name comes before the sample that is earlier.
    made.name(10, b"later", 400)
    made.sample(10, 390, USER_MARK, 0x1800)
    made.sample(10, 410, USER_MARK, 0x1800, period=2**63)
    made.lose(17, 420)
    made.lose(3, 430)
    made.sample(10, 440, USER_MARK, 0x1800, period=7)
    return made


def test_odd_records(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(make_odd_recording().build())
    profile = assert_equal(path, tmp_path / "scratch")
    losses = {row["reason"]: row["count"] for row in profile.losses.to_pylist()}
    assert losses[LOST_IN_KERNEL] == 20


def test_unknown_records_are_skipped_and_counted() -> None:
    """perf 6.1 ends at the first one."""
    made = make_odd_recording()
    expected = read_bytes(made.build())
    made.records[5:5] = [record(250, bytes(16)), record(40, bytes(64))]
    made.records.append(record(250, b""))
    profile = read_bytes(made.build())
    assert profile.samples.to_pylist() == expected.samples.to_pylist()
    (loss,) = (row for row in profile.losses.to_pylist() if row["reason"] == UNKNOWN_RECORD)
    assert (loss["count"], loss["example"]) == (3, "type 40")


def no_symbols(code: CodeObject, addresses: Array) -> SymbolNames:
    return SymbolNames(np.full(len(addresses), -1), [], np.zeros(0, np.uint64))


def read_bytes(data: bytes) -> Profile:
    return read_twice(data, no_symbols, 0)


def build_events(ids: Sequence[int], records: Sequence[bytes], shift: int = 0) -> bytes:
    """A file with an event for each identifier, whose samples have it before other fields. shift: of the records."""
    sample_type = 1 << 16 | 0x1 | 0x2 | 0x4 | 0x20 | 0x80 | 0x100
    attributes = struct.pack("<IIQQQQQ", 1, 136, 0, 1000, sample_type, 0, 1 << 18).ljust(136, b"\0")
    at, data = 104 + 152 * len(ids), b"".join(records)
    table = b"".join(attributes + struct.pack("<QQ", at + 8 * number, 8) for number in range(len(ids)))
    start = at + 8 * len(ids) + shift
    head = struct.pack("<8sQQ10Q", b"PERFILE2", 104, 152, 104, len(table), start, len(data), *[0] * 6)
    return head + table + struct.pack(f"<{len(ids)}Q", *ids) + bytes(shift) + data


def make_event_samples(ids: Sequence[int]) -> list[bytes]:
    """A sample for each identifier."""
    return [
        record(
            9,
            struct.pack("<QQIIQIIQ", id, 0x1000, 10, 10, 1000 + n, 3, 0, 7)
            + struct.pack("<QQQ", 2, USER_MARK, 0x1000 + n % 3),
        )
        for n, id in enumerate(ids)
    ]


def test_samples_of_an_unknown_event() -> None:
    profile = read_twice(build_events((100, 101), make_event_samples((100, 101, 100, 999, 101))), no_symbols, 0)
    rows = profile.samples.to_pylist()
    assert [(row["time_ns"], row["cpu"], row["weight"]) for row in rows] == [(n, 3, 7) for n in (0, 1, 2, 4)]
    assert {row["pid"] for row in profile.threads.to_pylist()} == {10}


def test_records_may_begin_anywhere() -> None:
    profile = read_twice(build_events((100,), make_event_samples((100, 100)), shift=4), no_symbols, 0)
    assert profile.samples.num_rows == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda made: replace(made, sample_type=made.sample_type | 0x2000), "user stacks"),
        (lambda made: replace(made, sample_type=made.sample_type | 0x800), "branch stacks"),
        (lambda made: replace(made, sample_type=made.sample_type | 0x10), "counts of other events"),
        (lambda made: replace(made, sample_type=made.sample_type | 1 << 30), "not known"),
        (lambda made: replace(made, sample_type=made.sample_type & ~2), "no thread"),
        (lambda made: replace(made, records=[*made.records, record(14, bytes(32))]), "switches"),
        (lambda made: replace(made, records=[*made.records, record(11, bytes(48))]), "trace"),
        (lambda made: replace(made, records=[*made.records, record(9, bytes(48), flags=5)]), "virtual machine"),
        (lambda made: replace(made, records=[*made.records, struct.pack("<IHH", 9, 2, 24) + bytes(16)]), "too short"),
    ],
)
def test_what_is_left_to_perf(change: Callable[[MadeRecording], MadeRecording], reason: str) -> None:
    made = make_odd_recording()
    read_bytes(made.build())
    with pytest.raises(UnsupportedRecords, match=reason):
        read_bytes(change(made).build())


def test_other_byte_orders_and_versions_are_left_to_perf() -> None:
    data = make_odd_recording().build()
    for changed in (b"2ELIFREP" + data[8:], data[:8] + struct.pack("<Q", 112) + data[16:], data[:20], b""):
        with pytest.raises(UnsupportedRecords):
            read_bytes(changed)


def test_a_recording_that_was_cut(spin: Path, tmp_path: Path) -> None:
    """Its complete records are read, as by perf, and the profile says what is missing."""
    require("perf")
    whole = spin.read_bytes()
    path = tmp_path / "cut.perf.data"
    for size in (5000, 9000):
        path.write_bytes(whole[:size])
        native, text = read_natively(path), read_text(path, tmp_path / "scratch")
        assert native.samples.to_pylist() == text.samples.to_pylist()
        assert native.meta.reasons == text.meta.reasons != ()
        assert not native.meta.complete


def test_every_kilobyte(spin: Path) -> None:
    whole = spin.read_bytes()
    counts = []
    for size in range(0, len(whole), 1024):
        try:
            counts.append(read_bytes(whole[:size]).samples.num_rows)
        except UnsupportedRecords:
            counts.append(0)
    assert counts == sorted(counts) and 0 < counts[-2] <= 98


def test_damaged_bytes_crash_nothing(spin: Path) -> None:
    generator = random.Random(18)
    made = make_odd_recording().build()
    outcomes = set()
    for whole in (spin.read_bytes(), made):
        for _ in range(40):
            data = bytearray(whole)
            for _ in range(generator.choice((1, 3, 30))):
                at = generator.randrange(generator.choice((200, len(data))))
                data[at : at + 1] = generator.choice((b"\0", b"\xff", generator.randbytes(1)))
            try:
                outcomes.add(read_bytes(bytes(data)).meta.format)
            except (UnsupportedRecords, UnreadableInput, *DAMAGED) as error:
                outcomes.add(type(error).__name__)
    assert {"perf-data", "UnsupportedRecords"} <= outcomes


def test_absurd_offsets_and_sizes(spin: Path) -> None:
    whole = spin.read_bytes()
    for at in (16, 24, 32, 40, 48):
        for value in (1, 2**31, 2**63, 2**64 - 8):
            try:
                profile = read_bytes(whole[:at] + struct.pack("<Q", value) + whole[at + 8 :])
            except UnsupportedRecords:
                continue
            # The size of the records is wrong: the complete ones of the file are read, as in a file that was cut.
            assert at == 48 and not profile.meta.complete


@pytest.mark.parametrize("size", [100, 33_000, 65_000])
@pytest.mark.parametrize("others", [0, 3000])
def test_long_records(size: int, others: int) -> None:
    """Sizes in bytes need more than 15 bits."""
    made = MadeRecording()
    for number in range(others):
        made.map(7, 0x1000 * (number + 1), 0x1000, b"/lib/some.so")
    made.name(7, b"n" * size)
    made.sample(7, 100, USER_MARK, 0x1010)
    profile = read_twice(made.build(), no_symbols, 0)
    assert [len(name) for name in profile.thread_names.column("name").to_pylist()] == [size]


def test_code_before_a_file_is_mapped_there_is_unknown() -> None:
    """Not all memory with code is in the records: mremap writes none."""
    made = MadeRecording()
    made.map(7, 0x1000, 0x1000, b"/app")
    made.sample(7, 100, USER_MARK, 0x9010)
    made.map(7, 0x9000, 0x1000, b"/lib/new.so", 200)
    made.sample(7, 300, USER_MARK, 0x9010)
    profile = read_twice(made.build(), no_symbols, 0)
    functions = profile.functions.column("module").to_pylist()
    frames = [functions[of] for of in profile.frames.column("function").to_pylist()]
    leaves = [profile.stacks.column("frame")[row].as_py() for row in profile.samples.column("stack").to_pylist()]
    assert [frames[of] for of in leaves] == ["[unknown]", "/lib/new.so"]
