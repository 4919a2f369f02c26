"""The page of the call tree over HTTP."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from perfloom.domain.profile import Profile
from tests.support.profiles import profile_of
from tests.web.conftest import HOSTILE, Browser
from tests.web.results.test_empty_pages import counted, text_of

PAGE = "/results/ordinary0000/tree"


def branches() -> Profile:
    """Two events; a heavy path of three functions beside lighter ones."""
    return profile_of(
        [
            ("main;work;inner", 80, 0, 1, 0),
            ("main;work;setup", 15, 0, 2, 0),
            ("main;idle;poll", 5, 1, 3, 0),
            ("main;idle;poll", 3, 1, 4, 1),
        ],
        events=(("cpu-clock", "ns"), ("page-faults", "count")),
    )


def rows_of(page: str) -> list[tuple[str, int, str | None]]:
    """Name, level and state of the rows."""
    found = re.findall(r'<tr id="f[^>]*data-name="([^"]*)"[^>]*aria-level="(\d+)"(?: aria-expanded="(\w+)")?', page)
    return [(html.unescape(name), int(level), state or None) for name, level, state in found]


def cells_of(page: str, name: str) -> list[str]:
    (row,) = re.findall(rf'<tr id="f[^>]*data-name="{name}".*?</tr>', page, re.DOTALL)
    return re.findall(r"<data [^>]*>([^<]*)</data>", row)


def link_of(page: str, label: str) -> str:
    (found,) = re.findall(rf'href="([^"#]*)[^"]*" aria-label="{label}"', page)
    return html.unescape(found)


def test_the_heaviest_path_is_open_and_rows_open_and_close(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(branches())
    page = browser_client.page(PAGE)
    assert rows_of(page) == [
        ("main", 1, "true"),
        ("work", 2, "true"),
        ("inner", 3, None),
        ("setup", 3, None),
        ("idle", 2, "false"),
    ]
    opened = browser_client.page(link_of(page, "Expand idle"))
    assert rows_of(opened)[-2:] == [("idle", 2, "true"), ("poll", 3, None)]
    both = browser_client.page(link_of(opened, "Collapse work"))
    assert [row[0] for row in rows_of(both)] == ["main", "work", "idle", "poll"]
    # Another event keeps what is open; bottom-up is another tree.
    (event,) = re.findall(r'href="([^"]*event=page-faults[^"]*)" title', both)
    assert "toggle=" in event and rows_of(browser_client.page(html.unescape(event)))
    assert all(
        state != "true" or level == 1 for _, level, state in rows_of(browser_client.page(f"{PAGE}?invert=1"))[3:]
    )


def test_all_rows(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(branches())
    page = browser_client.page(PAGE)
    (url,) = re.findall(r'href="([^"]*)" rel="nofollow">Expand all', page)
    everything = browser_client.page(html.unescape(url))
    assert [name for name, _, _ in rows_of(everything)] == ["main", "work", "inner", "setup", "idle", "poll"]
    assert [name for name, _, _ in rows_of(browser_client.page(f"{PAGE}?rows=2"))] == ["main", "work"]
    assert "More rows follow" in browser_client.page(f"{PAGE}?rows=2")
    for wrong in ("0", "x", "3001", "000003000999", "000000001" + "9" * 5_000):
        assert "rows" in browser_client.page(f"{PAGE}?rows={wrong}", 400)
    for strange in ("toggle=", "toggle=zz.1.2", "expand=....", "toggle=%00&expand=%3Cscript%3E"):
        assert rows_of(browser_client.page(f"{PAGE}?{strange}")) == rows_of(page)


def test_all_events_are_side_by_side(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(branches())
    page = browser_client.page(f"{PAGE}?hide=^work$")
    assert "cpu-clock page-faults" in text_of(page)
    assert cells_of(page, "idle") == ["5", "5.00", "0", "0.00", "3", "0", "600\xa0M\xa0/s", "–"]
    assert cells_of(page, "inner") == ["80", "80.00", "80", "80.00", "0", "0", "0\xa0/s", "0\xa0/s"]


def test_callers_and_callees(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(branches())
    page = browser_client.page(f"{PAGE}?function=work")
    assert [name for name, _, _ in rows_of(page)] == ["work", "main", "work", "inner", "setup"]
    assert "percentages are of its total" in page and "flamegraph?function=work" in page
    assert "nothing_like_it" in browser_client.page(f"{PAGE}?function=nothing_like_it", 404)


def test_hostile_names(stored: Callable[..., str], browser_client: Browser) -> None:
    names = [*HOSTILE, "</td><script>", "x" * 5000]
    stored(profile_of([(names, 3)]))
    page = browser_client.page(PAGE)
    # The direction of text cannot be changed by a name.
    assert [name for name, _, _ in rows_of(page)] == [re.sub("[\u202c\u202e]", "\ufffd", name) for name in names]
    assert "</td><script>" not in page and not any(name in page for name in HOSTILE if "<" in name)


def test_nothing_to_show(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(branches())
    assert "No samples match this selection" in browser_client.page(f"{PAGE}?focus=zzz")
    stored(counted(), "counted00000")
    assert "counted, not sampled" in browser_client.page("/results/counted00000/tree")


def test_files(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(branches())
    lines = browser_client.page(f"{PAGE}.csv?event=page-faults").splitlines()
    assert lines[0].startswith("event,unit,depth,name,module,self,total")
    assert [line.split(",")[2:4] for line in lines[1:]] == [["1", "main"], ["2", "idle"], ["3", "poll"]]


def test_more_rows_end_at_the_limit(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(profile_of([(f"main;f{number}", 1) for number in range(3_100)]))
    page = browser_client.page(f"{PAGE}?rows=2900")
    (more,) = re.findall(r'href="([^"]*)" rel="nofollow">Show more', page)
    assert "rows=3000" in more
    last = browser_client.page(html.unescape(more))
    assert len(rows_of(last)) == 3_000 and "Show more" not in last and "More rows follow" in last


def test_of_many_events_some_have_columns(stored: Callable[..., str], browser_client: Browser) -> None:
    events = tuple((f"event.{number}", "count") for number in range(8))
    stored(profile_of([("main;work", 7 + number, 0, 1, number) for number in range(8)], events=events))

    def headings(query: str) -> list[str]:
        page = browser_client.page(f"{PAGE}?event=event.0{query}")
        return re.findall(r'<th scope="colgroup"[^>]*>(?:<a [^>]*>)?([^<]*)', page)

    assert headings("") == [f"event.{number}" for number in range(5)]
    assert headings("&columns=main.e7.e2") == ["event.0", "event.2", "event.7"]
    # As a form without scripts sends it, with a name that this table does not have.
    assert headings("&columns=main&columns=e3&columns=calls") == ["event.0", "event.3"]
    assert cells_of(browser_client.page(f"{PAGE}?event=event.0&columns=main.e7"), "work")[-2:] == ["14", "14"]
