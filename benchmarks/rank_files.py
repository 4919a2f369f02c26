"""Synthetic directories of planned jobs, as collected from a target: texts of perf script, counts of perf stat.

As in a real MPI program, all ranks run one program, so they share most call stacks, but every process has different
addresses, and every host a different clock.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

SECOND = 10**9
EPOCH_NS = 1_760_000_000 * SECOND
HEADING = """# ========
# captured on    : Fri Oct 10 12:00:00 2025
# hostname : {host}
# cmdline : /usr/bin/perf record -o perf.data -- ./solve
# event : name = {event}, type = 1, {{ sample_period, sample_freq }} = 199, freq = 1, sample_type = IP|TID|TIME
# ========
#
"""


def write_plan(root: Path, runs: Sequence[Mapping[str, Any]] = ({"run": 0},), **more: Any) -> Path:
    """Write the plan of a job; returns its new directory."""
    root.mkdir(parents=True, exist_ok=True)
    usual = {"flavour": "openmpi", "ranks": None, "target": "cluster", "recorder": "perf-record"}
    planned = [{"events": [], "command": ["./solve"]} | dict(run) for run in runs]
    (root / "plan.json").write_text(json.dumps(usual | more | {"runs": planned}))
    return root


def write_rank(
    root: Path,
    place: int | str,
    *,
    run: int = 0,
    state: Mapping[str, Any] | None = None,
    text: str | bytes | None = None,
    counts: str | None = None,
) -> Path:
    """Write the files of a rank. state: overrides the state of a successful rank; a value None omits its line."""
    folder = root / f"run{run}" / str(place)
    folder.mkdir(parents=True, exist_ok=True)
    usual: dict[str, Any] = {"host": "node1", "rank": place, "recorded": 1, "state": "done"}
    usual |= {"start": EPOCH_NS, "pid": 1000 + place if isinstance(place, int) else 999, "exit": 0}
    usual |= {"end": EPOCH_NS + 10 * SECOND, "text": "ok"} | dict(state or {})
    lines = [f"{key} {value}\n" for key, value in usual.items() if value is not None]
    (folder / "state").write_text("".join(lines))
    if text is not None:
        raw = text.encode() if isinstance(text, str) else text
        (folder / "perf.script.zst").write_bytes(zstandard.compress(raw, 1))
    if counts is not None:
        (folder / "perf-stat.txt").write_text(counts)
    return folder


def samples(
    count: int,
    *,
    rank: int = 0,
    host: str = "node1",
    event: str = "cpu-clock",
    clock_s: float = 100.0,
    step_ns: int = 5_000_000,
    period: int = 5_000_000,
    threads: int = 2,
    stacks: int = 200,
    heading: bool = True,
) -> str:
    """A text of perf script. clock_s: when the first sample was, by the host's perf clock."""
    source = random.Random(1)
    # The program is the same for all; its addresses differ.
    base = 0x550000000000 + random.Random(rank).randrange(1 << 24) * 4096
    known = []
    for number in range(stacks):
        frames = []
        for depth in range(source.randrange(4, 24), 0, -1):
            function = source.randrange(40) if depth < 6 else number % 60
            offset = source.randrange(64)
            frames.append(
                f"\t{base + function * 4096 + offset:16x} work_{depth}_{function}+{offset:#x} (/home/u/solve)\n"
            )
        known.append("".join(frames))
    mine = random.Random(1000 + rank)
    pieces = [HEADING.format(host=host, event=event)] if heading else []
    pid = 1000 + rank
    for number in range(count):
        time_ns = int(clock_s * SECOND) + number * step_ns
        tid = pid + number % threads
        when = f"{time_ns // SECOND}.{time_ns % SECOND:09d}"
        pieces.append(
            f"solve {pid}/{tid} [{rank % 64:03d}] {when}: {period} {event}: \n{known[mine.randrange(stacks)]}\n"
        )
    return "".join(pieces)


def counted(values: Mapping[str, int | None], *, running: int = 100, runtime_ns: int = SECOND) -> str:
    """The output of perf stat with `-j`. running: the share of the time, in percent, in which the event had a
    counter."""
    lines = []
    for event, value in values.items():
        line = {
            "counter-value": "<not counted>" if value is None else f"{value}.000000",
            "unit": "",
            "event": event,
            "event-runtime": runtime_ns * running // 100,
            "pcnt-running": float(running),
            "metric-value": "0.000000",
            "metric-unit": "",
        }
        lines.append(json.dumps(line) + "\n")
    return "".join(lines)
