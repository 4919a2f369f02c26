"""Time to serve a flame graph.

    python -m benchmarks.serving [--flamegraph flamegraph.pl] [--samples 1000000] [--stacks 100000] [--events 3]

A synthetic profile of 1 million samples, 100,000 distinct stacks, 64 threads and three events is stored and mapped, as
in a server. Each line is one request: the selection, the tree, its wire format, JSON and gzip, in milliseconds. "first"
is without memo values, "again" the median of repetitions. Two peers draw the same tree: nested dicts in Python, and
flamegraph.pl if its path is given. Other load of the machine affects all times but "CPU".
"""

import argparse
import gzip
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.synthetic import profile as synthetic
from perfloom.analysis.compare.functions import diff_functions
from perfloom.analysis.stacks.flamegraph import FlameGroup, SiblingOrder, sandwich, search
from perfloom.analysis.stacks.hotspots import compute_hotspots
from perfloom.charts.bars import build_bars, draw_bar
from perfloom.charts.flamegraph import build_difference_payload, build_flame_payload, build_payload, min_frame_share
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_column
from perfloom.exporters import collapsed
from perfloom.store.files import columns

WIDTH = 1600
SECOND = 1_000_000_000


@dataclass(frozen=True)
class Request:
    """A line of the report. goals: milliseconds first and again, bytes on the wire."""

    name: str
    run: Callable[[Profile, Selection], Any]
    selection: Selection
    first_ms: float
    again_ms: float
    wire: bool = True


def requests(other: Profile) -> Iterator[Request]:
    """The measured requests. other: the profile to compare with."""

    def graph(
        group: FlameGroup = FlameGroup.COMM, order: SiblingOrder = SiblingOrder.WEIGHT
    ) -> Callable[[Profile, Selection], Any]:
        return lambda p, s: build_flame_payload(p, s, group=group, order=order, width_px=WIDTH)

    all_of_it = Selection()
    yield Request("everything", graph(), all_of_it, 30, 30)
    yield Request("everything, not grouped", graph(FlameGroup.NONE), all_of_it, 30, 30)
    yield Request("everything, by thread", graph(FlameGroup.THREAD), all_of_it, 30, 30)
    yield Request("a third of the time", graph(), Selection(start_ns=20 * SECOND, end_ns=40 * SECOND), 30, 30)
    yield Request("another event", graph(), Selection(event="cpu-clock"), 30, 30)
    some = tuple(f"-/{1000 + n // 8}/{1000 + n}" for n in range(0, 64, 3))
    yield Request("22 threads, half the time", graph(), Selection(threads=some, end_ns=30 * SECOND), 30, 30)
    yield Request("focus", graph(), Selection(focus="component5[0-9]::"), 250, 30)
    yield Request("ignore", graph(), Selection(ignore="component5[0-9]::"), 250, 30)
    yield Request("hide", graph(), Selection(hide="component5[0-9]::"), 250, 30)
    yield Request("recursion collapsed", graph(), Selection(recursion=True), 250, 30)
    yield Request("inverted", graph(), Selection(invert=True), 250, 30)
    yield Request(
        "hidden, collapsed, inverted",
        graph(),
        Selection("cycles", hide="part7::", recursion=True, invert=True),
        250,
        30,
    )
    yield Request("by time", graph(order=SiblingOrder.TIME), all_of_it, 250, 100)
    yield Request(
        "sandwich",
        lambda p, s: [build_payload(t, p, width_px=WIDTH) for t in sandwich(p, s, 5, min_share=min_frame_share(WIDTH))],
        all_of_it,
        250,
        60,
    )
    yield Request("search", lambda p, s: search(p, s, "component5.*unsigned").percent, all_of_it, 250, 30, wire=False)
    yield Request(
        "difference of two", lambda p, s: build_difference_payload(p, other, s, s, width_px=WIDTH), all_of_it, 250, 100
    )
    yield Request(
        "difference, inverted",
        lambda p, s: build_difference_payload(p, other, s, s, width_px=WIDTH),
        Selection(invert=True),
        500,
        100,
    )
    yield Request(
        "hotspots of one event", lambda p, s: len(compute_hotspots(p, s)), Selection("cycles"), 500, 250, wire=False
    )
    yield Request(
        "differences by function",
        lambda p, s: len(diff_functions(p, other, s, s)),
        Selection("cycles"),
        500,
        400,
        wire=False,
    )
    yield Request("bars by process", draw_every_bar, all_of_it, 250, 100, wire=False)


def draw_every_bar(profile: Profile, selection: Selection) -> str:
    """The bars of the main event by process."""
    data = build_bars(profile, selection)
    return "".join(draw_bar(data, bar) for bar in range(len(data.labels)))


def measured(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """(wall ms, CPU ms, result)."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = run()
    return (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3, found


def served(request: Request, profile: Profile, selection: Selection) -> int:
    """The request as the server answers it; the size of the answer, 0 if it is not sent."""
    found = request.run(profile, selection)
    if not request.wire:
        return 0
    return len(gzip.compress(json.dumps(found, separators=(",", ":")).encode(), 6))


def stored(profile: Profile, directory: Path) -> Profile:
    """The profile as the store returns it: mapped, without memo values."""
    if not directory.exists():
        directory.mkdir()
        columns.write(profile, directory)
    return columns.read(directory)


def with_dicts(profile: Profile, selection: Selection) -> int:
    """The peer: the tree of one event in nested dicts, from stacks as a reader would have them, and as JSON."""
    event = profile.events["name"].to_pylist().index(selection.event or profile.meta.main_event)
    parent, function = get_column(profile.calls, "parent").tolist(), get_column(profile.calls, "function").tolist()
    call = get_column(profile.stacks, "call").tolist()
    root: dict[str, Any] = {"total": 0, "children": {}}
    samples = zip(
        get_column(profile.samples, "event").tolist(),
        get_column(profile.samples, "stack").tolist(),
        get_column(profile.samples, "weight").tolist(),
        strict=True,
    )
    paths: dict[int, list[int]] = {}
    for kind, stack, weight in samples:
        if kind != event:
            continue
        path = paths.get(stack)
        if path is None:
            path, node = [], call[stack]
            while node > 0:
                path.append(function[node])
                node = parent[node]
            path.reverse()
            paths[stack] = path
        here = root
        here["total"] += weight
        for name in path:
            here = here["children"].setdefault(name, {"total": 0, "children": {}})
            here["total"] += weight
    return len(json.dumps(root))


def with_flamegraph(program: str, profile: Profile, selection: Selection) -> float:
    """The peer: milliseconds of flamegraph.pl for one event's folded stacks. Folding them is not counted."""
    folded = b"".join(collapsed.write(profile, selection, {}))
    wall = time.perf_counter()
    subprocess.run([program, "--hash"], input=folded, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - wall) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--flamegraph", help="path of flamegraph.pl, to compare with")
    parser.add_argument("--times", type=int, default=9, help="how often each request is made again")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--stacks", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        size = {"samples": options.samples, "stacks": options.stacks, "events": options.events}
        directory, beside = Path(folder) / "one", Path(folder) / "two"
        stored(synthetic(**size, seed=1), directory)
        other = stored(synthetic(**size, seed=2), beside)
        rows = {name: table.num_rows for name, table in columns.read(directory).tables().items()}
        print(", ".join(f"{rows[name]:,} {name}" for name in ("samples", "stacks", "calls", "functions", "threads")))
        heads = ("first", "CPU", "goal", "again", "CPU", "goal", "wire kB", "goal")
        print(f"{'request':30}" + "".join(f"{head:>8}" for head in heads))
        missed = 0
        for request in requests(other):
            missed += report(request, columns.read(directory), options.times)
        print(f"{missed} goals missed" if missed else "every goal reached")
        compare_with_peers(columns.read(directory), options.flamegraph)


def report(request: Request, profile: Profile, times: int) -> int:
    """Print a line; returns how many goals were missed. first: with only the profile mapped."""
    first, first_cpu, size = measured(lambda: served(request, profile, request.selection))
    again = [measured(lambda: served(request, profile, request.selection))[:2] for _ in range(times)]
    wall, cpu = (statistics.median(part) for part in zip(*again, strict=True))
    figures = (first, first_cpu, request.first_ms, wall, cpu, request.again_ms)
    line = "".join(f"{figure:8.{0 if n % 3 == 2 else 1}f}" for n, figure in enumerate(figures))
    print(f"{request.name:30}{line}" + (f"{size / 1000:8.1f}{100:8}" if request.wire else ""), flush=True)
    return (first > request.first_ms) + (wall > request.again_ms) + (size > 100_000)


def compare_with_peers(profile: Profile, program: str | None) -> None:
    """Print the times of the peers for the whole graph of the main event, not grouped."""
    request = Request(
        "", lambda p, s: build_flame_payload(p, s, group=FlameGroup.NONE, width_px=WIDTH), Selection(), 0, 0
    )
    served(request, profile, request.selection)
    ours = statistics.median(measured(lambda: served(request, profile, request.selection))[0] for _ in range(9))
    peer = measured(lambda: with_dicts(profile, Selection()))[0]
    print(f"nested dicts in Python: {peer:,.0f} ms, {peer / ours:,.0f} times ours ({ours:.1f} ms)")
    if program:
        peer = with_flamegraph(program, profile, Selection())
        print(f"flamegraph.pl from folded stacks: {peer:,.0f} ms, {peer / ours:,.0f} times ours")
    else:
        print("flamegraph.pl: not compared (give its path with --flamegraph)")


if __name__ == "__main__":
    main()
