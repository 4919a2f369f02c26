"""Names of events, without sampling terms; and stored results with old names."""

import pytest

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.event_names import (
    FIRST_EVENT_FACT,
    NOT_OBSERVABLE,
    choose_main_event,
    find_event,
    get_term,
    get_unit,
    is_unobservable,
    measures_time,
    name_events,
    split_sampling_terms,
    strip_modifiers,
)
from perfloom.domain.profile import Profile
from perfloom.ingest.profile_upgrade import upgrade_profile
from perfloom.ingest.storage_format import SCHEMA_VERSION
from perfloom.readers import perf_script, stored_profile
from perfloom.store.models.results import ResultRow
from perfloom.store.result import result_from_row
from tests.support import paths

DATA = paths.DATA / "perf"


@pytest.mark.parametrize(
    ("typed", "name", "attributes"),
    [
        ("cpu-clock", "cpu-clock", ""),
        ("cpu-clock//", "cpu-clock", ""),
        ("cpu-clock/freq=997/", "cpu-clock", "freq=997"),
        ("cpu-clock/freq=997/u", "cpu-clock:u", "freq=997"),
        ("cpu-clock/freq=500,name=ticks,call-graph=fp/", "cpu-clock", "freq=500,name=ticks,call-graph=fp"),
        ("L1-dcache-load-misses/period=1000/", "L1-dcache-load-misses", "period=1000"),
        ("cpu/event=0x3c,umask=1,period=9/u", "cpu/event=0x3c,umask=1/u", "period=9"),
        ("intel_pt//", "intel_pt//", ""),
        ("cpu-clock/percore/", "cpu-clock", "percore"),
        ("cpu-clock/aux-output,overwrite,time=0,inherit/", "cpu-clock", "aux-output,overwrite,time=0,inherit"),
        ("cpu-clock/no-inherit,nr=3/u", "cpu-clock/no-inherit/u", "nr=3"),
        ("software/config=0/", "cpu-clock", ""),
        ("software/config=0x2,period=9/u", "page-faults:u", "period=9"),
        ("cpu-clock/config=3,percore/", "context-switches", "percore"),
        ("software/config=99/", "software/config=99/", ""),
        ("bpf-output/no-inherit=1,name=evt/", "bpf-output/no-inherit=1/", "name=evt"),
        ("sched:sched_switch", "sched:sched_switch", ""),
        ("mem:0x1000/4:rw", "mem:0x1000/4:rw", ""),
        ("cycles:ppp", "cycles:ppp", ""),
        ("/", "/", ""),
        ("", "", ""),
    ],
)
def test_sampling_terms_are_attributes(typed: str, name: str, attributes: str) -> None:
    assert split_sampling_terms(typed) == (name, attributes)
    assert split_sampling_terms(name) == (name, "")


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ("page-faults/no-inherit/u", "page-faults"),
        ("cpu-clock:u", "cpu-clock"),
        ("sched:sched_switch/nr=3/u", "sched:sched_switch"),
        ("cpu/event=0x3c/u", "cpu/event=0x3c/"),
        ("cpu-clock/config=3/", "context-switches"),
        ("mem:0x1000/4:rw", "mem:0x1000/4:rw"),
    ],
)
def test_plain_event_names(event: str, name: str) -> None:
    assert strip_modifiers(event) == name


@pytest.mark.parametrize(
    ("event", "about", "expected"),
    [
        ("context-switches:u", "", True),
        ("cs/period=1/u", "", True),
        ("context-switches/percore/u", "", True),
        ("migrations:uh", "", True),
        # perf added the last u.
        ("cs:uku", "", True),
        ("cgroup-switches:Pu", "", True),
        ("cs:h", "", True),
        ("cs", "", False),
        ("cs:uk", "", False),
        ("cs:ku", "", False),
        ("cs:k", "", False),
        ("cs:P", "", False),
        ("page-faults:u", "", False),
        ("cycles:u", "exclude_kernel = 1", False),
        ("sched:sched_switch:u", "", True),
        ("sched:sched_switch", "disabled = 1, exclude_kernel = 1, exclude_hv = 1", True),
        ("sched:sched_switch", "disabled = 1", False),
        ("raw_syscalls:sys_enter:u", "", True),
        ("syscalls:sys_enter_read:u", "", False),
        ("probe_bash:main:u", "", False),
    ],
)
def test_kernel_events_are_unobservable_from_user_space(event: str, about: str, expected: bool) -> None:
    assert is_unobservable(event, about) is expected


def stored_before(value: float) -> Profile:
    builder = ProfileBuilder("perf-stat")
    run = builder.add_run()
    for name in ("context-switches:u", "page-faults:u"):
        which = builder.intern_event(name, "count")
        builder.add_count(run=run, thread=-1, cpu=-1, event=which, value=value, status="ok")
    return builder.finish()


def test_stored_zero_of_unobservable_event_becomes_null() -> None:
    profile = upgrade_profile(stored_before(0.0), SCHEMA_VERSION)
    assert [(row["value"], row["status"]) for row in profile.counts.to_pylist()] == [
        (None, NOT_OBSERVABLE),
        (0.0, "ok"),
    ]
    (loss,) = profile.losses.to_pylist()
    assert loss["reason"].endswith(NOT_OBSERVABLE) and "kernel.perf_event_paranoid" in loss["example"]
    again = upgrade_profile(profile, SCHEMA_VERSION)
    assert again.counts.equals(profile.counts) and again.losses.equals(profile.losses)
    seen = stored_before(5.0)
    assert upgrade_profile(seen, SCHEMA_VERSION).counts.equals(seen.counts)


def test_events_of_one_recording_stay_distinct() -> None:
    typed = ["cpu-clock/freq=99/", "cpu-clock", "cpu-clock:u"]
    named = [("cpu-clock/freq=99/", ""), ("cpu-clock", ""), ("cpu-clock:u", "")]
    assert name_events((raw, "") for raw in typed) == named
    assert name_events(named) == named
    twice = ["cpu-clock/freq=99/", "cpu-clock/freq=7/"]
    assert name_events((raw, "") for raw in twice) == [("cpu-clock", "freq=99"), ("cpu-clock/freq=7/", "")]


def test_custom_name_is_an_attribute() -> None:
    about = "name = ticks, , id = { 3 }, type = 1, size = 128, { sample_period, sample_freq } = 500, freq = 1"
    assert name_events([("ticks", about)]) == [("cpu-clock", "name=ticks")]
    faults = "type = 1 (software), size = 136, config = 0x2 (PERF_COUNT_SW_PAGE_FAULTS), exclude_kernel = 1"
    assert name_events([("mine", faults)]) == [("page-faults:u", "name=mine")]
    assert name_events([("other", "type = 4, size = 128, config = 0x3c")]) == [("other", "")]
    assert name_events([("cycles:P", "type = 0, size = 128")]) == [("cycles:P", "")]


@pytest.mark.parametrize(
    ("event", "unit"),
    [
        ("cpu-clock/freq=99/u", "ns"),
        ("cpu-clock/no-inherit/u", "ns"),
        ("task-clock:u", "ns"),
        ("sched:sched_stat_runtime", "ns"),
        ("sched:sched_stat_iowait", "ns"),
        ("sched:sched_switch", "count"),
        ("page-faults", "count"),
    ],
)
def test_units(event: str, unit: str) -> None:
    assert get_unit(event) == unit
    assert get_unit(event, weighted=False) == "count"


def test_main_event() -> None:
    assert choose_main_event(["page-faults", "cpu-clock:u", "cycles"]) == "cpu-clock:u"
    assert choose_main_event(["page-faults", "cpu_core/cycles/u"]) == "cpu_core/cycles/u"
    assert choose_main_event(["page-faults", "cycles"], "page-faults") == "page-faults"
    assert choose_main_event(["cs", "cycles"], "page-faults") == "cycles"
    assert choose_main_event(["cs", "faults"]) == "cs"
    assert choose_main_event([]) is None
    assert not measures_time("cycle_activity.stalls_total")


def test_event_is_found_as_typed() -> None:
    names, attributes = ["cpu-clock", "page-faults"], ["freq=99,name=ticks", None]
    assert find_event("cpu-clock/freq=7/", names, attributes) == 0
    assert find_event("ticks", names, attributes) == 0
    assert find_event("page-faults", names, attributes) == 1
    assert find_event("cycles", names, attributes) is None


def test_terms() -> None:
    assert get_term("cpu-clock/freq=199/", "freq") == "199"
    assert get_term("cpu-clock/freq=199,no-inherit/u", "no-inherit") == ""
    assert get_term("cpu-clock/freq=199/", "period") is None
    assert get_term("cpu-clock", "freq") is None


TEXT = """\
# ========
# hostname : vm
# event : name = {first}, , id = {{ 1 }}, type = 1, size = 128, config = 0x2, {{ sample_period, sample_freq }} = 40
# event : name = {second}, , id = {{ 2 }}, type = 1, size = 128, {{ sample_period, sample_freq }} = 97, freq = 1
# ========
#
a 1 1.000000000:  40 {met}:
\t400000 main+0x1 (/a)

a 1 1.100000000:  7 {other}:
\t400000 main+0x1 (/a)

"""
FAULTS, CLOCK = "page-faults/period=40/", "cpu-clock/freq=97/"


def read(text: str) -> Profile:
    from io import BytesIO

    return perf_script.read(BytesIO(text.encode()))


def test_header_determines_main_event() -> None:
    faults_met = read(TEXT.format(first=CLOCK, second=FAULTS, met=FAULTS, other=CLOCK))
    assert faults_met.meta.main_event == "cpu-clock"
    assert faults_met.meta.facts[FIRST_EVENT_FACT] == "page-faults"
    faults_named = read(TEXT.format(first=FAULTS, second=CLOCK, met=CLOCK, other=FAULTS))
    assert faults_named.meta.main_event == "page-faults"
    assert faults_named.meta.facts[FIRST_EVENT_FACT] == "cpu-clock"
    bare = "".join(line for line in TEXT.splitlines(keepends=True) if not line.startswith("#"))
    assert read(bare.format(met=FAULTS, other=CLOCK)).meta.main_event == "cpu-clock"


def test_event_recorded_twice_stays_two_events() -> None:
    profile = read(TEXT.format(first=CLOCK, second="cpu-clock", met="cpu-clock", other=CLOCK))
    assert [row["name"] for row in profile.events.to_pylist()] == ["cpu-clock", CLOCK]


def test_stored_result_with_old_names() -> None:
    """schema4.perfloom was written by the previous version: `perfloom convert old.script.txt --to profile`."""
    with open(DATA / "schema4.perfloom", "rb") as file:
        profile = stored_profile.read(file)
    assert profile.events.select(["name", "unit", "attributes"]).to_pylist() == [
        {"name": "page-faults", "unit": "count", "attributes": "period=40"},
        {"name": "sched:sched_stat_runtime", "unit": "ns", "attributes": None},
        {"name": "cpu-clock", "unit": "ns", "attributes": "freq=97"},
    ]
    assert profile.meta.main_event == "page-faults"
    assert profile.meta.facts[FIRST_EVENT_FACT] == "page-faults"


def test_result_list_shows_current_names_of_old_rows() -> None:
    def row(**changes: object) -> ResultRow:
        columns = dict.fromkeys(("samples", "threads", "duration_ns", "bytes", "created"), 0)
        lists = dict.fromkeys(("reasons", "originals"), ())
        return ResultRow(**columns | lists | {"id": "a" * 12, "format": "perf-script", "complete": True} | changes)

    total = {"unit": "ns", "total": 5, "samples": 1, "scaling": None}
    events = [{"name": FAULTS} | total, {"name": CLOCK} | total]
    meta = {"format": "perf-script", "main_event": FAULTS}
    shown = result_from_row(row(events=events, meta=meta), ())
    assert [event.name for event in shown.events] == ["page-faults", "cpu-clock"]
    assert shown.meta.main_event == "cpu-clock"
