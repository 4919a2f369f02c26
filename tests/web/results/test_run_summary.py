"""The run summary on the overview: what is known of how events were sampled, and what is not."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from perfloom.domain.profile import Profile
from perfloom.domain.rank_state import CPUS_FACT, GOVERNOR_FACT
from perfloom.readers import perf_data
from tests.support.formats import profile_of
from tests.web.conftest import HOSTILE, Browser

ID = "summary00000"


@pytest.fixture
def overview(browser_client: Browser, stored: Callable[..., str]) -> Callable[[Profile], str]:
    """The text of the run summary of a profile."""

    def show(profile: Profile) -> str:
        stored(profile, ID, name="a recording")
        page = browser_client.page(f"/results/{ID}")
        section = re.search(r'<section[^>]*id="run-summary">(.*?)</section>', page, re.DOTALL)
        return " ".join(re.sub(r"<[^>]*>", " ", section[1]).split()) if section else ""

    return show


def test_recording_of_perf(overview: Callable[[Profile], str]) -> None:
    shown = overview(profile_of("perf-script"))
    assert "cpu-clock every 5.00 ms user, kernel 0 frame pointers 163 ms" in shown
    assert "page-faults every 200th user, kernel" in shown
    assert "Kernel 6.18.44-fc-v657" in shown and "CPU AMD EPYC" in shown
    assert "3 unknown Frequency governor Not in this file. A job records it where the command starts." in shown
    assert "Counter" not in shown, "software events need none"


def test_facts_of_a_job(overview: Callable[[Profile], str]) -> None:
    profile = profile_of("perf-script")
    facts = profile.meta.facts | {GOVERNOR_FACT: "powersave", CPUS_FACT: f"0-3{HOSTILE}"}
    shown = overview(replace(profile, meta=replace(profile.meta, facts=facts)))
    assert "Frequency governor powersave" in shown and "CPU pinning 0-3" in shown
    assert "1 unknown Overhead of recording Record with a job that also runs once without recording" in shown


def test_event_without_samples(overview: Callable[[Profile], str]) -> None:
    text = """# event : name = cycles, , id = { 1 }, type = 0, size = 128, sample_type = IP, { sample_period, sample_freq } = 5
# event : name = cache-misses, , id = { 2 }, type = 0, size = 128, sample_type = IP, { sample_period, sample_freq } = 7
a 1/1 [003] 5.000000000: 7 cycles: 10 f (/bin/a)
"""
    shown = overview(perf_data.read(io.BytesIO(text.encode())))
    assert re.search(r"cache-misses .{0,40}no samples", shown), shown
    assert "Multiplexing perf record does not report multiplexing." in shown


def test_counts(overview: Callable[[Profile], str]) -> None:
    assert re.search(r"task-clock counted", overview(profile_of("perf-stat")))


def test_stacks_without_events(overview: Callable[[Profile], str]) -> None:
    shown = overview(profile_of("collapsed"))
    assert "Attributes of events Not in this file." in shown and "Where" not in shown


def test_no_summary_of_traces(overview: Callable[[Profile], str]) -> None:
    assert overview(profile_of("pytorch")) == ""
