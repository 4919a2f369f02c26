"""Events as people type them, and the search among what a host offers."""

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.host_facts import PerfEvent
from perfloom.recording.fields.events import EventIndex, event_problem, split_event_lists, split_events
from perfloom.recording.fields.job_form import JobForm, parse
from perfloom.recording.fields.job_json import from_json, parse_unvalidated
from perfloom.recording.recorders.events import single_events
from tests.support.cpu import limit_cpu_s


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("", ()),
        ("cycles", ("cycles",)),
        ("cycles,instructions:u\nr01c4", ("cycles", "instructions:u", "r01c4")),
        ("cpu/event=0x3c,umask=0x1/u, faults", ("cpu/event=0x3c,umask=0x1/u", "faults")),
        ("{cycles,instructions}:S,cs", ("{cycles,instructions}:S", "cs")),
        ("{cpu/event=1,umask=2/,cycles}", ("{cpu/event=1,umask=2/,cycles}",)),
        ("cpu/config=1,name='a{b,c'/", ("cpu/config=1,name='a{b,c'/",)),
        ("sched:sched_switch\r\n\r\n ,, syscalls:* ", ("sched:sched_switch", "syscalls:*")),
        ("mem:0x1000/8:rw,cycles", ("mem:0x1000/8:rw", "cycles")),
        ("intel_pt//u", ("intel_pt//u",)),
    ],
)
def test_commas_inside_slashes_and_braces_belong_to_the_event(text: str, events: tuple[str, ...]) -> None:
    assert split_events(text) == events
    assert all(event_problem(event) is None for event in events)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("cpu/event=1,umask=2", "pmu/terms/"),
        ("{cycles,faults", "not closed"),
        ("cycles}", "was not opened"),
    ],
)
def test_unclosed_pair_is_reported(text: str, part: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        split_events(text)
    assert part in error.value.message


@pytest.mark.parametrize("event", ["rNNN", "cpu/t1=v1[,t2=v2,t3 ...]/modifier", "mem:<addr>[/len][:access]"])
def test_patterns_of_perf_list_are_to_be_filled_in(event: str) -> None:
    assert "Insert numbers" in (event_problem(event) or "")


@pytest.mark.parametrize("event", ["-o/etc/passwd", "two words", "a\x1b[31m", "a,b", "{a"])
def test_texts_that_are_no_event(event: str) -> None:
    assert event_problem(event)


@pytest.mark.parametrize("event", ["", " ", "\t"])
def test_event_without_name_is_reported(event: str) -> None:
    assert "has no name" in (event_problem(event) or "")


INDEX = EventIndex.of(
    [
        PerfEvent("sched:sched_switch", "tracepoint"),
        PerfEvent("cycles", "hardware", "CPU cycles"),
        PerfEvent("L1-dcache-loads", "cache"),
        PerfEvent("exotic", "zoo", "counts switch positions"),
        PerfEvent("context-switches", "software"),
        PerfEvent("block:block_rq_issue", "tracepoint"),
    ]
)


def test_groups_are_ordered() -> None:
    assert [name for name, _ in INDEX.search().groups] == ["hardware", "cache", "software", "tracepoint", "zoo"]


def test_names_go_before_descriptions() -> None:
    found = INDEX.search("switch")
    assert [event.name for event in found.rows] == ["context-switches", "sched:sched_switch", "exotic"]
    assert [event.name for event in INDEX.search("SCHED switch").rows] == ["sched:sched_switch"]
    assert INDEX.search("switch", group="software").total == 1
    assert dict(INDEX.search("switch", group="software").groups) == {"software": 1, "tracepoint": 1, "zoo": 1}


def test_pages_cover_everything_once() -> None:
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = INDEX.search(offset=offset, limit=4)
        seen += [event.name for event in page.rows]
        offset = page.next_offset
    assert len(seen) == len(set(seen)) == page.total == 6


@pytest.mark.heavy
def test_search_in_20000_events_is_fast() -> None:
    index = EventIndex.of(PerfEvent(f"group{n % 97}:event_{n}", "tracepoint", "text " * 10) for n in range(20_000))
    assert index.search("event_1 group5").total > 100
    with limit_cpu_s(0.5):
        index.search("event_1 group5")


@pytest.mark.parametrize(
    ("typed", "single"),
    [
        ("a,{b,c}:S", ["a", "b", "c"]),
        ("{a,b},{c,d}:u", ["a", "b", "c", "d"]),
        ("cpu/event=1,umask=2/u,mem:0x10/4:rw,b", ["cpu/event=1,umask=2/u", "mem:0x10/4:rw", "b"]),
        ("mine{a,cpu-clock/freq=9,name=x/}", ["a", "cpu-clock/freq=9,name=x/"]),
    ],
)
def test_lists_and_groups_as_perf_takes_them(typed: str, single: list[str]) -> None:
    assert single_events(typed) == single


def test_events_may_be_listed_with_commas() -> None:
    assert split_event_lists(["a,b", "{c,d}:S,cpu/e=1,f=2/", "{open"]) == ("a", "b", "{c,d}:S", "cpu/e=1,f=2/", "{open")
    parsed = parse_unvalidated({"command": "true", "events": ["page-faults,{cs,faults}:S"]})
    assert parsed.spec is not None and parsed.spec.events == ("page-faults", "{cs,faults}:S")


@pytest.mark.parametrize("text", [",", ",,"])
def test_a_list_without_an_event_is_the_same_error_everywhere(text: str) -> None:
    message = f"“{text.strip()}” has no event. Enter names of events, or leave the list empty."
    assert parse(JobForm(command="true", events=text)).errors == {"events": message}
    assert from_json({"command": ["true"], "events": [text.strip()]}).errors == {"events": message}
    assert parse(JobForm(command="true", events="cycles,")).errors == {}
