"""Large recordings of other hosts are read here, with symbol tables of the binaries there."""

import subprocess
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
import zstandard

from perfloom.domain.errors import TooLarge, UnreadableInput
from perfloom.domain.jobs import CallGraph, JobState
from perfloom.domain.profile import Profile
from perfloom.domain.targets import Target
from perfloom.ingest.machine_code.elf_image import ElfImage
from perfloom.queue import LAUNCH_TASK, POLL_TASK, TARGET_TASK
from perfloom.readers import perf_data
from perfloom.recording.plan import symbol_tables as plan
from perfloom.store import Store
from perfloom.store.files.symbol_cache import open_symbols
from perfloom.store.jobs import Job
from perfloom.workers import steps
from perfloom.workers.base.context import JobContext
from perfloom.workers.read import perf_tool
from perfloom.workers.remote.symbol_tables import TableFetch, make_file, open_target_symbols
from perfloom.workers.transports import FileCopy, close_all
from tests.support import sshd as servers
from tests.support.parts import require, require_reference_perf
from tests.support.samples import Sample, samples_of, without_additional_names
from tests.support.sshd import Sshd
from tests.workers.remote.driving import at, far, files_of, submit, to_the_end

PROGRAM = """
#include <stdlib.h>
#include <time.h>
__attribute__((noinline)) int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) void sort(int *numbers) {
    unsigned number = 1;
    for (int i = 0; i < 30 * 4000; i++) numbers[i % 4000] = (number = number * 1103515245 + 12345) >> 1;
    qsort(numbers, 4000, sizeof *numbers, compare);
}
int main(void) {
    static int numbers[4000];
    struct timespec now;
    while (clock() < CLOCKS_PER_SEC / 5) {
        sort(numbers);
        for (int i = 0; i < 2000; i++) clock_gettime(CLOCK_MONOTONIC, &now);
    }
    return 0;
}
"""
RECORDING = {"call_graph": CallGraph.FP, "events": ("cpu-clock",), "frequency": 4999}


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    with servers.sshd() as found:
        yield found


@pytest.fixture
def there(store: Store, server: Sshd) -> Iterator[Target]:
    """A host over SSH."""
    target = server.target("there", poll_s=0.3)
    store.targets.save(target)
    yield target
    close_all()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("program") / "sort"
    argv = [require("gcc"), "-O1", "-fno-omit-frame-pointer", "-x", "c", "-o", path, "-"]
    subprocess.run(argv, input=PROGRAM, text=True, check=True)
    return path.read_bytes()


@pytest.fixture
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings of every size are large."""
    monkeypatch.setattr(plan, "MIN_RECORDING_BYTES", 1)
    monkeypatch.setattr(plan, "MIN_BYTES_WITH_NEW_TABLES", 1)


def place(content: bytes, path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def collect(context: JobContext, job: Job) -> Job:
    """Take all steps of a job before it is read."""
    end = time.monotonic() + 30
    while (job := context.store.jobs.get(job.id)).state is not JobState.READING:
        assert time.monotonic() < end and not job.state.final, job
        steps.advance(context, job.id, (LAUNCH_TASK, TARGET_TASK, POLL_TASK))
        time.sleep(0.05)
    return job


def originals(context: JobContext, job: Job) -> dict[str, Path]:
    """The files of a result, by name."""
    return {one.path.name: one.path for one in context.store.results.original(job.id)}


def comparable_samples(profile: Profile) -> list[Sample]:
    """Times of ranks begin with the job."""
    return [sample._replace(time_ns=0) for sample in samples_of(profile)]


def unpack(path: Path) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())


def test_recording_is_read_with_the_tables_of_its_host(
    context: JobContext, there: Target, program: bytes, tmp_path: Path, every_size: None
) -> None:
    binary = place(program, tmp_path / "there" / "sort")
    symbols = open_target_symbols(context.settings.data, there)
    assert symbols is not None
    job = collect(context, submit(context.store, at(there, str(binary), **RECORDING)))
    # Nothing of it is on this machine any more.
    binary.unlink()
    job = to_the_end(context, job)
    assert job.state is JobState.STORED, job.reason
    assert sorted(originals(context, job)) == ["perf.data.symbols.zst", "perf.data.zst"]
    profile = context.store.results.open(job.id)
    assert {"main", "sort", "compare"} <= set(profile.functions.column("name").to_pylist())
    names = {row["name"] for row in profile.functions.to_pylist() if row["module"] == "[vdso]"}
    assert "__vdso_clock_gettime" in names and "[unknown]" not in names
    assert "resolved on this machine" not in " ".join(profile.meta.reasons)
    # As perf reads it where it was recorded.
    place(program, binary)
    data, scratch = tmp_path / "perf.data", tmp_path / "scratch"
    data.write_bytes(unpack(originals(context, job)["perf.data.zst"]))
    scratch.mkdir()
    with perf_tool.open_script(str(require_reference_perf()), data, scratch) as stream:
        wanted = comparable_samples(perf_data.read(stream))  # type: ignore[arg-type]
    assert without_additional_names(comparable_samples(profile), wanted) == wanted
    # They are not written again, and perf finds them, too.
    other = collect(context, submit(context.store, at(there, str(binary), leave_files=True, **RECORDING)))
    binary.unlink()
    assert list((far(other) / "tables").iterdir()) == []
    data = files_of(context, other).artifacts / "run0/all/perf.data"
    with perf_tool.open_script(str(require_reference_perf()), data, scratch, str(symbols.root)) as stream:
        text = stream.read(1 << 24)
    assert b" compare+0x" in text and b" sort+0x" in text


def test_hostile_tables_are_refused(program: bytes, tmp_path: Path) -> None:
    build_id = ElfImage.read(BytesIO(program)).build_id
    packed, made = tmp_path / "packed", tmp_path / "made"

    def make(content: bytes, name: str = f"{build_id}.elf", limit_bytes: int = 1 << 20) -> bytes:
        packed.write_bytes(content)
        made.unlink(missing_ok=True)
        assert make_file(name, packed, made, limit_bytes) == len(content)
        return made.read_bytes()

    head, size = b"file %d\n" % len(program), len(program)
    whole = head + b"0 %d\n" % size + program
    assert make(whole) == program
    assert make(head + b"0 100\n" + program[:100] + b"100 %d\n" % (size - 100) + program[100:]) == program
    assert make(b"0 A start\n", f"{build_id}.kallsyms") == b"0 A start\n"
    for wrong in (
        whole[:-1],
        program,
        head + whole,
        whole + b"0 1\n",
        whole + b"%d 1\nx" % size,
        whole + b"-1 1\nx",
        whole + b"0 \xb2\nx",
        b"file 99999999999999999\n",
        b"file 0\n",
        b"file 7\n0 7\nnothing",
        zstandard.compress(whole)[:-20],
    ):
        with pytest.raises(UnreadableInput):
            make(wrong)
    with pytest.raises(UnreadableInput, match="another build"):
        make(whole, f"{'ab' * 20}.elf")
    with pytest.raises(TooLarge):
        make(zstandard.compress(whole + b"0 %d\n" % size + bytes(size)), limit_bytes=size)


def test_tables_use_no_more_disk_space_than_there_is(program: bytes, tmp_path: Path) -> None:
    """What is left out counts, and is removed; and many small parts, each of which takes a block."""
    build_id = ElfImage.read(BytesIO(program)).build_id
    whole = b"file %d\n0 %d\n" % (len(program), len(program)) + program
    many = b"file %d\n" % (1 << 40) + b"".join(b"%d 1\nx" % (at << 20) for at in range(100_000))
    contents = {
        f"{'ab' * 20}.elf": zstandard.compress(whole + b"0 1\nx" * (1 << 19)),
        f"{'cd' * 20}.elf": zstandard.compress(many),
        f"{build_id}.elf": whole,
    }
    copies = {
        name: FileCopy(f"/far/{name}", place(data, tmp_path / "tables" / name)) for name, data in contents.items()
    }
    for room, is_kept in ((1 << 20, False), (1 << 30, True)):
        cache = open_symbols(tmp_path / str(room), "target-0")
        TableFetch(cache, copies).keep(room)
        assert cache.list_names() == [f"{build_id}.elf"] * is_kept
        assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == sorted(contents)
