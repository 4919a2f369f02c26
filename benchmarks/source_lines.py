"""Time to read the lines of a recording, compared with reading the recording; and to show a large function.

    python -m benchmarks.source_lines [--functions 200] [--lines 100] [--samples 200000]
    python -m benchmarks.source_lines --recording perf.data

A C program with many functions is compiled with -O1 -g. A text of perf script has samples at its instructions, spread
over as many distinct addresses as there are, up to 20,000. Times are processor time of one process, which does not
depend on other programs: of reading the text, then of reading symbols, instructions and lines from the binary. A job
also runs perf script, which takes longer than reading its text. The second part shows a function of 5,000 instructions:
the sums and the rows of its page.

With a recording of this machine, perf.data is read, then its lines: once without knowing its binaries, and once when
they are known.
"""

from __future__ import annotations

import argparse
import io
import mmap
import random
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow.compute as pc

from perfloom.analysis.source.code_index import index_code
from perfloom.analysis.source.figures import compute_function_code
from perfloom.domain.profile import Profile
from perfloom.domain.schemas.code import Code
from perfloom.domain.selection import Selection
from perfloom.ingest.machine_code.code_builder import CodeBuilder, ObjectFile, SourceText, deadline_after
from perfloom.ingest.machine_code.disassembly import Disassembler
from perfloom.ingest.machine_code.elf import open_binary
from perfloom.readers import perf_script
from perfloom.readers.perf_build_ids import read_build_ids
from perfloom.web.views.source.cells import build_columns
from perfloom.web.views.source.rows import build_instruction_rows
from perfloom.workers.read.binaries import Binaries
from perfloom.workers.read.record_reading import read_records
from perfloom.workers.read.request import SymbolPlaces

T = TypeVar("T")
ADDRESSES = 20_000
LARGE = 5_000


def write_program(functions: int, lines: int) -> str:
    """C code of functions with so many lines each; f0 has more than LARGE instructions."""
    parts = ["#include <stdio.h>", "volatile int v;"]
    for number in range(functions):
        body = [f"\tv = v * {line + 3} + {number};" for line in range(lines if number else LARGE // 3)]
        parts += [f"void f{number}(void)", "{", *body, "}"]
    return "\n".join([*parts, "int main(void) {", *(f"\tf{n}();" for n in range(functions)), "}"])


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What `work` returns, and its processor time in seconds."""
    start = time.process_time()
    return work(), time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--functions", type=int, default=200)
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--recording", type=Path)
    asked = parser.parse_args()
    if asked.recording:
        measure_recording(asked.recording)
        return
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "many.c"), Path(folder, "many")
        source.write_text(write_program(asked.functions, asked.lines))
        subprocess.run(["gcc", "-O1", "-g", str(source), "-o", str(binary)], check=True)
        text, addresses = write_text(binary, asked.samples)
        perf_script.read(io.BytesIO(text[: text.index(b"\n\n", len(text) // 50) + 2]))
        profile, reading_s = timed(lambda: perf_script.read(io.BytesIO(text)))
        builder = CodeBuilder(
            lambda module: ObjectFile(io.BytesIO(binary.read_bytes())),
            lambda path, module: SourceText(Path(path).read_text() if Path(path).is_file() else None),
            deadline_after(600),
        )
        code, lines_s = timed(lambda: builder.build(profile))
        print(f"{asked.samples:,} samples at {addresses:,} addresses, {len(text) / 1e6:.0f} MB of text")
        print(f"reading: {reading_s:.2f} s; lines of {code.instructions.num_rows:,} instructions: {lines_s:.2f} s")
        print(f"lines add {100 * lines_s / reading_s:.0f} % to reading")
        index, index_s = timed(lambda: index_code(profile, code))
        found, sums_s = timed(lambda: compute_function_code(profile, code, Selection(), "f0", 0))
        columns, cells_s = timed(lambda: build_columns(found.instructions, frozenset({"self_0", "total_0"})))
        rows, rows_s = timed(lambda: build_instruction_rows(code, index, found, columns))
        print(
            f"a function of {len(rows):,} instructions: index {1e3 * index_s:.0f} ms (once), sums {1e3 * sums_s:.0f} ms"
        )
        print(f"cells {1e3 * cells_s:.0f} ms, rows {1e3 * rows_s:.0f} ms")


def measure_recording(path: Path) -> None:
    """Print the times of a perf.data file."""
    cache = str(Path("~/.debug").expanduser())
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        build_ids = read_build_ids(data)
    with tempfile.TemporaryDirectory() as folder:

        def read() -> Profile:
            return read_records(path, None, Path(folder, "symbols"), cache, 1 << 36, SymbolPlaces())

        def read_lines(lines: str) -> Code:
            files = Binaries(build_ids, True, None, False, cache, lines=Path(folder, lines))
            return CodeBuilder(files.open_object, files.read_source, deadline_after(600)).build(profile)

        read()
        profile, reading_s = timed(read)
        read_lines("warm")
        code, first_s = timed(lambda: read_lines("cold"))
        _, again_s = timed(lambda: read_lines("warm"))
        addresses = pc.count_distinct(profile.frames.column("address")).as_py()
        print(f"{profile.samples.num_rows:,} samples at {addresses:,} addresses; reading: {reading_s:.2f} s")
        print(f"lines of {code.instructions.num_rows:,} instructions: {first_s:.2f} s, when known {again_s:.2f} s")


def write_text(binary: Path, samples: int) -> tuple[bytes, int]:
    """(text of perf script with call stacks of two frames, number of distinct addresses)."""
    chance = random.Random(1)
    places: list[tuple[int, str, int]] = []
    with open(binary, "rb") as file:
        opened = open_binary(file)
        engine = Disassembler(opened.machine, opened.image.order == "<")
        for row, start in enumerate(opened.symbols.start.tolist()):
            name = opened.symbols.name_of(row)
            code = opened.read(start, int(opened.symbols.end[row]) - start)
            if name[:1] == "f" and name[1:].isdigit():
                places += [(at, name, at - start) for at in engine.disassemble([(code, start)]).address.tolist()]
    places = chance.sample(places, min(ADDRESSES, len(places)))
    lines = []
    for number in range(samples):
        address, name, offset = places[number] if number < len(places) else chance.choice(places)
        lines.append(f"many 7/7 [000] {1 + number / 1e4:.6f}: 100000 cpu-clock: \n")
        lines.append(f"\t{address:x} {name}+0x{offset:x} ({binary})\n\n")
    return "".join(lines).encode(), len(places)


if __name__ == "__main__":
    main()
