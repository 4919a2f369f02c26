"""Two files that are chosen on the page Compare: imported, then compared."""

from __future__ import annotations

import io
from collections.abc import Callable

from perfloom.domain.jobs import JobState
from perfloom.store import Store
from tests.web.conftest import HOSTILE, Browser, profile
from tests.web.html import read


def test_two_files_are_imported_and_compared(browser_client: Browser, store: Store, stored: Callable[..., str]) -> None:
    page = browser_client.page("/compare")
    assert page.count('type="file" name="file"') == 2 and 'action="/import?then=compare"' in page
    answer = browser_client.client.post(
        "/import?then=compare",
        data={
            "csrf": browser_client.csrf,
            "together": "0",
            "file": [(io.BytesIO(b"a"), HOSTILE[0]), (io.BytesIO(b"b"), "other.folded")],
        },
        headers={"Origin": "http://localhost"},
        content_type="multipart/form-data",
    )
    assert answer.status_code == 303, answer.text
    waiting = answer.headers["Location"]
    jobs = {job.name: job.id for job in store.jobs.list()}
    base, other = jobs[HOSTILE[0]], jobs["other.folded"]
    assert waiting == f"/compare/imports?base={base}&other={other}"
    page = browser_client.page(waiting)
    assert read(page).faults == [] and 'http-equiv="refresh"' in page and "data-ticks" in page
    for id in (base, other):
        assert browser_client.client.get(waiting).status_code == 200
        stored(profile(), id)
        store.jobs.transition(id, JobState.QUEUED, JobState.READING)
        store.jobs.transition(id, JobState.READING, JobState.STORED, result_id=id)
    assert browser_client.client.get(waiting).headers["Location"] == f"/compare?base={base}&other={other}"
    store.results.delete(other)
    assert "could not be read" in browser_client.page(waiting)
    browser_client.page(f"/compare/imports?base={base}", 404)
