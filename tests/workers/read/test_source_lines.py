"""Lines of real recordings of perf: compared with perf annotate, and never those of another binary."""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from perfloom.analysis.source.code_index import index_code
from perfloom.analysis.source.figures import FunctionCode, compute_function_code
from perfloom.config import Settings
from perfloom.domain.schemas.code import Code, CodeStatus
from perfloom.domain.selection import Selection
from perfloom.store import Store
from perfloom.workers.read import reading
from perfloom.workers.read.binaries import Binaries, decode_source
from perfloom.workers.read.prefork import ReaderKeeper
from tests.support.machine_code import compile_program
from tests.support.parts import require
from tests.workers.waiting import until

pytestmark = pytest.mark.heavy
ID = "recorded0000"
ANNOTATED = re.compile(r"^ +(\d+\.\d+) +:? *([0-9a-f]+):", re.MULTILINE)


def nothing(part: float | None, text: str) -> None:
    """Progress that is discarded."""


def record(binary: Path, *argv: str, options: tuple[str, ...] = ()) -> Path:
    """A recording of a program with call stacks."""
    perf = require("perf")
    out = binary.with_name("perf.data")
    command = [perf, "record", "-q", "-N", "-F", "2000", "-e", "cpu-clock:u", "--call-graph", "fp", "-o", str(out)]
    command += options
    subprocess.run([*command, "--", str(binary), *argv], check=True, capture_output=True)
    return out


def store_recording(settings: Settings, store: Store, recording: Path, keeper: ReaderKeeper | None = None) -> None:
    reading.read_to_result(
        settings, store, ID, [recording], name="lines", meta_changes={}, progress=nothing, keeper=keeper
    )


def read_code(settings: Settings, store: Store, recording: Path | None, **options: object) -> Code:
    known = {"recorded_here": True, "started": None, "progress": nothing} | options
    reading.read_code(settings, store, ID, [recording] if recording else [], **known)  # type: ignore[arg-type]
    code = store.results.open_code(ID)
    assert code is not None
    return code


def status_of(code: Code, binary: Path) -> str:
    return next(str(row["status"]) for row in code.objects.to_pylist() if row["module"] == str(binary))


def run_perf(*arguments: str | Path) -> str:
    command = [require("perf"), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def find_perf_name(recording: Path, function: str) -> str:
    """What perf calls a function: newer versions add the types of arguments."""
    lines = run_perf("script", "-i", recording, "-F", "ip,sym", "-G").splitlines()
    names = {line.split(maxsplit=1)[1].strip() for line in lines if line.strip()}
    return next(name for name in names if name.partition("(")[0] == function)


@pytest.mark.parametrize(("source", "function"), [("sum.c", "walk"), ("sort.cpp", "work::Solver::run")])
def test_instructions_have_the_shares_of_perf_annotate(
    source: str, function: str, settings: Settings, store: Store, tmp_path: Path
) -> None:
    binary = compile_program(source, tmp_path, optimized=True)
    recording = record(binary, "4000")
    store_recording(settings, store, recording)
    code, profile = read_code(settings, store, recording), store.results.open(ID)
    assert status_of(code, binary) == "complete"
    found: FunctionCode = compute_function_code(profile, code, Selection(), function, 0)
    own = found.instructions[0].own
    assert own.sum() > 0
    addresses = [f"{address:x}" for address in index_code(profile, code).address[found.rows].tolist()]
    shares = dict(zip(addresses, (100 * own / own.sum()).tolist(), strict=True))
    text = run_perf("annotate", "--stdio", "-i", recording, "-s", find_perf_name(recording, function), "--no-source")
    annotated = {address: float(percent) for percent, address in ANNOTATED.findall(text)}
    assert annotated, text[:2000]
    assert set(annotated) <= set(shares)
    for address, percent in annotated.items():
        assert shares[address] == pytest.approx(percent, abs=0.011), address
    assert sum(annotated.values()) == pytest.approx(100, abs=1)
    path = code.files.column("path").to_pylist()
    hot = int(np.argmax(found.lines[0].own))
    assert Path(path[found.file[hot]]).name == source
    assert "step" in (code.files.column("text")[int(found.file[hot])].as_py() or "")


def test_compressed_recordings_from_elsewhere_have_lines(settings: Settings, store: Store, tmp_path: Path) -> None:
    binary = compile_program("sum.c", tmp_path, optimized=True)
    recording = record(binary, "500", options=("-z", "--buildid-mmap"))
    store_recording(settings, store, recording)
    assert status_of(read_code(settings, store, recording, recorded_here=False), binary) == "complete"


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_recordings_from_elsewhere_have_lines(
    settings: Settings, store: Store, tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    binary = compile_program("sum.c", tmp_path, optimized=True)
    recording = record(binary, "500")
    packed = recording.with_name("perf.data.packed")
    packed.write_bytes(pack(recording.read_bytes()))
    store_recording(settings, store, packed)
    assert status_of(read_code(settings, store, packed, recorded_here=False), binary) == "complete"


def test_the_process_that_read_the_recording_reads_its_lines(settings: Settings, store: Store, tmp_path: Path) -> None:
    binary = compile_program("sum.c", tmp_path, optimized=True)
    recording = record(binary, "500")
    with ReaderKeeper() as keeper:
        store_recording(settings, store, recording, keeper)
        kept = keeper._kept
        assert kept is not None and kept.usable
        code = read_code(settings, store, recording, keeper=keeper)
        assert status_of(code, binary) == "complete"
        assert keeper._kept is None
        assert kept.process.returncode is not None


def test_a_kept_process_that_was_killed_is_not_missed(settings: Settings, store: Store, tmp_path: Path) -> None:
    binary = compile_program("sum.c", tmp_path, optimized=True)
    recording = record(binary, "500")
    with ReaderKeeper() as keeper:
        store_recording(settings, store, recording, keeper)
        assert keeper._kept is not None
        keeper._kept.process.kill()
        keeper._kept.process.wait()
        assert status_of(read_code(settings, store, recording, keeper=keeper), binary) == "complete"


def test_a_kept_process_ends_if_nothing_else_is_read(settings: Settings, store: Store, tmp_path: Path) -> None:
    recording = record(compile_program("sum.c", tmp_path, optimized=True), "500")
    with ReaderKeeper() as keeper:
        store_recording(settings, store, recording, keeper)
        kept = keeper._kept
        assert kept is not None
    # Another thread waits for it.
    until(lambda: kept.process.poll() is not None, "the end of the process")


def test_a_rebuilt_binary_gives_no_lines(settings: Settings, store: Store, tmp_path: Path) -> None:
    binary = compile_program("sum.c", tmp_path, optimized=True)
    recording = record(binary, "500")
    store_recording(settings, store, recording)
    compile_program("sum.c", tmp_path, optimized=False).replace(binary)
    code = read_code(settings, store, recording)
    assert status_of(code, binary) == "rebuilt"
    assert binary.name not in code.symbols.column("name").to_pylist()
    assert "walk" not in code.symbols.column("name").to_pylist()


def test_without_build_ids_only_older_binaries_of_this_machine_are_read(
    settings: Settings, store: Store, tmp_path: Path
) -> None:
    binary = compile_program("sum.c", tmp_path, optimized=True)
    changed = binary.stat().st_mtime
    kept = {"public": False, "buildid_dir": "/nonexistent", "build_ids": {}}
    for here, started, status in (
        (True, changed + 1, CodeStatus.COMPLETE),
        (True, changed - 1, CodeStatus.REBUILT),
        (True, None, CodeStatus.REBUILT),
        (False, changed + 1, CodeStatus.MISSING),
    ):
        opened = Binaries(recorded_here=here, started=started, **kept).open_object(str(binary))  # type: ignore[arg-type]
        assert opened.status is status
        assert (opened.stream is None) == (status is not CodeStatus.COMPLETE)
        if opened.stream is not None:
            opened.stream.close()


def test_only_source_code_that_may_be_read_is_read(tmp_path: Path) -> None:
    secret, source, link = tmp_path / "token", tmp_path / "a.c", tmp_path / "b.c"
    secret.write_text("secret")
    source.write_text("int a;\n")
    link.mkdir()
    binaries = Binaries({}, recorded_here=True, started=None, public=False, buildid_dir="/nonexistent")
    assert binaries.read_source(str(source), "/a").text == "int a;\n"
    for path in (secret, link, tmp_path / "c.c", Path("/dev/zero"), Path("a.c")):
        assert binaries.read_source(str(path), "/a").text is None
    source.chmod(0o600)
    public = Binaries({}, recorded_here=True, started=None, public=True, buildid_dir="/nonexistent")
    assert public.read_source(str(source), "/a").text is None


def test_modules_that_are_no_files_have_a_reason() -> None:
    binaries = Binaries({}, recorded_here=True, started=None, public=False, buildid_dir="/nonexistent")
    for module, status in (
        ("[kernel.kallsyms]", CodeStatus.KERNEL),
        ("[vdso]", CodeStatus.NO_FILE),
        ("//anon", CodeStatus.NO_FILE),
        ("/memfd:jit (deleted)", CodeStatus.NO_FILE),
        ("/nonexistent/program", CodeStatus.MISSING),
        ("/dev/zero", CodeStatus.NO_FILE),
        ("/tmp", CodeStatus.MISSING),
    ):
        assert binaries.open_object(module).status is status, module


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("int größe;\r\n".encode(), "int größe;\n"),
        ("int größe;".encode("latin-1"), "int größe;"),
        ("\ufeffint a;".encode("utf-8"), "int a;"),
        ("int größe;".encode("utf-16"), "int größe;"),
        (b"a\0b\x1b[31m\tc", "a\ufffdb\ufffd[31m\tc"),
        (b"", ""),
    ],
)
def test_source_in_any_encoding_is_text(data: bytes, text: str) -> None:
    assert decode_source(data) == text


def test_a_source_of_a_million_lines_is_read(settings: Settings, store: Store, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    source, binary = tmp_path / "long.c", tmp_path / "long"
    body = "volatile long v;\nint main(void) { for (long i = 0; i < 100000000; i++) v += i; return 0; }\n"
    source.write_text("\n" * 1_000_000 + body)
    subprocess.run(["gcc", "-g", "-O1", str(source), "-o", str(binary)], check=True)
    recording = record(binary)
    store_recording(settings, store, recording)
    code = read_code(settings, store, recording)
    found = compute_function_code(store.results.open(ID), code, Selection(), "main", 0)
    assert int(found.line[int(np.argmax(found.lines[0].own))]) == 1_000_002
