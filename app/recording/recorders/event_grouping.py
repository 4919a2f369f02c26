"""Splits more events than the CPU has counters into groups that it can count at the same time, one for each run.

How many hardware events a thread can count at the same time, without multiplexing:

- Intel: 4 counters for any event (8 without hyper-threading, from Nehalem on; whether it is enabled is unknown here, so
  4), and one each for cycles, instructions and reference cycles only. Software Developer's Manual 3B, "Performance
  Monitoring"; libpfm4 has the same for each model.
- AMD: 6 from family 17h (Zen) on, and in family 15h; 4 before and in 16h. None is restricted to one event. AMD64
  Programmer's Manual 2, "Performance Monitoring Counters"; arch/x86/events/amd/core.c.
- Arm Cortex-A57 and later, Neoverse: 6, and one only for cycles. The "PMU" chapter of each Technical Reference Manual.
  Fujitsu's A64FX: 8.
- POWER: 4, and one each for cycles and instructions. User's Manual, PMC1-6.
- Others: 4, an assumption.

The kernel's watchdog (kernel.nmi_watchdog) uses one of them, that for cycles if there is one. Events that only a few
counters support may still not fit; then set the number of counters in the target.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...domain.event_names import strip_modifiers
from ...domain.host_facts import HostFacts
from .events import event_type, single_events

_CYCLES = frozenset({"cycles", "cpu-cycles"})
_INSTRUCTIONS = frozenset({"instructions"})
_REFERENCE = frozenset({"ref-cycles"})
_CORE_PMU = re.compile(r"(cpu|cpu_core|cpu_atom|armv\d\w*|cortex\w*)/", re.I)


@dataclass(frozen=True)
class Counters:
    """The counters of a CPU. general: for any event. fixed: for each dedicated counter, the names of its events."""

    general: int
    fixed: tuple[frozenset[str], ...] = ()


def available_counters(facts: HostFacts | None) -> Counters:
    """The available counters of a host's CPU; the minimum of all CPUs if it is unknown."""
    limits = facts.limits if facts else {}
    name = (facts.cpu if facts else "").lower()
    vendor = limits.get("cpu_vendor", "").lower()
    watched = limits.get("nmi_watchdog") != "0"
    if "intel" in vendor or "intel" in name:
        return Counters(4, (_INSTRUCTIONS, _REFERENCE) if watched else (_INSTRUCTIONS, _CYCLES, _REFERENCE))
    if "amd" in vendor or "hygon" in vendor or "amd " in name or "epyc" in name or "ryzen" in name:
        return Counters((6 if _amd_has_six(limits.get("cpu_family", ""), name) else 4) - watched)
    if "power" in name:
        return Counters(4, (_INSTRUCTIONS, _CYCLES))
    if limits.get("cpu_part") == "0x001" or "a64fx" in name:
        return Counters(8, (_CYCLES,))
    if "cpu_part" in limits or "aarch64" in name or "neoverse" in name or "cortex" in name:
        return Counters(6, (_CYCLES,))
    return Counters(4)


def _amd_has_six(family: str, name: str) -> bool:
    if family.isdigit():
        return int(family) >= 0x17 or int(family) == 0x15
    return any(word in name for word in ("epyc", "ryzen", "threadripper"))


def group_events(
    events: Sequence[str], facts: HostFacts | None, *, most: int | None = None, counters: int | None = None
) -> tuple[tuple[str, ...], ...]:
    """The events in groups, each for one run, in the order in which they were given.

    most: the user's maximum of events per run; counters: the target's number of hardware counters. Events that need no
    CPU counter (software events, tracepoints, other PMUs) are added to the first group. The user's groups `{a,b}` are
    never split, even if they do not fit.
    """
    have = Counters(counters) if counters is not None else available_counters(facts)
    found: list[_Group] = []
    for event in _split_lists(events):
        single = single_events(event)
        names = [strip_modifiers(part) for part in single if needs_counter(part, facts)]
        place = next((one for one in found if one.has_room(len(single), names, most)), None)
        if place is None:
            found.append(place := _Group(have.general, list(have.fixed)))
        place.add(event, len(single), names)
    return tuple(tuple(one.events) for one in found) or ((),)


@dataclass
class _Group:
    """A growing group: the remaining counters, and its number of single events."""

    general: int
    fixed: list[frozenset[str]]
    size: int = 0
    events: list[str] = field(default_factory=list)

    def has_room(self, size: int, names: Sequence[str], most: int | None) -> bool:
        if most is not None:
            return self.size + size <= most
        return not names or self._free_counters(names)[0] >= 0

    def add(self, event: str, size: int, names: Sequence[str]) -> None:
        self.events.append(event)
        self.size += size
        self.general, self.fixed = self._free_counters(names)

    def _free_counters(self, names: Sequence[str]) -> tuple[int, list[frozenset[str]]]:
        general, fixed = self.general, list(self.fixed)
        for name in names:
            own = next((kind for kind in fixed if name in kind), None)
            if own is None:
                general -= 1
            else:
                fixed.remove(own)
        return general, fixed


def _split_lists(events: Sequence[str]) -> list[str]:
    """The events with lists such as "a,b" split, but not groups."""
    return [part for event in events for part in ([event] if event.lstrip().startswith("{") else single_events(event))]


def needs_counter(event: str, facts: HostFacts | None) -> bool:
    """Whether an event needs one of the CPU's counters; assumed for unknown events."""
    group = event_type(event, facts)
    if group in ("software", "tracepoint", "breakpoint"):
        return False
    # Other PMUs (uncore_imc_0/…/, power/energy-pkg/, intel_pt//) have their own counters.
    name = strip_modifiers(event)
    return "/" not in name or bool(_CORE_PMU.match(name))
