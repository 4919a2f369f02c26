"""Time to read a pprof file, compared with `go tool pprof -raw` on the same file.

    python -m benchmarks.pprof_reading [--samples 60000] [--names 20000] [--depth 20] [--rounds 5]

A profile with so many samples and functions is generated. Measurements run in separate processes, alternating; results
are medians of all rounds: wall-clock time, processor time, peak resident memory. Perfloom's process starts Python,
reads the file into a Profile and sums its values, which must equal the sum of Go's tool.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import statistics
import sys
import tempfile
from pathlib import Path

from perfloom.ingest.protobuf_wire import encode_bytes, encode_message, encode_number, encode_packed

from .reading import Run, run

OURS = """
import gzip, sys
from perfloom.readers import pprof
with gzip.open(sys.argv[1]) as file:
    profile = pprof.read(file)
print(sum(profile.samples.column("weight").to_pylist()))
"""


def made(samples: int, names: int, depth: int) -> bytes:
    """The bytes of a profile."""
    order = random.Random(1)
    strings = ["", "cpu", "nanoseconds", "/bin/program", "/src/main.go"]
    first = len(strings)
    strings += [f"github.com/example/project/package{n % 97}.(*Type{n % 31}).Method{n}" for n in range(names)]
    parts = [encode_message(1, encode_number(1, 1), encode_number(2, 2))]
    for _ in range(samples):
        stack = [1 + int(names * order.random() ** 3) for _ in range(order.randint(2, 2 * depth))]
        parts.append(encode_message(2, encode_packed(1, stack), encode_packed(2, [10_000_000])))
    parts.append(
        encode_message(
            3, encode_number(1, 1), encode_number(2, 0x400000), encode_number(3, 0x4000000), encode_number(5, 3)
        )
    )
    for n in range(names):
        line = encode_message(4, encode_number(1, n + 1), encode_number(2, 10 + n % 900))
        parts.append(
            encode_message(4, encode_number(1, n + 1), encode_number(2, 1), encode_number(3, 0x400000 + 16 * n), line)
        )
    parts += [
        encode_message(
            5, encode_number(1, n + 1), encode_number(2, first + n), encode_number(3, first + n), encode_number(4, 4)
        )
        for n in range(names)
    ]
    parts += [encode_bytes(6, text.encode()) or encode_message(6) for text in strings]
    return b"".join(parts)


def main() -> int:
    """Measure and report; status 1 if the sums differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--names", type=int, default=20_000)
    parser.add_argument("--depth", type=int, default=20, help="the mean depth of call stacks")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    runs: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory(prefix="perfloom-benchmark-") as name:
        folder = Path(name)
        path, ours, theirs = folder / "cpu.pb.gz", folder / "ours", folder / "theirs"
        data = made(given.samples, given.names, given.depth)
        path.write_bytes(gzip.compress(data, 6))
        size = f"{len(data) / 1e6:.1f} MB, packed {path.stat().st_size / 1e6:.1f} MB"
        print(f"{given.samples:,} samples, {given.names:,} functions, {size}")
        # Compiled loops are cached here.
        run([sys.executable, "-c", OURS, path], ours)
        for _ in range(given.rounds):
            runs.setdefault("perfloom", []).append(run([sys.executable, "-c", OURS, path], ours))
            environment = {"PPROF_TMPDIR": name}
            runs.setdefault("go tool pprof -raw", []).append(
                run(["go", "tool", "pprof", "-raw", path], theirs, environment)
            )
        values = re.findall(r"^ +(\d+): [\d ]+$", theirs.read_text().partition("Locations\n")[0], re.MULTILINE)
        same = sum(map(int, values)) == int(ours.read_text())
    print(f"{'':20} {'wall s':>8} {'CPU s':>8} {'peak MB':>8}")
    wall = {}
    for name, these in runs.items():
        wall[name], cpu = (statistics.median(getattr(one, field) for one in these) for field in ("wall_s", "cpu_s"))
        print(f"{name:20} {wall[name]:8.2f} {cpu:8.2f} {max(one.peak for one in these) / 1e6:8.0f}")
    print(f"perfloom takes {wall['perfloom'] / wall['go tool pprof -raw']:.2f} times as long")
    print("the same sum" if same else "THE SUMS DIFFER")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
