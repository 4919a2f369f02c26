"""The job form and the page of a job for targets, in Chromium: fields that appear, ranks that change, passwords."""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from perfloom.domain.errors import Prompt
from perfloom.domain.host_facts import HostFacts, PerfEvent
from perfloom.domain.jobs import Executor, JobDetails, JobSpec, JobState, Mpi, MpiFlavor
from perfloom.domain.targets import BatchQueue, BatchState, BatchStatus, SchedulerName, Ssh, Target, TargetFacts
from perfloom.recording.job_status import JobStatus, RankStatus, RunStatus, SubmissionStatus
from perfloom.sealing import KeyPair
from perfloom.store import Store, open_store
from tests.support.accessible import faults
from tests.support.signing import sign_in
from tests.web.conftest import HOSTILE
from tests.web.jobs.test_job_page import job
from tests.web.jobs.test_job_progress import SPEC, ranks, seen
from tests.web.serving import Served, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NARROW, WIDE = 400, 1700


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("targets"), filled=False) as here:
        yield here


@pytest.fixture(scope="module")
def store(server: Served) -> Iterator[Store]:
    store = open_store(server.settings, migrate=False)
    store.targets.save(Target("ws", ssh=Ssh("ws3", user="ada", password=True), sudo=True))
    store.targets.save(Target("cluster", ssh=Ssh("login"), scheduler=SchedulerName.SLURM))
    store.targets.save(Target("farm", scheduler=SchedulerName.LSF))
    events = (PerfEvent("cycles", "hardware", "of the cluster"),)
    facts = TargetFacts(
        HostFacts("login1", perf="/usr/bin/perf", perf_version="5.14", hardware_counters=True, events=events),
        queues=(BatchQueue("debug", default=True), BatchQueue("<b>long", text="7 days")),
    )
    store.targets.save_check("cluster", facts, ())
    yield store
    store.close()


def opened(page: Page, server: Served, path: str) -> None:
    sign_in(page.context, server.entry)
    page.goto(server.url + path)


def shown(page: Page, *names: str) -> list[str]:
    return [name for name in names if page.is_visible(f"#f-{name}")]


def fits(page: Page) -> None:
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{page.url} is {wide} px wider than the window"


def test_the_fields_of_a_target_appear_with_it(page: Page, server: Served, store: Store) -> None:
    opened(page, server, "/jobs/new")
    fields = ("queue", "nodes", "resources", "sudo", "ranks", "every", "events_per_run")
    assert shown(page, *fields) == []
    page.fill("#f-command", "./solver")
    page.select_option("#f-target", "cluster")
    assert shown(page, *fields) == ["queue", "nodes"]
    assert page.inner_text("label[for=f-queue]") == "Partition"
    # What is known of it comes with the next preview.
    page.wait_for_selector("[data-place-text]:has-text('login1')")
    assert page.eval_on_selector_all("#queues option", "(all) => all.map((one) => one.value)") == ["debug", "<b>long"]
    page.fill("#f-queue", "typed before")
    page.select_option("#f-target", "farm")
    assert shown(page, *fields) == ["queue", "resources"]
    assert page.input_value("#f-queue") == "typed before"
    page.select_option("#f-target", "ws")
    assert shown(page, *fields) == ["sudo"]
    page.select_option("#f-mpi", "openmpi")
    assert shown(page, *fields) == ["sudo", "ranks", "every"]
    page.click("text=Instead of ranks the whole system")
    assert shown(page, *fields) == ["sudo", "ranks"]
    page.click("text=More events than counters")
    page.click("text=All runs at once")
    assert shown(page, "events_per_run") == ["events_per_run"]


def test_the_whole_command_and_the_events_of_a_target(page: Page, server: Served, store: Store) -> None:
    opened(page, server, "/jobs/new?target=cluster")
    page.fill("#f-command", "./solver 'a b'")
    page.select_option("#f-mpi", "openmpi")
    page.wait_for_selector("[data-preview-note]:has-text('Enter the number of ranks')")
    page.fill("#f-ranks", "4")
    page.wait_for_function(
        """() => ['ssh login', 'sbatch', 'mpirun', 'perf record', "./solver 'a b'"].every(
            (part) => document.querySelector('[data-preview-command]').innerText.includes(part))"""
    )
    depths = page.eval_on_selector_all(".preview__line", "(all) => all.map((one) => Number(one.dataset.depth))")
    assert depths == sorted(depths) and depths[0] == 0 and depths[-1] > 2
    page.click("#event-query")
    page.wait_for_selector('[role="option"][data-event="cycles"]:has-text("of the cluster")')
    page.keyboard.press("Escape")
    page.click("text=As text")
    page.fill("#f-events", "cycles,branches")
    page.click("text=More events than counters")
    page.click("text=One run per group")
    page.fill("#f-events_per_run", "1")
    page.wait_for_function("() => document.querySelectorAll('[data-groups-list] li').length === 2")


def test_a_password_is_sent_only_with_the_job(page: Page, server: Served, store: Store) -> None:
    pair = KeyPair.generate()
    store.hosts.publish_key("node17", pair.key_id, pair.public)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(f"{request.url} {request.post_data or ''}"))
    opened(page, server, "/jobs/new")
    assert not page.is_visible("input[type=password]")
    page.fill("#f-command", "./solver")
    page.select_option("#f-target", "ws")
    page.fill("input[type=password]", "hush hush")
    page.fill("#f-name", "with a password")
    page.wait_for_function("() => document.querySelector('[data-preview-command]').innerText.includes('ssh ada@ws3')")
    assert not any("hush" in one for one in sent)
    page.click("[data-start]")
    page.wait_for_selector("[data-summary]")
    assert page.input_value("input[type=password]") == "", "the server does not give it back"
    page.fill("input[type=password]", "hush hush")
    store.hosts.heartbeat("node17")
    page.click("[data-start]:has-text('Start')")
    page.wait_for_selector("[data-job]")
    id = page.get_attribute("[data-job]", "data-job") or ""
    (sealed,) = store.credentials.get(f"job:{id}")
    assert pair.open(sealed.sealed, f"job:{id}", time.time()) == {"password": "hush hush"}
    store.jobs.transition(id, JobState.QUEUED, JobState.CANCELLED)
    store.hosts.delete("node17")


def test_ranks_are_updated_live(page: Page, server: Served, store: Store) -> None:
    made = job(store, JobState.RUNNING, spec=SPEC, details=JobDetails(executor=Executor.SCRIPTS))
    seen(store, made, JobStatus((), (RunStatus(0, "running"),), ranks(0, *["recording"] * 4), seen_at=time.time()))
    opened(page, server, f"/jobs/{made.id}")
    page.evaluate("window.sameDocument = true")
    assert page.locator('.ranks-named .rank[data-state="recording"]').count() == 4
    seen(
        store,
        made,
        JobStatus((), (RunStatus(0, "ended"),), ranks(0, "done", "done", "failed", "done"), seen_at=time.time()),
    )
    page.wait_for_selector('.ranks-named .rank[data-state="done"]')
    assert page.locator('.ranks-named .rank[data-state="done"]').count() == 3
    assert page.evaluate("window.sameDocument")
    store.jobs.transition(made.id, JobState.RUNNING, JobState.CANCELLED)


def test_input_is_kept_while_the_page_updates(page: Page, server: Served, store: Store) -> None:
    pair = KeyPair.generate()
    store.hosts.publish_key("node17", pair.key_id, pair.public)
    needs = (Prompt("password", "Password of ada on ws3"),)
    made = job(
        store,
        JobState.STAGING,
        spec=JobSpec(target="ws", command=("x",)),
        details=JobDetails(executor=Executor.SCRIPTS, needed_secrets=needs),
    )
    opened(page, server, f"/jobs/{made.id}")
    page.fill("input[type=password]", "hush")
    assert faults(page) == []
    store.jobs.transition(
        made.id, JobState.STAGING, JobState.RUNNING, details=JobDetails(executor=Executor.SCRIPTS, needed_secrets=needs)
    )
    page.wait_for_selector(".badge[data-state=running]")
    assert page.input_value("input[type=password]") == "hush"
    store.hosts.heartbeat("node17")
    with page.expect_navigation():
        page.click("text=Continue")
    assert pair.open(store.credentials.get(f"job:{made.id}")[0].sealed, f"job:{made.id}", time.time())
    store.jobs.transition(made.id, JobState.RUNNING, JobState.CANCELLED)
    store.hosts.delete("node17")


def full(store: Store) -> list[str]:
    """Jobs of which there is very much to show."""
    spec = JobSpec(target="cluster", command=("x",), mpi=Mpi(MpiFlavor.SRUN, 1024))
    many = job(store, JobState.RUNNING, spec=spec)
    states = ("started", "recording", "ended", "reading", "done")
    found = tuple(
        RankStatus(0, n, f"n{n // 48}", states[n % 5], recorded=n % 7 != 0, exit_status=n % 90 == 0)
        for n in range(1000)
    )
    batch = BatchStatus("4711", BatchState.RUNNING, "R", hosts=tuple(f"n{n}" for n in range(22)))
    seen(
        store,
        many,
        JobStatus(
            (SubmissionStatus(0, "4711", batch=batch),), (RunStatus(0, "running"), RunStatus(1, "waiting")), found
        ),
    )
    evil = job(store, JobState.RUNNING, spec=JobSpec(target=HOSTILE[0], command=HOSTILE), name=HOSTILE[1])
    word = "w" * 300
    batch = BatchStatus(word, BatchState.PENDING, word, HOSTILE[1] + word, 3, hosts=(word, HOSTILE[0]))
    rank = RankStatus(0, 0, word, "recording", note=word + HOSTILE[2], exit_status=1)
    notes = (HOSTILE[7], word)
    seen(
        store,
        evil,
        JobStatus((SubmissionStatus(0, word, batch=batch),), (RunStatus(0, word),), (rank,), notes=notes),
        [(word,)],
    )
    return [many.id, evil.id]


@pytest.mark.slow
def test_everything_fits_and_is_accessible(browser: Browser, server: Served, store: Store) -> None:
    ids = full(store)
    form = urllib.parse.quote("cluster")
    paths = [f"/jobs/new?target={form}", "/jobs/new?target=ws", *(f"/jobs/{id}" for id in ids), "/jobs", "/"]
    for scheme, width in (("light", NARROW), ("dark", WIDE)):
        context = browser.new_context(
            color_scheme=scheme,  # type: ignore[arg-type]
            viewport={"width": width, "height": 900},
            reduced_motion="reduce",
        )
        page = context.new_page()
        said: list[str] = []
        page.on(
            "console",
            lambda message, said=said: said.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        for path in paths:
            opened(page, server, path)
            if "new" in path:
                page.select_option("#f-mpi", "openmpi")
                page.eval_on_selector_all("details.disclosure", "(all) => { for (const one of all) one.open = true; }")
            assert faults(page) == [], path
            fits(page)
            assert page.evaluate("window.pwned") is None
        assert said == []
        context.close()
    for id in ids:
        store.jobs.transition(id, JobState.RUNNING, JobState.CANCELLED)


def test_another_target_without_scripts(browser: Browser, server: Served, store: Store) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    opened(page, server, "/jobs/new")
    page.fill("#f-command", "./solver\n --size 3")
    assert shown(page, "queue", "ranks") == ["ranks"]
    page.select_option("#f-target", "cluster")
    with page.expect_navigation():
        page.click("text=Show its fields")
    assert shown(page, "queue", "nodes", "resources") == ["queue", "nodes"]
    assert page.input_value("#f-command") == "./solver\n --size 3"
    assert page.input_value("#f-target") == "cluster"
    context.close()
