"""Event names as perf writes them: what sort each is, and what a host can offer when nothing was asked for."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from ..domain.facts import HostFacts
from ..domain.jobs import JobSpec
from .perf_script import SCHEDULER, TELLING

HARDWARE = frozenset(
    (
        "branch-instructions",
        "branch-misses",
        "branches",
        "bus-cycles",
        "cache-misses",
        "cache-references",
        "cpu-cycles",
        "cycles",
        "instructions",
        "ref-cycles",
        "stalled-cycles-backend",
        "stalled-cycles-frontend",
        "idle-cycles-backend",
        "idle-cycles-frontend",
    )
)
SOFTWARE = frozenset(
    (
        "alignment-faults",
        "bpf-output",
        "cgroup-switches",
        "context-switches",
        "cpu-clock",
        "cpu-migrations",
        "cs",
        "dummy",
        "emulation-faults",
        "faults",
        "major-faults",
        "migrations",
        "minor-faults",
        "page-faults",
        "task-clock",
    )
)
CACHE = re.compile(r"(L1-[di]cache|LLC|[di]TLB|branch|node)(-(load|store|prefetch)(e?s)?)?(-(refs|misses|miss))?", re.I)
RAW = re.compile(r"r[0-9a-fA-F]{1,16}")
PMU = re.compile(r"[\w.-]+/.*/")
MODIFIERS = re.compile(r"[ukhIGHpPSDWeb]+")

MANAGERS = frozenset({"cap_perfmon", "cap_sys_admin"})


def privileged(facts: HostFacts) -> bool:
    """Whether perf on that host may observe everything, whatever perf_event_paranoid says."""
    return facts.root or bool(MANAGERS.intersection(facts.perf_capabilities))


def user_space_only(facts: HostFacts) -> bool:
    """Whether the kernel's part is hidden from perf there (perf_event_paranoid 2 and no privilege)."""
    return not privileged(facts) and facts.paranoid is not None and facts.paranoid >= 2


def split(event: str) -> tuple[str, str]:
    """An event as typed → (name, modifiers): `cycles:u` is cycles with u, `sched:sched_switch` is one name."""
    if event.endswith("/") or event.startswith("{"):
        return event, ""
    name, colon, tail = event.rpartition(":")
    if not colon:
        head, slash, after = event.rpartition("/")
        if slash and MODIFIERS.fullmatch(after):
            return head + slash, after
        return event, ""
    return (name, tail) if MODIFIERS.fullmatch(tail) else (event, "")


def parts(event: str) -> list[str]:
    """The single events of an event as typed: perf takes groups `{a,b}` and lists `a,b` too."""
    found: list[str] = []
    depth, start = 0, 0
    text = event.strip()
    group = re.fullmatch(r"\{(.*)\}(:\w+)?", text, re.S)
    if group:
        text = group[1]
    for place, sign in enumerate(text + ","):
        if sign == "/":
            depth = 1 - depth
        elif sign == "," and not depth:
            if part := text[start:place].strip():
                found.append(part)
            start = place + 1
    return found or [event]


def group_of(event: str, facts: HostFacts | None) -> str | None:
    """The group of one event: hardware, cache, software, tracepoint, raw, or what perf list calls it; None: unknown.

    What perf lists on that host goes before what names usually mean.
    """
    name, _ = split(event)
    if facts is not None:
        for known in facts.events:
            if known.name in (name, event):
                return known.group
    if name in HARDWARE:
        return "hardware"
    if name in SOFTWARE:
        return "software"
    if CACHE.fullmatch(name):
        return "cache"
    if RAW.fullmatch(name) or PMU.fullmatch(name):
        return "raw"
    if re.fullmatch(r"[\w*?-]+:[\w*?-]+", name):
        return "tracepoint"
    if name.startswith("mem:"):
        return "breakpoint"
    return None


def _suffix(facts: HostFacts) -> str:
    return ":u" if user_space_only(facts) else ""


def to_sample(spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
    """What `perf record` samples: the user's events, else time on the CPU by what the host has for it."""
    if spec.events:
        return spec.events
    return (("cycles" if facts.hardware_counters else "cpu-clock") + _suffix(facts),)


def to_count(spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
    """What `perf stat` counts: the user's events, else time, scheduling, faults and, where they exist, counters."""
    if spec.events:
        return spec.events
    chosen = ["task-clock", "context-switches", "cpu-migrations", "page-faults"]
    if facts.hardware_counters:
        chosen += ["cycles", "instructions", "branches", "branch-misses"]
    return tuple(name + _suffix(facts) for name in chosen)


def only_tracepoints(events: Sequence[str], facts: HostFacts | None) -> bool:
    """Whether there is nothing but tracepoints, which happen too rarely to be sampled by frequency."""
    return all(group_of(part, facts) == "tracepoint" for event in events for part in parts(event))


def telling(events: Sequence[str], stacks: bool) -> bool:
    """Whether of such events is read what they tell. stacks: whether there are call stacks; else what they tell is only
    told apart from where they were in recordings of nothing else."""
    names = [part for event in events for part in parts(event)]
    if stacks and any(fnmatchcase(TELLING[SCHEDULER], name) for name in names):
        return True
    return any(
        all(name.startswith(group) for name in names) and any(fnmatchcase(needed, name) for name in names)
        for group, needed in TELLING.items()
    )
