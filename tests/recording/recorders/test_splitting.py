"""Events in groups that a CPU counts at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.host_facts import HostFacts
from perfloom.recording.recorders.event_grouping import available_counters, group_events, needs_counter
from perfloom.recording.recorders.events import single_events


def host(cpu: str = "", **limits: str) -> HostFacts:
    return HostFacts(host="x", cpu=cpu, limits=limits)


INTEL = host("Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz", nmi_watchdog="0")
RAW = tuple(f"r{number:02x}" for number in range(16))


@pytest.mark.parametrize(
    ("facts", "general", "cycles_free", "instructions_free"),
    [
        (INTEL, 4, True, True),
        (host("Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz"), 4, False, True),
        (host("x", cpu_vendor="GenuineIntel", nmi_watchdog="1"), 4, False, True),
        (host("AMD EPYC 7742 64-Core Processor", nmi_watchdog="0"), 6, False, False),
        (host("AMD EPYC 7742 64-Core Processor"), 5, False, False),
        (host("x", cpu_vendor="AuthenticAMD", cpu_family="25", nmi_watchdog="0"), 6, False, False),
        (host("x", cpu_vendor="AuthenticAMD", cpu_family="16", nmi_watchdog="0"), 4, False, False),
        (host("Hygon C86 7185 32-core Processor", cpu_vendor="HygonGenuine", cpu_family="24"), 5, False, False),
        (host("aarch64"), 6, True, False),
        (host("", cpu_part="0xd0c"), 6, True, False),
        (host("", cpu_part="0x001"), 8, True, False),
        (host("POWER9, altivec supported"), 4, True, True),
        (host("something new"), 4, False, False),
        (None, 4, False, False),
    ],
    ids=lambda value: (value.cpu or "unknown")[:20] if isinstance(value, HostFacts) else None,
)
def test_counters_of_cpus(facts: HostFacts | None, general: int, cycles_free: bool, instructions_free: bool) -> None:
    found = available_counters(facts)
    free = frozenset().union(*found.fixed)
    assert (found.general, "cycles" in free, "instructions" in free) == (general, cycles_free, instructions_free)


def test_dedicated_counters_are_not_shared() -> None:
    events = ("cycles", "instructions", "ref-cycles", *RAW[:5])
    assert group_events(events, INTEL) == (events[:7], events[7:])


def test_dedicated_counter_counts_one_event() -> None:
    assert group_events((*RAW[:4], "cycles:u", "cycles:k"), INTEL) == ((*RAW[:4], "cycles:u"), ("cycles:k",))


def test_events_without_counter_are_in_first_group() -> None:
    free = ("page-faults", "sched:sched_switch", "uncore_imc_0/cas_count_read/", "power/energy-pkg/", "task-clock:u")
    assert group_events((*RAW[:5], *free), INTEL) == ((*RAW[:4], *free), RAW[4:5])


def test_groups_of_the_user_stay_together() -> None:
    assert group_events((*RAW[:3], "{r10,r11}:u", "r12"), INTEL) == ((*RAW[:3], "r12"), ("{r10,r11}:u",))
    assert group_events(("{r1,r2,r3,r4,r5,r6}", "r7"), INTEL) == (("{r1,r2,r3,r4,r5,r6}",), ("r7",))


def test_lists_are_single_events() -> None:
    assert group_events(("r1,r2", "cpu/event=0x3c,umask=1/,r3"), INTEL, counters=2) == (
        ("r1", "r2"),
        ("cpu/event=0x3c,umask=1/", "r3"),
    )


def test_a_person_knows_better() -> None:
    assert [len(group) for group in group_events(RAW, INTEL, counters=8)] == [8, 8]
    assert [len(group) for group in group_events(("cycles", *RAW), INTEL, most=5)] == [5, 5, 5, 2]
    assert [len(group) for group in group_events(("page-faults", "cs", "cycles"), INTEL, most=1)] == [1, 1, 1]


def test_no_events_are_one_run() -> None:
    assert group_events((), INTEL) == ((),)


@pytest.mark.parametrize(
    ("event", "needed"),
    [
        ("cycles", True),
        ("L1-dcache-loads:u", True),
        ("cpu/mem-loads,ldlat=30/P", True),
        ("cpu_core/cycles/", True),
        ("armv8_pmuv3_0/br_pred/", True),
        ("unheard_of", True),
        ("cpu-clock", False),
        ("syscalls:sys_enter_*", False),
        ("mem:0x1000:w", False),
        ("msr/tsc/", False),
        ("intel_pt//u", False),
    ],
)
def test_which_events_need_a_counter(event: str, needed: bool) -> None:
    assert needs_counter(event, None) is needed


EVENTS = st.sampled_from(("cycles", "instructions", "page-faults", "r01", "branches:u", "{r1,r2}", "{cycles,r3,r4}:u"))


@given(st.lists(EVENTS, max_size=20), st.one_of(st.none(), st.integers(1, 6)), st.one_of(st.none(), st.integers(1, 8)))
def test_every_event_is_counted_once_and_groups_are_not_split(
    events: list[str], most: int | None, own: int | None
) -> None:
    found = group_events(events, INTEL, most=most, counters=own)
    assert sorted(event for group in found for event in group) == sorted(events)
    for group in found:
        single = [part for event in group for part in single_events(event)]
        if len(group) > 1 and most is not None:
            assert len(single) <= most
