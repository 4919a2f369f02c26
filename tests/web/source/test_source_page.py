"""The page of source lines and instructions, and what leads to it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest

from perfloom.store import Store
from perfloom.store.files.code import write_code
from perfloom.store.files.code_folder import publish_code, stage_code, write_reason
from tests.support.machine_code.made import Sample, make_code, make_profile
from tests.web.conftest import HOSTILE, Browser
from tests.web.results.test_empty_pages import text_of

ID = "ordinary0000"
PAGE = f"/results/{ID}/source"
SAMPLES: list[Sample] = [([(0, 1), (1, 2)], 0, 60), ([(0, 1), (1, 3)], 0, 30), ([(0, 0)], 0, 10), ([(0, 0)], 1, 20)]


def store_code(store: Store, name: str = "/src/made.c") -> None:
    result = store.results.path(ID)
    staged = stage_code(result)
    write_code(make_code(store.results.open(ID), name), staged)
    publish_code(staged, result)


@pytest.fixture
def with_code(stored: Callable[..., str], store: Store) -> str:
    stored(make_profile(SAMPLES))
    store_code(store)
    return ID


def test_hot_lines_are_first_and_lead_to_their_source(with_code: str, browser_client: Browser) -> None:
    page = browser_client.page(f"{PAGE}?function=f1")
    text = text_of(page).replace("\xa0", " ")
    assert text.index("made.c:12") < text.index("/src/made.c")
    assert "line 12 &lt;&amp;&gt;" in page
    assert "function=f1#l0-12" in page and 'id="l0-12"' in page
    assert "90" in text


def test_inlined_code_can_be_where_it_was_called(with_code: str, browser_client: Browser) -> None:
    def rows(query: str) -> dict[str, str]:
        text = browser_client.client.get(f"{PAGE}.csv?function=f1{query}").text
        return {row["place"]: row["self cycles"] for row in csv.DictReader(io.StringIO(text)) if row["place"]}

    assert rows("") == {"made.c:11": "0.0", "made.c:12": "90.0"}
    assert rows("&inlined=called") == {"made.c:11": "30.0", "made.c:12": "60.0"}


def test_instructions_lead_to_their_targets_and_lines(with_code: str, browser_client: Browser) -> None:
    page = browser_client.page(f"{PAGE}?function=f1&view=assembly")
    assert 'href="#a200"' in page and 'id="a200"' in page
    assert "1 jump leads here" in page
    assert "inner at made.c:12\ninlined into f1 at made.c:11" in page
    assert "#l0-12" in page
    table = browser_client.client.get(f"{PAGE}.json?function=f1&view=assembly")
    assert table.status_code == 200


def test_other_events_and_formulas_are_columns(with_code: str, browser_client: Browser) -> None:
    page = browser_client.page(f"{PAGE}?function=f0&columns=self_0.self_1.self_2")
    text = text_of(page)
    for words in ("instructions self", "IPC self"):
        assert words in text, words


def test_functions_lead_to_their_source(with_code: str, browser_client: Browser) -> None:
    page = browser_client.page(f"{PAGE}?event=cycles")
    assert "made.c:11" in page and "function=f1" in page and "event=cycles" in page
    hotspots = browser_client.page(f"/results/{ID}/hotspots")
    assert "made.c:11</a>" in hotspots and f"{PAGE}?function=f1" in hotspots
    assert "made.c:11" in browser_client.page(f"/results/{ID}/tree")
    described = [browser_client.client.get(f"/api/v1/results/{ID}/functions/{row}").json for row in range(2)]
    assert {(row["name"], row["file"], row["line"]) for row in described} >= {("f1", "/src/made.c", 11)}
    assert f'data-code="{PAGE}"' in browser_client.page(f"/results/{ID}/flamegraph")
    for page in ("flamegraph", "tree"):
        assert "Source and assembly</a>" in browser_client.page(f"/results/{ID}/{page}?function=f1")


def test_without_code_the_page_says_why(stored: Callable[..., str], store: Store, browser_client: Browser) -> None:
    stored(make_profile(SAMPLES))
    assert "at least 20 samples" in text_of(browser_client.page(PAGE))
    write_reason(store.results.path(ID), f"The disk is full {HOSTILE[0]}.")
    for query in ("", "?function=f1"):
        page = browser_client.page(PAGE + query)
        assert "could not be read: The disk is full" in text_of(page) and HOSTILE[0] not in page
        assert f'action="{PAGE}/read' in page
    assert browser_client.client.get(f"{PAGE}/waiting").json == {"waiting": False}
    answer = browser_client.post(f"{PAGE}/read?function=f1")
    assert answer.status_code == 303 and answer.headers["Location"] == f"{PAGE}?function=f1"
    page = browser_client.page(PAGE)
    assert "are being read" in text_of(page) and f'action="{PAGE}/read' not in page
    assert f'data-waiting="{PAGE}/waiting"' in page
    assert browser_client.client.get(f"{PAGE}/waiting").json == {"waiting": True}
    assert browser_client.client.get("/results/nothing00000/source/waiting").status_code == 404


def test_without_samples_the_page_does_not_ask_for_a_longer_recording(
    stored: Callable[..., str], browser_client: Browser
) -> None:
    stored(make_profile([]))
    text = text_of(browser_client.page(PAGE))
    assert "Record a longer time" not in text and "machine code" not in text
    assert "No functions" in text


def test_without_code_the_page_says_what_is_missing(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(make_profile(SAMPLES * 5))
    for query in ("", "?function=f1", "?function=f1&view=assembly"):
        assert "machine code of this result is not known" in text_of(browser_client.page(PAGE + query))
    assert browser_client.client.get(f"{PAGE}.csv?function=f1").status_code == 200
    browser_client.page(f"{PAGE}?function=nowhere", status=404)


def test_hostile_names_are_escaped(stored: Callable[..., str], store: Store, browser_client: Browser) -> None:
    stored(make_profile(SAMPLES))
    store_code(store, f"/src/{HOSTILE[0]}.c")
    for query in ("?function=f1", "?function=f1&view=assembly", ""):
        page = browser_client.page(PAGE + query)
        assert HOSTILE[0] not in page
