"""/events/catalog: events of CPU models, and own names, which the job form offers and perf records."""

from __future__ import annotations

import io
import json
import subprocess

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.host_facts import HostFacts, PerfEvent
from perfloom.recording.fields.own_events import OwnEvent, check_event, from_file, to_file
from perfloom.store import Store
from tests.support.parts import require
from tests.web.conftest import HOSTILE, Browser
from tests.web.html import read

PAGE = "/events/catalog"
OWN = {"name": "mem-loads", "event": "cpu/event=0xcd,umask=0x1/", "description": "Loads."}


def facts(host: str, cpu: str, *events: PerfEvent, at: float = 1.0) -> HostFacts:
    return HostFacts(host, at, cpu=cpu, perf="/usr/bin/perf", perf_version="6.1", events=events)


def publish(store: Store, *every: HostFacts) -> None:
    for each in every:
        store.hosts.publish(each)


def test_events_of_each_model_of_cpu(browser_client: Browser, store: Store) -> None:
    assert "No events are known yet" in browser_client.page(PAGE)
    old = facts("a", "CPU A", PerfEvent("old-event", "pmu"))
    new = facts("b", "CPU A", PerfEvent("cycles", "hardware"), PerfEvent("x.y", "cache", "Loads of x."), at=2.0)
    other = facts("c", "CPU B", *(PerfEvent(f"event-{n}", "pmu") for n in range(100)))
    publish(store, old, new, other)
    page = browser_client.page(PAGE)
    assert "as listed on b" in page and "old-event" not in page and "Loads of x." in page and "CPU B" in page
    found = browser_client.page(f"{PAGE}?search=loads")
    assert "x.y" in found and "<code>cycles</code>" not in found
    assert "x.y" not in browser_client.page(f"{PAGE}?group=hardware")
    many = browser_client.page(f"{PAGE}?cpu=CPU+B&page=2")
    assert "event-99" in many and "61 – 100 of 100 events" in many
    assert "No event contains “zzz”" in browser_client.page(f"{PAGE}?search=zzz")
    assert 'value="x.y"' in browser_client.page(f"{PAGE}?event=x.y")


def test_own_names_are_saved_offered_edited_and_deleted(browser_client: Browser, store: Store) -> None:
    assert browser_client.post(PAGE, **OWN).status_code == 303
    assert store.event_names.list() == (OwnEvent(**OWN),)
    answer = json.loads(browser_client.page("/jobs/events?target=local&query=mem-l"))
    assert [(row["name"], row["group"]) for row in answer["events"]] == [
        ("cpu/event=0xcd,umask=0x1,name=mem-loads/", "own")
    ]
    assert 'value="cpu/event=0xcd,umask=0x1/"' in browser_client.page(f"{PAGE}?name=mem-loads")
    assert browser_client.post(PAGE, **OWN | {"event": "r01cd"}).status_code == 303
    assert [each.event for each in store.event_names.list()] == ["r01cd"]
    assert browser_client.post("/events/names/delete", name="mem-loads").status_code == 303
    assert browser_client.post("/events/names/delete", name="mem-loads").status_code == 404
    assert store.event_names.list() == ()


@pytest.mark.parametrize(
    ("event", "recorded"),
    [
        ("cpu/event=0xcd,umask=0x1/", "cpu/event=0xcd,umask=0x1,name=own/"),
        ("cpu/event=0xcd/u", "cpu/event=0xcd,name=own/u"),
        ("r01cd", "cpu/config=0x01cd,name=own/"),
        ("cycles", "cycles/name=own/"),
        ("page-faults:u", "page-faults/name=own/u"),
        ("idq_uops_not_delivered.core", "idq_uops_not_delivered.core/name=own/"),
    ],
)
def test_how_it_is_recorded(event: str, recorded: str) -> None:
    assert check_event({"name": "own", "event": event}).recorded == recorded


def test_perf_gives_a_counter_the_own_name() -> None:
    own = check_event({"name": "own.faults-1", "event": "page-faults:u"})
    words = [require("perf"), "stat", "-x,", "-e", own.recorded, "--", "true"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.splitlines()[-1].split(",")[2] == "own.faults-1"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "1x"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "x" * 61}, "name"),
        ({"event": ""}, "event"),
        ({"event": "{cycles,instructions}"}, "event"),
        ({"event": "cycles,instructions"}, "event"),
        ({"event": "sched:sched_switch"}, "event"),
        ({"event": "-x"}, "event"),
        ({"event": "cpu/event=1,name=other/"}, "event"),
        ({"event": "cycles:uu"}, "event"),
        ({"event": "c" * 301}, "event"),
        ({"description": "\u202e"}, "description"),
    ],
)
def test_wrong_names_and_events(browser_client: Browser, store: Store, fields: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        check_event(OWN | fields)
    assert error.value.field == field
    response = browser_client.post(PAGE, **OWN | fields)
    assert response.status_code == 422 and f'id="e-{field}"' in response.text
    assert read(response.text).faults == [] and store.event_names.list() == ()


def test_hostile_text(browser_client: Browser, store: Store) -> None:
    publish(store, facts(HOSTILE[0], HOSTILE[1], *(PerfEvent(text, text[:9], text) for text in HOSTILE)))
    for word in ("", *HOSTILE):
        for name in ("search", "group", "cpu", "event", "name"):
            response = browser_client.client.get(PAGE, query_string={name: word})
            assert response.status_code in (200, 400) and read(response.text).faults == []
        assert read(browser_client.post(PAGE, name=word, event=word, description=word).text).faults == []
    assert store.event_names.list() == ()


def test_files(browser_client: Browser, store: Store) -> None:
    events = (OwnEvent("a", "r01cd"), OwnEvent("b", "cycles:u", "In user space."))
    assert from_file(to_file(events).encode()) == events

    def upload(content: bytes) -> str:
        browser_client.client.post(
            "/events/names/import",
            data={"csrf": browser_client.csrf, "file": (io.BytesIO(content), "events.toml")},
            headers={"Origin": "http://localhost"},
        )
        return browser_client.page(PAGE)

    assert "Imported 2 event names." in upload(to_file(events).encode())
    assert browser_client.page("/events/names/file") == to_file(store.event_names.list()) == to_file(events)
    twice = to_file((events[0], events[0])).encode()
    for content, words in (
        (b"\xff", "UTF-8"),
        (b"[[event]]\nname = 'x'\nevent = '{'", "Event 1: "),
        (b"[[event]]\nname = 1", "table of texts"),
        (b"[[event]]\nname = 'x'\nevil = 'x'", "evil"),
        (b"event = 1", "[[event]]"),
        (twice, "two events"),
    ):
        page = upload(content)
        assert "Nothing was imported." in page and words in page, words
        assert store.event_names.list() == events
