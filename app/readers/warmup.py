"""Compiles all loops for reading, by reading small synthetic recordings that contain something of everything."""

import io
import json
import pickle
from contextlib import suppress
from typing import Any

import numpy as np

from ..ingest import protobuf_wire
from ..ingest.jit import cache as compiled_cache
from ..ingest.jit.decorators import IS_CACHED, write_new_functions

LLAMA_TRACE = b"""start_time: 1
thr: 1, name: matmul_ffn_up-12_7, time: 2.5
thr: 1, name: end_matmul_ffn_up-12_7, time: 4
thr: 1, counter: tokens, value: 1, time: 5
end_time: 6
"""
CALLGRIND = b"events: Ir\nfl=a.c\nfn=(1) f\n1 2\ncfn=(2) g\ncalls=1 2\n+1 3\n"
PACKET = protobuf_wire.encode_message(
    1,
    protobuf_wire.encode_number(8, 5),
    protobuf_wire.encode_number(10, 1),
    protobuf_wire.encode_message(
        11,
        protobuf_wire.encode_number(9, 3),
        protobuf_wire.encode_bytes(23, b"instant"),
        protobuf_wire.encode_message(4, protobuf_wire.encode_bytes(10, b"count")),
    ),
)

PPROF = b"".join(
    (
        protobuf_wire.encode_message(1, protobuf_wire.encode_number(1, 1), protobuf_wire.encode_number(2, 2)),
        protobuf_wire.encode_message(
            2,
            protobuf_wire.encode_packed(1, [1]),
            protobuf_wire.encode_packed(2, [5]),
            protobuf_wire.encode_message(3, protobuf_wire.encode_number(1, 3), protobuf_wire.encode_number(3, 7)),
        ),
        protobuf_wire.encode_message(
            4,
            protobuf_wire.encode_number(1, 1),
            protobuf_wire.encode_number(3, 4096),
            protobuf_wire.encode_message(4, protobuf_wire.encode_number(1, 1), protobuf_wire.encode_number(2, 9)),
        ),
        protobuf_wire.encode_message(5, protobuf_wire.encode_number(1, 1), protobuf_wire.encode_number(2, 4)),
        *(protobuf_wire.encode_message(6, text) for text in (b"", b"cpu", b"nanoseconds", b"pid", b"main")),
    )
)


def compile_all() -> None:
    """Compile all loops into their file, unless it exists. It takes 40 s.

    Does nothing if nothing can be cached.
    """
    if not IS_CACHED or compiled_cache.is_ready():
        return
    # A later process finds it locked; an earlier one continues.
    compiled_cache.acquire_lock()
    call_all()
    with suppress(OSError):
        write_new_functions()


def call_all() -> None:
    """Call all compiled functions with each of the types that files need; those that are not cached are compiled."""
    # Compiled code is imported only when a file is read.
    from ..ingest.jit.hashing import factorize
    from ..ingest.jit.tree_loops import to_preorder
    from ..ingest.trace_json.string_table import grow, make_table
    from . import callgrind, llama_trace, memory_snapshot, perfetto_trace, pprof, pytorch

    # A snapshot of few values is read in plain Python, which calls some compiled functions.
    formats: tuple[tuple[Any, tuple[bytes, ...]], ...] = (
        (pytorch, (make_trace(),)),
        (memory_snapshot, (make_snapshot(2), make_snapshot(3000))),
        (llama_trace, (LLAMA_TRACE,)),
        (callgrind, (CALLGRIND,)),
        (perfetto_trace, (PACKET,)),
        (pprof, (PPROF,)),
    )
    for reader, samples in formats:
        for sample in samples:
            reader.read(io.BytesIO(sample), "sample")
    grow(make_table(1, 1), 0, 0, 8, 8)
    factorize(np.zeros(1, np.int64))
    read_record()
    to_preorder(np.array([-1, 0]))


def read_record() -> None:
    """Call the loops over records of perf.data. A file for which the reader calls them would have 10 MB."""
    from ..ingest.perf_records.chain_keys import make_weights
    from ..ingest.perf_records.code_locations import MARKS
    from ..ingest.perf_records.record_loops import flatten_chains, read_fields, walk_records

    words = np.array([9 | 3 << 51, 0, 0], np.uint64)
    words.flags.writeable = False
    place, size = np.empty(1, np.int64), np.empty(1, np.int16)
    flags, mode = np.empty(1, np.uint16), np.zeros(1, np.uint8)
    walk_records(words, 0, len(words), place, np.empty(1, np.uint32), flags, size)
    rows, fields = np.zeros(1, np.int64), (1, -1, -1, -1, 1, 2, 7, 3)
    # The column of places is larger in files of 32 GB and more.
    for large in (np.uint32, np.int64):
        kinds = (*(np.int32, np.int32, np.uint64, np.int32), *(np.uint64, np.uint64, large, np.int16))
        columns = (np.zeros(1, kind) for kind in kinds)
        read_fields(words, rows, place, size, flags, fields, make_weights(), mode, *columns)
    chain = np.zeros(1, np.int64), np.ones(1, np.int16), mode, np.zeros(1, np.int32)
    locations = np.empty(1, np.uint64), np.empty(1, np.int32), np.empty(1, bool), np.empty(1, np.int64)
    flatten_chains(words, *chain, MARKS, (1, 1, 2, -1, -2), *locations)


def make_trace() -> bytes:
    """The text of a small trace."""
    host = {"pid": 1, "tid": 1}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 100, **host},
        {
            "ph": "X",
            "cat": "python_function",
            "name": "a.py(1): f",
            "ts": 1,
            "dur": 90,
            **host,
            "args": {"Python id": 1},
        },
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 2, "dur": 80, **host, "args": {"External id": 1}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::copy_", "ts": 3, "dur": 40, **host, "args": {"Input Dims": [[1]]}},
        {"ph": "B", "cat": "x", "name": "begun", "ts": 50, **host},
        {"ph": "E", "cat": "x", "name": "begun", "ts": 60, **host},
        {"ph": "b", "cat": "x", "name": "async", "id": "0x1", "ts": 5, **host},
        {"ph": "e", "cat": "x", "name": "async", "id": "0x1", "ts": 70, **host},
        {"ph": "C", "name": "queue", "ts": 6, **host, "args": {"length": 2}},
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "ts": 3, **host},
        {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "ts": 45, "bp": "e", **host},
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "AddBackward0",
            "ts": 45,
            "dur": 3,
            **host,
            "args": {"Sequence number": 1},
        },
        # A time that is left to the decoder.
        {
            "ph": "X",
            "cat": "Trace",
            "name": "PyTorch Profiler (0)",
            "ts": 1e-30,
            "dur": 200,
            "pid": "Spans",
            "tid": "x",
        },
    ]
    for number, (cat, name) in enumerate((("kernel", "gemm"), ("kernel", "ncclKernel"), ("gpu_memcpy", "Memcpy HtoD"))):
        launched = {"correlation": number + 1, "External id": 1}
        device = {"device": 0, "stream": 7, "grid": [1, 1, 1], "block": [32, 1, 1], **launched, "bytes": 8}
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 4 + 5 * number, "dur": 2}
        events += [
            {**call, **host, "args": launched},
            {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": 10 + 6 * number, "dur": 9, "args": device},
            {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": number + 1, "ts": 4 + 5 * number, **host},
            {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": number + 1, "ts": 10 + 6 * number, "pid": 0, "tid": 7},
        ]
        for size in (512, -512):
            memory = {"Addr": 4096, "Bytes": size, "Total Allocated": 512, "Device Type": 1, "Device Id": 0}
            at = {"ts": 20 + 10 * number + (size < 0)}
            events.append(
                {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t", **at, **host, "args": memory}
            )
    return json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events}).encode()


def make_snapshot(count: int) -> bytes:
    """A memory snapshot with this many entries, as written. It is read by a decoder of plain values."""
    frames = [{"name": "f", "filename": "a.py", "line": 1}]
    block = {"size": 512, "requested_size": 512, "address": 4096, "state": "active_allocated", "frames": frames}
    segment = {"device": 0, "address": 4096, "total_size": 1024, "stream": 0, "segment_type": "small"}
    entry = {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 1, "frames": frames}
    segments = [segment | {"allocated_size": 512, "active_size": 512, "blocks": [block], "frames": frames}]
    entries = [entry | {"time_us": time, "action": ("alloc", "free_completed")[time % 2]} for time in range(count)]
    return pickle.dumps({"segments": segments, "device_traces": [entries]})


if __name__ == "__main__":
    compile_all()
