"""Makes the memory snapshots in this folder: what PyTorch's caching allocator would write of a made-up training.

    python tests/data/pytorch-memory/make.py [FOLDER]

No GPU is needed: a small model of the allocator (c10/cuda/CUDACachingAllocator.cpp: rounding to 512 bytes, segments of
2 MiB for small blocks, 20 MiB or more for large ones, best fit, splitting, merging, cached segments given back before
memory runs out) writes the events and the last state in the form of torch.cuda.memory._snapshot, which
torch/csrc/cuda/Module.cpp makes. Beside each NAME.pickle lies NAME.expected.json: the statistics that the model kept
while it ran, under the names of torch.cuda.memory_stats.
"""

import json
import pickle
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MIB = 1 << 20
BASE = 0x7F3A40000000
START_US = 1_750_000_000_000_000


@dataclass(eq=False)
class Block:
    address: int
    size: int
    segment: "Seg"
    requested: int = 0
    state: str = "inactive"
    frames: list[dict[str, Any]] = field(default_factory=list)


@dataclass(eq=False)
class Seg:
    address: int
    size: int
    large: bool
    stream: int
    frames: list[dict[str, Any]]
    blocks: list[Block] = field(default_factory=list)


class Allocator:
    """The model. limit: the bytes of the device."""

    def __init__(self, limit: int, device: int = 0) -> None:
        self.limit, self.device, self.stream = limit, device, 0
        self.segments: list[Seg] = []
        self.events: list[dict[str, Any]] = []
        self.stats = {
            "requested_bytes.all.current": 0,
            "requested_bytes.all.peak": 0,
            "allocated_bytes.all.current": 0,
            "reserved_bytes.all.current": 0,
            "reserved_bytes.all.peak": 0,
            "num_alloc_retries": 0,
            "num_ooms": 0,
            "allocations": 0,
            "frees": 0,
        }
        self._next = BASE
        self._clock = START_US
        self._frames: dict[tuple[str, int, str], dict[str, Any]] = {}

    def stack(self, *lines: str) -> list[dict[str, Any]]:
        """Frames, given outermost first as "file:line:name", as PyTorch gives them: each a separate dict."""
        frames = []
        for line in reversed(lines):
            file, number, name = line.split(":", 2)
            key = (file, int(number), name)
            frames.append(self._frames.setdefault(key, {"name": name, "filename": file, "line": int(number)}))
        return frames

    def trace(self, action: str, address: int, size: int, frames: list[dict[str, Any]], **more: Any) -> None:
        self._clock += (len(self.events) * 7) % 13
        self.events.append(
            {
                "action": action,
                "device_free" if action == "oom" else "addr": address,
                "size": size,
                "stream": self.stream,
                "time_us": self._clock,
                "compile_context": "N/A",
                "user_metadata": more.get("metadata", ""),
                "frames": frames,
            }
        )

    def wait(self, microseconds: int) -> None:
        self._clock += microseconds

    def alloc(self, size: int, frames: list[dict[str, Any]], **more: Any) -> Block:
        """malloc: raises MemoryError where the device has no room."""
        rounded = max(512, (size + 511) // 512 * 512)
        large = rounded > MIB
        block = self._fit(rounded, large)
        if block is None:
            block = self._grow(rounded, large, size, frames)
        rest = block.size - rounded
        if (rest > MIB) if large else (rest >= 512):
            blocks = block.segment.blocks
            blocks.insert(blocks.index(block) + 1, Block(block.address + rounded, rest, block.segment))
            block.size = rounded
        block.state, block.requested, block.frames = "active_allocated", size, frames
        self.trace("alloc", block.address, size, frames, **more)
        self._count("requested_bytes.all", size)
        self.stats["allocated_bytes.all.current"] += block.size
        self.stats["allocations"] += 1
        return block

    def free(self, block: Block, frames: list[dict[str, Any]], pending: bool = False) -> None:
        """free; pending: another stream still uses the block."""
        self.trace("free_requested", block.address, block.requested, frames)
        self._count("requested_bytes.all", -block.requested)
        self.stats["allocated_bytes.all.current"] -= block.size
        self.stats["frees"] += 1
        block.state = "active_pending_free"
        if not pending:
            self.complete(block, frames)

    def complete(self, block: Block, frames: list[dict[str, Any]]) -> None:
        self.trace("free_completed", block.address, block.requested, frames)
        block.state, block.requested, block.frames = "inactive", 0, []
        blocks = block.segment.blocks
        at = blocks.index(block)
        for other in (at + 1, at - 1):
            if 0 <= other < len(blocks) and blocks[other].state == "inactive" and blocks[other] is not block:
                gone = blocks[other]
                block.address, block.size = min(block.address, gone.address), block.size + gone.size
                blocks.remove(gone)
                at = blocks.index(block)

    def empty_cache(self, frames: list[dict[str, Any]]) -> None:
        for segment in [s for s in self.segments if all(b.state == "inactive" for b in s.blocks)]:
            self.segments.remove(segment)
            self.trace("segment_free", segment.address, segment.size, frames)
            self._count("reserved_bytes.all", -segment.size)

    def _fit(self, size: int, large: bool) -> Block | None:
        free = [
            b
            for s in self.segments
            if s.large == large and s.stream == self.stream
            for b in s.blocks
            if b.state == "inactive" and b.size >= size
        ]
        return min(free, key=lambda b: (b.size, b.address), default=None)

    def _grow(self, rounded: int, large: bool, size: int, frames: list[dict[str, Any]]) -> Block:
        length = (
            2 * MIB if not large else 20 * MIB if rounded < 10 * MIB else (rounded + 2 * MIB - 1) // (2 * MIB) * 2 * MIB
        )
        if self.stats["reserved_bytes.all.current"] + length > self.limit:
            self.stats["num_alloc_retries"] += 1
            self.empty_cache(frames)
            if self.stats["reserved_bytes.all.current"] + length > self.limit:
                self.stats["num_ooms"] += 1
                self.trace("oom", self.limit - self.stats["reserved_bytes.all.current"], size, frames)
                raise MemoryError
        segment = Seg(self._next, length, large, self.stream, frames)
        self._next += length + 64 * MIB
        segment.blocks.append(Block(segment.address, length, segment))
        self.segments.append(segment)
        self.trace("segment_alloc", segment.address, length, frames)
        self._count("reserved_bytes.all", length)
        return segment.blocks[0]

    def _count(self, name: str, change: int) -> None:
        self.stats[f"{name}.current"] += change
        self.stats[f"{name}.peak"] = max(self.stats[f"{name}.peak"], self.stats[f"{name}.current"])

    def state(self) -> list[dict[str, Any]]:
        """The segments as a snapshot has them, in the order of addresses."""
        return [
            {
                "device": self.device,
                "address": s.address,
                "total_size": s.size,
                "allocated_size": sum(b.size for b in s.blocks if b.state == "active_allocated"),
                "active_size": sum(b.size for b in s.blocks if b.state != "inactive"),
                "requested_size": sum(b.requested for b in s.blocks if b.state != "inactive"),
                "stream": s.stream,
                "segment_type": "large" if s.large else "small",
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "frames": s.frames,
                "blocks": [
                    {
                        "address": b.address,
                        "size": b.size,
                        "requested_size": b.requested,
                        "state": b.state,
                        "frames": b.frames,
                    }
                    for b in s.blocks
                ],
            }
            for s in sorted(self.segments, key=lambda s: s.address)
        ]

    def expected(self) -> dict[str, Any]:
        """The statistics, with those of the last state."""
        free = [(b, len(s.blocks)) for s in self.segments for b in s.blocks if b.state == "inactive"]
        split = [b.size for b, others in free if others > 1]
        return self.stats | {
            "active_bytes.requested.current": sum(
                b.requested for s in self.segments for b in s.blocks if b.state != "inactive"
            ),
            "inactive_split_bytes.all.current": sum(split),
            "inactive_split.all.current": len(split),
            "largest_free": max((b.size for b, _ in free), default=0),
        }


def training() -> tuple[Allocator, dict[str, Any]]:
    """Three steps of a training of four layers on a device of 160 MiB. The second stream holds a block back; the last
    step keeps what it should not, meets the limit, and at last runs out."""
    a = Allocator(160 * MIB)
    main = "/home/user/train.py:90:<module>"
    model = [a.alloc(3_000_000, a.stack(main, "/home/user/train.py:12:build"), metadata="parameters") for _ in range(4)]
    small = a.alloc(400, a.stack(main, "/home/user/train.py:14:scalar"))
    leaked = []
    for step in range(3):
        loop = (main, "/home/user/train.py:40:train")
        batch = a.alloc(8 * MIB + 300 * step, a.stack(*loop, "/home/user/data.py:7:load"))
        activations = []
        for layer in range(4):
            at = a.stack(
                *loop,
                "/home/user/model.py:21:forward",
                f"/home/user/model.py:{30 + layer}:layer",
                "??:0:at::empty_cuda",
            )
            activations.append(a.alloc((6 - layer) * MIB, at))
            a.wait(50)
        gradients = []
        for layer in range(4):
            gradients.append(a.alloc(3_000_000, a.stack(*loop, "/home/user/train.py:44:backward")))
            a.free(activations.pop(), a.stack(*loop, "/home/user/train.py:44:backward"))
        a.free(batch, a.stack(*loop), pending=step == 0)
        if step == 0:
            held = batch
        if step == 1:
            a.complete(held, [])
            leaked.append(a.alloc(11 * MIB, a.stack(*loop, "/home/user/train.py:51:log_loss")))
        for gradient in gradients:
            a.free(gradient, a.stack(*loop, "/home/user/train.py:48:zero_grad"))
        a.wait(500)
    for size in (30 * MIB, 100 * MIB):
        try:
            leaked.append(a.alloc(size, a.stack(main, "/home/user/train.py:60:evaluate")))
        except MemoryError:
            pass
    a.free(small, a.stack(main))
    a.free(model[0], a.stack(main), pending=True)
    snapshot = {
        "segments": a.state(),
        "device_traces": [a.events, []],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "",
            "max_split_size": -1,
            "garbage_collection_threshold": 0.0,
            "expandable_segments": False,
            "roundup_power2_divisions": {"1": 0, "2": 0},
        },
        "external_annotations": [],
    }
    return a, snapshot


def older(snapshot: dict[str, Any]) -> dict[str, Any]:
    """The same as PyTorch 1.13 and 2.0 wrote it: no times, no addresses of blocks, frames in a history of each block."""
    return {
        "segments": [
            {k: v for k, v in s.items() if k not in ("frames", "is_expandable", "segment_pool_id", "requested_size")}
            | {
                "blocks": [
                    {"size": b["size"], "state": b["state"]}
                    | (
                        {"history": [{"addr": b["address"], "real_size": b["requested_size"], "frames": b["frames"]}]}
                        if b["state"] != "inactive"
                        else {}
                    )
                    for b in s["blocks"]
                ]
            }
            for s in snapshot["segments"]
        ],
        "device_traces": [
            [{k: e[k] for k in ("action", "addr", "device_free", "size", "stream", "frames") if k in e} for e in events]
            for events in snapshot["device_traces"]
        ],
    }


def main() -> None:
    """Make each."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    allocator, snapshot = training()
    (folder / "training.pickle").write_bytes(pickle.dumps(snapshot, 4))
    (folder / "older.pickle").write_bytes(pickle.dumps(older(snapshot), 2))
    (folder / "training.expected.json").write_text(json.dumps(allocator.expected(), indent=1) + "\n")


if __name__ == "__main__":
    main()
