"""More events than a CPU has counters: put them in groups that it counts at once, each for a run of its own.

How many events of the hardware a thread can count at once, without the kernel taking turns with the counters:

- Intel: 4 counters for any event (8 without hyper-threading, from Nehalem on; which of both holds is not known here, so
  4), and one each that counts nothing but cycles, instructions and reference cycles. Software Developer's Manual 3B,
  "Performance Monitoring"; libpfm4 says the same of each model.
- AMD: 6 from family 17h (Zen) on, and in family 15h; 4 before and in 16h. None is for one event only. AMD64
  Programmer's Manual 2, "Performance Monitoring Counters"; arch/x86/events/amd/core.c.
- Arm Cortex-A57 and later, Neoverse: 6, and one for cycles alone. The "PMU" chapter of each Technical Reference Manual.
  Fujitsu's A64FX: 8.
- POWER: 4, and one each for cycles and instructions. User's Manual, PMC1-6.
- Of others nothing is known: 4.

The kernel's watchdog (kernel.nmi_watchdog) holds one of them, that for cycles where there is one. Events that few
counters can count may still not fit: then a target says how many it is to be.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..domain.facts import HostFacts
from .events import group_of, parts, split

_CYCLES = frozenset({"cycles", "cpu-cycles"})
_INSTRUCTIONS = frozenset({"instructions"})
_REFERENCE = frozenset({"ref-cycles"})
_CORE_PMU = re.compile(r"(cpu|cpu_core|cpu_atom|armv\d\w*|cortex\w*)/", re.I)


@dataclass(frozen=True)
class Counters:
    """What a CPU can count at once. general: for any event. fixed: sets of names that share a counter of their own."""

    general: int
    fixed: tuple[frozenset[str], ...] = ()


def counters(facts: HostFacts | None) -> Counters:
    """The counters of a host's CPU that are left to us; of an unknown one as few as any has."""
    known = facts.limits if facts else {}
    name = (facts.cpu if facts else "").lower()
    vendor = known.get("cpu_vendor", "").lower()
    watched = known.get("nmi_watchdog") != "0"
    if "intel" in vendor or "intel" in name:
        return Counters(4, (_INSTRUCTIONS, _REFERENCE) if watched else (_INSTRUCTIONS, _CYCLES, _REFERENCE))
    if "amd" in vendor or "hygon" in vendor or "amd " in name or "epyc" in name or "ryzen" in name:
        return Counters((6 if _amd_has_six(known.get("cpu_family", ""), name) else 4) - watched)
    if "power" in name:
        return Counters(4, (_INSTRUCTIONS, _CYCLES))
    if known.get("cpu_part") == "0x001" or "a64fx" in name:
        return Counters(8, (_CYCLES,))
    if "cpu_part" in known or "aarch64" in name or "neoverse" in name or "cortex" in name:
        return Counters(6, (_CYCLES,))
    return Counters(4)


def _amd_has_six(family: str, name: str) -> bool:
    if family.isdigit():
        return int(family) >= 0x17 or int(family) == 0x15
    return any(word in name for word in ("epyc", "ryzen", "threadripper"))


def groups(
    events: Sequence[str], facts: HostFacts | None, *, most: int | None = None, counters: int | None = None
) -> tuple[tuple[str, ...], ...]:
    """The events in groups, each for one run, in the order in which they were given.

    most: how many events a run has at most, where the user says so; counters: how many of the hardware, where the
    target says so. What needs no counter of the CPU (software events, tracepoints, other units) goes into the first
    group. The user's own groups `{a,b}` are never taken apart, even where they do not fit.
    """
    have = _have(facts, counters)
    found: list[list[str]] = []
    for event in _apart(events):
        place = next((one for one in found if _fits([*one, event], facts, have, most)), None)
        if place is None:
            found.append(place := [])
        place.append(event)
    return tuple(tuple(one) for one in found) or ((),)


def _apart(events: Sequence[str]) -> list[str]:
    """The events with lists such as "a,b" taken apart, but no groups."""
    return [part for event in events for part in ([event] if event.lstrip().startswith("{") else parts(event))]


def _have(facts: HostFacts | None, told: int | None) -> Counters:
    return Counters(told) if told is not None else counters(facts)


def _fits(events: Sequence[str], facts: HostFacts | None, have: Counters, most: int | None) -> bool:
    single = [part for event in events for part in parts(event)]
    if most is not None:
        return len(single) <= most
    free = list(have.fixed)
    needed = 0
    for event in single:
        if not needs_counter(event, facts):
            continue
        own = next((names for names in free if split(event)[0] in names), None)
        if own is None:
            needed += 1
        else:
            free.remove(own)
    return needed <= have.general


def needs_counter(event: str, facts: HostFacts | None) -> bool:
    """Whether an event takes one of the CPU's counters. An unknown one is taken to."""
    group = group_of(event, facts)
    if group in ("software", "tracepoint", "breakpoint"):
        return False
    # Other units (uncore_imc_0/…/, power/energy-pkg/, intel_pt//) have counters of their own.
    return "/" not in event or bool(_CORE_PMU.match(event))
