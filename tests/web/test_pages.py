"""The pages of results: what they show, that they show it harmlessly, and that a selection goes along."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow.parquet as pq
import pytest

from perfloom.analysis.stacks.hotspots import compute_hotspots
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.jobs import JobSpec, JobState, Scope
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.exporters import EXPORTERS
from perfloom.store import Store
from perfloom.store.files import columns
from tests.web.conftest import EVALUATED, EVIL, EXPRESSION, HOSTILE, ORDINARY, Browser, profile
from tests.web.html import read

TABS = ("", "/timeline", "/hotspots", "/heatmap", "/counts", "/threads", "/matrix", "/losses", "/export")
PATHS = ("/", "/import", "/nothing", *(f"/results/{{id}}{tab}" for tab in (*TABS, "/edit", "/delete")))


@pytest.mark.parametrize("which", ["ordinary", "evil"])
def test_no_name_becomes_markup(browser_client: Browser, request: pytest.FixtureRequest, which: str) -> None:
    id = request.getfixturevalue(which)
    for path in PATHS:
        text = browser_client.client.get(path.format(id=id)).text
        page = read(text)
        assert page.faults == [], path
        assert "\u202e" not in text, path
        assert EVALUATED not in text, path
        assert "{{" not in re.sub("</?span>", "", text).replace(EXPRESSION, ""), path


@pytest.mark.slow
@pytest.mark.parametrize("tab", TABS)
def test_hostile_words_of_a_query_come_back_as_text(browser_client: Browser, ordinary: str, tab: str) -> None:
    short = [name for name in HOSTILE if len(name) < 1000]
    names = ("".join(short), "".join(reversed(short)), *(name for name in HOSTILE if name not in short))
    for word in ("search", "sort", "page", "by", "event", "thread", "focus", "ignore", "hide", "start-ms", "x"):
        for name in names:
            response = browser_client.client.get(f"/results/{ordinary}{tab}", query_string={word: name})
            assert response.status_code in (200, 400), (word, name)
            assert read(response.text).faults == [], (word, name)


def test_the_list(browser_client: Browser, ordinary: str, evil: str) -> None:
    text = browser_client.page("/")
    assert "an ordinary result" in text and "node17" in text and "not complete" in text
    assert "2 results" in text
    assert "an ordinary result" not in browser_client.page("/?search=onerror")
    assert "Nothing found" in browser_client.page("/?search=nowhere-to-be-found")
    assert "Results cannot" not in browser_client.page("/?sort=-bytes")
    assert "cannot be sorted" in browser_client.page("/?sort=password", 400)
    assert "must be a whole number" in browser_client.page("/?page=-1", 400)
    assert "Nothing found" in browser_client.page("/?page=9")


def test_sorting_by_links(browser_client: Browser, ordinary: str, evil: str) -> None:
    def first(query: str) -> str:
        return re.findall(r'href="(/results/\w{12})" title', browser_client.page("/" + query))[0]

    assert first("?sort=name").endswith(EVIL)
    assert first("?sort=-name").endswith(ORDINARY)
    assert 'aria-sort="ascending"' in browser_client.page("/?sort=name")
    assert "sort=-name" in browser_client.page("/?sort=name")


def test_tags_filter_and_switch_off(browser_client: Browser, store: Store, ordinary: str, evil: str) -> None:
    store.results.set_tags(ordinary, ["base line"])
    page = browser_client.page("/")
    assert 'href="/?tag=base+line"' in page
    narrowed = browser_client.page("/?tag=base+line&sort=name")
    assert "1 result" in narrowed and 'href="/?sort=name" aria-current="true"' in narrowed


def test_an_empty_store_shows_the_ways_in(browser_client: Browser) -> None:
    page = browser_client.page("/")
    assert "See where the time goes" in page and "perfloom record" in page and 'href="/import"' in page


def test_editing(browser_client: Browser, store: Store, ordinary: str) -> None:
    response = browser_client.post(
        f"/results/{ordinary}/edit", name="  new  name ", tags="a, b\nc,,A", notes="line 1\r\nline 2"
    )
    assert (response.status_code, response.headers["Location"]) == (303, f"/results/{ordinary}")
    result = store.results.get(ordinary)
    assert (result.name, set(result.tags), result.notes) == ("new name", {"a", "b", "c"}, "line 1\nline 2")
    assert "Saved." in browser_client.page(f"/results/{ordinary}")
    assert "Saved." not in browser_client.page(f"/results/{ordinary}")


def test_a_form_that_fails_keeps_what_was_typed(browser_client: Browser, store: Store, ordinary: str) -> None:
    response = browser_client.post(f"/results/{ordinary}/edit", name=" ", tags="x,y", notes="kept")
    assert response.status_code == 400
    assert "The name is empty" in response.text and "kept" in response.text and 'value="x,y"' in response.text
    assert 'aria-invalid="true"' in response.text


def test_deleting_asks_first(browser_client: Browser, store: Store, ordinary: str) -> None:
    assert "cannot be undone" in browser_client.page(f"/results/{ordinary}/delete")
    assert store.results.find(ordinary) is not None
    assert browser_client.post(f"/results/{ordinary}/delete").status_code == 303
    assert store.results.find(ordinary) is None
    assert "Deleted" in browser_client.page("/")
    assert "No result" in browser_client.page(f"/results/{ordinary}", 404)


@pytest.mark.parametrize("id", ["zzzzzzzzzzzz", "..", "A", "x" * 500, "%2e%2e%2fetc", "aaaaaaaaaaa\u0660"])
def test_a_result_that_does_not_exist(browser_client: Browser, id: str) -> None:
    for tab in (*TABS, "/edit", "/delete", "/original/1", "/export/collapsed", "/hotspots.csv"):
        assert browser_client.client.get(f"/results/{id}{tab}").status_code == 404


def test_the_overview(browser_client: Browser, ordinary: str) -> None:
    text = " ".join(" ".join(read(browser_client.page(f"/results/{ordinary}")).text).split())
    for expected in ("cpu-clock", "page-faults", "199 samples per second", "every event", "worker-0", "main", "node17"):
        assert expected in text, expected
    assert "sample without a stack" in text


def test_the_event_is_switched_and_carried(browser_client: Browser, ordinary: str) -> None:
    page = read(browser_client.page(f"/results/{ordinary}/hotspots?event=page-faults&focus=parse&by=module"))
    tabs = [link for link in page.links if link.startswith(f"/results/{ordinary}") and ".csv" not in link]
    carried = [link for link in tabs if urlsplit(link).path.endswith("/threads")]
    assert carried
    for link in carried:
        assert parse_qs(urlsplit(link).query) == {"event": ["page-faults"], "focus": ["parse"]}
    assert f"/results/{ordinary}/hotspots?focus=parse&by=module" in tabs, "to the main event"
    assert f"/results/{ordinary}/hotspots?event=page-faults&by=module" in tabs, "without focus"


def test_an_unknown_event_says_which_there_are(browser_client: Browser, ordinary: str) -> None:
    text = browser_client.page(f"/results/{ordinary}/hotspots?event=cycles", 400)
    assert "cpu-clock" in text and "The result without these parameters" in text


def rows_of(page: str) -> list[str]:
    return re.findall(r'<th scope="row"[^>]*title="([^"\n]*)', page)


def test_hotspots_are_those_of_the_table(browser_client: Browser, store: Store, ordinary: str) -> None:
    expected = compute_hotspots(store.results.open(ordinary), Selection(event="cpu-clock"))
    assert rows_of(browser_client.page(f"/results/{ordinary}/hotspots")) == expected["name"].tolist()
    by_name = rows_of(browser_client.page(f"/results/{ordinary}/hotspots?sort=name"))
    assert by_name == sorted(expected["name"].tolist())
    found = rows_of(browser_client.page(f"/results/{ordinary}/hotspots?search=FUNCTION_1"))
    assert set(found) == {name for name in expected["name"] if "function_1" in name}
    modules = rows_of(browser_client.page(f"/results/{ordinary}/hotspots?by=module"))
    assert set(modules) == {"/usr/lib/libc.so.6", "[kernel.kallsyms]"}


def test_hotspots_in_pages(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(profile(functions=450, samples=4000))
    seen = []
    path: str | None = f"/results/{id}/hotspots"
    while path:
        text = browser_client.page(path)
        rows = rows_of(text)
        assert len(rows) <= 100
        seen += rows
        more = re.search(r'href="([^"]+)" rel="next"', text)
        path = more[1].replace("&amp;", "&") if more else None
    assert len(seen) == len(set(seen)) > 300


def test_counts_show_every_event_unless_one_is_chosen(browser_client: Browser, ordinary: str) -> None:
    page = browser_client.page(f"/results/{ordinary}/counts")
    assert page.count('class="table stacks"') == 2 and ">All events</a>" in page
    text = " ".join(" ".join(read(page).text).split())
    assert "2.26 s in total" in text and "450 in total" in text
    one = browser_client.page(f"/results/{ordinary}/counts?event=page-faults&by=thread&sort=-value")
    assert one.count('class="table stacks"') == 1 and {"page-faults"} < set(rows_of(one))


def test_csv_has_every_row_and_exact_numbers(browser_client: Browser, store: Store, ordinary: str) -> None:
    response = browser_client.client.get(f"/results/{ordinary}/hotspots.csv")
    assert response.headers["Content-Disposition"].startswith("attachment")
    assert response.mimetype == "text/csv"
    rows = list(csv.DictReader(io.StringIO(response.text)))
    expected = compute_hotspots(store.results.open(ordinary), Selection(event="cpu-clock"))
    assert list(rows[0]) == list(expected.columns)
    assert [(row["name"], int(row["self"])) for row in rows] == list(
        zip(expected["name"], expected["self"].tolist(), strict=True)
    )


def test_rows_in_every_form_from_pages_and_over_http(browser_client: Browser, ordinary: str) -> None:
    def key(row: dict[str, Any]) -> tuple[str, str]:
        return row["name"], str(row.get("module"))

    pair = f"base={ordinary}&other={ordinary}"
    asked = {
        f"/results/{ordinary}/hotspots.{{}}": f"/api/v1/results/{ordinary}/hotspots?event=cpu-clock&format={{}}",
        f"/compare.{{}}?{pair}": f"/api/v1/compare?{pair}&format={{}}",
    }
    for page, api in asked.items():
        rows = browser_client.client.get(api.format("json")).json
        # JSON alone says in each row that something of the recording was lost.
        rows = [{word: value for word, value in row.items() if word != "affected_by_losses"} for row in rows]
        for address in (page, api):
            response = browser_client.client.get(address.format("parquet"))
            assert response.headers["Content-Disposition"].endswith((".parquet", '.parquet"'))
            table = pq.read_table(io.BytesIO(response.data))
            assert sorted(table.to_pylist(), key=key) == sorted(rows, key=key)
            assert table.schema.field("name").metadata[b"description"]
        text = browser_client.client.get(api.format("csv")).text
        assert len(list(csv.reader(io.StringIO(text)))) == 1 + len(rows)
    assert f'href="/results/{ordinary}/hotspots.parquet"' in browser_client.page(f"/results/{ordinary}/hotspots")
    wrong = browser_client.client.get(f"/api/v1/results/{ordinary}/hotspots?format=xlsx")
    assert wrong.status_code == 400 and wrong.json is not None and "parquet" in wrong.json["error"]


@pytest.mark.parametrize("table", ["hotspots", "counts", "threads", "losses"])
def test_csv_starts_no_formula(browser_client: Browser, evil: str, table: str) -> None:
    text = browser_client.client.get(f"/results/{evil}/{table}.csv").text
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            assert not re.match(r"[=+@\t\r]|-(?![\d.]+$)", cell), cell
    if table == "hotspots":
        assert "'=HYPERLINK" in text


def test_originals_come_back_byte_for_byte(
    browser_client: Browser, stored: Callable[..., str], store: Store, tmp_path: Path
) -> None:
    content = b"".join(b"perf %d 1.0: 10 cycles:\n" % i for i in range(20_000))
    (tmp_path / "perf script.txt").write_bytes(content)
    id = stored(profile(), originals=[tmp_path / "perf script.txt"])
    assert f'href="/results/{id}/original/1"' in browser_client.page(f"/results/{id}")
    before = browser_client.client.get(f"/results/{id}/original/1")
    store.results.compress(id)
    assert store.results.original(id)[0].path.suffix == ".zst"
    after = browser_client.client.get(f"/results/{id}/original/1")
    assert before.data == after.data == content
    assert 'filename="perf script.txt"' in after.headers["Content-Disposition"]
    assert browser_client.client.get(f"/results/{id}/original/2").status_code == 404


def test_hostile_file_names_are_offered_harmlessly(browser_client: Browser, evil: str) -> None:
    disposition = browser_client.client.get(f"/results/{evil}/original/1").headers["Content-Disposition"]
    assert disposition.startswith("attachment") and "<" not in disposition and "\n" not in disposition
    disposition = browser_client.client.get(f"/results/{evil}/hotspots.csv").headers["Content-Disposition"]
    assert disposition.startswith("attachment") and "/" not in disposition.replace("text/csv", "")


@pytest.mark.parametrize("form", sorted(EXPORTERS))
def test_exports(browser_client: Browser, store: Store, ordinary: str, form: str) -> None:
    response = browser_client.client.get(f"/results/{ordinary}/export/{form}?event=page-faults")
    assert response.status_code == 200
    expected = b"".join(EXPORTERS[form].write(store.results.open(ordinary), Selection(event="page-faults"), {}))
    assert response.data == expected
    assert response.headers["Content-Disposition"].startswith("attachment")
    assert "sandbox" in response.headers["Content-Security-Policy"]
    bad = browser_client.client.get(f"/results/{ordinary}/export/{form}?event=nothing")
    assert bad.status_code == 400 and "sandbox" not in bad.headers["Content-Security-Policy"]


def test_an_export_is_packed_on_its_way(browser_client: Browser, ordinary: str) -> None:
    address = f"/results/{ordinary}/export/perfetto"
    plain = browser_client.client.get(address)
    packed = browser_client.client.get(address, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
    assert gzip.decompress(packed.data) == plain.data and len(packed.data) < len(plain.data) / 5
    unpackable = browser_client.client.get(f"/results/{ordinary}/export/pprof", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in unpackable.headers


def test_an_unknown_export_says_which_there_are(browser_client: Browser, ordinary: str) -> None:
    assert "collapsed" in browser_client.page(f"/results/{ordinary}/export/nonsense", 404)


def bare(kind: str) -> Profile:
    """A profile that lacks most of what others have."""
    builder = ProfileBuilder("perf script text")
    if kind == "nothing":
        return builder.finish()
    run = builder.add_run("true")
    if kind == "counts":
        for number, event in enumerate(("cycles", "instructions", "a", "b", "c")):
            value = None if event == "cycles" else 10.0 * number
            status = "not supported" if value is None else "ok"
            builder.add_count(
                run=run, thread=-1, cpu=-1, event=builder.intern_event(event, "count"), value=value, status=status
            )
        return builder.finish()
    thread = builder.intern_thread()
    event = builder.intern_event("samples", "count", weighted=False)
    builder.add_sample(0, thread, event, builder.intern_stack([]), 1)
    return builder.finish()


def test_what_was_only_counted_shows_nothing_of_samples(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(bare("counts"))
    overview = browser_client.page(f"/results/{id}")
    assert re.findall(r"<dt>(Samples|Processes|Threads|Counted values)</dt>", overview) == ["Counted values"]
    assert not any(f"/results/{id}/threads" in link for link in read(overview).links)
    assert ">Samples</th>" not in overview
    counts = browser_client.page(f"/results/{id}/counts")
    assert "Counted, not sampled" in counts and "divided by its top functions" not in counts
    assert ">other<" not in counts and "bars-plain" in counts
    sampled = stored(profile(), "another00000")
    assert "divided by its top functions" in browser_client.page(f"/results/{sampled}/counts?focus=nothing")
    tiles = re.findall(
        r"<dt>(Samples|Processes|Threads|Counted values)</dt>", browser_client.page(f"/results/{sampled}")
    )
    assert tiles == ["Samples", "Processes", "Threads"]


def test_percent_sign_is_only_in_the_heading(browser_client: Browser, stored: Callable[..., str]) -> None:
    builder = ProfileBuilder("perf stat")
    event = builder.intern_event("cycles", "count")
    builder.add_count(run=0, event=event, thread=-1, cpu=-1, value=5.0, status="ok", enabled_ns=8, running_ns=4)
    page = browser_client.page(f"/results/{stored(builder.finish())}/counts")
    assert "Counted %" in page and re.search(r'<td class="num"[^>]*>\s*50\.00</td>', page)


def test_a_recorded_process_is_named(browser_client: Browser, store: Store, stored: Callable[..., str]) -> None:
    spec = JobSpec(scope=Scope.PROCESS, command=(), pid=4711)
    job = store.jobs.create("record", spec.to_json(), "watched")
    argv = ("perf", "record", "--call-graph", "fp", "-p", "4711")
    assert store.jobs.transition(job.id, [JobState.QUEUED], JobState.STAGING, argv=list(argv))
    staged = store.results.stage(job.id)
    columns.write(profile(), staged)
    store.results.publish(job.id, staged, name="watched", originals=[], job_id=job.id)
    page = browser_client.page(f"/results/{job.id}")
    assert "<dd>process 4711</dd>" in page and "python3 -m workload" not in page
    assert "<span>--call-graph</span> <span>fp</span>" in page
    assert 'data-copy="perf record --call-graph fp -p 4711"' in page


@pytest.mark.parametrize("kind", ["nothing", "counts", "one sample"])
def test_profiles_that_have_little(browser_client: Browser, stored: Callable[..., str], kind: str) -> None:
    id = stored(bare(kind))
    overview = read(browser_client.page(f"/results/{id}"))
    tabs = {link.split("/")[-1] for link in overview.links if link.startswith(f"/results/{id}/")}
    assert ("flamegraph" in tabs) == (kind == "one sample")
    assert ("counts" in tabs) == (kind != "nothing")
    ways = " ".join(read(browser_client.page(f"/results/{id}/export")).links)
    assert all((f"/{way}" in ways) == (kind == "one sample") for way in ("export/pprof", "export/svg"))
    assert "timeline" not in tabs and "open/perfetto" not in ways, "no sample tells when it was"
    assert "/export/html" in ways and "/tables/summary.parquet" in ways
    for tab in (*TABS, "/flamegraph", "/hotspots?by=thread", "/hotspots?by=module", "/counts?by=thread"):
        text = browser_client.page(f"/results/{id}{tab}")
        assert read(text).faults == [] and ">nan<" not in text
    for table in ("hotspots", "counts", "threads", "losses"):
        assert browser_client.client.get(f"/results/{id}/{table}.csv").status_code == 200
    text = browser_client.page(f"/results/{id}/counts")
    assert ("not supported" in text) == (kind == "counts")
    compared = browser_client.client.get(f"/compare?base={id}&other={id}", follow_redirects=True)
    assert compared.status_code == 200 and (compared.request.path == "/compare/counts") == (kind == "counts")
    assert "1 result" in browser_client.page("/")


def test_the_theme_is_kept_and_rendered_by_the_server(browser_client: Browser) -> None:
    assert 'data-theme="system"' in browser_client.page("/")
    response = browser_client.post("/theme", theme="dark", next="/import")
    assert (response.status_code, response.headers["Location"]) == (303, "/import")
    page = browser_client.page("/import")
    assert 'data-theme="dark"' in page and 'content="dark"' in page
    assert browser_client.post("/theme", theme="pink").status_code == 400
    browser_client.client.set_cookie("perfloom-theme", '"><script>')
    assert 'data-theme="system"' in browser_client.page("/")


def test_navigation_shows_only_pages_that_exist(browser_client: Browser) -> None:
    page = browser_client.page("/")
    for link in re.findall(r'<a href="([^"]+)"', page.split("<nav")[1].split("</nav>")[0]):
        assert browser_client.client.get(link).status_code == 200, link


def test_every_link_of_a_result_leads_somewhere(browser_client: Browser, ordinary: str) -> None:
    seen: set[str] = set()
    waiting = [f"/results/{ordinary}"]
    while waiting:
        path = waiting.pop()
        if path in seen or len(seen) > 150:
            continue
        seen.add(path)
        response = browser_client.client.get(path)
        # What opens elsewhere is sent there.
        assert response.status_code == (303 if "/open/speedscope" in path else 200), path
        if response.mimetype == "text/html":
            links = [link.split("#")[0] for link in read(response.text).links]
            waiting += [link for link in links if link.startswith(f"/results/{ordinary}") and "delete" not in link]
    assert len(seen) > 20
