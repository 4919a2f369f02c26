"""Build ids of real recordings: in the header, in records, compressed, and from a pipe."""

from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from perfloom.readers.perf_build_ids import read_build_ids
from tests.support.parts import require

TRUE = Path("/bin/true").resolve()


@pytest.fixture(scope="module")
def build_id() -> str:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    text = subprocess.run(["readelf", "-n", str(TRUE)], check=True, capture_output=True, text=True).stdout
    found = re.search("Build ID: ([0-9a-f]+)", text)
    assert found is not None
    return found[1]


def record(folder: Path, *options: str, piped: bool = False) -> bytes:
    """A recording of `true`. Skips the test if this perf or kernel cannot make it."""
    out = folder / "perf.data"
    command = [require("perf"), "record", "-q", "-N", "-F", "20000", "-e", "cpu-clock:u", *options]
    with open(out if piped else folder / "empty", "wb") as stream:
        done = subprocess.run(
            [*command, "-o", "-" if piped else str(out), "--", str(TRUE)], stdout=stream, stderr=subprocess.PIPE
        )
    if done.returncode:
        pytest.skip(done.stderr.decode(errors="replace"))
    return out.read_bytes()


@pytest.mark.parametrize("piped", [False, True], ids=["file", "pipe"])
@pytest.mark.parametrize("options", [("--buildid-mmap",), ("--buildid-mmap", "-z")], ids=["plain", "compressed"])
def test_mappings_have_build_ids(options: tuple[str, ...], piped: bool, build_id: str, tmp_path: Path) -> None:
    assert read_build_ids(record(tmp_path, *options, piped=piped))[str(TRUE)] == build_id


def test_the_header_has_build_ids(build_id: str, tmp_path: Path) -> None:
    assert read_build_ids(record(tmp_path, "--buildid-all"))[str(TRUE)] == build_id


def test_perf_inject_adds_build_ids_to_a_piped_recording(build_id: str, tmp_path: Path) -> None:
    plain = record(tmp_path, piped=True)
    assert read_build_ids(plain) == {}
    command = [require("perf"), "inject", "--buildid-all"]
    done = subprocess.run(command, input=plain, capture_output=True)
    if done.returncode or not done.stdout:
        pytest.skip(done.stderr.decode(errors="replace"))
    assert read_build_ids(done.stdout)[str(TRUE)] == build_id


def make_entry(order: str, path: bytes, build_id: bytes) -> bytes:
    """PERF_RECORD_HEADER_BUILD_ID."""
    content = struct.pack(f"{order}i", -1) + build_id.ljust(24, b"\0") + path.ljust(64, b"\0")
    return struct.pack(f"{order}IHH", 67, 2, 8 + len(content)) + content


@pytest.mark.parametrize(("order", "magic"), [("<", b"PERFILE2"), (">", b"2ELIFREP")])
def test_records_of_a_piped_file_have_build_ids(order: str, magic: bytes) -> None:
    # Formats of tracepoints, whose size is not that of their record, and a feature with an entry.
    formats = struct.pack(f"{order}IHHI", 66, 0, 12, 5) + b"\xff" * 8
    entry = make_entry(order, b"/bin/b", b"\x02" * 20)
    feature = struct.pack(f"{order}IHHQ", 80, 0, 16 + len(entry), 2) + entry
    data = magic + struct.pack(f"{order}Q", 16) + formats + make_entry(order, b"/bin/a", b"\x01" * 20) + feature
    assert read_build_ids(data) == {"/bin/a": "01" * 20, "/bin/b": "02" * 20}


@pytest.mark.parametrize("seed", range(20))
def test_damaged_recordings_have_no_error(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    generator = random.Random(seed)
    data = bytearray(record(tmp_path_factory.mktemp("damaged"), "--buildid-mmap", "-z", piped=bool(seed % 2)))
    for _ in range(20):
        data[generator.randrange(16, len(data))] = generator.randrange(256)
    assert all(isinstance(path, str) for path in read_build_ids(bytes(data[: generator.randrange(len(data))])))
