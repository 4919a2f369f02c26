"""Targets as a person meets them: a real server with its worker, real hosts over SSH, and Chromium."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfloom.domain.errors import Prompt
from perfloom.domain.jobs import Batch
from perfloom.domain.targets import BatchQueue, BatchState, SchedulerName, Ssh, Target
from perfloom.recording.probe.check_messages import CheckRequest, CheckResult, HostKey, ProbeJob
from perfloom.recording.probe.check_report import check_lines
from perfloom.recording.probe.probe import parse_probe
from perfloom.recording.probe.target_text import fingerprint
from tests.recording.probe.answers import RED_HAT, printed
from tests.support import sshd as servers
from tests.support.accessible import faults_in_both_schemes
from tests.support.signing import sign_in
from tests.web.jobs.test_job_browser import Served
from tests.web.jobs.test_job_browser import served as served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LIMIT_MS = 60_000
KEY = "node7 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB3xG8q1z0Yx3k1n7sF5p2mZ2d0R1u8mJx0c8O8q2v5T"
PAGES = ("", "/new", "/big", "/never%20checked")


@pytest.fixture
def far() -> Iterator[servers.Sshd]:
    """A host with an account that has a password, and a perf that answers at once."""
    with servers.sshd(account=servers.Account(password=True)) as server:
        perf = server.folder / "perf"
        perf.write_text('#!/bin/sh\n[ "$1" != --version ] || echo "perf version 9.9"\n')
        perf.chmod(0o755)
        yield server


@pytest.fixture(scope="module")
def places(served: Served) -> dict[str, str]:
    """Targets of every sort, and the ids of checks in every phase."""
    targets, checks = served.store.targets, served.store.checks
    big = Target(
        "big",
        ssh=Ssh("login.example.org", user="ada", jump=("gate",), host_keys=(KEY,)),
        scheduler=SchedulerName.SLURM,
        modules=("intel",),
        notes="Ask Ada.",
    )
    targets.save(big)
    facts = parse_probe(printed(*RED_HAT), big, time.time())
    facts = replace(
        facts, queues=(BatchQueue("normal", True, True, 86_400, "12 nodes"), BatchQueue("gpu", False, False))
    )
    targets.save_check("big", facts, check_lines(big, facts))
    targets.save(Target("never checked", ssh=Ssh("x" * 120, password=True)))

    def asked(name: str, answer: CheckResult) -> str:
        check = checks.ask(CheckRequest(name, Batch()).to_json())
        checks.answer(check.id, answer.to_json())
        return f"/{name}?check={check.id}".replace(" ", "%20")

    # Polled rarely: its next check is in the future.
    job = ProbeJob("4711", "/d/check-abcdefabcdef", time.time(), BatchState.PENDING, "PD", "Resources", 3)
    targets.save(replace(big, poll_s=3000.0))
    return {
        "key": asked("never checked", CheckResult("x", HostKey("node7", KEY, fingerprint(KEY)))),
        "secret": asked("never checked", CheckResult("A password is needed.", prompts=(Prompt("a", "Password of a"),))),
        "failed": asked("big", CheckResult("The host does not answer.")),
        "waiting": asked("big", CheckResult(job=job)),
    }


@pytest.mark.slow
def test_accessible_and_never_wider_than_the_window(page: Page, served: Served, places: dict[str, str]) -> None:
    problems = {}
    for path in (*PAGES, *places.values()):
        served.open(page, f"/targets{path}")
        found = faults_in_both_schemes(page)
        if found:
            problems[path] = found
        for width in (360, 1400):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
    assert problems == {}


def test_fields_appear_by_choice_and_all_are_there_without_scripts(
    browser: Browser, page: Page, served: Served
) -> None:
    served.open(page, "/targets/new")
    assert page.is_visible("#f-host") and page.is_visible("#f-jump")
    page.check('[name="way"][value="here"]')
    assert not page.is_visible("#f-host") and not page.is_visible("#f-password") and page.is_visible("#f-directory")
    page.keyboard.press("Tab")
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.goto(served.link)
    plain.goto(f"{served.url}/targets/new")
    plain.check('[name="way"][value="here"]')
    assert plain.is_visible("#f-host")
    plain.context.close()


def add(page: Page, served: Served, far: servers.Sshd, name: str) -> None:
    served.open(page, "/targets")
    page.click("text=New target")
    for field, value in (("name", name), ("host", far.host), ("user", far.user), ("port", str(far.port))):
        page.fill(f"#f-{field}", value)
    page.fill("#f-perf", str(far.folder / "perf"))
    page.fill("#f-directory", str(far.home / "jobs"))
    page.uncheck("#f-agent")
    page.uncheck("#f-config")
    page.check("#f-password")
    page.click("text=Add the target")
    page.wait_for_selector("text=Added the target")


def test_from_an_empty_form_to_a_checked_target(page: Page, served: Served, far: servers.Sshd) -> None:
    """The key is unknown, then a password is needed: each is a person's deliberate act, and the page leads there."""
    add(page, served, far, "my host")
    page.get_by_role("button", name="Check", exact=True).first.click()
    page.wait_for_selector("text=Is this the right host?", timeout=LIMIT_MS)
    mark = fingerprint(far.known)
    assert mark in page.inner_text("main")
    page.click("text=accept this key")
    page.wait_for_selector("text=Password required", timeout=LIMIT_MS)
    assert page.get_attribute('input[type="password"]', "autocomplete") == "off"
    page.fill('input[type="password"]', servers.WORD)
    page.click("text=Continue")
    page.wait_for_selector("text=Version 9.9", timeout=LIMIT_MS)
    text = page.inner_text("main")
    assert "The check is done" in text and f"as {far.user}" in text and mark in text
    assert servers.WORD not in page.content() and servers.WORD not in page.url
    data = served.store.settings.data
    kept = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert servers.WORD.encode() not in kept
    page.reload()
    assert "Version 9.9" in page.inner_text("main")


@pytest.mark.slow
def test_the_same_without_scripts(browser: Browser, served: Served, far: servers.Sshd) -> None:
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(LIMIT_MS)
    page = context.new_page()
    sign_in(page.context, served.link)
    add(page, served, far, "plain host")
    page.get_by_role("button", name="Check", exact=True).first.click()
    page.wait_for_selector("text=Is this the right host?")
    page.click("text=accept this key")
    page.wait_for_selector("text=Password required")
    page.locator(".check-key").get_by_label("Password").fill(servers.WORD)
    page.click("text=Continue")
    page.wait_for_selector("text=Version 9.9")
    assert servers.WORD not in page.content() and "http-equiv" not in page.content()
    context.close()


def test_a_file_fills_the_form(page: Page, served: Served, places: dict[str, str], tmp_path: Path) -> None:
    served.open(page, "/targets/big")
    page.click("text=More")
    with page.expect_download() as saved:
        page.click("text=Save as TOML")
    path = tmp_path / "big.toml"
    saved.value.save_as(path)
    served.open(page, "/targets/new")
    page.set_input_files("#target-file", path)
    page.wait_for_selector("text=Nothing is saved yet")
    assert page.input_value("#f-host") == "login.example.org" and page.input_value("#f-notes") == "Ask Ada."
    assert page.is_checked('[name="scheduler"][value="slurm"]')


def test_a_probe_job_that_waits_is_followed(page: Page, served: Served, places: dict[str, str]) -> None:
    served.open(page, f"/targets{places['waiting']}")
    assert "waits in the queue, 3 ahead: Resources" in page.inner_text("main")
    id = re.search(r"check=(\w+)", page.url)
    assert id is not None
    with page.expect_response(lambda response: f"/check/{id[1]}" in response.url) as answer:
        pass
    assert answer.value.json()["final"] is False and page.is_visible("text=Cancel the probe job")
