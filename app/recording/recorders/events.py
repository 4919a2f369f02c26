"""Event names as perf writes them: what sort each is, and what a host can offer when nothing was asked for."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from ...domain.event_names import CACHE_EVENT, HARDWARE_EVENTS, SOFTWARE_EVENTS, is_kernel_event, strip_modifiers
from ...domain.host_facts import HostFacts
from ...domain.jobs import JobSpec
from ...ingest.perf_text.fields import REQUIRED_EVENTS, SCHEDULER

RAW = re.compile(r"r[0-9a-fA-F]{1,16}")
PMU = re.compile(r"[\w.-]+/.*/")
_GROUP = re.compile(r"[\w.-]*\{(.*)\}(?::\w+)?", re.S)

PRIVILEGED_CAPABILITIES = frozenset({"cap_perfmon", "cap_sys_admin"})


def is_privileged(facts: HostFacts) -> bool:
    """Whether perf on that host may observe everything, whatever perf_event_paranoid says."""
    return facts.root or bool(PRIVILEGED_CAPABILITIES.intersection(facts.perf_capabilities))


def is_user_space_only(facts: HostFacts) -> bool:
    """Whether the kernel's part is hidden from perf there (perf_event_paranoid 2 and no privilege)."""
    return not is_privileged(facts) and facts.paranoid is not None and facts.paranoid >= 2


def split_event_list(text: str) -> list[str]:
    """What stands between the commas of a text as `perf -e` takes it: single events, and groups `{a,b}:S` as a whole.

    A comma inside `pmu/…/` or `{…}` belongs to the event. Raises ValueError, with the text so far, where such a pair
    stays open, or a group is closed that was not opened.
    """
    texts: list[str] = []
    start = depth = 0
    terms = False
    for at, sign in enumerate(text):
        if sign == "/" and not text[start:at].lstrip(" \t{").startswith("mem:"):
            terms = not terms
        elif terms:
            continue
        elif sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth < 0:
                raise ValueError("}", text[start : at + 1].strip())
        elif sign == "," and depth == 0:
            texts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    if terms or depth:
        raise ValueError("/" if terms else "{", last)
    return [event for event in [*texts, last] if event]


def single_events(event: str) -> list[str]:
    """The single events of an event as typed: perf takes groups `{a,b}:S`, lists `a,b`, and lists of both."""
    try:
        event_list = split_event_list(event)
    except ValueError:
        return [event]
    found: list[str] = []
    for item in event_list:
        group = _GROUP.fullmatch(item)
        found += single_events(group[1]) if group else [item]
    return found or [event]


def event_type(event: str, facts: HostFacts | None) -> str | None:
    """The group of one event: hardware, cache, software, tracepoint, raw, or what perf list calls it; None: unknown.

    What perf lists on that host goes before what names usually mean.
    """
    name = strip_modifiers(event)
    if facts is not None:
        for known in facts.events:
            if known.name in (name, event):
                return known.group
    if name in HARDWARE_EVENTS:
        return "hardware"
    if name in SOFTWARE_EVENTS:
        return "software"
    if CACHE_EVENT.fullmatch(name):
        return "cache"
    if RAW.fullmatch(name) or PMU.fullmatch(name):
        return "raw"
    if name.startswith("mem:"):
        return "breakpoint"
    if re.fullmatch(r"[\w*?-]+:[\w*?-]+", name):
        return "tracepoint"
    return None


def _suffix(facts: HostFacts) -> str:
    return ":u" if is_user_space_only(facts) else ""


def events_to_sample(spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
    """What `perf record` samples: the user's events, else time on the CPU by what the host has for it."""
    if spec.events:
        return spec.events
    return (("cycles" if facts.hardware_counters else "cpu-clock") + _suffix(facts),)


def events_to_count(spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
    """What `perf stat` counts: the user's events, else time, scheduling, faults and, where they exist, counters; but
    nothing that happens where perf may not look."""
    if spec.events:
        return spec.events
    chosen = ["task-clock", "context-switches", "cpu-migrations", "page-faults"]
    if facts.hardware_counters:
        chosen += ["cycles", "instructions", "branches", "branch-misses"]
    suffix = _suffix(facts)
    return tuple(name + suffix for name in chosen if not (suffix and is_kernel_event(name)))


def are_tracepoints(events: Sequence[str], facts: HostFacts | None) -> bool:
    """Whether there is nothing but tracepoints, which happen too rarely to be sampled by frequency."""
    return all(event_type(part, facts) == "tracepoint" for event in events for part in single_events(event))


def needs_event_fields(events: Sequence[str], stacks: bool) -> bool:
    """Whether of such events is read what they tell. stacks: whether there are call stacks; else what they tell is only
    told apart from where they were in recordings of nothing else."""
    names = [part for event in events for part in single_events(event)]
    if stacks and any(fnmatchcase(REQUIRED_EVENTS[SCHEDULER], name) for name in names):
        return True
    return any(
        all(name.startswith(group) for name in names) and any(fnmatchcase(needed, name) for name in names)
        for group, needed in REQUIRED_EVENTS.items()
    )
