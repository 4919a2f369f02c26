"""The form of the Source page that adds what is missing."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from perfloom.store import Store, code_uploads
from perfloom.store.files import binary_cache
from perfloom.store.files.code import write_code
from perfloom.store.files.code_folder import publish_code, stage_code, write_note
from tests.support.machine_code.made import MODULE, make_code, make_profile
from tests.web.conftest import HOSTILE, Browser
from tests.web.results.test_empty_pages import text_of
from tests.web.source.test_source_page import ID, PAGE, SAMPLES

BUILD_ID = "0123456789abcdef0123456789abcdef01234567"
FORM = f"{PAGE}/files"
ORIGIN = {"Origin": "http://localhost"}


def store_incomplete(store: Store, status: str = "no-lines", name: str = "/src/made.c") -> None:
    """Code without the text of its source file, of a binary that lacks something."""
    code = make_code(store.results.open(ID), name)
    row = {"module": MODULE, "build_id": BUILD_ID, "machine": "x64", "status": status, "detail": None}
    objects = pa.Table.from_pylist([row], schema=code.objects.schema)
    files = pa.Table.from_pylist([{"path": name, "text": None, "detail": "gone"}], schema=code.files.schema)
    result = store.results.path(ID)
    staged = stage_code(result)
    write_code(replace(code, objects=objects, files=files), staged)
    publish_code(staged, result)


@pytest.fixture
def incomplete(stored: Callable[..., str], store: Store) -> str:
    stored(make_profile(SAMPLES))
    store_incomplete(store)
    return ID


def send(browser: Browser, name: str, content: bytes, source: str = "", query: str = "") -> str:
    form = {"csrf": browser.csrf, "file": (io.BytesIO(content), name), "source": source}
    answer = browser.client.post(f"{FORM}{query}", data=form, headers=ORIGIN)
    assert answer.status_code == 303 and answer.headers["Location"] == f"{PAGE}{query}", answer.text
    return text_of(browser.page(f"{PAGE}{query}"))


def test_the_page_lists_what_is_missing(incomplete: str, browser_client: Browser) -> None:
    for query in ("", "?function=f1", "?function=f1&view=assembly"):
        page = browser_client.page(PAGE + query)
        assert BUILD_ID in page and "debug information" in page and "<option>/src/made.c</option>" in page
        assert f'action="{FORM}{query.replace("&", "&amp;")}"' in page
        assert "100.00" in page
        assert ("You can add its file below" in page) == bool(query)
    assert "Fetch missing files" not in page


def test_without_anything_missing_there_is_no_form(
    stored: Callable[..., str], store: Store, browser_client: Browser
) -> None:
    stored(make_profile(SAMPLES))
    assert FORM not in browser_client.page(PAGE)
    answer = browser_client.client.post(
        FORM, data={"csrf": browser_client.csrf, "file": (io.BytesIO(b"x"), "a.c")}, headers=ORIGIN
    )
    assert answer.status_code == 409 and "Import the recording again" in answer.text


def test_a_text_is_kept_and_requested(incomplete: str, store: Store, browser_client: Browser) -> None:
    assert "being added" in send(browser_client, "deep/made.c", b"int main;\n", query="?function=f1")
    folder = binary_cache.open_origin(store.results.data, binary_cache.UPLOADS)
    assert folder.source(BUILD_ID, "/src/made.c").read_bytes() == b"int main;\n"
    request = binary_cache.read_request(store.results.data, ID)
    assert request is not None and (request.texts, request.fetch, request.uploads) == (True, False, {})
    send(browser_client, "other.c", b"int other;\n", source="/src/made.c")
    assert folder.source(BUILD_ID, "/src/made.c").read_bytes() == b"int other;\n"


def test_a_binary_is_left_to_a_worker(incomplete: str, store: Store, browser_client: Browser) -> None:
    content = b"\x7fELF" + bytes(100)
    send(browser_client, HOSTILE[0], content)
    request = binary_cache.read_request(store.results.data, ID)
    assert request is not None and not request.texts
    (path,) = request.uploads.values()
    assert path.read_bytes() == content and path.parent.parent.name == binary_cache.REQUESTS


@pytest.mark.parametrize(
    ("name", "content", "source", "words"),
    [
        ("else.c", b"int a;\n", "", "neither a binary nor the text"),
        ("else.c", b"int a;\n", "/etc/passwd", "neither a binary nor the text"),
        ("made.c", b"", "", "is empty"),
        ("made.c", b"a" * 101, "", "at most 100 B"),
        (HOSTILE[0], b"x", "", "neither a binary nor the text"),
        ("b", b"\x7fELF", "/src/made.c", "exactly one text"),
    ],
)
def test_what_cannot_be_added_is_refused(
    incomplete: str,
    store: Store,
    browser_client: Browser,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes,
    source: str,
    words: str,
) -> None:
    monkeypatch.setattr(code_uploads, "MAX_TEXT_BYTES", 100)
    assert words in send(browser_client, name, content, source)
    assert not binary_cache.is_requested(store.results.data, ID)
    assert HOSTILE[0] not in browser_client.page(PAGE)


def test_a_note_is_escaped(incomplete: str, store: Store, browser_client: Browser) -> None:
    write_note(store.results.path(ID), f"No build {HOSTILE[0]}")
    page = browser_client.page(PAGE)
    assert "No build" in page and HOSTILE[0] not in page


def test_hostile_names_are_escaped(stored: Callable[..., str], store: Store, browser_client: Browser) -> None:
    stored(make_profile(SAMPLES))
    store_incomplete(store, "missing", f"/src/{HOSTILE[0]}.c")
    page = browser_client.page(PAGE)
    assert HOSTILE[0] not in page and "Missing files" in page


def test_fetching_needs_a_token_of_the_form(incomplete: str, store: Store, browser_client: Browser) -> None:
    assert browser_client.client.post(f"{PAGE}/fetch").status_code == 403
    assert browser_client.post(f"{PAGE}/fetch").status_code == 303
    request = binary_cache.read_request(store.results.data, ID)
    assert request is not None and request.fetch


def test_an_added_text_can_be_replaced_and_removed(
    stored: Callable[..., str], store: Store, browser_client: Browser
) -> None:
    stored(make_profile(SAMPLES))
    code = make_code(store.results.open(ID), "/src/made.c")
    row = {"module": MODULE, "build_id": BUILD_ID, "machine": "x64", "status": "complete", "detail": None}
    staged = stage_code(store.results.path(ID))
    write_code(replace(code, objects=pa.Table.from_pylist([row], schema=code.objects.schema)), staged)
    publish_code(staged, store.results.path(ID))
    assert "Added source file" not in browser_client.page(PAGE)
    browser_client.post(f"{PAGE}/remove", source="/src/made.c")
    assert "is none that was uploaded" in browser_client.page(PAGE)
    folder = binary_cache.open_origin(store.results.data, binary_cache.UPLOADS)
    folder.add_source(BUILD_ID, "/src/made.c", b"for another result\n", None)
    assert "Added source file" not in browser_client.page(PAGE)
    own = code.files.column("text")[0].as_py().encode()
    folder.add_source(BUILD_ID, "/src/made.c", own, None)
    page = browser_client.page(f"{PAGE}?function=f1")
    assert "Added source file" in page and f'action="{PAGE}/remove?function=f1"' in page
    assert "being added" in send(browser_client, "made.c", b"int right;\n")
    assert folder.source(BUILD_ID, "/src/made.c").read_bytes() == b"int right;\n"
    folder.add_source(BUILD_ID, "/src/made.c", own, None)
    assert browser_client.post(f"{PAGE}/remove", source="/src/made.c").status_code == 303
    assert not folder.source(BUILD_ID, "/src/made.c").exists()
    request = binary_cache.read_request(store.results.data, ID)
    assert request is not None and request.removed == ("/src/made.c",)
