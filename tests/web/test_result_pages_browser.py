"""Result pages that need special data, in a real browser: accessible in both schemes, never wider than the window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from perfloom.store import Store, open_store
from perfloom.store.files.code import write_code
from perfloom.store.files.code_folder import publish_code, stage_code
from tests.support.accessible import faults_in_both_schemes
from tests.support.machine_code.made import Sample, make_code, make_profile
from tests.support.perf.branch_stacks import sample_stacks
from tests.support.signing import sign_in
from tests.web.conftest import HOSTILE, profile
from tests.web.formulas.test_topdown_page import counted
from tests.web.results.test_branches_page import read
from tests.web.serving import Served, put, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

BRANCHES, CODE, TOPDOWN, PLAIN = "branches0000", "machinecode0", "topdown00000", "plain0000000"
BASE, OTHER = [f"base0000000{n}" for n in range(3)], [f"other000000{n}" for n in range(3)]
GROUPS = "&".join([*(f"base={id}" for id in BASE), *(f"other={id}" for id in OTHER)])
SAMPLES: list[Sample] = [([(0, 1), (1, 2)], 0, 60), ([(0, 1), (1, 3)], 0, 30), ([(0, 0)], 0, 10), ([(0, 0)], 1, 20)]
PAGES = (
    f"/results/{BRANCHES}/branches",
    f"/results/{BRANCHES}/branches?view=loops",
    f"/results/{CODE}/source",
    f"/results/{CODE}/source?function=f1",
    f"/results/{CODE}/source?function=f1&view=assembly",
    f"/results/{PLAIN}/source?function=f1",
    f"/results/{TOPDOWN}/topdown",
    f"/results/{CODE}/ratios",
    f"/results/{CODE}/ratios?view=scatter",
    f"/results/{CODE}/formulas",
    f"/results/{PLAIN}/heatmap",
    f"/results/{PLAIN}/matrix",
    f"/compare/runs?{GROUPS}",
    f"/compare/runs?{GROUPS}&scale=absolute&of=total",
    f"/compare/runs?base={BASE[0]}&other={OTHER[0]}",
    "/history",
    "/history?tag=nightly",
    "/history?tag=nightly&function=main",
    "/history?tag=nothing",
    "/events",
    "/events/catalog",
)


def put_code(store: Store) -> None:
    put(store, CODE, "machine code", make_profile(SAMPLES))
    result = store.results.path(CODE)
    staged = stage_code(result)
    write_code(make_code(store.results.open(CODE), f"/src/{HOSTILE[0]}.c"), staged)
    publish_code(staged, result)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), filled=False) as here:
        store = open_store(here.settings)
        put_code(store)
        put(store, PLAIN, "without machine code", make_profile(SAMPLES * 5))
        put(store, BRANCHES, "branch stacks", read(sample_stacks(200)))
        put(store, TOPDOWN, "counts", counted("zen4.txt"))
        for seed, (base, other) in enumerate(zip(BASE, OTHER, strict=True)):
            put(store, base, f"base {seed}", profile(functions=6, samples=902, seed=seed))
            put(store, other, f"other {seed} {'long name ' * 12}", profile(functions=6, samples=902, seed=9 + seed))
        for id in (*BASE, *OTHER):
            store.results.set_tags(id, ["nightly"])
        store.close()
        yield here


@pytest.mark.slow
def test_accessible_and_never_wider_than_the_window(page: Page, server: Served) -> None:
    sign_in(page.context, server.entry)
    problems = {}
    for path in PAGES:
        answer = page.goto(server.url + path)
        assert answer is not None and answer.status == 200, path
        found = faults_in_both_schemes(page)
        for width in (360, 768, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            if page.evaluate("document.documentElement.scrollWidth") > width:
                found.append(f"wider than {width}")
        if found:
            problems[path] = found
    assert problems == {}
