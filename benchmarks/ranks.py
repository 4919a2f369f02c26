"""Time and memory for merging the ranks of a parallel program, for increasing numbers of ranks.

    python -m benchmarks.ranks [--ranks 128 1024] [--samples 2000] [--folder DIR]

The ranks' files are synthetic (see rank_files): one program, every process with different addresses, hosts of 64 ranks.
The reader process of workers reads each number of ranks into stored columns. For comparison, one process reads each
rank's file separately, without merging. Memory is the peak of resident memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rank_files import EPOCH_NS, SECOND, samples, write_plan, write_rank
from benchmarks.reading import reader, run
from perfloom.ingest.compression import open_decompressed
from perfloom.readers import perf_data
from perfloom.store.files import columns
from perfloom.workers.read import prefork

RANKS_A_HOST = 64


@dataclass(frozen=True)
class Taken:
    """The cost of reading. peak: resident bytes, at most. stored: bytes of columns."""

    ranks: int
    samples: int
    wall_s: float
    cpu_s: float
    peak: int
    stored: int
    stacks: int


def make(root: Path, ranks: int, count: int) -> Path:
    """A planned job with so many ranks; some take twice the samples of others."""
    write_plan(root, ranks=ranks)
    for rank in range(ranks):
        host = f"node{rank // RANKS_A_HOST}"
        clock_s = 1000.0 * (1 + rank // RANKS_A_HOST) + 0.001 * (rank % RANKS_A_HOST)
        text = samples(count * (1 + (rank % 7 == 1)), rank=rank, host=host, clock_s=clock_s, stacks=500)
        start = EPOCH_NS + 1_000_000 * (rank % RANKS_A_HOST)
        write_rank(
            root, rank, state={"host": host, "size": ranks, "start": start, "end": start + 99 * SECOND}, text=text
        )
    return root


def read(root: Path, folder: Path) -> Taken:
    """Read a planned job as workers do. Raises SystemExit if that fails."""
    argv, out = reader(root, folder)
    taken = run(argv, environment=prefork.reader_environment())
    profile = columns.read(out)
    stored = sum(path.stat().st_size for path in out.iterdir())
    return Taken(
        ranks=len(set(profile.threads.column("rank").to_pylist())),
        samples=profile.samples.num_rows,
        wall_s=taken.wall_s,
        cpu_s=taken.cpu_s,
        peak=taken.peak,
        stored=stored,
        stacks=profile.stacks.num_rows,
    )


def singly(root: Path) -> float:
    """The seconds to read each rank's text separately."""
    start = time.perf_counter()
    for path in sorted(root.glob("run*/*/perf.script.zst")):
        with open_decompressed(path, 1 << 40) as stream:
            perf_data.read(stream, path.name)  # type: ignore[arg-type]
    return time.perf_counter() - start


def main() -> int:
    """Measure and report; status 1 if memory grows with the number of ranks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--samples", type=int, default=2000, help="of most ranks; some have twice as many")
    parser.add_argument("--folder", type=Path, help="where to put the files; they are removed")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON too")
    given = parser.parse_args()
    found = []
    print("  ranks     samples   wall s    CPU s  singly s  peak MB  stored MB   stacks")
    for ranks in given.ranks:
        with tempfile.TemporaryDirectory(prefix="perfloom-ranks-", dir=given.folder) as name:
            folder = Path(name)
            root = make(folder / "job", ranks, given.samples)
            taken, alone = read(root, folder), singly(root)
            found.append(vars(taken) | {"singly_s": alone})
            print(
                f"{taken.ranks:6} {taken.samples:11,} {taken.wall_s:8.2f} {taken.cpu_s:8.2f} {alone:9.2f} "
                f"{taken.peak / 1e6:8.0f} {taken.stored / 1e6:10.0f} {taken.stacks:8,}",
                flush=True,
            )
    if given.json:
        print(json.dumps(found, indent=1))
    grown = found[-1]["peak"] / found[0]["peak"]
    more = found[-1]["samples"] / found[0]["samples"]
    print(f"\n{more:.1f} times the samples took {grown:.2f} times the memory")
    return int(len(found) > 1 and grown > 1 + (more - 1) / 4)


if __name__ == "__main__":
    sys.exit(main())
