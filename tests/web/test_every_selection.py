"""Every word of a selection, with every table, page and export, on one result of each format: an answer or a reason,
and an export that is refused is refused before its first byte."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from perfloom.analysis.compare.flamegraph import flame_diff
from perfloom.analysis.compare.functions import diff_functions
from perfloom.analysis.compare.tables import COMPARED_TABLES, diff_table, has_table
from perfloom.analysis.core.sample_selection import filter_samples, samples_of
from perfloom.analysis.tables import TABLES
from perfloom.config import Settings
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import PATTERN_FIELDS, QUERY_PARAMETERS, Selection, format_process_key, format_thread_key
from perfloom.domain.tables import get_strings
from perfloom.exporters import EXPORTERS
from perfloom.exporters.stack_weights import select_exported_events
from perfloom.exporters.table_formats import TABLE_FORMATS
from perfloom.readers import READERS
from perfloom.store.files import columns
from perfloom.web.app import create_app
from perfloom.web.pages import RESULT_PAGES
from perfloom.web.views.trace.kernels import VIEWS as KERNEL_VIEWS
from perfloom.web.views.trace.memory import TABLE_LABELS as MEMORY_TABLES
from tests.outputs import IN_THE_API, files_of_pages
from tests.support.formats import FILES, profile_of
from tests.support.marks import slow_except
from tests.web.conftest import TOKEN, Browser, Compiled

Query = dict[str, str]
by_format = pytest.mark.parametrize(
    "name", slow_except(("perf-script", "perf-stat", "pytorch", "nsight-compute", "collapsed"), FILES)
)
EVERY_PAIR = ("perf-script", "pytorch", "perf-sched", "perf-stat")
"""With these formats every table gets every selection, with the others a third of them."""
OTHER = "perf-script"
"""What each result is compared with."""


def offered(profile: Profile) -> Iterator[Query]:
    """Selections of what a profile has, or may have; each word alone, and some of them together."""
    yield {}
    for name in get_strings(profile.events, "name")[-1:]:
        yield {"event": name}
    for row in profile.threads.to_pylist()[-1:]:
        yield {"thread": format_thread_key(row["rank"], row["pid"], row["tid"])}
    for name in get_strings(profile.steps, "name")[:1]:
        yield {"step": name}
    for row in profile.threads.to_pylist()[:1]:
        yield {"process": format_process_key(row["rank"], row["pid"])}
        yield {"host": row["host"] or "-"}
    yield {"rank": "0"}
    end = (profile.meta.duration_ns or 1_000) / 1e6
    yield {"start-ms": f"{end / 3:.6f}", "end-ms": f"{end / 2:.6f}"}
    yield {"start-ms": f"{end + 1_000:.6f}"}
    # Almost the limits.
    yield {"start-ms": "-2305843009213", "end-ms": "2305843009213"}
    yield {"start-ms": "2305843009213"}
    function = re.escape(next((name for name in get_strings(profile.functions, "display") if name), "x"))
    for word in PATTERN_FIELDS:
        yield {word: f"^{function}$"}
    yield {"hide": "nothing-has-this-name"}
    yield {"show": "nothing-has-this-name"}
    yield {"show-from": function, "show": "."}
    yield {"invert": "1"}
    yield {"recursion": "1"}
    yield {"invert": "1", "recursion": "1", "hide": function, "start-ms": f"{end / 4:.6f}"}


def refused(profile: Profile) -> Iterator[Query]:
    """Selections of what a profile does not have."""
    yield from ({"event": "no such event"}, {"thread": "no such thread"}, {"rank": "77"}, {"step": "no such step"})
    yield from ({"process": "no such process"}, {"host": "no such host"})
    yield from ({word: "(["} for word in PATTERN_FIELDS)


def selection_of(query: Query) -> Selection:
    return Selection.from_query({word: [value] for word, value in query.items()})


def sampled(profile: Profile, selection: Selection) -> bool:
    """Whether a selection leaves any sample."""
    events = select_exported_events(profile, selection)
    return any(samples_of(profile).time_ns[filter_samples(profile, selection, event)].size for event in events)


@pytest.mark.parametrize("form", ["collapsed", "speedscope"])
@pytest.mark.parametrize(
    ("name", "query", "words"),
    [
        ("perf-stat", "", "This result has no samples"),
        ("perf-script", "focus=nosuch", "Nothing is selected: no sample with a call stack matches focus=nosuch"),
        ("pytorch", "start-ms=900000", "Nothing is selected"),
    ],
)
def test_an_export_that_other_tools_refuse_as_empty_is_an_error(
    browser: Browser, form: str, name: str, query: str, words: str
) -> None:
    for address in (f"/results/{id_of(name)}/export/{form}", f"/api/v1/results/{id_of(name)}/export/{form}"):
        response = browser.client.get(f"{address}?{query}")
        assert response.status_code == 400 and words in response.text, response.text
        assert "Content-Disposition" not in response.headers


def test_each_format_and_word_is_here() -> None:
    assert set(FILES) == set(READERS)
    asked = {word for name in FILES for query in offered(profile_of(name)) for word in query}
    assert asked == set(QUERY_PARAMETERS)


@pytest.mark.slow
@by_format
def test_every_table_and_export_answers(name: str) -> None:
    profile = profile_of(name)
    for number, query in enumerate(offered(profile)):
        selection = selection_of(query)
        for at, table in enumerate(TABLES.values()):
            if name not in EVERY_PAIR and (number + at + list(FILES).index(name)) % 3:
                continue
            by = ("", *table.by)[number % (1 + len(table.by))]
            try:
                rows = table.frame(profile, selection, by)
            except InvalidRequest as error:
                assert error.field in query, (table.name, query, error.message)
                continue
            assert list(rows) == [column.name for column in table.columns]
            form = list(TABLE_FORMATS.values())[at % len(TABLE_FORMATS)]
            assert number % 4 or b"".join(form.write_chunks(rows, table.columns, {}))
        for exporter in EXPORTERS.values():
            try:
                pieces = exporter.write(profile, selection, {})
                first = next(pieces, b"")
            except InvalidRequest as error:
                empty = exporter.name in ("collapsed", "speedscope") and "contains only samples" in error.message
                assert error.field in query or empty, (exporter.name, query, error.message)
                assert not (empty and exporter.name == "speedscope" and sampled(profile, selection))
                continue
            for _ in pieces:
                pass
            assert first, (exporter.name, query)


@by_format
def test_what_is_not_there_is_refused_before_the_first_byte(name: str) -> None:
    profile = profile_of(name)
    for query in refused(profile):
        selection = selection_of(query)
        for table in TABLES.values():
            if table.uses_selection:
                with pytest.raises(InvalidRequest):
                    table.rows(profile, selection)
        for exporter in EXPORTERS.values():
            with pytest.raises(InvalidRequest):
                next(exporter.write(profile, selection, {}))


@by_format
def test_every_comparison_answers(name: str) -> None:
    for number, query in enumerate((*offered(profile_of(name)), *refused(profile_of(name)))):
        base, other = profile_of(OTHER if number % 2 else name), profile_of(name)
        selection = selection_of(query)
        asked: list[Callable[[], Any]] = [
            partial(diff_functions, base, other, selection, selection),
            partial(flame_diff, base, other, selection, selection),
        ]
        asked += [
            partial(diff_table, base, other, selection, of)
            for of in COMPARED_TABLES
            if has_table(base, of) or has_table(other, of)
        ]
        for ask in asked:
            try:
                ask()
            except InvalidRequest as error:
                refusals = ("no event in common", "These are not comparable")
                assert error.field in query or any(words in error.message for words in refusals), (query, error.message)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Signed in to a server that has a result of each format; its id is the place in FILES."""
    folder = tmp_path_factory.mktemp("every")
    app = create_app(Settings.load(folder / "data", environ={}, token=TOKEN, runtime=folder / "run"))
    app.jinja_env.bytecode_cache = Compiled()
    parts = app.extensions["perfloom"]
    for name in FILES:
        staged = parts.store.results.stage(id_of(name))
        columns.write(profile_of(name), staged)
        parts.store.results.publish(id_of(name), staged, name=name, originals=())
    yield Browser(app.test_client())
    parts.queue.close()
    parts.store.close()


def id_of(name: str) -> str:
    return f"result{list(FILES).index(name):06}"


def addresses(browser: Browser, name: str) -> list[str]:
    result, pair = id_of(name), f"base={id_of(OTHER)}&other={id_of(name)}"
    found = [f"/results/{result}/{page.key}".rstrip("/") for page in RESULT_PAGES]
    found += [f"/results/{result}/{table}.csv" for table in files_of_pages(browser.client.application)]
    found += [f"/results/{result}/{graph}.svg" for graph in ("flamegraph", "timeline")]
    found += [f"/api/v1/results/{result}/{path}" for path in IN_THE_API]
    found += [f"/results/{result}/export/{form}" for form in EXPORTERS]
    compared = ("/compare", "/compare/nsight", "/compare/flamegraph.svg", "/api/v1/compare/flamegraph")
    return found + [f"{path}?{pair}" for path in (*compared, *(f"/compare/{table}" for table in COMPARED_TABLES))]


@by_format
def test_every_page_answers(browser: Browser, name: str) -> None:
    """Each page with some words, each word with some pages: all pairs of the two, over the formats."""
    profile = profile_of(name)
    queries = [*offered(profile), *refused(profile)]
    for at, address in enumerate(addresses(browser, name)):
        query = queries[(at + list(FILES).index(name)) % len(queries)]
        path, _, words = address.partition("?")
        given = dict(pair.split("=") for pair in words.split("&") if pair)
        response = browser.client.get(path, query_string=given | query)
        whole = response.get_data()
        assert response.status_code in (200, 303, 400, 404), (address, query, whole[-2000:])


@by_format
def test_pages_without_a_selection_do_not_ask_to_remove_a_filter(browser: Browser, name: str) -> None:
    result, pair = f"/results/{id_of(name)}", f"base={id_of(OTHER)}&other={id_of(name)}"
    found = [f"{result}/{page.key}".rstrip("/") for page in RESULT_PAGES]
    found += [f"{result}/kernels?view={view}" for view in KERNEL_VIEWS]
    found += [f"{result}/memory?table={table}" for table in MEMORY_TABLES]
    found += [f"/compare{table}?{pair}" for table in ("", "/counts", *(f"/{table}" for table in COMPARED_TABLES))]
    for address in (*found, f"{result}/hotspots?page=99", f"{result}/counts?search=no-such-text"):
        response = browser.client.get(address)
        assert response.status_code in (200, 303, 400, 404) and "Remove a filter" not in response.text, address


@pytest.mark.parametrize("name", ["nsight-compute", "nsight-compute-csv"])
@pytest.mark.parametrize("query", ["hide=x", "focus=x", "end-ms=1", "rank=0"])
def test_launches_that_were_measured_alone_have_no_operators(browser: Browser, name: str, query: str) -> None:
    path = f"/results/{id_of(name)}/operators"
    # No format of these tells of ranks.
    status = 400 if query == "rank=0" else 200
    browser.page(f"{path}?{query}", status)
    assert browser.page(f"{path}.csv?{query}", status).count("\n") == 1 or status == 400


def test_an_export_of_a_rank_that_is_not_there_is_an_error_and_no_file(browser: Browser) -> None:
    for form in EXPORTERS:
        response = browser.client.get(f"/results/{id_of('pytorch')}/export/{form}?rank=5")
        assert response.status_code == 400 and "rank" in response.text, form
