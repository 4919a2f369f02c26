"""perf.data read from its records in the reader process: symbols, their file, and what is left to perf script."""

from __future__ import annotations

import io
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard

from perfloom.config import Settings
from perfloom.domain.arrays import Array
from perfloom.domain.errors import UnreadableInput
from perfloom.ingest.facts import PERF_SCRIPT_FACT
from perfloom.ingest.perf_records.code_objects import CodeObject, ObjectKind, SymbolNames
from perfloom.ingest.perf_records.symbol_store import StoredSymbols, SymbolRecorder
from perfloom.store import Store
from perfloom.workers.base.context import open_context
from perfloom.workers.code_reading import BY_COMMAND
from perfloom.workers.code_step import find_symbol_places
from perfloom.workers.read import reading
from tests.support import paths
from tests.support.parts import require
from tests.support.perf.recordings import USER_MARK, MadeRecording
from tests.support.samples import Sample, samples_of

DATA = paths.ROOT / "tests" / "data" / "perf"
PROGRAM = CodeObject(ObjectKind.FILE, "/opt/prögram", "ab12")
NAMES = ["main", "naïve \N{GREEK SMALL LETTER LAMDA}", "\udcff(x)"]


def find(code: CodeObject, addresses: Array) -> SymbolNames:
    """Symbols of 256 bytes each."""
    row = np.where(addresses < 768, addresses // 256, -1).astype(np.int64)
    return SymbolNames(row, NAMES, np.array([0, 256, 512], np.uint64))


def store_symbols(changed_at: float = 5.5) -> bytes:
    recorder = SymbolRecorder(find)
    recorder.find(PROGRAM, np.array([3, 300, 700, 2**64 - 1], np.uint64))
    file = io.BytesIO()
    recorder.write(file, changed_at)
    return file.getvalue()


def test_stored_symbols() -> None:
    stored = StoredSymbols(io.BytesIO(zstandard.compress(store_symbols())))
    assert stored.changed_at == 5.5
    found = stored.find(PROGRAM, np.array([3, 4, 300, 700, 2**64 - 1], np.uint64))
    assert found.row.tolist() == [0, -1, 1, 2, -1]
    assert (found.names, found.starts.tolist()) == (NAMES, [0, 256, 512])
    assert stored.find(CodeObject(ObjectKind.FILE, "/other"), np.array([3], np.uint64)).row.tolist() == [-1]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"",
        lambda text: text.replace(b'"version": 1', b'"version": 2'),
        lambda text: text.replace(b'"row":[0', b'"row":[7'),
        lambda text: text.replace(b'"row":[0', b'"row":[0,0'),
        lambda text: text.replace(b'"main"', b"17"),
        lambda text: text.replace(b'"file"', b'"fire"'),
        lambda text: text.replace(b"[3,297", b"[-3,1e99"),
        lambda text: text[:-9],
        lambda text: text.splitlines()[0] + b"\n" + b"[" * 100_000,
        lambda text: text.replace(b"5.5", b"1e18"),
        lambda text: text.replace(b"5.5", b"NaN"),
    ],
)
def test_damaged_symbols(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(UnreadableInput, match="symbols of this recording is damaged"):
        StoredSymbols(io.BytesIO(zstandard.compress(change(store_symbols()))))
    with pytest.raises(UnreadableInput, match="symbols of this recording is damaged"):
        StoredSymbols(io.BytesIO(b"\0" * 40))


def make_recording(folder: Path) -> Path:
    """A recording of a program that does not exist here."""
    made = MadeRecording()
    made.name(7, b"program")
    made.map(7, 0x1000, 0x1000, b"/nowhere/program")
    made.sample(7, 100, USER_MARK, 0x1010, 0x1020)
    path = folder / "perf.data"
    path.write_bytes(made.build())
    return path


def test_a_result_is_read_again_with_its_symbols(
    settings: Settings, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = make_recording(tmp_path)
    result = reading.read_to_result(
        settings, store, "abcdefabcdef", [recording], name="", meta_changes={}, progress=lambda part, text: None
    )
    originals = [original.path for original in store.results.original(result.id)]
    assert [path.name for path in originals] == ["perf.data", "perf.data.symbols.zst"]
    before = samples_of(store.results.open(result.id))
    assert [frame.name for frame in before[0].stack] == ["[unknown]", "[unknown]"]
    # What was found when the binary was still there.
    lines = zstandard.decompress(originals[1].read_bytes(), 1 << 20).splitlines()
    known = lines[1].replace(b'"row":[-1,-1]', b'"row":[0,0]').replace(b'"names":[]', b'"names":["burn"]')
    copy = tmp_path / "again" / "perf.data"
    copy.parent.mkdir()
    copy.write_bytes(recording.read_bytes())
    symbols = copy.with_name("perf.data.symbols.zst")
    symbols.write_bytes(zstandard.compress(b"\n".join((lines[0], known.replace(b'"starts":[]', b'"starts":[4]')))))
    monkeypatch.chdir(copy.parent)
    again = reading.read_profile(settings, [copy.name, symbols.name])
    assert [(frame.name, frame.offset) for frame in samples_of(again)[0].stack] == [("burn", 28), ("burn", 12)]
    assert again.meta.facts["captured on"] == store.results.open(result.id).meta.facts["captured on"]


def test_an_uploaded_recording_cannot_choose_files_by_their_path(
    settings: Settings, store: Store, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    source = "int main(int count, char **all) { return count; }"
    subprocess.run([require("gcc"), "-x", "c", "-no-pie", "-o", program, "-"], input=source, text=True, check=True)
    text = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    (main,) = (int(line.split()[0], 16) for line in text.splitlines() if line.endswith(" T main"))
    made = MadeRecording()
    made.map(7, 0x400000, 0x10000, str(program).encode())
    made.sample(7, 100, USER_MARK, main)
    recording = tmp_path / "perf.data"
    recording.write_bytes(made.build())
    names = {}
    for spec in ({}, {BY_COMMAND: True}):
        job = store.jobs.create("import", {"files": ["perf.data"], **spec}, "")
        places = find_symbol_places(open_context(settings, store), job)
        result = reading.read_to_result(
            *(settings, store, job.id, [recording]),
            name="",
            meta_changes={},
            progress=lambda part, text: None,
            symbols=places,
        )
        names[places.recorded_here] = [frame.name for frame in samples_of(store.results.open(result.id))[0].stack]
    assert names == {False: ["[unknown]"], True: ["main"]}


def test_perf_reads_what_only_perf_can_read(settings: Settings, tmp_path: Path) -> None:
    require("perf")
    profile = reading.read_profile(settings, [DATA / "waits.perf.data.zst"])
    assert profile.meta.facts[PERF_SCRIPT_FACT] == "it contains events of the scheduler or of locks"


def omit_addresses(samples: list[Sample]) -> list[Sample]:
    """The same without addresses of code without a symbol, for which perf 6.12 prints the offset in the file."""
    return [one._replace(stack=tuple(frame._replace(address=None) for frame in one.stack)) for one in samples]


def test_perf_reads_everything_by_a_setting(settings: Settings, tmp_path: Path) -> None:
    require("perf")
    by_perf = Settings.load(settings.data, environ={"PERFLOOM_PERF_SCRIPT": "1"}, reserve_bytes=0)
    assert by_perf.perf_script and not settings.perf_script
    alone = reading.read_profile(settings, [make_recording(tmp_path)])
    (tmp_path / "text").mkdir()
    (tmp_path / "perf.data").rename(tmp_path / "text" / "perf.data")
    profile = reading.read_profile(by_perf, [tmp_path / "text" / "perf.data"])
    assert omit_addresses(samples_of(profile)) == omit_addresses(samples_of(alone))
    assert PERF_SCRIPT_FACT not in {**profile.meta.facts, **alone.meta.facts}


def test_a_header_with_records_of_a_few_bytes_is_an_error(settings: Settings, tmp_path: Path) -> None:
    # perf 6.1 would use the CPU until its limit.
    made = MadeRecording()
    made.sample(7, 1000, USER_MARK, 0x1010)
    content = made.build()
    file = tmp_path / "perf.data"
    file.write_bytes(content[:48] + (7).to_bytes(8, "little") + content[56:])
    with pytest.raises(UnreadableInput, match="its header says that its records have 7 bytes"):
        reading.read_profile(settings, [file])


def test_perf_ends_with_its_reader(tmp_path: Path) -> None:
    perf, started = tmp_path / "perf", tmp_path / "started"
    perf.write_text(f"#!/bin/sh\necho $$ > {started}.new && mv {started}.new {started}\nexec sleep 60\n")
    perf.chmod(0o755)
    (tmp_path / "data").write_bytes(b"")
    code = (
        "import sys; from pathlib import Path; from perfloom.workers.read import perf_tool\n"
        "with perf_tool.open_script(sys.argv[1], Path(sys.argv[2], 'data'), Path(sys.argv[2])): pass"
    )
    reader = subprocess.Popen([sys.executable, "-c", code, perf, tmp_path])
    try:
        while not started.exists():
            assert reader.poll() is None
            time.sleep(0.01)
        perf_process = os.pidfd_open(int(started.read_text()))
    finally:
        reader.kill()
        reader.wait()
    ended, _, _ = select.select([perf_process], [], [], 20)
    os.close(perf_process)
    assert ended
