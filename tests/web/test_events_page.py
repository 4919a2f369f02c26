"""/events: formulas of users, in the browser's forms and as files, and in the pages of results."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from perfloom.domain.formulas.file import MAX_FORMULAS, parse_formulas, write_formulas
from perfloom.domain.formulas.formula import Formula
from perfloom.store import Store
from tests.web.conftest import HOSTILE, Browser
from tests.web.html import read
from tests.web.results.test_formulas_page import PAGE, rows_of, sampled

CPI2 = {"name": "CPI twice", "expression": "CPI * 2", "unit": "", "description": "Twice."}


def upload(browser: Browser, content: bytes) -> tuple[int, str]:
    """Import a file: the status and the page after it."""
    response = browser.client.post(
        "/events/formulas/import",
        data={"csrf": browser.csrf, "file": (io.BytesIO(content), "formulas.toml")},
        headers={"Origin": "http://localhost"},
    )
    return response.status_code, response.text if response.status_code != 303 else browser.page("/events")


def test_a_formula_is_added_shown_in_results_edited_and_deleted(
    browser_client: Browser, store: Store, stored: Callable[..., str]
) -> None:
    stored(sampled())
    assert "None so far" in browser_client.page("/events")
    assert browser_client.post("/events/formulas", **CPI2).status_code == 303
    assert "Added the formula “CPI twice”." in browser_client.page("/events")
    assert ["CPI twice", "3.333"] in [row[:2] for row in rows_of(browser_client.page(PAGE))]
    (own,) = store.formulas.list()
    url = f"/events/formulas/{own.id}"
    assert 'value="CPI * 2"' in browser_client.page(url)
    assert browser_client.post(url, **CPI2 | {"expression": "CPI * 3"}).status_code == 303
    assert ["CPI twice", "5"] in [row[:2] for row in rows_of(browser_client.page(PAGE))]
    store.formulas.add(Formula("user", "'CPI twice' + 1"))
    assert "Formulas use it" in browser_client.page(f"{url}/delete")
    assert store.formulas.get(own.id)
    assert browser_client.post(f"{url}/delete").status_code == 303
    assert [one.formula.name for one in store.formulas.list()] == ["user"]
    assert "CPI twice" not in [row[0] for row in rows_of(browser_client.page(PAGE))]
    for path in (url, f"{url}/delete", "/events/formulas/x", "/events/formulas/99999999999999999999"):
        browser_client.page(path, 404)


def test_a_formula_of_the_user_precedes_a_built_in_one(browser_client: Browser, stored: Callable[..., str]) -> None:
    stored(sampled())
    browser_client.post("/events/formulas", name="IPC", expression="instructions / cycles * 100", unit="%")
    assert rows_of(browser_client.page(PAGE))[0][:3] == ["IPC", "60", "%"]
    assert "A formula of this name above applies first." in browser_client.page("/events")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"expression": "cycles $ 2"}, "Character 8"),
        ({"expression": "cycles +"}, "ends too early"),
        ({"expression": ""}, "empty"),
        ({"expression": "x" * 3_000}, "at most 2,000"),
        ({"expression": "'CPI twice'"}, "refers to itself"),
        ({"name": " "}, "A name"),
        ({"name": "\u202eevil"}, "printable"),
        ({"unit": "x" * 21}, "The unit is longer"),
        ({"description": "a\x01b"}, "The description"),
    ],
)
def test_a_wrong_formula_is_shown_again_with_its_error(
    browser_client: Browser, store: Store, fields: dict[str, str], words: str
) -> None:
    response = browser_client.post("/events/formulas", **CPI2 | fields)
    assert response.status_code == 422 and words in response.text and 'aria-invalid="true"' in response.text
    assert 'value="Twice."' in response.text or "description" in fields
    assert read(response.text).faults == [] and store.formulas.list() == ()


def test_the_character_at_fault_is_marked(browser_client: Browser) -> None:
    response = browser_client.post("/events/formulas", name="a", expression="cycles <b> 2")
    assert '<code class="formula-error">cycles <mark>&lt;</mark></code>' in response.text


def test_hostile_names_come_back_as_text(browser_client: Browser, store: Store) -> None:
    for number, name in enumerate(HOSTILE):
        expression = "'" + name.replace("'", "") + f"' * {number}"
        store_formula = {"name": name, "expression": expression, "unit": name, "description": name}
        assert read(browser_client.post("/events/formulas", **store_formula).text).faults == []
        browser_client.post("/events/formulas", name=f"n{number}", expression=expression)
    assert len(store.formulas.list()) == len(HOSTILE) - 1
    page = browser_client.page("/events")
    assert read(page).faults == [] and "\u202e" not in page
    for one in store.formulas.list():
        for path in ("", "/delete"):
            assert read(browser_client.page(f"/events/formulas/{one.id}{path}")).faults == []
    exported = parse_formulas(browser_client.page("/events/formulas/file"))
    assert exported == tuple(one.formula for one in store.formulas.list())


def test_files_are_exported_and_imported(browser_client: Browser, store: Store) -> None:
    formulas = (Formula("a", "cycles / 2", "x", "A."), Formula("b", "a * 2"), Formula("b", "a * 3"))
    assert upload(browser_client, write_formulas(formulas).encode())[0] == 303
    assert browser_client.page("/events/formulas/file") == write_formulas(formulas)
    changed = (Formula("b", "a * 4"),)
    assert "Imported 1 formula, and replaced 2" in upload(browser_client, write_formulas(changed).encode())[1]
    assert [one.formula for one in store.formulas.list()] == [formulas[0], *changed]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "Choose a TOML file"),
        (b"\xff\xfe", "UTF-8"),
        (b"[[formula]]\nname = 'a'\nexpression = 'b $'", "Formula 1 (a): Character 3"),
        (b"[[formula]]\nname = 'b'\nexpression = 'a'\n", "a → b → a"),
        (b"a." * 100_000 + b"a = 1", "outside of quotes"),
        (b"[[formula]]\nname = 'x'\nexpression = '1'\n" * (MAX_FORMULAS + 1), "at most 1,000"),
        (
            b"".join(b"[[formula]]\nname = '%d'\nexpression = '1'\n" % n for n in range(MAX_FORMULAS)),
            "at most 1,000 formulas",
        ),
    ],
)
def test_a_wrong_file_imports_nothing(browser_client: Browser, store: Store, content: bytes, words: str) -> None:
    store.formulas.add(Formula("a", "b * 2"))
    known = store.formulas.list()
    status, page = upload(browser_client, content)
    if words.startswith("Choose"):
        status, page = (response := browser_client.post("/events/formulas/import")).status_code, response.text
    assert status == 422 and words in page and store.formulas.list() == known


def test_changes_need_a_session_and_its_token(browser_client: Browser, store: Store, client: object) -> None:
    store.formulas.add(Formula("a", "cycles"))
    (own,) = store.formulas.list()
    for path in ("", "/import", f"/{own.id}", f"/{own.id}/delete"):
        assert browser_client.client.post(f"/events/formulas{path}", data={}).status_code == 403
    assert store.formulas.list() == (own,)
