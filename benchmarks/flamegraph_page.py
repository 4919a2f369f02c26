"""The flame graph in Chromium: time to the first image, bytes transferred, and time per frame of the screen.

    python -m benchmarks.flamegraph_page [--samples 1000000] [--stacks 100000] [--rounds 5]

A synthetic profile is stored and served by gunicorn. Then 100,000 frames, the maximum of the renderer, are drawn while
zooming, hovering and scrolling. Times are milliseconds, medians unless stated otherwise.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from benchmarks.synthetic import profile
from perfloom.config import Settings
from perfloom.store import open_store
from perfloom.store.files import columns

TOKEN = "a-token-of-the-benchmark-0000000000"
RESULT = "benchmark000"
FRAMES = 100_000
ARGUMENTS = ["--disable-dev-shm-usage", "--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]

# The page's own modules, imported by the address that the page uses.
MEASURE = """
async ([frames, depth]) => {
    const { panels } = await import(document.querySelector('script[src*="charts/flamegraph.js"]').src);
    const folder = new URL(".", document.querySelector('script[src*="charts/flamegraph.js"]').src);
    const { Picture } = await import(`${folder}flamegraph/model.js`);
    const { Palette, ModuleColors, nodeColors } = await import(`${folder}flamegraph/palette.js`);
    const { Painter } = await import(`${folder}flamegraph/paint.js`);
    const { view } = panels()[0];

    const nodes = {id: [], depth: [], function: [], self: [], total: []};
    const tree = [{total: 1e9, inside: []}];
    for (let n = 0; tree.length < frames; n++) {
        for (const part of n < depth ? [1] : [0.5, 0.3, 0.15]) {
            const child = {total: Math.floor(tree[n].total * part), inside: []};
            tree[n].inside.push(child);
            tree.push(child);
        }
    }
    const add = (node, at) => {
        const row = {id: nodes.id.length, depth: at, function: nodes.id.length % 500, self: 1, total: node.total};
        for (const key in row) nodes[key].push(row[key]);
        for (const child of node.inside) add(child, at + 1);
    };
    add(tree[0], 0);
    const name = Array.from({length: 500}, (_, i) => `some::namespace::function<of_type_${i}>::operator()(int)`);
    const picture = new Picture({
        event: "made up", unit: "ns", total: nodes.total[0], pruned: 0, kinds: ["user", "kernel", "jit"], nodes,
        zoom: [{id: 0, name: "all", total: nodes.total[0], depth: 0, function: 0}],
        functions: {
            id: name.map((_, i) => i), name, short: name,
            module: name.map((_, i) => `m${i % 9}`), kind: name.map((_, i) => i % 3),
        },
    });
    const palette = new Palette(document.documentElement);
    view.show(picture, 0, {palette, fills: nodeColors(picture, "kind", palette, new ModuleColors())});
    await new Promise((done) => setTimeout(done, 300));

    const painted = [];
    const paint = Painter.prototype.paint;
    Painter.prototype.paint = function (scene) {
        const start = performance.now();
        paint.call(this, scene);
        painted.push(performance.now() - start);
    };
    const watch = async (ms, act) => {
        const gaps = [];
        painted.length = 0;
        let last = null;
        let number = 0;
        const end = performance.now() + ms;
        await new Promise((done) => {
            const frame = (now) => {
                if (last !== null) gaps.push(now - last);
                last = now;
                act(number++);
                if (performance.now() < end) requestAnimationFrame(frame);
                else done();
            };
            requestAnimationFrame(frame);
        });
        return {gaps, paints: [...painted]};
    };
    const box = view.canvas.getBoundingClientRect();
    const targets = Array.from({length: picture.count}, (_, i) => i).filter((i) => picture.depth[i] === depth + 3);
    const move = (n) => view.canvas.dispatchEvent(new PointerEvent("pointermove", {
        clientX: box.left + (n * 37) % box.width, clientY: 300 + (n * 13) % 400, bubbles: true,
    }));
    const results = {
        zoom: await watch(3000, (n) => { if (n % 16 === 0) view.zoom(n % 32 ? 0 : targets[n % targets.length]); }),
        hover: await watch(1000, move),
        scroll: await watch(1500, (n) => scrollTo(0, (n * 30) % (document.documentElement.scrollHeight - innerHeight))),
    };
    Painter.prototype.paint = paint;
    return {count: picture.count, results};
}
"""


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--stacks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        sys.exit("This needs Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="pl-", dir="/tmp") as folder:
        environment = _stored(Path(folder), options.samples, options.stacks)
        with serve(environment) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
            page = browser.new_page(viewport={"width": 1920, "height": 1080})
            page.goto(f"{url}/healthz")
            page.goto(f"{url}/?token={TOKEN}")
            graph = f"{url}/results/{RESULT}/flamegraph"
            first = [measure_first_picture(page, graph) for _ in range(options.rounds)]
            print(
                f"first picture of {options.samples:,} samples, {options.stacks:,} stacks: "
                f"{first[0]:.0f} the first time, then {statistics.median(first[1:]):.0f}"
            )
            _wire(url)
            _print_frames(page, graph)
            browser.close()


def find_chromium() -> str | None:
    """The path of Chromium, or None."""
    names = ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def _stored(folder: Path, samples: int, stacks: int) -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PERFLOOM_")} | {
        "PERFLOOM_DATA": str(folder / "data"),
        "PERFLOOM_RUNTIME": str(folder / "run"),
        "PERFLOOM_TOKEN": TOKEN,
    }
    store = open_store(Settings.load(environ=environment))
    staged = store.results.stage(RESULT)
    columns.write(profile(samples=samples, stacks=stacks), staged)
    store.results.publish(RESULT, staged, name="made up", originals=[])
    store.close()
    return environment


@contextmanager
def serve(environment: dict[str, str]) -> Iterator[str]:
    """The address of a server, which ends at the end of the block."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    command = [sys.executable, "-m", "gunicorn", "--bind", url.removeprefix("http://"), "--threads", "4", "wsgi:app"]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{url}/healthz", timeout=5).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        yield url
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)


def measure_first_picture(page: Page, graph: str) -> float:
    """From the start of the navigation until the image is on the canvas."""
    page.goto(graph)
    while True:
        found = page.evaluate("() => performance.getEntriesByName('flamegraph-painted')[0]?.startTime ?? null")
        if found is not None:
            return float(found)
        page.wait_for_timeout(5)


def _wire(url: str) -> None:
    for query in ("group=none", "group=comm", "group=comm&invert=1", "group=comm&order=time"):
        times = []
        for _ in range(4):
            request = urllib.request.Request(
                f"{url}/api/v1/results/{RESULT}/flamegraph?{query}&width=1920",
                headers={"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": "gzip"},
            )
            start = time.perf_counter()
            with urllib.request.urlopen(request) as answer:
                content = answer.read()
            times.append((time.perf_counter() - start) * 1e3)
        nodes = len(json.loads(gzip.decompress(content))["nodes"]["id"])
        print(
            f"{query}: {len(content) / 1e3:.0f} kB for {nodes:,} frames, {times[0]:.0f} the first time, "
            f"then {statistics.median(times[1:]):.0f}"
        )


def measure_frames(page: Page, graph: str) -> dict[str, tuple[list[float], list[float]]]:
    """What was done with FRAMES frames on the flame graph: (sorted ms between frames of the screen, of drawing)."""
    page.goto(graph)
    page.wait_for_timeout(1000)
    found: dict[str, Any] = page.evaluate(MEASURE, [FRAMES, 120])
    return {action: (sorted(times["gaps"]), sorted(times["paints"])) for action, times in found["results"].items()}


def _print_frames(page: Page, graph: str) -> None:
    print(f"{FRAMES:,} frames drawn at 1920 × 1080:")
    for action, (gaps, paints) in measure_frames(page, graph).items():
        drawing = f", drawing {statistics.median(paints):.1f}, most {paints[-1]:.1f}" if paints else ""
        print(
            f"  {action}: {statistics.median(gaps):.1f} a frame of the screen, "
            f"95 % within {gaps[int(0.95 * len(gaps))]:.1f}{drawing}"
        )


if __name__ == "__main__":
    main()
