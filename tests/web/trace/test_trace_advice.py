"""The pages of a trace that tell what to do about it: advice, critical path, and what changed since another trace."""

import csv
import html
import io
import re
from collections.abc import Callable

import pytest

from perfloom.analysis.compare.tables import COMPARED_TABLES, diff_table
from perfloom.analysis.core.schema import records
from perfloom.domain.selection import Selection
from tests.analysis.advice.test_advice import loop
from tests.analysis.ml.test_steps import small
from tests.support.traced import Trace
from tests.web.conftest import EVIL, Browser
from tests.web.html import read
from tests.web.trace.test_trace_pages import hostile

OTHER = "other0000000"


def test_advice_and_its_thresholds(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(loop())
    text = browser_client.page(f"/results/{id}/advice")
    assert read(text).faults == []
    assert "24.0 % of the time of 4 steps" in text and "Increase the number of DataLoader workers" in text
    quiet = browser_client.page(f"/results/{id}/advice?dataloader=30&step=2")
    assert "Increase the number of DataLoader workers" not in quiet and 'value="30"' in quiet and "1 changed" in quiet
    assert "The threshold dataloader must be a number" in browser_client.page(f"/results/{id}/advice?dataloader=x", 400)
    rows = list(csv.DictReader(io.StringIO(browser_client.page(f"/results/{id}/advice.csv?dataloader=10"))))
    assert {"rule": "dataloader", "threshold": "10.0"}.items() <= rows[
        [r["rule"] for r in rows].index("dataloader")
    ].items()


def test_the_critical_path(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(loop())
    text = browser_client.page(f"/results/{id}/critical-path")
    assert read(text).faults == []
    assert "gemm" in text and "Would save" in text and "step 2" in text
    rows = list(csv.DictReader(io.StringIO(browser_client.page(f"/results/{id}/critical-path.csv?step=2"))))
    assert {row["name"]: float(row["total_us"]) for row in rows}["gemm"] == 118


@pytest.mark.parametrize("page", ["/advice?dataloader=0&gpu-utilization=100&uneven-steps=0", "/critical-path"])
def test_no_name_becomes_markup(browser_client: Browser, stored: Callable[..., str], page: str) -> None:
    stored(hostile(), EVIL)
    assert read(browser_client.page(f"/results/{EVIL}{page}")).faults == []


def test_changes_computed_by_hand() -> None:
    base, other = loop(), small()
    rows = {row["name"]: row for row in records(diff_table(loop(), loop(), Selection(), "kernels"))}
    assert rows["gemm"]["status"] == "same" and rows["gemm"]["delta"] == 0
    whole = {row["name"]: row for row in records(diff_table(base, other, Selection(), "kernels"))}
    each = {row["name"]: row for row in records(diff_table(base, other, Selection(), "kernels", each_step=True))}
    # Kernels of 18, 18, 118 and 18 µs in four steps.
    assert whole["gemm"]["base"] == 172 and each["gemm"]["base"] == 43
    parts = {row["name"]: row for row in records(diff_table(base, base, Selection(step="2"), "steps"))}
    assert parts["Whole step"]["base"] == 200 and parts["DataLoader"]["other"] == 30


def test_comparison_pages(browser_client: Browser, stored: Callable[..., str], ordinary: str) -> None:
    stored(loop(), "loop00000000")
    stored(hostile(), OTHER)
    for table, compared in COMPARED_TABLES.items():
        if table in ("modules", "memory"):
            continue
        for measure in ("", *(one.column for one in compared.measures)):
            text = browser_client.page(f"/compare/{table}?base=loop00000000&other={OTHER}&of={measure}&each-step=0")
            assert read(text).faults == []
            assert ('name="names"' in text) == (table in ("operators", "kernels", "threads")), table
    text = browser_client.page("/compare/operators?base=loop00000000&other=loop00000000&status=same&search=mm")
    assert "aten::mm" in text and "Critical" not in text
    assert "gemm,appeared" in browser_client.page(f"/compare/kernels.csv?base={OTHER}&other=loop00000000")
    browser_client.page(f"/compare/kernels?base={ordinary}&other={ordinary}", 404)
    text = browser_client.page(f"/compare/threads?base={ordinary}&other={ordinary}")
    assert read(text).faults == [] and "In base" in text and "Matched by" in text
    rows = list(
        csv.DictReader(io.StringIO(browser_client.page(f"/compare/threads.csv?base={ordinary}&other={ordinary}")))
    )
    assert rows and all(row["match"] and row["unit"] for row in rows)
    sides = f"base={ordinary}&other={ordinary}"
    text = browser_client.page(f"/compare/threads?{sides}&base.end-ms=1&names=clones")
    assert read(text).faults == [] and 'aria-label="Part of the base"' in text and 'value="clones" checked' in text
    assert f'href="/compare/threads?other={ordinary}&amp;base={ordinary}&amp;other.end-ms=1&amp;names=clones"' in text
    tables = [browser_client.page(f"/compare/threads.csv?{sides}{part}") for part in ("&base.end-ms=1", "")]
    some, every = (sum(float(row["base"] or 0) for row in csv.DictReader(io.StringIO(one))) for one in tables)
    assert 0 <= some < every
    browser_client.page("/compare/kernels?base=loop00000000", 400)
    browser_client.page(f"/compare/kernels?base=loop00000000&other={OTHER}&of=fame", 400)


def test_rules_for_names_merge_kernels(browser_client: Browser, stored: Callable[..., str]) -> None:
    sides = []
    for side, argument in (("base", "float"), ("other", "half")):
        trace = Trace()
        host, stream = trace.thread(1, "python"), trace.thread(7, stream=True)
        launch = trace.slice(host, 0, 100, "cudaLaunchKernel", "runtime")
        trace.slice(stream, 200, 300, f"gemm<{argument}>", "kernel", launch)
        sides.append(f"{side}={stored(trace.finish(), f'names{side}'.ljust(12, '0'))}")
    address = f"/compare/kernels.csv?{'&'.join(sides)}"
    assert {row["status"] for row in csv.DictReader(io.StringIO(browser_client.page(address)))} == {
        "appeared",
        "vanished",
    }
    (row,) = csv.DictReader(io.StringIO(browser_client.page(f"{address}&names=templates")))
    assert (row["name"], row["status"]) == ("gemm", "same")


def test_groups_of_traces_are_compared(browser_client: Browser, stored: Callable[..., str]) -> None:
    ids = [stored(loop(), f"loop0000000{at}") for at in range(6)]
    sides = "&".join([*(f"base={id}" for id in ids[:3]), *(f"other={id}" for id in ids[3:])])
    page = browser_client.page(f"/compare/kernels?{sides}")
    assert read(page).faults == [] and "not tested" in page and "and 2 more" in page
    for link in re.findall(r'href="([^"]*)"[^>]*>Choose another', page):
        assert "Choose" in browser_client.page(html.unescape(link))
    (swapped,) = re.findall(r'href="([^"]*)">Swap</a>', page)
    assert swapped.count("base=loop") == swapped.count("other=loop") == 3 and "base=loop00000003" in swapped
    rows = list(csv.DictReader(io.StringIO(browser_client.page(f"/compare/kernels.csv?{sides}"))))
    assert {row["verdict"] for row in rows} == {"not tested"} and {float(row["delta"]) for row in rows} == {0}
    assert "verdict" not in browser_client.page(f"/compare/kernels.csv?base={ids[0]}&other={ids[1]}")
    assert "no evidence" in browser_client.page(f"/compare/steps?{sides}")
    too_many = "&".join(f"base={at:012}" for at in range(201))
    browser_client.page(f"/compare/kernels?{too_many}&other={ids[0]}", 400)
