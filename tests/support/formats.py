"""A small file of every format that can be read, and its profile."""

from __future__ import annotations

import functools
import gzip
import io
import json
from collections.abc import Callable

import zstandard

from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.exporters import EXPORTERS
from perfloom.readers import READERS
from tests.support import nsight_made, paths

DATA = paths.DATA
FTRACE = """# tracer: nop
#
          <idle>-0     [000] d..2. 100.000100: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=app next_pid=7 next_prio=120
             app-7     [000] d..2. 100.000110: tracing_mark_write: B|7|frame|1
             app-7     [000] d..2. 100.000120: tracing_mark_write: C|7|queue|3
             app-7     [000] d..2. 100.000130: tracing_mark_write: E|7
             app-7     [000] d..2. 100.000140: sched_switch: prev_comm=app prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
"""
PERF_SCHED = """# hostname : node7
         swapper     0/0 [000] 50.000100:       sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=app next_pid=7 next_prio=120
\tffffffff81000020 idle+0x1 ([kernel.kallsyms])

             app     5/7 [000] 50.000120:       sched:sched_switch: prev_comm=app prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=9 next_prio=120
\tffffffff81000010 schedule+0x10 ([kernel.kallsyms])
\t  401000 wait_for_it+0x5 (/bin/app)

"""
PERF_LOCK = """ contended   total wait     max wait     avg wait         type   caller

         4      2.83 ms      1.09 ms    707.05 us     spinlock   ext4_read_bh+0xa2
			0xffffffff82203efe  lock_slowpath+0x10e
"""
PERF_TRACE = """     0.100 ( 0.018 ms): sh/7 brk()                                                                 = 0x5602f9b5e000
     0.400 ( 0.020 ms): sh/7 openat(dfd: CWD, filename: "a (b) = c", flags: RDONLY)                = -1 ENOENT (No such file)
     2.500 (         ): sh/7 sched:sched_process_exit(comm: "cat", pid: 8)
"""
CHROME = [
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "main"}},
    {"ph": "X", "name": "outer", "cat": "app", "pid": 1, "tid": 2, "ts": 10, "dur": 9.5, "args": {"n": 1}},
    {"ph": "B", "name": "inner", "cat": "app", "pid": 1, "tid": 2, "ts": 11},
    {"ph": "E", "pid": 1, "tid": 2, "ts": 13.001},
    {"ph": "i", "name": "here", "pid": 1, "tid": 2, "ts": 12, "s": "t"},
    {"ph": "C", "name": "heap", "pid": 1, "ts": 12, "args": {"value": 5}},
]


def _data(name: str) -> bytes:
    raw = (DATA / name).read_bytes()
    if name.endswith(".zst"):
        return zstandard.ZstdDecompressor().stream_reader(raw).read()
    return gzip.decompress(raw) if name.endswith(".gz") else raw


def _exported(form: str) -> bytes:
    raw = b"".join(EXPORTERS[form].write(profile_of("perf-script"), Selection(), {}))
    return gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw


FILES: dict[str, Callable[[], bytes]] = {
    "profile": lambda: _exported("profile"),
    "perf-data": lambda: _data("perf/spin.perf.data.zst"),
    "ftrace": FTRACE.encode,
    "perf-sched": PERF_SCHED.encode,
    "perf-lock": PERF_LOCK.encode,
    "perf-script": lambda: _data("perf/events.script.txt"),
    "nsight-compute": nsight_made.report,
    "nsight-compute-csv": lambda: _data("nsight/details.csv"),
    "perf-trace": PERF_TRACE.encode,
    "perf-stat": lambda: _data("perf-stat/interval.csv"),
    "pytorch": lambda: _data("pytorch/whole.pt.trace.json.gz"),
    "pytorch-memory-snapshot": lambda: _data("pytorch-memory/training.pickle"),
    "pytorch-memory-timeline": lambda: _data("pytorch/timeline.memory.json"),
    "speedscope": lambda: _data("samplers/py-spy.speedscope"),
    "mllm": lambda: _data("mllm/perf.json"),
    "chrome-trace": lambda: json.dumps({"traceEvents": CHROME}).encode(),
    "cpuprofile": lambda: _data("v8/busy.cpuprofile"),
    "llama-trace": lambda: _data("llama/trace.txt"),
    "perfetto-trace": lambda: _data("perfetto/app.pftrace"),
    "pprof": lambda: _exported("pprof"),
    "callgrind": lambda: _data("callgrind/calls.out"),
    "austin": lambda: _data("samplers/austin.wall"),
    "py-spy": lambda: _data("samplers/py-spy.raw"),
    "memray": lambda: _data("samplers/memray.csv"),
    "perfanalyzer": lambda: _data("perfanalyzer/DD_proc0_branch-load-misses.gz"),
    "hpctoolkit": lambda: _data("hpctoolkit/v2/experiment.xml"),
    "collapsed": lambda: _data("perf/spin.collapsed-all.txt"),
}
"""The file of each format, by the name of its reader."""


@functools.cache
def profile_of(name: str) -> Profile:
    """The profile of the file of a format. For perf.data the text of perf script is read."""
    reader = READERS[name]
    data = _data("perf/spin.script.txt") if reader.needs_perf else FILES[name]()
    return reader.read(io.BytesIO(data), name)


def is_listed(reason: str, losses: tuple[str, ...]) -> bool:
    """Whether a loss is one of those that a reader exports, some of which are only a prefix of the reason."""
    return any(reason == one or (one.endswith(" ") and reason.startswith(one)) for one in losses)
