"""Samples whose times go back: pages that show times say so."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from perfloom.domain.profile import Profile
from perfloom.ingest.facts import BACKWARD_CLOCK_FACT
from perfloom.readers import READERS
from tests.support.formats import DATA
from tests.web.conftest import Browser

STEP_BACK = 3


def text(times_ms: list[int], *, cpus: list[int] | None = None, threads: list[int] | None = None) -> Profile:
    """The profile of perf script's text with samples at these times."""
    lines = []
    for n, at in enumerate(times_ms):
        cpu, thread = (0 if cpus is None else cpus[n]), (1 if threads is None else threads[n])
        lines.append(f"spin     1/{thread} [{cpu:03}]     7.{at:03}000:    1000000 cpu-clock: ")
        lines += ["\t          401000 leaf+0x0 (/bin/spin)", "\t          402000 main+0x0 (/bin/spin)", ""]
    return READERS["perf-script"].read(io.BytesIO("\n".join([*lines, ""]).encode()), "spin.txt")


def fact(profile: Profile) -> str:
    return profile.meta.facts.get(BACKWARD_CLOCK_FACT, "")


def test_times_that_go_back_are_counted() -> None:
    assert fact(text([10, 20, 15, 30, 29, 40])) == (
        "2 samples are earlier than the one before them of the same thread or CPU, by up to 5.000 ms"
    )
    assert fact(text([10, 20, 19])).startswith("1 sample is earlier than the one before it")
    # Of one CPU, although each thread goes forward.
    assert fact(text([10, 20, 15, 30], threads=[1, 1, 2, 2])).startswith("1 sample")
    # The sums are those of a text in order.
    assert text([10, 20, 15, 30]).samples.num_rows == 4


def test_texts_in_order_and_threads_printed_one_after_the_other_have_no_note() -> None:
    assert fact(text([10, 20, 20, 30])) == ""
    assert fact(text([10, 20, 15, 25], threads=[1, 1, 2, 2], cpus=[0, 0, 1, 1])) == ""
    for name in ("spin.script.txt", "events.script.txt", "flat.script.txt"):
        with open(DATA / "perf" / name, "rb") as file:
            assert fact(READERS["perf-script"].read(file, name)) == "", name


@pytest.mark.parametrize("page", ["timeline", "heatmap", "matrix"])
def test_pages_with_times_say_so(stored: Callable[..., str], browser_client: Browser, page: str) -> None:
    stored(text([10, 20, 30, 40 - STEP_BACK * 10 + 5, 50]))
    shown = browser_client.page(f"/results/ordinary0000/{page}")
    assert "The clock of the recording goes back: 1 sample is earlier" in shown and "by up to 15.000 ms" in shown
    assert "goes back" not in browser_client.page("/results/ordinary0000/hotspots")
    stored(text([10, 20, 30]), id="forward00000")
    assert "goes back" not in browser_client.page(f"/results/forward00000/{page}")
