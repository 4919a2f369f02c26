"""Empty pages of a result: the true reason, and what to record instead."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.meta import Meta
from perfloom.domain.profile import Profile
from perfloom.web.views.results.missing_data import explain_flat_stacks, explain_no_timeline
from tests.analysis.ml.test_operators import small
from tests.support.traced import Trace
from tests.web.conftest import Browser, profile

SUM_FORMATS = ("collapsed", "pprof")


def counted() -> Profile:
    """As from perf stat: totals of the whole run."""
    builder = ProfileBuilder("perf-stat")
    builder.add_count(event=builder.intern_event("cycles", "count"), value=1000)
    return builder.finish()


def sampled(*stacks: str, kind: str = "perf-script", event: tuple[str, str] = ("cycles", "count")) -> Profile:
    """A sample of each stack, at 0."""
    builder = ProfileBuilder(kind)
    thread, number = builder.intern_thread(pid=1, tid=1), builder.intern_event(*event)
    for text in stacks:
        frames = [builder.intern_frame(builder.intern_function(name, "app")) for name in text.split(";")]
        builder.add_sample(0, thread, number, builder.intern_stack(frames), 10)
    return builder.finish(Meta(kind, duration_ns=None))


def cpu_only() -> Profile:
    """A trace of PyTorch without devices, steps, collectives and memory."""
    trace = Trace()
    trace.slice(trace.thread(1), 0, 90, "aten::mm")
    return trace.finish()


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page.split("<main")[1]))


def test_counts_have_no_stacks_and_no_timeline(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(counted())
    assert "1,000" in text_of(browser_client.page(f"/results/{id}")), "also without a status"
    for page in ("flamegraph", "hotspots"):
        text = text_of(browser_client.page(f"/results/{id}/{page}"))
        assert "counted, not sampled" in text and "perf record" in text, page
        assert "too short or idle" not in text and "Remove a filter" not in text, page
    text = text_of(browser_client.page(f"/results/{id}/timeline"))
    assert "counted once for the complete run" in text and "perf stat -I" in text
    assert "Nothing matches this selection" not in text


@pytest.mark.parametrize("kind", SUM_FORMATS)
def test_sums_of_stacks_have_no_timeline(browser_client: Browser, stored: Callable[..., str], kind: str) -> None:
    made = sampled("main;work", kind=kind, event=("inuse_space", "bytes"))
    text = text_of(browser_client.page(f"/results/{stored(made)}/timeline"))
    assert "sums of call stacks without times" in text and "Record with perf record" in text
    assert explain_no_timeline(profile(functions=3, samples=9)) == explain_no_timeline(small()) == ""


def test_samples_without_stacks_say_how_to_record_them(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(sampled("main", "work"))
    for page in ("flamegraph", ""):
        text = text_of(browser_client.page(f"/results/{id}/{page}"))
        assert "each sample has only one function. Record with call stacks (perf record --call-graph)" in text, page
    assert explain_flat_stacks(sampled("main", "main;work")) == explain_flat_stacks(small()) == ()
    assert explain_flat_stacks(sampled("main", kind="pprof"))[0].endswith("to see callers.")


def test_a_trace_without_devices_says_what_to_record(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(cpu_only())
    for page, reason in (
        ("kernels", "No kernels were recorded. PyTorch’s profiler records them with ProfilerActivity.CUDA."),
        ("communication", "No collectives were recorded. PyTorch’s profiler records them in programs that"),
        ("memory", "Memory was not recorded. Record with PyTorch’s profiler and profile_memory=True"),
        ("steps", "The recording has no steps, so it counts as one step."),
        ("modules", "This recording has no modules. Record with with_stack=True"),
    ):
        # A filter is not the reason either.
        for query in ("", "?end-ms=1"):
            text = text_of(browser_client.page(f"/results/{id}/{page}{query}"))
            assert reason in text and "Remove a filter" not in text, (page, query)


def test_a_kind_without_rows_is_not_called_unrecorded(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(small())
    text = text_of(browser_client.page(f"/results/{id}/kernels?kind=communication"))
    assert "There are no kernels of this kind" in text and "No kernels were recorded" not in text
    text = text_of(browser_client.page(f"/results/{stored(cpu_only(), 'cpu000000000')}/operators?kind=annotation"))
    assert "There are no annotations" in text


def test_a_filter_that_leaves_nothing_is_named(browser_client: Browser, stored: Callable[..., str]) -> None:
    text = text_of(browser_client.page(f"/results/{stored(small())}/operators?start-ms=99"))
    assert "No operator starts in this selection. Remove a filter above." in text
