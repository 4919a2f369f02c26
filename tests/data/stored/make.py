"""Makes the traces whose stored form lies here: `python make.py FOLDER`, then `perfloom convert` of an old version.

python make.py /tmp/traces
perfloom convert --to profile -o schema-4.perfloom /tmp/traces/rank0.json /tmp/traces/rank1.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

EPOCH_NS = 1_790_000_000_000_000_000
SKEW_US = 200_000


def trace(rank: int) -> dict[str, Any]:
    """Two steps of a rank: a graph of three kernels, an all-reduce that both end at once. Rank 1's clock is ahead."""
    pid, behind = 100 + rank, SKEW_US * rank
    events: list[dict[str, Any]] = []

    def add(name: str, cat: str, at: float, duration: float, tid: int, **args: Any) -> None:
        place = {"pid": rank if cat == "kernel" else pid, "tid": tid}
        events.append({"ph": "X", "name": name, "cat": cat, "ts": at + behind, "dur": duration, **place, "args": args})

    for step in range(2):
        at, number = 1000 * step, 10 * step
        add(f"ProfilerStep#{step}", "user_annotation", at, 990, 1)
        add("cudaGraphLaunch", "cuda_runtime", at + 10, 20, 1, correlation=number + 1)
        for node in range(3):
            ids = {"graph id": 7, "graph node id": 101 + node, "device": rank, "stream": 7}
            add(f"k{node}", "kernel", at + 40 + 20 * node, 15, 7, correlation=number + 1, **ids)
        known = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Float"}
        known |= {"Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
        add("record_param_comms", "cpu_op", at + 200, 50, 1, **known)
        add("cudaLaunchKernelExC", "cuda_runtime", at + 210, 10, 1, correlation=number + 2)
        begin = at + 300 + 100 * rank
        last = at + 600 - begin
        add("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel", begin, last, 20, correlation=number + 2, stream=20)
    return {
        "schemaVersion": 1,
        "baseTimeNanoseconds": EPOCH_NS,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "deviceProperties": [{"id": rank, "name": "NVIDIA A100", "computeMajor": 8, "computeMinor": 0, "numSms": 108}],
        "traceEvents": events,
    }


if __name__ == "__main__":
    for rank in (0, 1):
        Path(sys.argv[1], f"rank{rank}.json").write_text(json.dumps(trace(rank)), encoding="utf-8")
