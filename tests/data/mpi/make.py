"""Makes the recordings in this folder. Needs perf, gcc, zstd, Open MPI and MPICH.

python -m tests.data.mpi.make
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from perfloom.domain.jobs import MpiFlavor
from tests.support.mpi.slow_rank import EVEN, SLOW, build, record_ranks

HERE = Path(__file__).parent
FIELDS = "comm,pid,tid,time,period,event,ip,sym,symoff,dso"
TOTAL_MS = 6000


def main() -> None:
    """Record, print, compress."""
    for flavour in (MpiFlavor.OPENMPI, MpiFlavor.MPICH):
        for name, slow in (("slow", SLOW), ("even", EVEN)):
            with tempfile.TemporaryDirectory(prefix="perfloom-fixture-") as folder:
                program = build(flavour, Path(folder))
                for rank, data in enumerate(record_ranks(program, flavour, Path(folder), slow=slow, total_ms=TOTAL_MS)):
                    text = data.with_suffix(".txt")
                    argv = ["perf", "script", "-i", str(data), "--ns", "--header", "--no-inline", "-F", FIELDS]
                    with open(text, "wb") as out:
                        subprocess.run(argv, check=True, stdout=out, stderr=subprocess.DEVNULL)
                    packed = HERE / f"{name}.{flavour}.{rank}.script.txt.zst"
                    subprocess.run(["zstd", "-q", "-19", "-f", str(text), "-o", str(packed)], check=True)
                    print(packed.name, packed.stat().st_size, file=sys.stderr)


if __name__ == "__main__":
    main()
