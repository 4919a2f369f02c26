"""The page of formulas over HTTP."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest

from perfloom.domain.profile import Profile
from tests.support.profiles import profile_of
from tests.web.conftest import Browser
from tests.web.results.test_empty_pages import text_of

PAGE = "/results/ordinary0000/formulas"


def sampled() -> Profile:
    """In `slow` 400 cycles for 100 instructions, in `fast` 100 for 200."""
    return profile_of(
        [
            ("main;slow", 400, 0, 1, 0),
            ("main;slow", 100, 0, 2, 1),
            ("main;fast", 100, 0, 3, 0),
            ("main;fast", 200, 0, 4, 1),
        ],
        events=(("cycles:u", "count"), ("instructions:u", "count")),
    )


def plain(markup: str) -> str:
    return html.unescape(re.sub("<[^>]+>", "", markup)).strip()


def rows_of(page: str) -> list[list[str]]:
    """The texts of the cells of each row."""
    (body,) = re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL)
    return [[plain(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)] for row in rows]


def test_formulas_of_the_selection_and_of_functions(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(sampled())
    assert [row[:2] for row in rows_of(browser_client.page(PAGE))] == [["IPC", "0.6"], ["CPI", "1.667"]]
    page = browser_client.page(f"{PAGE}?by=function&formula=CPI")
    assert [row[0] for row in rows_of(page)] == ["main", "slow", "fast"]
    assert [row[-3:-1] for row in rows_of(page)] == [["–", "1.667"], ["4", "4"], ["0.5", "0.5"]]
    sorted_page = browser_client.page(f"{PAGE}?by=function&formula=CPI&sort=-self")
    assert [row[0] for row in rows_of(sorted_page)] == ["slow", "fast", "main"]
    assert [row[:2] for row in rows_of(browser_client.page(f"{PAGE}?focus=slow"))] == [["IPC", "0.25"], ["CPI", "4"]]
    csv = browser_client.page(f"{PAGE}.csv?by=function&formula=CPI").splitlines()
    assert csv[0].startswith("formula,expression,unit,name,module,self,total") and len(csv) == 4


def test_a_formula_of_the_user(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(sampled())
    page = browser_client.page(f"{PAGE}?expression=cycles * 2 / (1 %2B instructions)")
    assert rows_of(page)[0][:2] == ["your formula", f"{1000 / 301:.4g}"]
    by_function = browser_client.page(f"{PAGE}?expression=cycles - instructions&by=function&formula=your formula")
    assert [row[-2] for row in rows_of(by_function)] == ["200", "300", "−100"]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("cycles / (", "ends too early"),
        ("LLC-loads / cycles", "was not measured. Measured: cycles:u, instructions:u."),
        ("1 %2B 1", "names no event"),
        ("<script>alert(1)</script>", "Character 1"),
        ("x" * 3_000, "at most 2,000"),
    ],
)
def test_errors_are_shown_beside_the_other_formulas(
    stored: Callable[..., str], browser_client: Browser, expression: str, message: str
) -> None:
    stored(sampled())
    page = browser_client.page(f"{PAGE}?expression={expression}")
    (shown,) = re.findall(r'role="alert">(.*?)</p>', page, re.DOTALL)
    assert message in plain(shown) and "<script>alert" not in page
    assert [row[0] for row in rows_of(page)] == ["IPC", "CPI"]


def test_without_formulas_it_says_what_to_record(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(profile_of([("main", 1, 0, 1, 0)], events=(("samples", "count"),)))
    assert "Record several events together" in text_of(browser_client.page(PAGE))
    assert "Record several events together" in text_of(browser_client.page(f"{PAGE}?by=function"))
