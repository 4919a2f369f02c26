"""Makes the recordings in this folder with the PyTorch that is installed (CPU), and PyTorch's own statistics of each.

    python tests/data/pytorch/make.py [FOLDER]

Beside each NAME.pt.trace.json.gz lies NAME.expected.json: what `torch.profiler` itself computes of the same events.
"""

import gzip
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, TensorDataset

HERE = Path(__file__).parent
CPU = [ProfilerActivity.CPU]

warnings.filterwarnings("ignore")


class Block(nn.Module):
    """A module within a module, so that there is a tree."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.linear(x)))


class Net(nn.Module):
    """Two blocks and a head."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(x))  # type: ignore[no-any-return]


def train(prof: Any, batches: DataLoader[Any], steps: int) -> None:
    """An ordinary loop, with annotations; `steps` batches."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    done = 0
    while done < steps:
        for x, y in batches:
            optimizer.zero_grad()
            with record_function("forward"):
                loss = nn.functional.cross_entropy(model(x), y)
            with record_function("backward"):
                loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            prof.step()
            if (done := done + 1) == steps:
                return


def data(workers: int = 0) -> DataLoader[Any]:
    """32 samples in batches of 8."""
    torch.manual_seed(7)
    samples = TensorDataset(torch.randn(32, 16), torch.randint(0, 2, (32,)))
    return DataLoader(samples, batch_size=8, num_workers=workers)


def rows(averages: Any) -> list[dict[str, Any]]:
    """The table that `key_averages()` gives. Times in µs, memory in bytes."""
    return sorted(
        (
            {
                "name": one.key,
                "input_shapes": json.dumps(one.input_shapes) if one.input_shapes else "",
                "calls": one.count,
                "cpu_time_total_us": one.cpu_time_total,
                "self_cpu_time_total_us": one.self_cpu_time_total,
                "cpu_memory_bytes": one.cpu_memory_usage,
                "self_cpu_memory_bytes": one.self_cpu_memory_usage,
                "user_annotation": bool(getattr(one, "is_user_annotation", False)),
            }
            for one in averages
        ),
        key=lambda row: (row["name"], row["input_shapes"]),
    )


def taking(folder: Path, name: str, options: dict[str, Any]) -> Callable[[Any], None]:
    """What is to be done with every span that a profiler has finished: its trace, and its statistics beside it."""
    spans: list[str] = []

    def take(prof: Any) -> None:
        span = name if "repeat" not in options else f"{name}_{len(spans)}"
        spans.append(span)
        plain = folder / f"{span}.pt.trace.json"
        prof.export_chrome_trace(str(plain))
        # Packed here, and not by export_chrome_trace, so that a packed file says nothing of when it was made.
        Path(f"{plain}.gz").write_bytes(gzip.compress(plain.read_bytes(), 9, mtime=0))
        plain.unlink()
        expected = {
            "torch": torch.__version__,
            "options": options,
            "by_name": rows(prof.key_averages()),
            "by_shape": rows(prof.key_averages(group_by_input_shape=True)) if options.get("record_shapes") else None,
        }
        (folder / f"{span}.expected.json").write_text(json.dumps(expected, indent=0))

    return take


def record(folder: Path, name: str, steps: tuple[int, int, int, int], workers: int = 0, **options: Any) -> None:
    """One profiler around one training."""
    wait, warmup, active, repeat = steps
    said: dict[str, Any] = {"wait": wait, "warmup": warmup, "active": active, **options}
    if repeat > 1:
        said["repeat"] = repeat
    plan = schedule(wait=wait, warmup=warmup, active=active, repeat=repeat)
    with profile(activities=CPU, schedule=plan, on_trace_ready=taking(folder, name, said), **options) as prof:
        train(prof, data(workers), (wait + warmup + active) * repeat)


def whole(folder: Path) -> None:
    """No schedule and no steps: inference of a scripted module, of which `with_modules` tells the hierarchy."""
    scripted = torch.jit.script(Net().eval())
    options: dict[str, Any] = {"with_modules": True, "record_shapes": True, "with_flops": True}
    x = torch.randn(8, 16)
    scripted(x)
    scripted(x)
    with profile(activities=CPU, **options) as prof, torch.no_grad():
        for _ in range(3):
            scripted(x)
    taking(folder, "whole", options)(prof)


def timeline(folder: Path) -> None:
    """`export_memory_timeline` in its two JSON forms, beside the trace of the same run."""
    options: dict[str, Any] = {"profile_memory": True, "record_shapes": True, "with_stack": True}
    said = {"wait": 0, "warmup": 1, "active": 1, **options}

    def take(prof: Any) -> None:
        taking(folder, "timeline", said)(prof)
        for ending in ("json", "raw.json.gz"):
            path = folder / f"timeline.memory.{ending}"
            prof.export_memory_timeline(str(path), device="cpu")
            if ending.endswith("gz"):
                path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), 9, mtime=0))

    with profile(activities=CPU, schedule=schedule(wait=0, warmup=1, active=1), on_trace_ready=take, **options) as prof:
        train(prof, data(), 2)


def main() -> None:
    """Record each."""
    torch.set_num_threads(1)
    final = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        record(
            folder,
            "training",
            (1, 1, 2, 1),
            profile_memory=True,
            record_shapes=True,
            with_stack=True,
            with_modules=True,
        )
        record(folder, "memory", (1, 1, 3, 1), profile_memory=True, record_shapes=True)
        record(folder, "workers", (1, 1, 3, 1), workers=2, record_shapes=True)
        record(folder, "spans", (1, 1, 2, 2))
        whole(folder)
        timeline(folder)
        for made in sorted(folder.iterdir()):
            shutil.copyfile(made, final / made.name)
            print(made.stat().st_size, made.name)


if __name__ == "__main__":
    main()
