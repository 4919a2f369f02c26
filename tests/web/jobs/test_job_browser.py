"""Jobs as a person meets them: `perfloom serve` with its real worker, real perf, and Chromium."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfloom.config import Settings
from perfloom.domain.jobs import JobDetails, JobSpec, JobState, SeriesRun, Side
from perfloom.domain.units import format_elapsed
from perfloom.recording.fields.events import split_events
from perfloom.store import Store, open_store
from perfloom.web.views.jobs.output import apply_carriage_returns
from tests.support.marks import slow_except
from tests.support.parts import require
from tests.support.signing import sign_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

JOB = re.compile(r"/jobs/[a-z0-9]{12}$")
LIMIT_MS = 60_000
BUSY = "import time; end = time.time() + {}\nwhile time.time() < end: sum(i * i for i in range(1000))"


@dataclass(frozen=True)
class Served:
    """A running `perfloom serve`. link: the address with the token."""

    url: str
    link: str
    store: Store

    def open(self, page: Page, path: str) -> None:
        """Go to a page, signed in."""
        sign_in(page.context, self.link)
        page.goto(self.url + path)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    require("perf")
    require("redis")
    with tempfile.TemporaryDirectory(prefix="pl-", dir="/tmp") as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PERFLOOM_")}
        environment |= {"PERFLOOM_DATA": f"{folder}/data", "PERFLOOM_RUNTIME": f"{folder}/run", "PYTHONWARNINGS": ""}
        argv = ["setpriv", "--pdeathsig", "TERM", "--", sys.executable, "-m", "perfloom.cli", "serve", "--port", "0"]
        log = Path(folder, "log")
        with log.open("wb") as errors:
            process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, env=environment)
        assert process.stdout is not None
        try:
            link = process.stdout.readline().decode().strip()
            assert link.startswith("http://"), log.read_text(errors="replace")[-3000:]
            store = open_store(Settings.load(environ=environment))
            until(lambda: any(host.facts for host in store.hosts.list()), "the worker has described its machine")
            parts = urllib.parse.urlsplit(link)
            yield Served(f"{parts.scheme}://{parts.netloc}", link, store)
            store.close()
        finally:
            process.terminate()
            process.wait(30)
            process.stdout.close()


def until(true: Callable[[], object], what: str, limit_s: float = 60) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, f"not in {limit_s} s: {what}"
        time.sleep(0.05)


def job_id(page: Page) -> str:
    return page.url.rpartition("/")[2]


def badge(page: Page, text: str) -> None:
    page.wait_for_function(
        "(text) => document.querySelector('.badge')?.textContent.trim() === text", arg=text, timeout=LIMIT_MS
    )


def preview(page: Page, *parts: str) -> None:
    """Wait until the previewed command holds each of `parts`."""
    page.wait_for_function(
        "(parts) => parts.every((part) => document.querySelector('[data-preview-command]').innerText.includes(part))",
        arg=list(parts),
    )


def start(page: Page) -> str:
    """Press Start, also once more where the form warns; the id of the job."""
    with page.expect_navigation():
        page.click("[data-start]")
    if not JOB.search(page.url):
        page.click("[data-start]:has-text('Start anyway')")
        page.wait_for_url(JOB)
    return job_id(page)


def faultless(page: Page) -> None:
    """axe finds nothing."""
    from tests.support.accessible import faults

    assert faults(page) == []


def test_from_the_form_to_the_result(page: Page, served: Served) -> None:
    page.goto(served.link)
    served.open(page, "/jobs/new")
    page.fill("#f-command", f"{sys.executable} -c '{BUSY.format(1)}\nprint(1, flush=True)'")
    page.fill("#f-name", "A busy second")
    page.fill("#f-frequency", "499")
    preview(page, "perf record -o artefacts/perf.data -F 499", "--call-graph dwarf,8192")
    page.click("text=fp")
    preview(page, "--call-graph fp")
    page.fill("#event-query", "cpu-clo")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector('[role="option"][data-event="cpu-clock"]')
    page.click('[role="option"][data-event="cpu-clock"]')
    preview(page, "-e cpu-clock")
    page.keyboard.press("Escape")
    page.click("[data-start]")
    page.wait_for_url(JOB)
    page.evaluate("window.sameDocument = true")
    badge(page, "Stored")
    assert page.evaluate("window.sameDocument"), "the page did not keep itself up to date, it was loaded again"
    assert page.title().startswith("Stored · A busy second")
    assert page.inner_text("[data-output-text]").splitlines()[0] == "1"
    stages = page.eval_on_selector_all(".rail__stage", "(all) => all.map((stage) => stage.dataset.status)")
    assert set(stages) == {"done"}
    faultless(page)
    page.click("text=Open the result")
    page.wait_for_url(re.compile(r"/results/[a-z0-9]{12}/flamegraph"))


@pytest.mark.slow
def test_a_result_is_opened_automatically_only_on_request(page: Page, served: Served) -> None:
    served.open(page, "/jobs/new")
    page.fill("#f-command", f"{sys.executable} -c '{BUSY.format(1)}'")
    start(page)
    page.check("[data-forward-choice]")
    page.wait_for_url(re.compile(r"/results/[a-z0-9]{12}"), timeout=LIMIT_MS)


def test_the_end_of_a_run_series_is_shown_while_a_table_has_the_focus(page: Page, served: Served) -> None:
    place = SeriesRun("series000000", 0, Side.BASE, 1)
    job = served.store.jobs.create(
        "record", JobSpec().to_json(), "a", due_at=time.time() + 3600, details=JobDetails(series=place)
    )
    served.open(page, f"/jobs/{job.id}/series")
    page.focus(".table-wrap")
    assert served.store.jobs.transition(job.id, JobState.QUEUED, JobState.CANCELLED)
    page.wait_for_selector("text=1 of 2 runs has no result", timeout=LIMIT_MS)


def test_cancel_ends_the_whole_tree(page: Page, served: Served) -> None:
    served.open(page, "/jobs/new")
    page.fill("#f-command", "sh -c 'sleep 300 & (setsid sleep 300 &) ; echo started; wait'")
    id = start(page)
    page.wait_for_function(
        "() => document.querySelector('[data-output-text]').textContent.includes('started')", timeout=LIMIT_MS
    )
    assert processes_of(id)
    page.click("text=Cancel")
    badge(page, "Cancelled")
    assert processes_of(id) == []
    assert "It was cancelled" in page.inner_text(".verdict")
    faultless(page)


def processes_of(id: str) -> list[str]:
    """The processes that carry a job's mark."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and f"PERFLOOM_JOB={id}".encode() in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


def test_an_impossible_recording_shows_the_reason(page: Page, served: Served) -> None:
    served.open(page, "/jobs/new")
    page.fill("#f-command", "true")
    page.fill("#event-query", "nosuchevent")
    page.keyboard.press("Enter")
    start(page)
    badge(page, "Failed")
    assert "nosuch" in page.inner_text(".verdict__reason")
    faultless(page)
    page.click("text=Edit and resubmit")
    assert page.input_value("#f-events") == "nosuchevent"
    # A script writes the chips.
    page.locator("[data-event-chips]", has_text=re.compile("^nosuchevent")).wait_for()


def test_a_failing_command_is_stored_with_its_status(page: Page, served: Served) -> None:
    served.open(page, "/jobs/new")
    page.fill("#f-command", f"{sys.executable} -c '{BUSY.format(0.5)}\nraise SystemExit(3)'")
    start(page)
    badge(page, "Stored")
    assert "exit status 3" in page.inner_text("[data-part=state]")


def test_errors_are_shown_during_input(page: Page, served: Served) -> None:
    served.open(page, "/jobs/new")
    # Fields that the user has not reached yet have no errors.
    assert page.locator(".finding").count() == 0
    page.fill("#f-command", "echo 'a")
    page.wait_for_selector("#e-command .finding[data-level=error]")
    assert page.get_attribute("#f-command", "aria-invalid") == "true"
    page.fill("#f-command", "no-such-program-anywhere")
    page.wait_for_selector("#e-command :text('was not found in PATH')")
    page.click("text=Directory, input files, environment")
    page.fill("#f-cwd", "/no/such/directory")
    page.fill("#f-command", "true")
    page.wait_for_selector("#e-cwd .finding[data-level=error]")
    page.wait_for_function("() => document.querySelector('#e-command').childElementCount === 0")
    assert page.get_attribute("#f-command", "aria-invalid") is None
    page.click("[data-start]")
    page.wait_for_selector("[data-summary]")
    assert page.evaluate("document.activeElement.matches('[data-summary]')")
    assert page.input_value("#f-cwd") == "/no/such/directory" and page.input_value("#f-command") == "true"
    faultless(page)


def test_only_relevant_fields_are_shown(page: Page, served: Served) -> None:
    served.open(page, "/jobs/new")

    def shown(*names: str) -> list[bool]:
        return [page.is_visible(f"#f-{name}") for name in names]

    assert shown("command", "frequency", "stack_bytes") == [True, True, True]
    assert shown("pid", "per_cpu", "interval", "steps", "torch_memory") == [False] * 5
    page.click("text=A running process")
    assert shown("command", "pid", "per_cpu") == [False, True, False]
    page.click("text=The whole system")
    assert shown("command", "pid", "per_cpu") == [True, False, True]
    page.click("text=perf stat")
    assert shown("frequency", "interval", "repeat", "stack_bytes") == [False, True, True, False]
    page.click("text=perf record")
    page.click("text=No stacks")
    assert shown("stack_bytes", "frequency", "period") == [False, True, False]
    page.click("label.choice >> text=Period")
    assert shown("frequency", "period") == [False, True]
    page.check("[name=scope][value=command]")
    page.check("[name=recorder][value=pytorch]")
    assert shown("steps", "torch_seconds", "torch_memory", "torch_stacks") == [True] * 4
    assert not any(shown("frequency", "period", "stack_bytes", "interval", "repeat", "call_graph", "splitting"))
    assert not page.is_visible("#event-query")
    page.fill("#f-command", "python3 /train.py")
    page.fill("#f-steps", "1,1,0,1")
    page.wait_for_selector("#e-steps :text('is not a valid schedule')")
    faultless(page)
    page.fill("#f-steps", "whole")
    preview(page, "PERFLOOM_TORCH_STEPS=whole", "python3 /train.py")


@pytest.mark.slow
def test_thousands_of_events_stay_quick_and_work_by_keyboard(page: Page, served: Served) -> None:
    host = served.store.hosts.list()[0]
    assert host.facts
    served.open(page, "/jobs/new")
    page.click("#event-query")
    page.wait_for_selector('[role="option"]')
    assert page.get_attribute("#event-query", "aria-expanded") == "true"
    assert f"{len(host.facts.events):,}" in page.inner_text(".events__said")
    faultless(page)
    first = page.locator('[role="option"]').count()
    if first < len(host.facts.events):  # Tracepoints are for root.
        page.evaluate("document.querySelector('#event-list').scrollTo(0, 1e6)")
        page.wait_for_function("(count) => document.querySelectorAll('[role=option]').length > count", arg=first)
    page.fill("#event-query", "faults")
    page.wait_for_function("() => document.querySelector('[role=option]').dataset.event === 'faults'")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    active = page.get_attribute("#event-query", "aria-activedescendant")
    name = page.get_attribute(f"#{active}", "data-event")
    page.keyboard.press("Enter")
    assert page.input_value("#f-events") == name
    assert page.get_attribute(f"#{active}", "aria-selected") == "true"
    page.fill("#event-query", "r01c4")
    page.wait_for_selector('[role="option"][data-typed]')
    page.keyboard.press("Enter")
    assert page.input_value("#f-events") == f"{name}\nr01c4"
    page.click(f'[aria-label="Remove {name}"]')
    assert page.input_value("#f-events") == "r01c4"
    page.keyboard.press("Backspace")
    assert page.input_value("#f-events") == ""
    page.keyboard.press("Escape")
    assert not page.is_visible("#event-list")
    assert page.url.endswith("/jobs/new"), "Enter in the search must not send the form"
    timing = page.evaluate(
        """async () => {
            const start = performance.now();
            for (const query of ['s', 'sc', 'sched', 'sched sw', '']) {
                await (await fetch(`/jobs/events?query=${query}`)).json();
            }
            return (performance.now() - start) / 5;
        }"""
    )
    assert timing < 250, f"{timing} ms for a search"


@pytest.mark.slow
def test_presets_by_hand(page: Page, served: Served) -> None:
    served.open(page, "/jobs/new")
    page.fill("#f-frequency", "77")
    page.click("text=Save as a preset")
    page.fill("#f-preset_name", "Slow & <b>steady</b>")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Saved the preset")
    assert page.input_value("#f-frequency") == "77"
    served.open(page, "/jobs/new")
    page.click("summary:has-text('Presets')")
    faultless(page)
    page.click("a:has-text('Slow & <b>steady</b>')")
    page.wait_for_url(re.compile("preset="))
    assert page.input_value("#f-frequency") == "77"
    page.click("summary:has-text('Presets')")
    page.click("[aria-label^='Delete the preset']")
    page.wait_for_selector("text=Deleted the preset")
    assert served.store.presets.list() == ()


def test_the_output_of_a_program_comes_as_it_is_printed(page: Page, served: Served) -> None:
    script = "\n".join(
        [
            "import sys, time",
            "write = lambda text: (sys.stdout.write(text), sys.stdout.flush(), time.sleep(0.4))",
            "write('\\x1b[31mred\\x1b[0m <script>window.pwned = 1</script>\\n')",
            "for n in range(4): write(f'{n * 25} %\\r')",
            "write('all \\u20ac\\n')",
            "print('x' * 3_000_000)",
            "print('the last line')",
        ]
    )
    served.open(page, "/jobs/new")
    page.fill("#f-command", f'{sys.executable} -c "{script}"'.replace("\\x", "\\\\x"))
    page.fill("#f-frequency", "49")
    start(page)
    page.wait_for_function("() => document.querySelector('[data-output-text]').textContent.includes('red <script>')")
    badge(page, "Stored")
    page.wait_for_function("() => document.querySelector('[data-output-text]').textContent.includes('the last line')")
    text = page.inner_text("[data-output-text]")
    assert len(text) < 500_000 and "\x1b" not in text
    assert page.evaluate("window.pwned") is None
    whole = page.evaluate("async () => (await fetch(document.querySelector('[data-output-download]').href)).text()")
    assert "all €" in whole and whole.count("x") >= 1_000_000


def test_scripts_and_server_agree(page: Page, served: Served) -> None:
    """What the page does by itself is what the server would have done."""
    served.open(page, "/jobs")
    texts = ["cycles,instructions:u\nr1", "cpu/event=1,umask=2/,x", "{a,b}:S,c", "mem:0x1/8:rw,d", " , ,e ", "cpu/a,b"]
    events = page.evaluate(
        "async (texts) => { const m = await import('/static/js/job-events.js'); return texts.map(m.splitEvents); }",
        texts,
    )
    assert events[:-1] == [list(split_events(text)) for text in texts[:-1]]
    seconds = [0, 0.04, 3.14, 9.96, 42, 99.4, 99.6, 125, 3599, 7199, 7200, 7260, 90_000, 172_799, 172_800, 200_000]
    written = page.evaluate(
        "async (seconds) => { const m = await import('/static/js/ticks.js'); return seconds.map(m.elapsed); }", seconds
    )
    assert written == [format_elapsed(value) for value in seconds]
    pieces = ["one\n10%\r", "20%", "\r100", "%\r\nend\rEND\n", "a\rb", "\r", "c"]
    joined = page.evaluate(
        """async (pieces) => {
            const m = await import('/static/js/job-output.js');
            return pieces.reduce(m.appended, '').replace(/\\r$/, '');
        }""",
        [piece.replace("\r\n", "\n") for piece in pieces],
    )
    assert joined == apply_carriage_returns("".join(pieces))


@pytest.fixture
def plain(browser: Browser) -> Iterator[Page]:
    """A page without JavaScript."""
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


@pytest.mark.slow
def test_all_of_it_without_scripts(plain: Page, served: Served) -> None:
    served.open(plain, "/jobs/new")
    for name in (
        "command",
        "pid",
        "per_cpu",
        "frequency",
        "period",
        "interval",
        "repeat",
        "stack_bytes",
        "events",
        "steps",
    ):
        assert plain.is_visible(f"#f-{name}"), name
    plain.fill("#f-command", f"{sys.executable} -c '{BUSY.format(1)}\nprint(42)'")
    plain.fill("#event-query", "cpu-clock")
    with plain.expect_navigation():
        plain.click("button:has-text('Search')")
    plain.check("[name=event][value=cpu-clock]")
    with plain.expect_navigation():
        plain.click("button:visible:has-text('Preview')")
    assert "-e cpu-clock" in plain.inner_text("[data-preview-command]")
    start(plain)
    # The page loads itself again until the job has ended.
    plain.wait_for_selector(".badge[data-state=stored]", timeout=LIMIT_MS)
    assert plain.inner_text("[data-output-text]").startswith("42")
    plain.click("text=Open the result")
    plain.wait_for_url(re.compile(r"/results/[a-z0-9]{12}"))


@pytest.mark.slow
def test_cancel_without_scripts(plain: Page, served: Served) -> None:
    served.open(plain, "/jobs/new")
    plain.fill("#f-command", "sleep 300")
    id = start(plain)
    plain.wait_for_selector(".badge[data-state=running]", timeout=LIMIT_MS)
    plain.click("text=Cancel")
    plain.wait_for_selector(".badge[data-state=cancelled]", timeout=LIMIT_MS)
    assert served.store.jobs.get(id).state is JobState.CANCELLED
    assert processes_of(id) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", slow_except([360], [360, 1280]))
def test_every_page_is_accessible_and_fits(browser: Browser, served: Served, width: int) -> None:
    from tests.support.accessible import faults_in_both_schemes

    context = browser.new_context(viewport={"width": width, "height": 800}, reduced_motion="reduce")
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    store = served.store
    long = {"command": ["x" * 500, "y z"], "events": ["e" * 300], "cwd": "/" + "w" * 300}
    failed = store.jobs.create("record", long, "n" * 200, state=JobState.DRAFT)
    store.jobs.transition(failed.id, JobState.DRAFT, JobState.FAILED, reason="r" * 300, argv=["perf", "v" * 500])
    store.jobs.directory(failed.id).mkdir(parents=True, exist_ok=True)
    (store.jobs.directory(failed.id) / "output.log").write_text("o" * 3000 + "\n" + "line\n" * 200)
    for path in (
        "/jobs/new",
        f"/jobs/new?from={failed.id}",
        f"/jobs/{failed.id}",
        "/jobs",
        f"/jobs/{failed.id}/delete",
    ):
        served.open(page, path)
        page.wait_for_load_state("networkidle")
        assert faults_in_both_schemes(page) == [], path
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} px wider than the window"
    context.close()
    store.jobs.delete(failed.id)
    assert faults == []
