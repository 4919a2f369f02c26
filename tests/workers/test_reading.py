"""Reading in a child: the result or a message, whatever the file, and nothing of the child is left."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import zstandard

from perfloom.config import Settings
from perfloom.domain.errors import TooLarge, Unavailable, UnreadableInput
from perfloom.store import Store
from perfloom.workers.base import processes
from perfloom.workers.read import perf_tool, reading
from tests.support import paths
from tests.support.parts import own_mounts, require

DATA = paths.DATA / "perf"
SPIN = DATA / "spin.script.txt"


def limited(settings: Settings, **changes: int) -> Settings:
    return Settings.load(settings.data, environ={}, runtime=settings.runtime, **{"reserve_bytes": 0} | changes)


def nothing(part: float | None, text: str) -> None:
    """Progress that is discarded."""


def direct_children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found.update(map(int, (task / "children").read_text().split()))
    return found


SERVERS: set[int] = set()


@pytest.fixture(autouse=True)
def servers_of_other_tests() -> None:
    """What runs before a test, a database server or a browser for the whole run, is none of its children."""
    SERVERS.clear()
    SERVERS.update(direct_children())


def children() -> set[int]:
    """Processes that the running test has brought about, and theirs."""
    mine = direct_children() - SERVERS
    return mine | {one.pid for pid in mine for one in processes.descendants(pid)}


def unpacked(tmp_path: Path) -> Path:
    path = tmp_path / "perf.data"
    with open(DATA / "spin.perf.data.zst", "rb") as source, open(path, "wb") as target:
        zstandard.ZstdDecompressor().copy_stream(source, target)
    return path


def large(tmp_path: Path, megabytes: int) -> Path:
    """Stacks of which no two are alike, so that reading them takes memory and time."""
    path = tmp_path / "large.txt"
    with open(path, "wb") as file:
        number = 0
        while file.tell() < megabytes << 20:
            piece = []
            for _ in range(2000):
                number += 1
                piece.append(b"a 1/1 %d.%06d: 1 cycles:\n" % (number, number % 10**6))
                piece += [b"\t%x f%d+0x%x (/bin/a)\n" % (number * 31 + i, number * 7 + i, i) for i in range(12)]
                piece.append(b"\n")
            file.write(b"".join(piece))
    return path


@pytest.mark.parametrize("packing", ["", ".gz", ".zst", ".xz"])
def test_read_whatever_it_is_called(settings: Settings, tmp_path: Path, packing: str) -> None:
    plain = tmp_path / "x.pdf"
    shutil.copy(SPIN, plain)
    if packing:
        packer = require({".gz": "gzip", ".xz": "xz", ".zst": "zstd"}[packing])
        plain.write_bytes(subprocess.run([packer, "-qc", SPIN], capture_output=True, check=True).stdout)
    told: list[tuple[float | None, str]] = []
    profile = reading.read_profile(settings, [plain], lambda part, text: told.append((part, text)))
    assert profile.samples.num_rows == SPIN.read_text().count("\n\n")
    assert told
    assert not list(settings.data.parent.glob("perfloom-*"))


def test_standard_input(settings: Settings) -> None:
    code = (
        "import sys; from pathlib import Path; from perfloom.config import Settings; "
        "from perfloom.workers.read import reading; "
        f"print(reading.read_profile(Settings.load(Path({str(settings.data)!r}), environ={{}}), ['-']).meta.format)"
    )
    with open(SPIN, "rb") as file:
        done = subprocess.run([sys.executable, "-c", code], stdin=file, capture_output=True, text=True, check=True)
    assert done.stdout == "perf-script\n"


def test_a_result_with_its_originals(settings: Settings, store: Store, tmp_path: Path) -> None:
    recording = tmp_path / "perf.data"
    require("perf")
    unpacked(tmp_path)
    result = reading.read_to_result(
        settings,
        store,
        "abcdefabcdef",
        [recording],
        name="spin",
        meta_changes={"command": "./spin", "complete": False, "reasons": ["It was ended early."]},
        progress=nothing,
    )
    assert (result.id, result.name, result.format) == ("abcdefabcdef", "spin", "perf-data")
    assert (result.command, result.complete, result.reasons) == ("./spin", False, ("It was ended early.",))
    # The symbols are kept too: reading it again must not depend on the binaries of that day.
    assert sorted(original.name for original in store.results.original(result.id)) == [
        "perf.data",
        "perf.data.symbols.zst",
    ]
    again = reading.read_to_result(
        settings, store, "abcdefabcdef", [tmp_path / "gone"], name="x", meta_changes={}, progress=nothing
    )
    assert again == result
    assert [path.name for path in store.results.directory.iterdir()] == ["abcdefabcdef"]


def test_text_that_was_made_where_it_was_recorded_is_read(settings: Settings, store: Store, tmp_path: Path) -> None:
    perf = str(require("perf"))
    recording = unpacked(tmp_path)
    text = reading.symbolize(settings, perf, recording, tmp_path, nothing)
    assert text.name == "perf.data.script.zst"
    made = text.stat()
    assert reading.symbolize(settings, perf, recording, tmp_path, nothing) == text
    assert text.stat() == made
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(text.read_bytes())
    # Something that only the text says.
    text.write_bytes(zstandard.compress(plain.replace(b"worker one", b"worker six")))
    result = reading.read_to_result(
        settings, store, "abcdefabcdef", [recording, text], name="", meta_changes={}, progress=nothing
    )
    names = store.results.open(result.id).threads.column("name").to_pylist()
    assert "worker six" in names
    assert "worker one" not in names
    assert result.format == "perf-data"
    assert len(store.results.original(result.id)) == 2


def test_several_files_are_ranks(settings: Settings) -> None:
    profile = reading.read_profile(settings, [SPIN, DATA / "events.script.txt"])
    assert set(profile.threads.column("rank").to_pylist()) == {0, 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (bytes(100_000), "only zero bytes"),
        (b"\x7fELF" + bytes(range(256)) * 40, "is a program or library"),
        (gzip.compress(bytes(1000), mtime=0), "only zero bytes"),
        (gzip.compress(SPIN.read_bytes(), mtime=0)[:12], "The gzip data is truncated"),
        (b"PERFILE2" + bytes(100), "perf cannot read this recording"),
        (b"PERFILE2" + b"\xff" * 5000, "perf cannot read this recording"),
    ],
)
def test_unreadable_files(settings: Settings, tmp_path: Path, content: bytes, message: str) -> None:
    if content.startswith(b"PERFILE2"):
        require("perf")
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(UnreadableInput, match=message):
        reading.read_profile(settings, [path])
    with pytest.raises(UnreadableInput, match="No such file"):
        reading.read_profile(settings, [tmp_path / "gone"])


def test_too_large_when_unpacked(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"a;b;c 1\n" * 4_000_000))
    with pytest.raises(TooLarge, match="limit of 1,000,000 bytes when unpacked"):
        reading.read_profile(limited(settings, upload_limit_bytes=1_000_000), [path])


def test_full_disk_during_decompression(settings: Settings, tmp_path: Path) -> None:
    require("perf")
    room = 2**62
    with pytest.raises(TooLarge, match="Not enough disk space to decompress spin"):
        reading.read_profile(limited(settings, reserve_bytes=room), [DATA / "spin.perf.data.zst"])


def test_too_much_memory(settings: Settings, tmp_path: Path) -> None:
    path = large(tmp_path, 60)
    with pytest.raises(UnreadableInput, match=r"needs more than the memory limit of 0\.5 GB"):
        reading.read_profile(limited(settings, read_memory_bytes=500_000_000), [path])


def test_too_long(settings: Settings, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    holder = os.open(fifo, os.O_RDWR)
    try:
        start = time.monotonic()
        with pytest.raises(UnreadableInput, match="Reading took more than 1 seconds"):
            reading.read_profile(limited(settings, read_seconds=1), [fifo])
        assert time.monotonic() - start < 15
    finally:
        os.close(holder)
    assert not children()


def test_too_long_while_it_gets_on(settings: Settings, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    holder = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    text, enough = SPIN.read_bytes(), threading.Event()
    told: list[float] = []

    def feed() -> None:
        deadline = time.monotonic() + 30
        while not enough.wait(0.002) and time.monotonic() < deadline:
            try:
                os.write(holder, text)
            except BlockingIOError:
                continue

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        start = time.monotonic()
        with pytest.raises(UnreadableInput, match="Reading took more than 3 seconds"):
            reading.read_profile(limited(settings, read_seconds=3), [fifo], lambda *_: told.append(time.monotonic()))
        assert time.monotonic() - start < 15
    finally:
        enough.set()
        feeder.join()
        os.close(holder)
    assert not children()


@pytest.mark.parametrize("name", ["語" * 80 + ".data", "é" * 125, "x" * 255])
def test_the_longest_names(settings: Settings, tmp_path: Path, name: str) -> None:
    require("perf")
    unpacked(tmp_path).rename(tmp_path / name)
    assert reading.read_profile(settings, [tmp_path / name]).samples.num_rows


def test_killed(settings: Settings, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    holder = os.open(fifo, os.O_RDWR)
    os.write(holder, SPIN.read_bytes()[:2000])

    def kill() -> None:
        deadline = time.monotonic() + 60
        while not children() and time.monotonic() < deadline:
            time.sleep(0.01)
        for pid in children():
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(Unavailable, match="Reading was killed"):
            reading.read_profile(settings, [fifo])
    finally:
        killer.join()
        os.close(holder)


def test_ended_by_who_watches(settings: Settings, store: Store, tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def watch(part: float | None, text: str) -> None:
        raise Enough

    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    holder = os.open(fifo, os.O_RDWR)
    try:
        with pytest.raises(Enough):
            reading.read_to_result(settings, store, "abcdefabcdef", [fifo], name="x", meta_changes={}, progress=watch)
    finally:
        os.close(holder)
    assert not children()
    assert not list(store.results.directory.iterdir())


def test_ends_with_its_parent(settings: Settings, tmp_path: Path) -> None:
    """The parent is killed with SIGKILL: neither the child nor perf remains."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    holder = os.open(fifo, os.O_RDWR)
    code = (
        "from pathlib import Path; from perfloom.config import Settings; from perfloom.workers.read import reading; "
        f"reading.read_profile(Settings.load(Path({str(settings.data)!r}), environ={{}}), [Path({str(fifo)!r})])"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + 60
        below = processes.descendants(parent.pid)
        while not any(_opened(one.pid, fifo) for one in below):
            assert time.monotonic() < deadline
            below = processes.descendants(parent.pid)
            time.sleep(0.02)
        parent.kill()
        parent.wait()
        while any(_runs(one) for one in below):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        parent.kill()
        parent.wait()
        os.close(holder)


def _opened(pid: int, path: Path) -> bool:
    try:
        return any(os.readlink(link) == str(path) for link in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def _runs(one: processes.ProcessStat) -> bool:
    now = processes.read_stat(one.pid)
    return now is not None and now.started == one.started and now.state not in "ZX"


@pytest.mark.slow
def test_a_full_disk(settings: Settings, tmp_path: Path) -> None:
    """In a small separate file system: a clear message, and earlier results are kept."""
    inner = (
        "import sys; from pathlib import Path; from perfloom.config import Settings; from perfloom.store import "
        "open_store; from perfloom.workers.read import reading; from perfloom.domain.errors import Unavailable\n"
        "data, small, big = map(Path, sys.argv[1:])\n"
        "settings = Settings.load(data / 'd', environ={}, reserve_bytes=0, runtime=data / 'r')\n"
        "settings.prepare(); store = open_store(settings)\n"
        "def read(id, file): return reading.read_to_result(settings, store, id, [file], name='x', meta_changes={}, "
        "progress=lambda part, text: None)\n"
        "kept = read('aaaaaaaaaaaa', small)\n"
        "try: read('bbbbbbbbbbbb', big)\n"
        "except Unavailable as error: print(error.message)\n"
        "print(store.results.get('aaaaaaaaaaaa') == kept, store.results.open('aaaaaaaaaaaa').samples.num_rows)\n"
        "print(sorted(path.name for path in store.results.directory.iterdir()))\n"
    )
    mount = f'mount -t tmpfs -o size=2500k none {tmp_path / "small"} && exec "$@"'
    (tmp_path / "small").mkdir()
    big = large(tmp_path, 4)
    unshare = [*own_mounts(), "sh", "-c", mount, "sh"]
    done = subprocess.run(
        [*unshare, sys.executable, "-c", inner, tmp_path / "small", SPIN, big], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    message, kept, left = done.stdout.splitlines()
    assert message.startswith("The disk that holds ")
    assert "Delete results or other files there" in message
    assert kept == f"True {SPIN.read_text().count(chr(10) * 2)}"
    assert left == "['aaaaaaaaaaaa']"


def test_the_child_knows_no_secrets(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "perf"
    fake.write_text(f'#!/bin/sh\nenv > {tmp_path}/environment\necho "$@" >> {tmp_path}/arguments\nexit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PERFLOOM_TOKEN", "a-secret-that-nobody-gets")
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://127.0.0.1:9")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    path = tmp_path / "perf.data"
    path.write_bytes(b"PERFILE2" + bytes(200))
    with pytest.raises(UnreadableInput):
        reading.read_profile(settings, [path])
    environment = (tmp_path / "environment").read_text()
    assert "a-secret" not in environment
    assert "PERFLOOM" not in environment
    assert "DEBUGINFOD" not in environment
    home = next(line for line in environment.splitlines() if line.startswith("HOME="))
    assert home != f"HOME={os.environ.get('HOME')}"
    assert "--no-inline" in (tmp_path / "arguments").read_text()


def test_without_perf(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert reading.read_profile(settings, [DATA / "spin.perf.data.zst"]).samples.num_rows == 98
    with pytest.raises(Unavailable, match="Reading a perf"):
        reading.read_profile(settings, [DATA / "waits.perf.data.zst"])


@pytest.mark.parametrize(
    ("complaint", "left"),
    [
        ("Samples for 'x' event do not have CPU attribute set. Cannot print 'cpu' field.", {"cpu"}),
        ("Samples for 'x' event do not have PERIOD attribute set. Cannot print 'period' field.", {"period"}),
        ("  Error: unknown option `ns'", {"--ns"}),
        ("  Error: unknown option `show-lost-events'", {"--show-lost-events"}),
    ],
)
def test_older_perf_gets_fewer_options(complaint: str, left: set[str]) -> None:
    first = perf_tool.Attempt()
    second = first.without(complaint)
    assert second is not None
    assert {*first.fields, *first.options} - {*second.fields, *second.options} == left
    assert second.without(complaint) is None
    assert first.without("it is damaged") is None


def test_perf_that_fails_midway(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "perf"
    fake.write_text(f"#!/bin/sh\ncat {SPIN}\necho 0x99: failed to process type >&2\nexit 234\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    path = tmp_path / "perf.data"
    path.write_bytes(b"PERFILE2" + bytes(200))
    profile = reading.read_profile(settings, [path])
    assert profile.samples.num_rows == SPIN.read_text().count("\n\n")
    assert not profile.meta.complete
    assert profile.meta.reasons == (
        "perf script did not reach the end of the recording: 0x99: failed to process type (it ended with exit status 234).",
    )
