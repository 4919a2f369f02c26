"""Take the screenshots of the documentation: `python docs/screenshots.py [NAME…]`.

It starts a separate server on a new data directory with the real command line, records the bundled program and the
examples, whose text is taken from the pages that show them, and uses Chromium. So the screenshots show what the reader
of a page gets. Those of PyTorch need it in the Python that runs this script.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from playwright.sync_api import Page, sync_playwright

DOCS = Path(__file__).resolve().parent
IMAGES = DOCS / "images"
PERFLOOM = Path(sys.executable).with_name("perfloom")
WIDTH = 1280
PLUMBING = r"^(\[|_?Py|ffi|clone3|start_thread)"
"""Hidden in the tutorial: the interpreter's frames between the program's own functions."""
AT_FRAME = """
async (name) => {
  const { panels } = await import(document.querySelector('script[src*="charts/flamegraph.js"]').src);
  const { view, picture } = panels()[0];
  let best = -1;
  for (let i = 0; i < picture.count; i++)
    if (picture.name(i).startsWith(name) && (best < 0 || picture.total[i] > picture.total[best])) best = i;
  const { left, top, width, height } = view.box(best);
  return [left + width / 3, top + height / 2];
}
"""
BLOCK = re.compile(r"^```(python|diff)\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""A part of a program, or a change of it, in a page."""
DRAWN = """
async () => {
  const { panels } = await import(document.querySelector('script[src*="charts/flamegraph.js"]').src);
  return panels().length > 0 && panels().every((panel) => panel.idle && !panel.view.moving && panel.view.drawn);
}
"""


TIMELINE_DRAWN = """
async () => {
  const { timeline } = await import(document.querySelector('script[src*="charts/timeline.js"]').src);
  return timeline().idle;
}
"""


@dataclass(frozen=True)
class Here:
    """The server, its recordings, and the page. results: ids by their name in this script. environment: of commands for
    this server."""

    url: str
    folder: Path
    results: dict[str, str]
    page: Page
    environment: dict[str, str]

    def perfloom(self, *words: str) -> None:
        """A command of Perfloom's."""
        subprocess.run([PERFLOOM, *words], env=self.environment, check=True, stdout=subprocess.DEVNULL)

    def open(self, path: str, words: dict[str, str] | None = None, *, height: int, dark: bool = False) -> None:
        """Show a page of the server, with a query, in a window of that height."""
        self.page.set_viewport_size({"width": WIDTH, "height": height})
        self.page.emulate_media(color_scheme="dark" if dark else "light")
        self.page.goto(f"{self.url}{path}{f'?{urlencode(words)}' if words else ''}")
        self.page.wait_for_load_state("networkidle")
        if self.page.locator('script[src*="charts/flamegraph.js"]').count():
            self.drawn()

    def drawn(self) -> None:
        """Wait until every flame graph of the page is drawn."""
        self.page.wait_for_function(DRAWN)
        # What was drawn is on the screen two frames later.
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def point_at(self, name: str) -> tuple[float, float]:
        """Move the mouse onto the widest frame with this prefix."""
        x, y = self.page.evaluate(AT_FRAME, name)
        self.page.mouse.move(x, y)
        return x, y

    def take(self, name: str) -> None:
        """Save the window to docs/images."""
        IMAGES.mkdir(exist_ok=True)
        self.page.screenshot(path=IMAGES / f"{name}.png", animations="disabled", caret="hide")


def findings(here: Here) -> None:
    here.open(f"/results/{here.results['demo']}", height=760)
    here.take("findings")


def flame_graph(here: Here) -> None:
    here.open(f"/results/{here.results['demo']}/flamegraph", height=740)
    here.point_at("py::load_documents")
    here.page.locator(".flame-tip:visible").wait_for()
    here.take("flame-graph")


def narrowed(here: Here) -> None:
    here.open(f"/results/{here.results['demo']}/flamegraph", {"hide": PLUMBING}, height=640)
    x, y = here.point_at("py::hash_documents")
    here.page.mouse.click(x, y, button="right")
    here.page.locator(".flame-menu:visible").wait_for()
    here.take("narrowed")


def by_time(here: Here) -> None:
    words = {"hide": PLUMBING, "order": "time", "group": "none", "q": "deflate"}
    here.open(f"/results/{here.results['demo']}/flamegraph", words, height=480, dark=True)
    here.page.locator('[data-flame="matched"]', has_text="%").wait_for()
    here.take("by-time-dark")


def hotspots(here: Here) -> None:
    here.open(f"/results/{here.results['demo']}/hotspots", height=560)
    here.take("hotspots")


def threads(here: Here) -> None:
    here.open(f"/results/{here.results['demo']}/threads", height=640)
    here.take("threads")


def sandwich(here: Here) -> None:
    words = {"function": "PyUnicode_RichCompare"}
    here.open(f"/results/{here.results['list']}/flamegraph", words, height=760)
    here.take("sandwich")


def overview(here: Here) -> None:
    here.open(f"/results/{here.results['list']}", height=760)
    here.take("overview")


def results(here: Here) -> None:
    here.open("/", height=440)
    here.take("results")


def job_form(here: Here) -> None:
    here.open("/jobs/new", height=960)
    here.page.get_by_label("Command", exact=True).fill("./solver --size 500")
    here.page.get_by_text("As text", exact=True).click()
    here.page.get_by_label("Events as text").fill("cycles")
    here.page.locator("[data-preview-command]", has_text="cycles").wait_for()
    here.page.locator("#e-command .finding").wait_for()
    here.page.wait_for_load_state("networkidle")
    here.page.evaluate("scrollTo(0, 0)")
    here.take("job-form")


def job(here: Here) -> None:
    """A running job that prints: the bundled program, started from the form."""
    here.open("/jobs/new", height=660)
    here.page.get_by_label("Command", exact=True).fill(f"{sys.executable} -m perfloom.workload --seconds 12")
    here.page.get_by_label("Name", exact=True).fill("A longer run")
    here.page.get_by_role("button", name="Start", exact=True).click()
    here.page.locator("[data-output-text]", has_text="index").wait_for(timeout=60_000)
    here.take("job")


def compare(here: Here) -> None:
    words = {"base": here.results["list"], "other": here.results["set"], "normalise": "0", "reverse": "1"}
    here.open("/compare", words, height=900)
    here.take("compare")


def counts(here: Here) -> None:
    here.open(f"/results/{here.results['events']}/counts", {"by": "thread"}, height=800, dark=True)
    here.take("counts-dark")


def import_page(here: Here) -> None:
    here.open("/import", height=560)
    here.take("import")


def target(here: Here) -> None:
    """A checked target: this machine, under another name."""
    here.open("/targets/new", height=900)
    here.page.get_by_label("Name", exact=True).fill("workstation")
    here.page.get_by_label("This machine").check()
    here.page.get_by_label("Job directory").fill("/tmp/perfloom-jobs")
    here.page.get_by_role("button", name="Add the target").click()
    here.page.get_by_role("button", name="Check", exact=True).click()
    here.page.get_by_text("The check is done.").wait_for(timeout=60_000)
    here.open("/targets/workstation", height=640)
    here.take("target")
    Path("/tmp/perfloom-jobs").rmdir()


def ranks(here: Here) -> None:
    """A job of eight ranks in Slurm, while it runs, and its result: rank 1 works twice as long as the others."""
    from perfloom.domain.jobs import MpiFlavor
    from tests.support.batch import slurm
    from tests.support.mpi.programs import compiled

    program = compiled(MpiFlavor.OPENMPI, here.folder)
    program = program.rename(program.with_name("solver"))
    with slurm() as system:
        here.perfloom(
            *("target", "add", "cluster", "--scheduler", "slurm", "--poll", "0.5"),
            *("--directory", f"{here.folder}/jobs", "--env", f"PATH={system.path}:{os.defpath}"),
        )
        here.perfloom("target", "check", "cluster", "--probe")
        here.open("/jobs/new", {"target": "cluster"}, height=740)
        here.page.get_by_label("Command", exact=True).fill(f"{program} 1500")
        here.page.get_by_label("MPI", exact=True).select_option("openmpi")
        here.page.locator("#f-ranks").fill("8")
        here.page.get_by_label("Name", exact=True).fill("Eight ranks")
        here.page.locator("[data-preview-command]", has_text="mpirun").wait_for()
        here.page.get_by_role("button", name="Start", exact=True).click()
        here.page.get_by_text("8 of 8 ranks have started").wait_for(timeout=60_000)
        here.take("job-ranks")
        here.page.get_by_role("link", name="Open the result").first.wait_for(timeout=120_000)
    here.open(f"/results/{here.page.url.rpartition('/')[2]}/threads", height=740)
    here.take("ranks")


def stencil(here: Here) -> None:
    """The program of the tutorial on ranks, with and without the slow rank."""
    text = (DOCS / "tutorial-ranks.md").read_text(encoding="utf-8")
    program = re.search(r"^```c\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert program is not None
    source, binary = here.folder / "stencil.c", here.folder / "stencil"

    def build(content: str) -> None:
        source.write_text(content, encoding="utf-8")
        options = ("-O1", "-g", "-fno-omit-frame-pointer", "-o", str(binary), str(source))
        subprocess.run(["mpicc.mpich", *options], check=True)

    def record() -> str:
        here.page.get_by_role("button", name="Start", exact=True).click()
        here.page.get_by_role("link", name="Open the result").first.wait_for(timeout=120_000)
        return here.page.url.rpartition("/")[2]

    def fill_form(name: str, height: int) -> None:
        here.open("/jobs/new", {}, height=height)
        here.page.get_by_label("Command", exact=True).fill(str(binary))
        here.page.get_by_label("MPI", exact=True).select_option("mpich")
        here.page.locator("#f-ranks").fill("4")
        here.page.get_by_label("Name", exact=True).fill(name)
        here.page.locator("[data-preview-command]", has_text="mpi").wait_for()

    build(program[1])
    fill_form("Stencil", 740)
    here.take("ranks-form")
    slow = record()
    here.open(f"/results/{slow}/matrix", height=740)
    here.take("ranks-matrix")
    here.open(f"/results/{slow}/flamegraph", {"rank": "2", "focus": "^relax$", "group": "rank"}, height=560)
    here.take("ranks-flame-graph")
    build(program[1].replace("is_slow ? 40 : 20", "20"))
    fill_form("Stencil, repaired", 740)
    even = record()
    here.open(f"/results/{even}/matrix", height=560)
    here.take("ranks-even")


def read_blocks(page: str, kind: str) -> list[str]:
    """The code blocks of one kind in a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def apply_diff(text: str, diff: str) -> str:
    """A program with the change of a page."""
    old, new = ("".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] == sign) for sign in "-+")
    assert text.count(old) == 1, f"The program of the page does not have once what is changed:\n{old}"
    return text.replace(old, new)


def compile_c(source: Path, text: str) -> Path:
    """The program next to its source, as the tutorials compile it."""
    source.parent.mkdir(exist_ok=True)
    source.write_text(text, encoding="utf-8")
    program = source.with_suffix("")
    subprocess.run(["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-o", program, source], check=True)
    return program


def record(here: Here, *words: str) -> str:
    """The id of the result of a job of this server, when its source lines are read, too."""
    argv = [str(PERFLOOM), "record", *words]
    done = subprocess.run(argv, env=here.environment, cwd=here.folder, stdout=subprocess.PIPE, text=True, check=True)
    id = done.stdout.strip()
    folder = Path(here.environment["PERFLOOM_DATA"], "results", id, "code")
    for _ in range(300):
        if folder.exists():
            return id
        time.sleep(0.1)
    raise SystemExit(f"The result {id} has no source lines.")


def line(here: Here) -> None:
    """The program of the tutorial on lines, and the repaired one."""
    (text,), (diff,) = (read_blocks("tutorial-line.md", kind) for kind in ("c", "diff"))
    for name, program in (("line", text), ("line-repaired", apply_diff(text, diff))):
        compile_c(here.folder / "count.c", program)
        id = record(here, "--name", "count", "--", "./count")
        path, words = f"/results/{id}/source", {"function": "main"}
        if name == "line":
            here.open(path, words, height=880)
            here.take("line-source")
        here.open(path, words | {"view": "assembly"}, height=560)
        hottest = here.page.locator("tr[data-hot]" if name == "line-repaired" else "tr", has_text="count.c:1")
        row = hottest.filter(has_text="div") if name == "line" else hottest
        row.first.evaluate("(row) => row.scrollIntoView({ block: 'center' })")
        here.take("line-assembly" if name == "line" else name)


def topdown(here: Here) -> None:
    """The trees of the counts that the tutorial imports."""
    for name, file, height in (("topdown", "zen4.txt", 700), ("topdown-deeper", "skylake.txt", 560)):
        path = DOCS.parent / "tests" / "data" / "perf-stat-topdown" / file
        argv = [str(PERFLOOM), "import", "--name", file.partition(".")[0], str(path)]
        done = subprocess.run(argv, env=here.environment, stdout=subprocess.PIPE, text=True, check=True)
        here.open(f"/results/{done.stdout.strip()}/topdown", height=height)
        here.take(name)


def import_own(here: Here, what: str) -> list[str]:
    """The recordings of Perfloom before and after a change. Returns the ids of the results."""
    ids = []
    for side in ("before", "after"):
        path = DOCS.parent / "tests" / "data" / "py-spy" / f"{what}-{side}.raw.gz"
        argv = [str(PERFLOOM), "import", "--name", f"{what}, {side}", str(path)]
        ids.append(
            subprocess.run(argv, env=here.environment, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        )
    return ids


def own_pages(here: Here) -> None:
    """The pages of Perfloom that its own tutorial shows, before and after a change."""
    ids = import_own(here, "pages")
    here.open(
        f"/results/{ids[0]}/flamegraph", {"show-from": r"^Flask\.full_dispatch_request", "q": "encode"}, height=760
    )
    here.take("perfloom-pages")
    words = {"base": ids[0], "other": ids[1], "normalise": "0", "show-from": r"^Flask\.full_dispatch_request"}
    here.open("/compare", words, height=900)
    here.take("perfloom-pages-compare")


def own_import(here: Here) -> None:
    """The imports of Perfloom that its own tutorial shows, before and after a change."""
    ids = import_own(here, "import")
    here.open(f"/results/{ids[0]}/flamegraph", {"show-from": "^read_machine_code", "q": "_parse_DIE"}, height=760)
    here.take("perfloom-before")
    words = {"base": ids[0], "other": ids[1], "normalise": "0", "show-from": "^read_machine_code"}
    here.open("/compare", words, height=900)
    here.take("perfloom-compare")


def regression(here: Here) -> None:
    """The programs of the tutorial on a regression, recorded in turns."""
    (text,), (diff,) = (read_blocks("tutorial-regression.md", kind) for kind in ("c", "diff"))
    compile_c(here.folder / "before" / "lines.c", text)
    compile_c(here.folder / "after" / "lines.c", apply_diff(text, diff))
    ids: dict[str, list[str]] = {"before": [], "after": []}
    for _ in range(5):
        for side, listed in ids.items():
            listed.append(record(here, "--frequency", "999", "--name", f"lines, {side}", "--", f"{side}/lines"))
    pairs = [*(("base", id) for id in ids["before"]), *(("other", id) for id in ids["after"])]
    query = urlencode([*pairs, ("scale", "absolute"), ("paired", "1"), ("of", "total"), *names_of_builds()])
    here.open(f"/compare/runs?{query}", height=760)
    here.take("regression-verdicts")
    here.open(f"/results/{ids['after'][-1]}/source", {"function": "normalize", "sort": "-total_0"}, height=760)
    here.take("regression-line")


def names_of_builds() -> list[tuple[str, str]]:
    """The rules for names that the button Two builds chooses."""
    from perfloom.domain.symbols.name_rules import COMPILER_RULES

    return [("names", rule) for rule in COMPILER_RULES]


def project(here: Here) -> Path:
    """A directory with a Python that has PyTorch, and a training script."""
    folder = here.folder / "project"
    if not folder.exists():
        folder.mkdir()
        (folder / ".venv").symlink_to(Path(sys.executable).parent.parent)
        (folder / "train.py").write_text(scripts()[0], encoding="utf-8")
    return folder


def trained(here: Here) -> dict[str, str]:
    """Record as the advice page describes: its script, and the changed script. Once."""
    if "train" not in here.results:
        folder = project(here)
        # One thread per operator, so that other processes disturb less.
        environment = here.environment | {
            "PATH": f"{folder / '.venv/bin'}{os.pathsep}{os.defpath}",
            "OMP_NUM_THREADS": "1",
        }
        for word, name, text in zip(("train", "changed"), ("train.py", "train.py, changed"), scripts(), strict=True):
            (folder / "train.py").write_text(text, encoding="utf-8")
            options = ("--torch-steps", "2,1,5,1", "--torch-memory", "--torch-stacks", "--name", name)
            argv = [str(PERFLOOM), "record", "--recorder", "pytorch", *options, "--", "python", "train.py"]
            done = subprocess.run(argv, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
            here.results[word] = done.stdout.strip()
    return here.results


def scripts() -> tuple[str, str]:
    """The script of the advice page, before and after the changes that the page makes."""
    page = (DOCS / "how-to" / "pytorch-advice.md").read_text(encoding="utf-8")
    blocks = [match.groups() for match in BLOCK.finditer(page)]
    first = next(text for kind, text in blocks if kind == "python")
    changed = first
    for text in (text for kind, text in blocks if kind == "diff"):
        lines = text.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
        assert changed.count(old) == 1, f"The script of the page does not hold once what is changed:\n{old}"
        changed = changed.replace(old, new)
    return first, changed


def pytorch_form(here: Here) -> None:
    folder = project(here)
    here.open("/jobs/new", height=660)
    here.page.get_by_text("Directory, input files, environment", exact=True).click()
    here.page.get_by_label("Command", exact=True).fill(f"{folder}/.venv/bin/python train.py")
    here.page.get_by_label("Working directory").fill(str(folder))
    here.page.locator("[name=recorder][value=pytorch]").check()
    here.page.get_by_label("Steps", exact=True).fill("2,1,5,1")
    for word in ("Memory", "Stacks"):
        here.page.get_by_label(word, exact=True).check()
    here.page.locator("[data-preview-command]", has_text="PERFLOOM_TORCH_STACKS").wait_for()
    here.page.wait_for_load_state("networkidle")
    here.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    here.take("pytorch-form")


def pytorch_overview(here: Here) -> None:
    here.open(f"/results/{trained(here)['train']}", height=620)
    here.take("pytorch-overview")


def pytorch_advice(here: Here) -> None:
    here.open(f"/results/{trained(here)['train']}/advice", height=620)
    here.take("pytorch-advice")


def pytorch_timeline(here: Here) -> None:
    here.open(f"/results/{trained(here)['train']}/timeline", height=760, dark=True)
    here.page.wait_for_function(TIMELINE_DRAWN)
    here.take("pytorch-timeline-dark")


def pytorch_memory(here: Here) -> None:
    here.open(f"/results/{trained(here)['train']}/memory", height=620)
    here.take("pytorch-memory")


def pytorch_compare(here: Here) -> None:
    words = {"base": trained(here)["train"], "other": here.results["changed"]}
    here.open("/compare/steps", words, height=700)
    here.take("pytorch-compare")


PICTURES: dict[str, Callable[[Here], None]] = {
    "findings": findings,
    "flame-graph": flame_graph,
    "narrowed": narrowed,
    "by-time-dark": by_time,
    "hotspots": hotspots,
    "threads": threads,
    "sandwich": sandwich,
    "overview": overview,
    "results": results,
    "job-form": job_form,
    "compare": compare,
    "counts-dark": counts,
    "import": import_page,
    "job": job,
    "target": target,
    "job-ranks": ranks,
    "ranks": ranks,
    "ranks-form": stencil,
    "ranks-matrix": stencil,
    "ranks-flame-graph": stencil,
    "ranks-even": stencil,
    "line-source": line,
    "line-assembly": line,
    "line-repaired": line,
    "topdown": topdown,
    "topdown-deeper": topdown,
    "perfloom-before": own_import,
    "perfloom-compare": own_import,
    "perfloom-pages": own_pages,
    "perfloom-pages-compare": own_pages,
    "regression-verdicts": regression,
    "regression-line": regression,
    "pytorch-form": pytorch_form,
    "pytorch-overview": pytorch_overview,
    "pytorch-advice": pytorch_advice,
    "pytorch-timeline-dark": pytorch_timeline,
    "pytorch-memory": pytorch_memory,
    "pytorch-compare": pytorch_compare,
}


@contextlib.contextmanager
def demo(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """`perfloom demo`, until the end of the block; yields the address that it prints."""
    server = subprocess.Popen(
        [PERFLOOM, "demo", "--port", "0"], env=environment, cwd=folder, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        giving_up = threading.Timer(180, server.kill)
        giving_up.start()
        line = server.stdout.readline().strip()
        giving_up.cancel()
        if not line:
            raise SystemExit("perfloom demo printed no address; its messages stand above.")
        yield line
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)


def recorded(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """The recording of the tutorial, by the tutorial's own commands."""

    def record(*words: str) -> str:
        argv = [str(PERFLOOM), "record", *words]
        done = subprocess.run(argv, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    tutorial = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    program = re.search(r"^```python\n(.*?)^```", tutorial, re.MULTILINE | re.DOTALL)
    assert program is not None
    (folder / "words.py").write_text(program[1])
    slow = record("--name", "words: list", "--", "python3", "words.py")
    (folder / "words.py").write_text(program[1].replace("[]", "set()").replace("append", "add"))
    fast = record("--name", "words: set", "--", "python3", "words.py")
    (folder / "words.py").write_text(program[1])
    workload = (sys.executable, "-m", "perfloom.workload", "--seconds", "3")
    events = record(
        "--name", "Two events", "-e", "cpu-clock/freq=199/", "-e", "page-faults/period=100/", "--", *workload
    )
    return {"list": slow, "set": fast, "events": events}


def main(names: list[str]) -> None:
    """Take these screenshots, or all."""
    if unknown := set(names) - set(PICTURES):
        raise SystemExit(f"There is no picture {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}.")
    sys.path[:0] = [str(DOCS.parent), str(DOCS.parent / "tools")]
    from part_list import PARTS
    from tests.support.parts import find

    arguments = ["--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb"]
    arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="perfloom-", dir="/tmp") as temporary:
        folder = Path(temporary)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PERFLOOM_")}
        environment |= {"PERFLOOM_DATA": str(folder / "data"), "PERFLOOM_RUNTIME": str(folder / "run")}
        # python3 is the distribution's, whose names most readers see.
        environment["PATH"] = os.defpath
        with demo(folder, environment) as address, sync_playwright() as playwright:
            demo_id = urlsplit(address).path.split("/")[2]
            known = {"demo": demo_id} | recorded(folder, environment)
            browser = playwright.chromium.launch(executable_path=find(PARTS["chromium"].programs[0]), args=arguments)
            context = browser.new_context(locale="en-GB", timezone_id="UTC", reduced_motion="reduce")
            here = Here(f"http://{urlsplit(address).netloc}", folder, known, context.new_page(), environment)
            here.page.goto(address)
            wanted = {name: take for name, take in PICTURES.items() if not names or name in names}
            for take in dict.fromkeys(wanted.values()):
                take(here)
            for name in wanted:
                print(IMAGES / f"{name}.png", (IMAGES / f"{name}.png").stat().st_size, flush=True)
            browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
