"""/compare: the choice of two results, what changed between them, and the words that say how to look at it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable

import pytest

from perfloom.analysis.compare import functions
from perfloom.analysis.compare.functions import diff_functions
from perfloom.domain.selection import Selection
from perfloom.store import Store
from tests.web.conftest import EVIL, HOSTILE, ORDINARY, TOKEN, Browser, profile
from tests.web.html import read
from tests.web.results.test_empty_pages import text_of

OTHER = "another00000"
PAIR = f"base={ORDINARY}&other={OTHER}"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def two(stored: Callable[..., str]) -> None:
    stored(profile(called=["main", "parse", "old_name", "do_syscall_64"], samples=900))
    stored(
        profile(called=["main", "parse", "new_name", "do_syscall_64"], samples=600, seed=2),
        OTHER,
        name="the other result",
    )


@pytest.fixture
def no_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every function had samples enough."""
    monkeypatch.setattr(functions, "MIN_COMPARED_SAMPLES", 0)


def names(page: str) -> list[str]:
    return re.findall(r'<th scope="row" class="name mono" title="([^"]*)"', page)


def test_nothing_to_compare_yet(browser_client: Browser) -> None:
    assert "There is none yet" in browser_client.page("/compare")


def test_one_is_not_enough(browser_client: Browser, ordinary: str) -> None:
    assert "There is one so far" in browser_client.page("/compare")


def test_choosing(browser_client: Browser, two: None) -> None:
    page = browser_client.page(f"/compare?other={OTHER}")
    assert page.count('type="radio"') == 4 and page.count(" checked") == 1
    assert "the other result" not in browser_client.page("/compare?search=ordinary")


def test_two_ticked_in_the_list_become_base_and_other_by_age(browser_client: Browser, two: None) -> None:
    response = browser_client.client.get(f"/compare?result={OTHER}&result={ORDINARY}&event=cpu-clock")
    assert response.status_code == 303
    assert response.headers["Location"] == f"/compare?{PAIR}&event=cpu-clock"
    one = browser_client.client.get(f"/compare?result={OTHER}", follow_redirects=True)
    assert one.status_code == 200 and one.text.count(" checked") == 1
    three = browser_client.page(f"/compare?result={OTHER}&result={ORDINARY}&result=xxxxxxxxxxxx", 400)
    assert "Select two results" in three


def test_the_table_is_that_of_the_analysis(browser_client: Browser, store: Store, two: None, no_few: None) -> None:
    base, other = store.results.open(ORDINARY), store.results.open(OTHER)
    clock = Selection(event="cpu-clock")
    expected = diff_functions(base, other, clock, clock, status_of="self")
    page = browser_client.page(f"/compare?{PAIR}")
    by_size = expected.sort_values("delta_self", key=lambda v: -v.abs(), kind="stable")["name"].tolist()
    assert names(page) == by_size
    text = " ".join(read(page).text)
    for status in ("appeared", "vanished", "grew", "shrank"):
        assert f"{status} {(expected['status'] == status).sum()}" in text
    assert "cpu-clock of the other: " in text and " less than of the base" in text


def test_absolute_and_by_stack_and_total(browser_client: Browser, store: Store, two: None) -> None:
    base, other = store.results.open(ORDINARY), store.results.open(OTHER)
    clock = Selection(event="cpu-clock")
    page = browser_client.page(f"/compare?{PAIR}&normalise=0&by=stack&of=total&sort=-other")
    expected = diff_functions(base, other, clock, clock, "stack", False)
    first = expected.sort_values("other_total", ascending=False, kind="stable")["name"].iloc[0]
    assert names(page)[0] == first
    assert "Weights as they were measured" in page
    assert read(page).faults == []


@pytest.mark.parametrize("words", ["", "&of=total", "&by=stack", "&by=stack&of=total&normalise=0"])
def test_no_status_contradicts_the_change_beside_it(
    browser_client: Browser, two: None, no_few: None, words: str
) -> None:
    page = browser_client.page(f"/compare?{PAIR}{words}")
    rows = re.findall(r'data-status="(\w+)">.*?<td class="num (more|less|)"', page, re.DOTALL)
    assert len(rows) > 10
    allowed = {("grew", "more"), ("appeared", "more"), ("shrank", "less"), ("vanished", "less"), ("same", "")}
    assert set(rows) <= allowed


def test_a_stack_starts_with_its_innermost_function(browser_client: Browser, two: None) -> None:
    page = browser_client.page(f"/compare?{PAIR}&by=stack")
    rows = re.findall(r'<th scope="row" class="name mono" title="([^"]*)">([^<]*)<', page)
    assert rows and all(short.split(" ← ")[0] == full.split(";")[-1] for full, short in rows)
    assert "innermost first" in page


def test_of_few_samples_nothing_is_said(browser_client: Browser, two: None) -> None:
    page = browser_client.page(f"/compare?{PAIR}&by=stack&status=few")
    rows = re.findall(r'data-status="few"[^>]*>few samples<.*?<td class="num (\w*)"', page, re.DOTALL)
    assert rows and set(rows) == {"faint"} and not re.search(r'data-status="(grew|shrank|appeared|vanished)"', page)
    assert "Fewer than 30 samples on both sides" in page
    told = browser_client.client.get(f"/api/v1/compare?{PAIR}&by=stack&status=few", headers=BEARER).get_json()
    assert told and all(max(row["base_samples"], row["other_samples"]) < 30 for row in told if row["delta_total"])


def test_only_what_vanished(browser_client: Browser, two: None, no_few: None) -> None:
    page = browser_client.page(f"/compare?{PAIR}&status=vanished")
    assert "old_name" in names(page) and "new_name" not in names(page)
    assert "new_name" in names(browser_client.page(f"/compare?{PAIR}&status=appeared"))
    assert names(browser_client.page(f"/compare?{PAIR}&search=OLD_")) == ["old_name"]


def test_the_selection_holds_for_both(browser_client: Browser, two: None) -> None:
    page = browser_client.page(f"/compare?{PAIR}&event=page-faults&focus=parse")
    links = read(page).links
    assert any(link.startswith(f"/results/{ORDINARY}?event=page-faults&focus=parse") for link in links)
    assert any(link == f"/compare?event=page-faults&{PAIR}" for link in links), "without focus"
    assert "page-faults" in " ".join(read(page).text)


def test_swapping(browser_client: Browser, two: None) -> None:
    page = browser_client.page(f"/compare?{PAIR}&by=stack")
    assert f"/compare?by=stack&base={OTHER}&other={ORDINARY}" in read(page).links


def test_csv_and_json_have_the_same_rows(browser_client: Browser, two: None) -> None:
    text = browser_client.client.get(f"/compare.csv?{PAIR}").text
    rows = list(csv.DictReader(io.StringIO(text)))
    answer = browser_client.client.get(f"/api/v1/compare?{PAIR}&event=cpu-clock", headers=BEARER).json
    assert {row["name"] for row in rows} == {row["name"] for row in answer}
    # Only JSON marks rows that losses affect.
    assert list(rows[0]) == [name for name in answer[0] if name != "affected_by_losses"]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("base=zzzzzzzzzzzz&other=another00000", 404),
        (f"{PAIR}&by=cow", 400),
        (f"{PAIR}&of=cow", 400),
        (f"{PAIR}&status=cow", 400),
        (f"{PAIR}&normalise=maybe", 400),
        (f"{PAIR}&event=cycles", 400),
        (f"{PAIR}&sort=cow", 400),
        (f"{PAIR}&page=0", 400),
        (f"{PAIR}&thread=nobody", 400),
    ],
)
def test_words_that_cannot_be_used(browser_client: Browser, two: None, words: str, status: int) -> None:
    page = browser_client.client.get(f"/compare?{words}")
    assert page.status_code == status and read(page.text).faults == []
    assert browser_client.client.get(f"/api/v1/compare?{words}").status_code in (status, 200)


def test_a_result_with_itself(browser_client: Browser, ordinary: str) -> None:
    page = browser_client.page(f"/compare?base={ordinary}&other={ordinary}")
    assert "Both have the same total of cpu-clock" in page and ">appeared<" not in page


def test_hostile_names(browser_client: Browser, ordinary: str, evil: str) -> None:
    for words in (f"base={ordinary}&other={evil}", f"base={evil}&other={ordinary}&by=stack", f"other={evil}"):
        page = browser_client.page(f"/compare?{words}")
        assert read(page).faults == []
        assert "\u202e" not in page
    for word in ("search", "base", "other", "result", "status", "by"):
        for name in HOSTILE:
            query = {"base": ordinary, "other": EVIL} | {word: name}
            response = browser_client.client.get("/compare", query_string=query)
            assert response.status_code in (200, 303, 400, 404)
            assert response.status_code == 303 or read(response.text).faults == []


def test_no_event_in_common(browser_client: Browser, stored: Callable[..., str], ordinary: str) -> None:
    from perfloom.domain.builder import ProfileBuilder

    builder = ProfileBuilder("perf script text")
    builder.add_run("x")
    builder.add_sample(
        0, builder.intern_thread(pid=1, tid=1), builder.intern_event("cycles", "count"), builder.intern_stack([]), 1
    )
    stored(builder.finish(), OTHER)
    page = browser_client.page(f"/compare?{PAIR}", 400)
    assert "no event in common" in page and "cycles" in page


def test_rules_for_names_merge_functions_of_two_builds(browser_client: Browser, stored: Callable[..., str]) -> None:
    for id, name in (("build0000001", "work.isra.0"), ("build0000002", "work.constprop.1")):
        stored(profile(called=["main", name, HOSTILE[0], "rest"], functions=4, samples=902), id)
    address = "/compare?base=build0000001&other=build0000002"
    assert "appeared" in browser_client.page(address)
    page = browser_client.page(f"{address}&names=clones")
    text = text_of(page)
    assert "Without clones, 2 names are 1." in text and "work.isra.0" in text and HOSTILE[0] not in page
    rows = list(csv.DictReader(io.StringIO(browser_client.page(f"{address.replace('?', '.csv?')}&names=clones"))))
    assert [row["status"] for row in rows if row["name"] == "work"] == ["same"]
    graph = browser_client.client.get(f"/api/v1{address.replace('?', '/flamegraph?')}&names=clones").text
    assert "work.isra" not in graph
    assert "2 names are 1" in text_of(browser_client.page(f"{address.replace('?', '/runs?')}&names=clones"))
    browser_client.page(f"{address}&names=everything", status=400)
