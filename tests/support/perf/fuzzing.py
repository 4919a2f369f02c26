"""Reads damaged recordings, binaries and lists of symbols, and checks what readers of hostile files owe.

A reader returns, or raises an error that says why. It ends in time, and needs at most twice the file and a constant.

    python -m tests.support.perf.fuzzing --seconds 3600 [--seed 1] [perf.data ...]
"""

from __future__ import annotations

import argparse
import io
import random
import re
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import zstandard

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import PerfloomError
from perfloom.domain.profile import Profile
from perfloom.domain.schemas.code import CodeStatus
from perfloom.ingest.machine_code.code_builder import CodeBuilder, ObjectFile, SourceText, deadline_after
from perfloom.ingest.machine_code.elf import open_binary
from perfloom.ingest.perf_records.code_objects import CodeObject, ObjectKind
from perfloom.ingest.perf_records.symbol_store import FORMAT, VERSION, StoredSymbols
from perfloom.ingest.perf_records.unsupported import UnsupportedRecords
from perfloom.ingest.symbols.jit_code import open_jit_code
from perfloom.ingest.symbols.jit_dump import parse_jit_dump
from perfloom.ingest.symbols.kallsyms import parse_kallsyms
from perfloom.ingest.symbols.perf_map import parse_perf_map
from perfloom.ingest.symbols.perf_names import PerfNames
from perfloom.readers import perf_records
from perfloom.workers.read.record_reading import read_records
from perfloom.workers.read.request import SymbolPlaces
from perfloom.workers.read.symbol_files import SymbolFiles

from ..machine_code.jit_dumps import make_dump
from .recordings import HYPERVISOR_MARK, KERNEL_MARK, TEXT, USER_MARK, MadeRecording, record

MAX_SECONDS = 20
"""Of CPU time, of one file of at most MAX_FILE_BYTES."""
MAX_FILE_BYTES = 1 << 20
CONSTANT_BYTES = 192 << 20
"""Memory in addition to twice the file. Decompression of a symbol table that claims to be large is a part of it."""
MAX_UNPACKED_BYTES = 1 << 24
MAX_FUNCTIONS = 50
"""Of a binary, whose code is read."""
PATH, BUILD_ID = "/usr/bin/damaged", "0123456789abcdef0123456789abcdef01234567"
_SIZES = (1, 2, 4, 8)


@dataclass(frozen=True)
class Target:
    """A reader and whole files for it. damage: see the functions with that name."""

    name: str
    read: Callable[[bytes], object]
    files: Sequence[bytes]
    damage: Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True)
class Finding:
    """A file that a reader did not treat as it should. problem: what happened."""

    target: str
    problem: str
    data: bytes

    def describe(self) -> str:
        """What to look at, with the file to try again."""
        with tempfile.NamedTemporaryFile(prefix=f"{self.target}-", delete=False) as file:
            file.write(self.data)
        return f"{self.target}: {self.problem}, see {file.name}"


class Fuzzing:
    """Gives damaged files to readers. outcomes: how often the readers answered what."""

    def __init__(self, targets: Sequence[Target], seed: int) -> None:
        self.targets = targets
        self.outcomes: Counter[str] = Counter()
        self.findings: list[Finding] = []
        self._random = random.Random(seed)

    def load(self) -> None:
        """Read the whole files: what is loaded for the first of them is no memory of a damaged one."""
        for target in self.targets:
            for data in target.files:
                with suppress(UnsupportedRecords):
                    target.read(data)

    def run(self, target: Target) -> None:
        """Give one damaged file to a reader."""
        data = target.damage(self._random, self._random.choice(target.files))
        before, start = _reset_peak(), time.process_time()
        try:
            target.read(data)
            outcome = "read"
        except UnsupportedRecords as error:
            outcome = error.reason
        except PerfloomError as error:
            outcome = error.message
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
            self.findings.append(Finding(target.name, outcome, data))
        kind = re.sub(r"\d[\d,]*", "N", outcome[:60])
        self.outcomes[f"{target.name}: {kind}"] += 1
        seconds = time.process_time() - start
        if seconds > MAX_SECONDS:
            self.findings.append(Finding(target.name, f"took {seconds:.1f} s", data))
        grown = _read_peak() - before
        if grown > 2 * len(data) + CONSTANT_BYTES:
            self.findings.append(Finding(target.name, f"needed {grown >> 20} MiB for {len(data):,} bytes", data))


def damage_bytes(source: random.Random, whole: bytes) -> bytes:
    """Change, cut, repeat or remove bytes anywhere."""
    data = bytearray(whole)
    if source.random() < 0.15:
        del data[source.randrange(len(data)) :]
    for _ in range(source.choice((1, 1, 2, 8, 64))):
        if not data:
            break
        at = source.randrange(min(len(data), source.choice((64, 512, 4096, len(data)))))
        match source.randrange(8):
            case 0:
                del data[at : at + source.choice((1, 8, 16, 100))]
            case 1:
                data[at:at] = data[at : at + source.choice((1, 8, 64, 1000))]
            case _:
                _set_number(source, data, at)
    return bytes(data[:MAX_FILE_BYTES])


def damage_binary(source: random.Random, whole: bytes) -> bytes:
    """Change the tables of an ELF file, or any bytes."""
    if source.random() < 0.3 or len(whole) < 64:
        return damage_bytes(source, whole)
    data = bytearray(whole)
    sections_at, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    for _ in range(source.choice((1, 2, 5, 20))):
        section = sections_at + 64 * source.randrange(max(1, count))
        inside, size = struct.unpack_from("<QQ", data, section + 24) if section + 64 <= len(data) else (0, 64)
        # A field of a section, or a word in one.
        at = source.choice((section + 4 * source.randrange(16), inside + 4 * source.randrange(max(1, size >> 2))))
        if at < len(data):
            _set_number(source, data, at)
    return bytes(data[:MAX_FILE_BYTES])


def damage_recording(source: random.Random, whole: bytes) -> bytes:
    """Change the header or records of a perf.data file, as wholes or fields of them."""
    if source.random() < 0.4 or len(whole) < 104:
        return damage_bytes(source, whole)
    piped = whole[8:16] == struct.pack("<Q", 16)
    start, length = (16, len(whole) - 16) if piped else struct.unpack_from("<QQ", whole, 40)
    places = _list_records(whole, start, start + length)
    head, tail = whole[:start], whole[start + length :]
    records = [bytearray(whole[at:end]) for at, end in places]
    for _ in range(source.choice((1, 2, 5, 50))):
        if not records:
            break
        number = source.randrange(len(records))
        one = records[number]
        match source.randrange(9):
            case 0:
                del records[number]
            case 1:
                records.insert(source.randrange(len(records)), bytearray(one))
            case 2:
                other = source.randrange(len(records))
                records[number], records[other] = records[other], one
            case 3:
                one[:4] = source.choice((*range(1, 23), *range(64, 86), source.getrandbits(32))).to_bytes(4, "little")
            case 4:
                flags = (0, 1, 2, 4, 5, 1 << 13, 1 << 14, source.getrandbits(16))
                one[4:6] = source.choice(flags).to_bytes(2, "little")
            case 5:
                sizes = (0, 7, 8, 16, len(one) + 8 & 0xFFF8, 0xFFF8, 0xFFFF)
                one[6:8] = source.choice(sizes).to_bytes(2, "little")
            case _:
                _set_number(source, one, source.randrange(8, max(9, len(one))) & ~source.choice((0, 7)))
    body = b"".join(records)
    data = bytearray(head + body + tail)
    if not piped and source.random() < 0.8:
        struct.pack_into("<Q", data, 48, len(body))
    return bytes(data[:MAX_FILE_BYTES])


def damage_packed_text(source: random.Random, whole: bytes) -> bytes:
    """Change the content of a file that is compressed with Zstandard, or its bytes."""
    if source.random() < 0.1:
        return damage_bytes(source, whole)
    text = zstandard.ZstdDecompressor().decompressobj().decompress(whole)
    if source.random() < 0.2:
        return zstandard.compress(damage_bytes(source, text), 1)
    lines = text.split(b"\n")
    values = (b"-1", b"1e400", b"null", b"[]", b"{}", b'"x"', b"18446744073709551616", b"1.5", b"true", b"99999")
    for _ in range(source.choice((1, 3))):
        at = source.randrange(len(lines))
        words = lines[at].split(b",")
        place = source.randrange(len(words))
        number = b"%d" % source.choice((0, 1, 2, 255, 1 << source.randrange(64)))
        words[place] = source.choice((source.choice(values), re.sub(rb"\d+", number, words[place])))
        lines[at] = b",".join(words)
    return zstandard.compress(b"\n".join(lines), 1)


def _set_number(source: random.Random, data: bytearray, at: int) -> None:
    """Write a number that is a limit, near one of these, near the old one, or random."""
    size = source.choice(_SIZES)
    most = (1 << 8 * size) - 1
    old = int.from_bytes(data[at : at + size], "little")
    power = 1 << source.randrange(8 * size)
    number = source.choice((0, most, power, power - 1, most - power, old + 1, old - 1, old ^ power, len(data), old * 8))
    if source.random() < 0.2:
        number = source.getrandbits(8 * size)
    data[at : at + size] = (number & most).to_bytes(size, "little")[: len(data) - at]


def _list_records(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    places = []
    at = start
    while at + 8 <= end:
        size = int.from_bytes(data[at + 6 : at + 8], "little")
        if size < 8 or at + size > end:
            break
        places.append((at, at + size))
        at += size
    return places


def _reset_peak() -> int:
    """Memory of this process, bytes; from now on its peak is counted."""
    Path("/proc/self/clear_refs").write_text("5")
    return _read_status("VmRSS")


def _read_peak() -> int:
    return _read_status("VmHWM")


def _read_status(name: str) -> int:
    text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(text.partition(f"{name}:")[2].split()[0]) << 10


def make_recordings() -> list[bytes]:
    """Recordings: plain, compressed, and as written into a pipe."""
    made = MadeRecording()
    made.map_kernel()
    made.map_kernel(0xFFFFFFFFC0000000, 1 << 16, b"[nf_tables]")
    for pid in (10, 11):
        made.name(pid, b"task %d" % pid)
        made.map(pid, 0x400000, 1 << 16, PATH.encode(), 2)
        made.map(pid, 0x7FFF0000, 1 << 12, b"[vdso]", 2)
        made.map(pid, 0x10000, 1 << 14, b"//anon", 3)
    made.fork(12, 10, 5)
    made.name(12, b"after exec", 6)
    made.lose(3, 7)
    for number in range(40):
        address = 0x401000 + 64 * (number % 7)
        made.sample(10 + number % 4, 10 + number, KERNEL_MARK, TEXT + 8 * number, USER_MARK, address, 0x10010, 5)
    made.sample(10, 60, HYPERVISOR_MARK, 1)
    plain = made.build()
    packed = MadeRecording()
    data = zstandard.compress(b"".join(made.records), 1)
    packed.records = [record(81, data[at : at + 4000]) for at in range(0, len(data), 4000)]
    attributes = plain[104 : 104 + 128]
    head = struct.pack("<8sQ", b"PERFILE2", 16) + record(64, attributes + struct.pack("<Q", 1))
    return [plain, packed.build(), head + b"".join(made.records)]


def make_symbols() -> bytes:
    """A store of symbols of the made recordings."""
    codes = (
        CodeObject(ObjectKind.FILE, PATH),
        CodeObject(ObjectKind.KERNEL, "[kernel.kallsyms]", text_start=TEXT),
        CodeObject(ObjectKind.PERF_MAP, "/tmp/perf-10.map", pid=10),
    )
    lines = [b'{"format": "%b", "version": %d, "changed_at": 1.0}' % (FORMAT.encode(), VERSION)]
    for code in codes:
        object = f'{{"kind": "{code.kind}", "path": "{code.path}", "build_id": null, "pid": {code.pid}, '
        object += f'"text_start": {code.text_start}}}'
        text = f'{{"object": {object}, "addresses": [4096, 64, 64, 64], "row": [0, 1, -1, 1], "names": ["a", "b"], '
        lines.append((text + '"starts": [4096, 4160]}').encode())
    return zstandard.compress(b"\n".join(lines) + b"\n", 1)


def _read_recording(folder: Path, data: bytes) -> None:
    path = folder / "perf.data"
    path.write_bytes(data)
    stored = folder / "perf.data.symbols.zst"
    # Half of the recordings are read as large ones are, with compiled loops.
    with patch.object(perf_records, "LARGE_BYTES", (0, MAX_FILE_BYTES + 1)[sum(data[-4:]) % 2]):
        profile = read_records(path, stored, folder / "out", None, MAX_UNPACKED_BYTES, SymbolPlaces())
    profile.samples.validate(full=True)


def _read_store(data: bytes) -> None:
    stored = StoredSymbols(io.BytesIO(data))
    for kind in ObjectKind:
        stored.find(CodeObject(kind, PATH), np.arange(0, 1 << 16, 8, dtype=np.uint64))


def _read_binary(folder: Path, data: bytes) -> None:
    path = folder / "binary"
    path.write_bytes(data)
    files = SymbolFiles(folder / "cache")
    addresses = np.append(np.arange(0, 1 << 15, 61, dtype=np.uint64), np.array([1 << 40, 2**64 - 1], np.uint64))
    for code in (CodeObject(ObjectKind.FILE, str(path)), CodeObject(ObjectKind.MODULE, str(path))):
        found = files.find(code, addresses)
        assert len(found.row) == len(addresses) and len(found.starts) == len(found.names)
        assert int(found.row.max()) < len(found.names)


def _read_map(data: bytes) -> None:
    table = parse_perf_map(data)
    table.find(np.arange(0, 1 << 20, 997, dtype=np.uint64), PerfNames.keep)
    for row in range(min(10, len(table))):
        table.name_of(row)


def _read_kallsyms(data: bytes) -> None:
    symbols = parse_kallsyms(data)
    names = PerfNames()
    row = symbols.table.find(np.arange(TEXT, TEXT + 65536, 997, dtype=np.uint64), PerfNames.keep)
    for one in row[row >= 0][:100].tolist():
        names.format(symbols.table.name_of(one))
    symbols.select_module(b"[snd]")


def _build_code(profile: Profile, file: ObjectFile) -> None:
    builder = CodeBuilder(
        lambda module: file, lambda path, module: SourceText("one line"), deadline_after(MAX_SECONDS / 2)
    )
    code = builder.build(profile)
    place = code.instructions.column("place").to_numpy()
    assert len(place) == 0 or int(place.max()) < code.places.num_rows


def _read_lines(profile: Profile, data: bytes) -> None:
    _build_code(profile, ObjectFile(io.BytesIO(data)))


def _read_jit_code(profile: Profile, data: bytes) -> None:
    generated = open_jit_code(data)
    status = CodeStatus.MISSING if generated is None else CodeStatus.COMPLETE
    _build_code(profile, ObjectFile(None, status, generated=generated))
    if generated is not None:
        generated.find_places(np.arange(0, 1 << 16, 61, dtype=np.uint64))


def _make_profile(functions: Mapping[str, int]) -> Profile:
    """A profile with one sample at the start of each function."""
    builder = ProfileBuilder("perf-data")
    event, thread = builder.intern_event("cpu-clock", "ns"), builder.intern_thread(pid=7, tid=7)
    for time_ns, (name, start) in enumerate(functions.items()):
        frame = builder.intern_frame(builder.intern_function(name, PATH), address=start, symbol_offset=0)
        builder.add_sample(time_ns, thread, event, builder.intern_stack([frame]), 1)
    return builder.finish()


def _list_functions(binary: bytes) -> dict[str, int]:
    """The first functions of an executable file, by name."""
    symbols = open_binary(io.BytesIO(binary)).symbols
    return {symbols.name_of(row): int(symbols.start[row]) for row in range(min(len(symbols.start), MAX_FUNCTIONS))}


def make_targets(folder: Path, binaries: Sequence[bytes], recordings: Sequence[bytes]) -> list[Target]:
    """The readers, with files for each. folder: for temporary files."""
    (folder / "perf.data.symbols.zst").write_bytes(make_symbols())
    lines = [
        b"%016x %c symbol_%d%b" % (TEXT + 64 * at, b"TtWd"[at % 4], at, b"\t[snd]" * (at > 90)) for at in range(99)
    ]
    kallsyms = b"%016x T _text\n" % TEXT + b"\n".join(lines) + b"\n"
    maps = b"".join(b"%x %x name %d\n" % (4096 + 48 * at, 100 * (at % 3), at) for at in range(99))
    small = [one for one in recordings if len(one) <= MAX_FILE_BYTES]
    functions = _make_profile({name: at for binary in binaries for name, at in _list_functions(binary).items()})
    dump = make_dump()
    generated = parse_jit_dump(dump)
    assert generated is not None
    pieces = _make_profile({f"code {at}": at for at in generated.place.tolist()})
    return [
        Target("records", lambda data: _read_recording(folder, data), [*make_recordings(), *small], damage_recording),
        Target("store", _read_store, [make_symbols()], damage_packed_text),
        Target("binary", lambda data: _read_binary(folder, data), list(binaries), damage_binary),
        Target("lines", lambda data: _read_lines(functions, data), list(binaries), damage_binary),
        Target("jitdump", lambda data: _read_jit_code(pieces, data), [dump], damage_bytes),
        Target("map", _read_map, [maps], damage_bytes),
        Target("kallsyms", _read_kallsyms, [kallsyms], damage_bytes),
    ]


def main() -> None:
    """Run for a time. Ends with status 1 and the files if something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--out", type=Path, default=Path("fuzzing"))
    parser.add_argument("files", type=Path, nargs="*", help="recordings and binaries")
    arguments = parser.parse_args()
    contents = [path.read_bytes() for path in arguments.files]
    binaries = [data for data in contents if data[:4] == b"\x7fELF"]
    binaries = binaries or [Path(sys.executable).read_bytes()[:MAX_FILE_BYTES]]
    recordings = [data for data in contents if data[:8] == b"PERFILE2"]
    with tempfile.TemporaryDirectory() as folder:
        fuzzing = Fuzzing(make_targets(Path(folder), binaries, recordings), arguments.seed)
        fuzzing.load()
        end = time.monotonic() + arguments.seconds
        known: set[str] = set()
        while time.monotonic() < end:
            for target in fuzzing.targets:
                fuzzing.run(target)
            for finding in fuzzing.findings:
                name = f"{finding.target}-{len(known)}"
                if finding.problem not in known:
                    known.add(finding.problem)
                    arguments.out.mkdir(exist_ok=True)
                    (arguments.out / name).write_bytes(finding.data)
                    print(f"{name}: {finding.problem}", flush=True)
            fuzzing.findings.clear()
    for outcome, count in fuzzing.outcomes.most_common():
        print(f"{count:9,} {outcome}")
    sys.exit(1 if known else 0)


if __name__ == "__main__":
    main()
