"""Time to prepare the timeline of a large trace, to answer any window, and to draw it while panning.

    python -m benchmarks.timeline [--slices 3500000] [--windows 40] [--no-browser] [--result DIRECTORY]

A synthetic trace is stored and mapped, as in a server; or a stored result is used. Each line is one zoom: windows at
random positions, every track visible, as the page requests them (the answer, its JSON and gzip), in milliseconds and
kB. In Chromium the same page pans for some seconds at each zoom: time to draw a frame, and time between frames.
"""

import argparse
import os
import random
import resource
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from playwright.sync_api import sync_playwright

from benchmarks.flamegraph_page import ARGUMENTS, RESULT, TOKEN, _served
from perfloom.analysis.timeline.model import Timeline, open_timeline, prepare_timeline
from perfloom.analysis.timeline.tracks import list_tracks, time_extent
from perfloom.charts.timeline import build_viewport, parse_bands
from perfloom.config import Settings
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import DEVICE_TIME, HOST_TIME, NO_ID, SCHEMAS, FrameKind
from perfloom.store import open_store
from perfloom.store.files import arrays, columns

WIDTH = 1600
ROWS = 45
"""The number of rows in a large window."""
PAN = """
async (seconds) => {
  const shown = (await import(document.querySelector('script[src*="charts/timeline.js"]').src)).timeline();
  const { view } = shown;
  const gaps = [], drawn = [];
  let last = null, direction = 1;
  const end = performance.now() + seconds * 1000;
  await new Promise((done) => {
    const frame = (now) => {
      if (last !== null) gaps.push(now - last);
      last = now;
      drawn.push(view.timing.last);
      const step = (view.end - view.start) / 90;
      if (view.end + step > view.extent.end || view.start - step < view.extent.start) direction = -direction;
      view.pan(direction * step);
      if (now < end) requestAnimationFrame(frame);
      else done();
    };
    requestAnimationFrame(frame);
  });
  return { gaps, drawn, boxes: view.drawn.boxes, requests: shown.source.requests };
}
"""


ZOOM = "view.show(extent.start, extent.start + (extent.end - extent.start) / %d);"


def trace(slices: int, seed: int = 1) -> Profile:
    """Four threads with slices nested up to twelve deep, and four streams."""
    random_ = np.random.default_rng(seed)
    builder = ProfileBuilder("synthetic trace")
    builder.add_run("python train.py")
    host, device = builder.intern_event(HOST_TIME, "ns"), builder.intern_event(DEVICE_TIME, "ns")
    threads = [builder.intern_thread(pid=1, tid=n) for n in range(4)]
    streams = [builder.intern_thread(pid=1, tid=7 + n, kind="gpu_stream") for n in range(4)]
    for n, thread in enumerate(threads):
        builder.set_thread_name(thread, 0, f"thread {n}")
    for n, stream in enumerate(streams):
        builder.set_thread_name(stream, 0, f"stream {7 + n}")
    names = [builder.intern_function(f"aten::operation_{n}") for n in range(400)]
    kernels = [
        builder.intern_function(f"void at::native::kernel_{n}<float, {n % 7}, at::detail::Array>(int)")
        for n in range(300)
    ]
    stacks = [builder.intern_stack([builder.intern_frame(f, kind=FrameKind.OPERATOR)]) for f in names]
    launched = [builder.intern_stack([builder.intern_frame(f, kind=FrameKind.GPU_KERNEL)]) for f in kernels]
    parts: list[dict[str, Any]] = []
    samples: list[tuple[Any, ...]] = []
    per_thread = slices * 9 // 10 // len(threads)
    for thread in threads:
        parts.append(_host(random_, thread, per_thread, names, stacks))
        samples.append(_segments(parts[-1], host))
    whole = max(int((part["start_ns"] + part["duration_ns"]).max()) for part in parts)
    per_stream = slices // 10 // len(streams)
    for stream in streams:
        start = np.sort(random_.integers(0, whole, per_stream))
        length = np.minimum(random_.lognormal(9, 1.2, per_stream).astype(np.int64), np.diff(start, append=whole))
        which = random_.integers(0, len(kernels), per_stream)
        one = np.zeros(per_stream, np.int64)
        parts.append(
            _table(stream, start, length, length, np.array(kernels)[which], one + 1, one, np.array(launched)[which])
        )
        samples.append((start, one + stream, one + device, np.array(launched)[which], length))
    profile, place = builder.finish_without_samples(Meta("", duration_ns=whole, main_event=HOST_TIME), 0)
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    first = np.cumsum([0, *(len(part["thread"]) for part in parts)])
    for n, part in enumerate(parts):
        rows = slice(int(first[n]), int(first[n + 1]))
        table["end"][rows] += first[n]
        table["parent"][rows] += np.where(part["parent"] >= 0, first[n], 0)
    table["stack"] = place[table["stack"]]
    time_ns, thread_of, event, stack, weight = (np.concatenate(column) for column in zip(*samples, strict=True))
    order = np.argsort(time_ns, kind="stable")
    sampled = {"time_ns": time_ns, "thread": thread_of, "event": event, "stack": place[stack], "weight": weight}
    on_stream = np.flatnonzero(table["category"] == 1)
    work = {name: np.full(len(on_stream), NO_ID) for name in ("device", "launch", "operator", "configuration")}
    work |= {"slice": on_stream, "kind": np.zeros(len(on_stream)), "stream": table["thread"][on_stream]}
    return replace(
        profile,
        slices=_arrow("slices", table),
        samples=_arrow("samples", {k: v[order] for k, v in sampled.items()} | {"cpu": np.full(len(order), -1)}),
        device_work=_arrow("device_work", work | {"bytes": None}),
        categories=pa.Table.from_pylist(
            [{"name": "cpu_op", "kind": "operator"}, {"name": "kernel", "kind": "kernel"}], schema=SCHEMAS["categories"]
        ),
    )


def _host(random_: Any, thread: int, count: int, names: list[int], stacks: list[int]) -> dict[str, Any]:
    """Slices of one thread: a random walk of the depth."""
    depth = np.zeros(count, np.int64)
    parent, end = np.full(count, -1), np.arange(1, count + 1)
    start, length = np.zeros(count, np.int64), np.zeros(count, np.int64)
    pauses = random_.exponential(800, count).astype(np.int64) + 1
    works = random_.lognormal(7, 1.0, count).astype(np.int64)
    ups = random_.random(count)
    open_: list[int] = []
    now = 0
    for n in range(count):
        while open_ and (len(open_) >= 12 or ups[n] < 0.55):
            closing = open_.pop()
            now += 50
            length[closing] = now - start[closing]
            end[closing] = n
            ups[n] += 0.25
        now += int(pauses[n])
        parent[n], depth[n], start[n] = (open_[-1] if open_ else -1), len(open_), now
        open_.append(n)
        now += int(works[n])
    while open_:
        closing = open_.pop()
        length[closing], end[closing] = now - start[closing], count
    inside = np.bincount(parent[parent >= 0], length[parent >= 0], count).astype(np.int64)
    which = random_.zipf(1.3, count) % len(names)
    return _table(
        thread,
        start,
        length,
        length - inside,
        np.array(names)[which],
        depth * 0,
        depth,
        np.array(stacks)[which],
        parent,
        end,
    )


def _table(
    thread: int,
    start: Any,
    length: Any,
    own: Any,
    function: Any,
    category: Any,
    depth: Any,
    stack: Any,
    parent: Any = None,
    end: Any = None,
) -> dict[str, Any]:
    count = len(start)
    return {
        "start_ns": start,
        "duration_ns": length,
        "self_ns": own,
        "thread": np.full(count, thread),
        "function": function,
        "category": category,
        "depth": depth,
        "parent": np.full(count, -1) if parent is None else parent,
        "end": np.arange(1, count + 1) if end is None else end,
        "stack": stack,
        "arguments": np.full(count, -1),
    }


def _segments(part: dict[str, Any], event: int) -> tuple[Any, ...]:
    """The self time of slices: the innermost slice between any two moments at which one begins or ends."""
    start, end = part["start_ns"], part["start_ns"] + part["duration_ns"]
    moment = np.concatenate((start, end))
    change = np.concatenate((np.arange(len(start)), part["parent"]))
    # At one moment, ends come before begins.
    order = np.lexsort((np.concatenate((np.ones(len(start)), np.zeros(len(start)))), moment))
    moment, inner = moment[order], change[order]
    length = np.diff(moment, append=moment[-1])
    kept = (inner >= 0) & (length > 0)
    slot = inner[kept]
    one = np.ones(len(slot), np.int64)
    return moment[kept], one * part["thread"][0], one * event, part["stack"][slot], length[kept]


def _arrow(name: str, values: dict[str, Any]) -> pa.Table:
    schema = SCHEMAS[name]
    made = []
    for field in schema:
        column = values[field.name]
        rows = len(next(v for v in values.values() if v is not None))
        made.append(
            pa.nulls(rows, field.type)
            if column is None
            else pa.array(column.astype(field.type.to_pandas_dtype()), field.type)
        )
    return pa.Table.from_arrays(made, schema=schema)


def windows(profile: Profile, timeline: Timeline, count: int) -> None:
    """Print the times of windows at random positions, zoom by zoom."""
    chance = random.Random(1)
    whole = time_extent(profile, timeline)
    bands, rows = [], 0
    for track in list_tracks(profile, timeline, Selection())[0]:
        if rows < ROWS:
            shown = min(track.rows, ROWS - rows) if track.rows else 1
            rows_of = track.rows and track.id.startswith("t")
            alone = f"{track.id}.i" if track.instants and not track.rows else track.id
            bands.append(f"{track.id}.0-{shown - 1}" if rows_of else f"{track.id}.l" if track.lane else alone)
            rows += shown
    parsed = parse_bands(bands, profile, timeline)
    print(f"{rows} rows of {len(bands)} tracks, {WIDTH} pixels")
    print(f"{'one window in':>16}{'ms':>9}{'95 %':>9}{'most':>9}{'CPU':>9}{'kB':>9}{'most':>9}{'boxes':>9}")
    for zoom in (1, 4, 16, 64, 256, 1024, 16_384, 262_144, 4_194_304):
        length = max(1, (whole.end_ns - whole.start_ns) // zoom)
        times, cpus, sizes, boxes = [], [], [], []
        for _ in range(count):
            start = whole.start_ns + chance.randrange(max(1, whole.end_ns - whole.start_ns - length + 1))
            wall, cpu = time.perf_counter(), time.process_time()
            answer = build_viewport(profile, timeline, Selection(), parsed, start, start + length, WIDTH)
            times.append((time.perf_counter() - wall) * 1e3)
            cpus.append((time.process_time() - cpu) * 1e3)
            sizes.append(len(answer.gzip) / 1e3)
            boxes.append(sum(sum(band["rows"]) for band in answer.data["bands"].values() if "rows" in band))
        times.sort()
        print(
            f"{zoom:16,}{statistics.median(times):9.1f}{times[int(0.95 * len(times))]:9.1f}{times[-1]:9.1f}"
            f"{statistics.median(cpus):9.1f}{statistics.median(sizes):9.1f}{max(sizes):9.1f}{statistics.median(boxes):9,.0f}",
            flush=True,
        )


def panning(environment: dict[str, str], result: str, seconds: float) -> None:
    """Print the times of frames while the page pans."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.exit("This needs Chromium: apt-get install chromium (or --no-browser)")
    with _served(environment) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1920, "height": 1080})
        page.goto(f"{url}/?token={TOKEN}")
        page.goto(f"{url}/results/{result}/timeline")
        module = "(await import(document.querySelector('script[src*=\"charts/timeline.js\"]').src)).timeline()"
        idle = f"async () => {module}.idle"
        page.wait_for_function(idle, timeout=120_000)
        first = page.evaluate("() => performance.getEntriesByName('timeline-painted')[0].startTime")
        print(f"in Chromium at 1920 × 1080, first picture after {first:.0f} ms; panning by a ninetieth each frame:")
        for zoom in (2, 20, 200, 2_000, 100_000):
            page.evaluate(f"async () => {{ const {{ view }} = {module}; const {{ extent }} = view; {ZOOM % zoom} }}")
            page.wait_for_function(idle)
            found = page.evaluate(PAN, seconds)
            gaps, drawn = sorted(found["gaps"]), sorted(found["drawn"])
            print(
                f"  one in {zoom:7,}: {statistics.median(gaps):5.1f} ms a frame, 95 % within "
                f"{gaps[int(0.95 * len(gaps))]:5.1f}; drawing {statistics.median(drawn):4.1f}, 95 % within "
                f"{drawn[int(0.95 * len(drawn))]:4.1f}; {found['boxes']:,} boxes",
                flush=True,
            )
        browser.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slices", type=int, default=3_500_000)
    parser.add_argument("--windows", type=int, default=40, help="at each zoom")
    parser.add_argument("--seconds", type=float, default=4.0, help="of panning at each zoom")
    parser.add_argument("--result", type=Path, help="the directory of a stored result, instead of a made-up trace")
    parser.add_argument("--no-browser", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pl-", dir="/tmp") as folder:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PERFLOOM_")} | {
            "PERFLOOM_DATA": f"{folder}/data",
            "PERFLOOM_RUNTIME": f"{folder}/run",
            "PERFLOOM_TOKEN": TOKEN,
        }
        store = open_store(Settings.load(environ=environment))
        staged = store.results.stage(RESULT)
        columns.write(columns.read(options.result) if options.result else trace(options.slices), staged)
        store.results.publish(RESULT, staged, name="made up", originals=[])
        profile = store.results.open(RESULT)
        counts = ", ".join(f"{profile.tables()[name].num_rows:,} {name}" for name in ("slices", "samples", "threads"))
        print(counts)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wall, cpu = time.perf_counter(), time.process_time()
        made = prepare_timeline(profile)
        took = time.perf_counter() - wall, time.process_time() - cpu
        path = store.results.cache(RESULT) / "timeline-1"
        arrays.write(path, made)
        more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
        size = path.stat().st_size / 1e6
        print(f"prepared in {took[0]:.1f} s ({took[1]:.1f} CPU), {size:.0f} MB kept, at most {more:.0f} MB more memory")
        del made
        kept = arrays.read(path)
        assert kept is not None
        wall = time.perf_counter()
        timeline = open_timeline(profile, kept)
        list_tracks(profile, timeline, Selection())
        print(f"opened, and its tracks listed, in {(time.perf_counter() - wall) * 1e3:.0f} ms")
        windows(profile, timeline, options.windows)
        store.close()
        if not options.no_browser:
            panning(environment, RESULT, options.seconds)


if __name__ == "__main__":
    main()
