"""Where a user looks for waiting: the time off the CPU, or what to record."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
import zstandard

from perfloom.domain.jobs import JobSpec
from perfloom.domain.profile import Profile
from perfloom.domain.timed_events import SLEEPING
from perfloom.readers import perf_script
from perfloom.store import Store
from tests.support import paths
from tests.support.profiles import profile_of
from tests.web.conftest import Browser

RESULT = "/results/ordinary0000"
LINK = "Record the time off the CPU"


def waits() -> Profile:
    """A real recording with time off the CPU."""
    packed = (paths.DATA / "perf" / "off-cpu.script.txt.zst").read_bytes()
    return perf_script.read(io.BytesIO(zstandard.ZstdDecompressor().stream_reader(packed).read()))


def running(*more: str) -> Profile:
    """One thread that runs for 0.1 s, with further events."""
    events = ("cpu-clock", *more)
    samples = [(f"main;work{number}", 1_000_000, 0, 1_000_000 * at) for at in range(100) for number in (0,)]
    return profile_of(samples, events=tuple((name, "ns") for name in events))


@pytest.mark.parametrize("page", ["", "/flamegraph"])
def test_a_recording_without_it_links_to_the_form(
    stored: Callable[..., str], browser_client: Browser, page: str
) -> None:
    stored(running())
    text = browser_client.page(RESULT + page)
    assert LINK in text and 'href="/jobs/new?off_cpu=1"' in text
    assert re.search(r'name="off_cpu"[^>]* checked', browser_client.page("/jobs/new?off_cpu=1"))
    assert not re.search(r'name="off_cpu"[^>]* checked', browser_client.page("/jobs/new"))
    browser_client.page("/jobs/new?off_cpu=maybe", 400)


def test_the_form_is_filled_from_the_job(browser_client: Browser, store: Store) -> None:
    job = store.jobs.create("record", JobSpec(command=("./solver", "in.txt")).to_json(), "solver")
    text = browser_client.page(f"/jobs/new?from={job.id}&off_cpu=1")
    assert "./solver in.txt" in text and re.search(r'name="off_cpu"[^>]* checked', text)


def test_a_recording_with_it_shows_it(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(waits())
    for page in ("", "/flamegraph", "/advice", "/timeline", "/threads"):
        assert LINK not in browser_client.page(RESULT + page)
    assert "from context switches" in browser_client.page(RESULT)
    graph = browser_client.page(f"{RESULT}/flamegraph.svg?event={SLEEPING.replace(' ', '+')}")
    assert "waiting" in graph and "consume" in graph
    # CPUs are idle because threads wait: the advice leads there.
    advice = browser_client.page(f"{RESULT}/advice")
    assert "CPUs are idle" in advice and "Flame graph of the time off the CPU" in advice
    # The rules for traces of PyTorch do not apply to the states of threads.
    assert "GPU" not in re.sub(r"<[^>]*>", " ", advice)
    tracks = browser_client.page(f"/api/v1{RESULT}/timeline")
    assert "consumer" in tracks and "states" in tracks


@pytest.mark.parametrize("event", [SLEEPING, "lock wait time"])
def test_nothing_is_offered_where_waits_are_known(
    stored: Callable[..., str], browser_client: Browser, event: str
) -> None:
    stored(running(event))
    assert LINK not in browser_client.page(RESULT)
