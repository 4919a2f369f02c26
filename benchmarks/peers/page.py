"""docs/performance.md and its pictures, from the figures of one run."""

import dataclasses
import json
import platform
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .measuring import Figures, SuiteFigures
from .picture import draw_bars, draw_growth
from .programs import PEERS

if TYPE_CHECKING:
    from .pages import BrowserFigures

PAGE, IMAGES, JSON_FILE = "performance.md", "images", "performance.json"
LINE_CHARACTERS = 120
INTRODUCTION = """\
<!-- Made by `make bench`, from benchmarks/peers. -->
# Performance

`make bench` compares Perfloom with other tools that read the same file, on your machine. It makes the files, runs every
tool that is installed in turns, and writes this page, its pictures and `performance.json`.

```sh
make bench                                   # files of 100 MB, three rounds: about 25 minutes
make bench ARGS="--install"                  # first download the other tools that are missing, into .cache/peers
make bench ARGS="--size 30 --only perf-data" # one comparison, with a smaller recording
make bench ARGS="--full"                     # also recordings of 300 MB and 1 GB
```

* Times are those of whole commands, from the start of the process to its end; medians of the rounds, in brackets the
  fastest and the slowest.
* *Ratio* is the command's time divided by the time of the first line in the same round, median of the rounds. Above 1:
  Perfloom is faster.
* *Memory* is the resident memory of the command's largest process, the most of all rounds; in a pipeline that of its
  largest part. Values below 100 MB are those of the benchmark itself.
* The commands do not do the same: *does* says what is more or less. `perfloom import` stores every sample with its
  time, thread and CPU; tools that collapse stacks keep only sums.
"""


def write(
    folder: Path,
    suites: Sequence[SuiteFigures],
    growth: Sequence[tuple[float, float, float]],
    browser: "BrowserFigures | str | None",
    versions: dict[str, str],
) -> None:
    """Write the page, its pictures and the figures as JSON. growth: (MB, seconds, peak MB) of imports."""
    images = folder / IMAGES
    images.mkdir(parents=True, exist_ok=True)
    parts = [INTRODUCTION, _describe_machine(versions)]
    for suite in suites:
        parts.append(_suite(suite))
        rows = [(one.name, one.wall_s, f"{one.wall_s:.2f} s", one.ours) for one in suite.figures]
        (images / f"performance-{suite.name}.svg").write_text(draw_bars(f"{suite.title}: seconds", rows))
    if growth:
        parts.append(_growth(growth))
        points = [(megabytes, seconds) for megabytes, seconds, _ in growth]
        (images / "performance-growth.svg").write_text(draw_growth("perfloom import of perf.data", points, "MB"))
    if isinstance(browser, str):
        parts.append(f"## Pages\n\nNot measured: {browser}\n")
    elif browser is not None:
        parts.append(_browser(browser))
    parts.append(_peers())
    (folder / PAGE).write_text("\n".join(parts))
    found: dict[str, Any] = {
        "machine": _machine(),
        "versions": versions,
        "suites": [dataclasses.asdict(suite) for suite in suites],
        "growth": [dict(zip(("megabytes", "wall_s", "peak_megabytes"), one, strict=True)) for one in growth],
        "pages": browser if browser is None or isinstance(browser, str) else dataclasses.asdict(browser),
    }
    (folder / JSON_FILE).write_text(json.dumps(found, indent=1) + "\n")


def table(suite: SuiteFigures) -> list[list[str]]:
    """The rows of a suite, the first with the headings."""
    head = ["command", "seconds", "ratio", "CPU s", "memory MB", "does"]
    return [head, *([one.name, *_figures(one), one.note] for one in suite.figures)]


def _figures(one: Figures) -> list[str]:
    ratio = "" if one.times_ours is None else f"{one.times_ours:.2f}"
    seconds = f"{one.wall_s:.2f} ({one.fastest_s:.2f}–{one.slowest_s:.2f})"
    return [seconds, ratio, f"{one.cpu_s:.2f}", f"{one.peak_bytes / 1e6:,.0f}"]


def _machine() -> dict[str, Any]:
    import os

    model = ""
    if (info := Path("/proc/cpuinfo")).exists():
        lines = info.read_text(errors="replace").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return {"system": f"{platform.system()} {platform.release()}", "cpu": model, "cpus": os.cpu_count()}


def _describe_machine(versions: dict[str, str]) -> str:
    machine = _machine()
    said = f"Measured on {machine['cpus']} CPUs ({machine['cpu'] or platform.machine()}), {machine['system']}"
    text = f"{said}; " + ", ".join(text for text in versions.values() if text) + "."
    return textwrap.fill(text, LINE_CHARACTERS, break_on_hyphens=False) + "\n"


def _suite(suite: SuiteFigures) -> str:
    head, *rows = table(suite)
    lines = [f"## {suite.title}", "", f"{suite.input_bytes / 1e6:,.0f} MB, {suite.rounds} rounds.", ""]
    lines += [f"![Seconds of each command](images/performance-{suite.name}.svg)", ""]
    lines += [_line(head), "|---|--:|--:|--:|--:|---|"]
    lines += [
        _line([f"`{name}`" if ours.ours else name, *rest])
        for ours, (name, *rest) in zip(suite.figures, rows, strict=True)
    ]
    if suite.missing:
        lines += ["", "Not measured:", ""]
        lines += [f"* {name}: {_escape(reason)}" for name, reason in suite.missing.items()]
    return "\n".join([*lines, ""])


def _growth(growth: Sequence[tuple[float, float, float]]) -> str:
    lines = ["## Growth", "", "`perfloom import` of recordings of the same program, with frame pointers.", ""]
    lines += [
        "![Seconds over megabytes](images/performance-growth.svg)",
        "",
        "| MB | seconds | MB/s | memory MB |",
        "|--:|--:|--:|--:|",
    ]
    lines += [f"| {size:,.0f} | {s:.2f} | {size / s:,.0f} | {peak:,.0f} |" for size, s, peak in growth]
    return "\n".join([*lines, ""])


def _browser(browser: "BrowserFigures") -> str:
    lines = [
        "## Pages",
        "",
        f"A result with {browser.samples:,} samples, served by gunicorn, opened in Chromium. *Server*: from the",
        "request until the whole answer. *First*: the first time. *Transfer*: with scripts and styles, once.",
        "",
    ]
    lines += ["| page | first ms | server ms | transfer kB | first paint ms |", "|---|--:|--:|--:|--:|"]
    for page in browser.pages:
        paint = "" if page.paint_ms is None else f"{page.paint_ms:,.0f}"
        server = f"{page.first_ms:,.0f} | {page.server_ms:,.0f}"
        lines.append(f"| {page.name} | {server} | {page.transfer_bytes / 1e3:,.0f} | {paint} |")
    lines += ["", "Time between two frames of the screen while 100,000 frames of a flame graph are drawn:", ""]
    lines += ["| gesture | median ms | 95 % within ms |", "|---|--:|--:|"]
    lines += [f"| {action} | {median:.1f} | {most:.1f} |" for action, (median, most) in browser.frames.items()]
    return "\n".join([*lines, ""])


def _peers() -> str:
    lines = [
        "## How to obtain the other tools",
        "",
        "None of them is part of Perfloom. The commands run in `.cache/peers`, or in the directory in the environment",
        "variable `PEERS_DIRECTORY`.",
        "",
    ]
    lines += ["| tool | commands |", "|---|---|"]
    lines += [f"| {peer.name} | {'<br>'.join(f'`{command}`' for command in peer.commands)} |" for peer in PEERS]
    return "\n".join([*lines, ""])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_escape(cell) for cell in cells)} |"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
