"""The files that are read. Each is made once in a run and removed at its end."""

import functools
import gzip
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from ..make_trace import FIXTURE, make
from ..pprof_reading import made
from ..reading import run
from .programs import PERF

HERTZ = 25_000
FIELDS = "comm,pid,tid,time,period,event,ip,sym,symoff,dso"
_PROCESSES = """
run() {
    while [ $(($(date +%s) - start)) -lt "$1" ]; do
        "$0" -c 'import json'
        ls -l /etc /usr/bin | sort | gzip >/dev/null
    done
}
start=$(date +%s)
run "$1" &
run "$1"
wait
"""
FIRST_S = 2.0
"""Length of the recording that shows how large others become."""


@dataclass(frozen=True)
class Inputs:
    """Makes files in `folder`. megabytes: the size of recordings; trace_megabytes: of PyTorch traces."""

    folder: Path
    megabytes: int
    trace_megabytes: int

    @functools.cache  # noqa: B019
    def recording(self, megabytes: int | None = None) -> Path:
        """A recording of the bundled workload with frame pointers, at least 95 % of `megabytes` large. Raises
        MissingPeer, SystemExit."""
        size = (megabytes or self.megabytes) * 10**6
        workload = [sys.executable, "-m", "perfloom.workload", "--seconds"]
        return self._record(self.folder / f"{size // 10**6}MB.perf.data", size, workload)

    @functools.cache  # noqa: B019
    def processes(self) -> Path:
        """A recording of many short processes, such as those of a build, a quarter as large: hotspot's parser takes a
        minute for it. Raises MissingPeer, SystemExit."""
        size = self.megabytes * 10**6 // 4
        return self._record(self.folder / "processes.perf.data", size, ["sh", "-c", _PROCESSES, sys.executable])

    def _record(self, path: Path, size: int, workload: list[str]) -> Path:
        """Record a program, which gets the seconds that it shall run as its last argument."""
        seconds = FIRST_S
        perf = PERF.require()
        buffer = ["-m", "64M"] if os.geteuid() == 0 else []
        for _ in range(8):
            options = ["-q", "-N", "-g", "-e", "cpu-clock", "-F", str(HERTZ), *buffer, "-o", path]
            run([perf, "record", *options, "--", *workload, f"{seconds:.0f}"])
            if path.stat().st_size >= 0.95 * size:
                break
            seconds *= max(1.2, 1.05 * size / max(1, path.stat().st_size))
        return path

    @functools.cache  # noqa: B019
    def text(self) -> Path:
        """What perf script prints of the recording."""
        path = self.folder / "perf.script"
        run([PERF.require(), "script", "-i", self.recording(), "--ns", "--no-inline", "--header", "-F", FIELDS], path)
        return path

    @functools.cache  # noqa: B019
    def trace(self) -> Path:
        """A PyTorch trace."""
        path = self.folder / "trace.pt.trace.json"
        make(FIXTURE, self.trace_megabytes * 10**6, path)
        return path

    @functools.cache  # noqa: B019
    def pprof(self) -> Path:
        """A pprof profile of 60,000 samples."""
        path = self.folder / "cpu.pb.gz"
        path.write_bytes(gzip.compress(made(60_000, 20_000, 20), 6))
        return path

    def remove(self) -> None:
        """Remove all files."""
        shutil.rmtree(self.folder, ignore_errors=True)
