"""The run summary: how events were sampled, and the conditions of a recording."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from perfloom.analysis.counts.event_attributes import EventAttributes, parse_attributes
from perfloom.analysis.counts.run_summary import NO_MULTIPLEXING, find_overhead_percent
from perfloom.analysis.tables import TABLES, records
from perfloom.domain.profile import Profile
from perfloom.domain.rank_state import CPUS_FACT, GOVERNOR_FACT, parse_conditions, parse_state
from perfloom.domain.selection import Selection
from perfloom.domain.tables import SCHEMAS
from perfloom.readers import READERS, perf_data
from tests.support import paths
from tests.support.formats import profile_of

DATA = paths.DATA / "perf"


def sampling(profile: Profile, selection: Selection | None = None) -> dict[str, dict[str, Any]]:
    rows = records(TABLES["sampling"].rows(profile, selection or Selection()))
    return {row["event"]: row for row in rows}


def conditions(profile: Profile) -> dict[str, tuple[str | None, str | None]]:
    rows = records(TABLES["conditions"].rows(profile, Selection()))
    return {row["condition"]: (row["value"], row["note"]) for row in rows}


def test_period_of_a_recording() -> None:
    rows = sampling(profile_of("perf-script"))
    assert [*rows] == ["cpu-clock", "page-faults"]
    clock = rows["cpu-clock"]
    assert (clock["sampling"], clock["rate"], clock["samples"], clock["runs"]) == ("period", 5_000_000, 39, "0")
    assert (clock["precise_level"], clock["user"], clock["kernel"]) == (0, True, True)
    assert clock["call_stacks"] == "frame pointers"
    assert clock["note"] is None, "a clock needs no counter"
    assert clock["duration_ms"] == pytest.approx(162.882653)


def test_frequency_and_precise_level() -> None:
    (row,) = sampling(profile_of("perf-data")).values()
    assert (row["event"], row["sampling"], row["rate"], row["precise_level"]) == ("cpu-clock:ppp", "frequency", 499, 3)


def test_conditions_of_a_recording() -> None:
    found = conditions(profile_of("perf-script"))
    assert found["host"] == ("vm", None)
    assert found["kernel"][0] == "6.18.44-fc-v657" and found["CPU"][0] == "AMD EPYC" and found["CPUs"][0] == "2"
    assert found["memory"][0] == "23.5\u00a0GiB" and found["perf"][0] == "6.1.187"
    assert found["CPUs of samples"][0] == "0-1"
    for name in ("frequency governor", "CPU pinning", "overhead of recording"):
        value, note = found[name]
        assert value is None and note, name


def test_unknown_conditions_say_how_to_get_them() -> None:
    for name, (value, note) in conditions(profile_of("collapsed")).items():
        assert value is None and note, name


def test_counts() -> None:
    rows = sampling(profile_of("perf-stat"))
    for row in rows.values():
        assert (row["sampling"], row["samples"], row["rate"]) == ("counted", 0, None)
        assert row["running_percent"] == 100 and row["enabled_ms"] == row["running_ms"] > 0


HEADER = """# hostname : node7
# event : name = cycles:upp, , id = {{ 1 }}, type = 0, size = 128, {{ sample_period, sample_freq }} = 997, sample_type = {types}, read_format = ID, freq = 1, precise_ip = 2, exclude_kernel = 1, exclude_hv = 1
# event : name = cache-misses, , id = {{ 2 }}, type = 0, size = 128, config = 0x3, {{ sample_period, sample_freq }} = 4000, sample_type = {types}, freq = 1, exclude_user = 1
# event : name = dummy:HG, , id = {{ 3 }}, type = 1, size = 128, config = 0x9, {{ sample_period, sample_freq }} = 4000
a 1/1 [003] 5.000000000: 7 cycles:upp: 10 f (/bin/a)
a 1/1 [001] 6.000000000: 7 cycles:upp: 10 f (/bin/a)
"""


def from_header(types: str, more: str = "") -> Profile:
    return perf_data.read(io.BytesIO((HEADER.format(types=types) + more).encode()))


def test_events_without_samples_are_listed() -> None:
    rows = sampling(from_header("IP|TID|TIME|CALLCHAIN|REGS_USER|STACK_USER"))
    assert [*rows] == ["cycles:upp", "cache-misses"]
    cycles, misses = rows.values()
    assert (cycles["precise_level"], cycles["user"], cycles["kernel"], cycles["call_stacks"]) == (
        2,
        True,
        False,
        "dwarf",
    )
    assert (misses["samples"], misses["user"], misses["kernel"], misses["unit"]) == (0, False, True, None)
    assert (misses["sampling"], misses["rate"], cycles["sampling"]) == ("frequency", 4000, "frequency")
    assert cycles["note"] == NO_MULTIPLEXING and misses["note"] is None
    assert [*sampling(from_header("IP|TID"), Selection(event="cycles:upp"))] == ["cycles:upp"]


@pytest.mark.parametrize(
    ("types", "more", "stacks"),
    [
        ("IP|TID", "", "none"),
        ("IP|CALLCHAIN|BRANCH_STACK", ", branch_sample_type = USER|CALL_STACK", "lbr"),
        ("IP|CALLCHAIN|BRANCH_STACK", ", branch_sample_type = USER|ANY", "frame pointers"),
    ],
)
def test_methods_of_call_stacks(types: str, more: str, stacks: str) -> None:
    found = parse_attributes("cycles", f"type = 0, size = 128, sample_type = {types}{more}")
    assert found == EventAttributes(precise=0, user=True, kernel=True, stacks=stacks)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("cycles", EventAttributes()),
        ("cycles:u", EventAttributes(user=True, kernel=False)),
        ("cycles:kpp", EventAttributes(precise=2, user=False, kernel=True)),
        ("sched:sched_switch", EventAttributes()),
    ],
)
def test_attributes_by_name_alone(name: str, found: EventAttributes) -> None:
    assert parse_attributes(name, "") == found


def test_first_file_of_several_decides() -> None:
    first = "name = cycles, , id = { 1 }, size = 128, sample_type = IP, precise_ip = 1"
    assert (
        parse_attributes("cycles", f"{first}; name = cycles, , id = {{ 2 }}, size = 128, precise_ip = 3").precise == 1
    )


def test_throttling_and_lost_samples() -> None:
    profile = from_header("IP", "# throttled : 12\na 1/1 [001] 7.000000000: PERF_RECORD_LOST lost 34\n")
    found = conditions(profile)
    assert (found["throttling"][0], found["lost samples"][0]) == ("12", "34")
    assert conditions(from_header("IP"))["throttling"][0] == "none found"
    assert found["CPUs of samples"][0] == "1,3"


def with_ranks(*rows: tuple[int, bool | None, int | None, int | None]) -> Profile:
    table = [{"run": run, "recorded": is_recorded, "start_ns": a, "end_ns": b} for run, is_recorded, a, b in rows]
    return replace(profile_of("perf-script"), ranks=pa.Table.from_pylist(table, schema=SCHEMAS["ranks"]))


def test_overhead() -> None:
    # Two runs with recording, of 110 and 130, and one without, of 100; each lasts as long as its longest process.
    profile = with_ranks(
        *((0, True, 0, 110), (0, True, 5, 60), (1, True, 0, 130), (2, False, 200, 300), (2, False, 200, 250)),
    )
    assert find_overhead_percent(profile) == (pytest.approx(20.0), 120, 100)
    assert conditions(profile)["overhead of recording"][0] == "20.00\u00a0%"


@pytest.mark.parametrize(
    "rows",
    [
        (),
        ((0, True, 0, 110),),
        ((0, True, 0, 110), (0, False, 0, 110)),
        ((0, True, 0, 110), (1, False, None, 100)),
        ((0, True, 0, 110), (1, False, 5, 5)),
    ],
)
def test_unknown_overhead(rows: tuple[tuple[int, bool, int | None, int], ...]) -> None:
    """Also where ranks of one run were not recorded: they wait for the others."""
    assert find_overhead_percent(with_ranks(*rows)) is None


def test_conditions_that_a_job_records() -> None:
    assert parse_conditions({"cpus": "0-3,8", "governor": "powersave"}) == {
        CPUS_FACT: "0-3,8",
        GOVERNOR_FACT: "powersave",
    }
    assert parse_conditions({"cpus": "<b>", "governor": ""}) == {}
    assert parse_conditions({"cpus": 3, "governor": "a\nnote b"}) == {CPUS_FACT: "3", GOVERNOR_FACT: "a"}
    state = parse_state(b"cpus 0-7\ngovernor performance\n")
    assert (state.cpus, state.governor) == ("0-7", "performance")


@pytest.mark.parametrize("name", [name for name in READERS if name not in ("profile",)])
def test_every_format_has_a_summary(name: str) -> None:
    profile = profile_of(name)
    assert len(sampling(profile)) >= profile.events.num_rows
    assert conditions(profile)
