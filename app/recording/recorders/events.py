"""Event names in perf's notation: the type of each, and the default events of a host."""

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
    """Whether perf may not observe the kernel there (perf_event_paranoid 2 and no privilege)."""
    return not is_privileged(facts) and facts.paranoid is not None and facts.paranoid >= 2


def split_event_list(text: str) -> list[str]:
    """The elements of a list for `perf -e`: single events, and whole groups `{a,b}:S`.

    A comma inside `pmu/…/` or `{…}` is a part of the event. Raises ValueError, with the text so far, if such a pair is
    not closed, or a group is closed that was not opened.
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
    """The single events of a typed event: perf accepts groups `{a,b}:S`, lists `a,b`, and lists of both."""
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
    """The group of one event: hardware, cache, software, tracepoint, raw, or its name in perf list; None: unknown.

    perf's list on that host takes precedence over the usual meaning of names.
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


def timed_events(spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
    """The events that `perf record` samples, without those of context switches: the user's, else CPU time by the best
    event of the host."""
    if spec.events:
        return spec.events
    return (("cycles" if facts.hardware_counters else "cpu-clock") + _suffix(facts),)


def events_to_count(spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
    """The events that `perf stat` counts: the user's, else time, scheduling, faults and available hardware events;
    without events that occur where perf may not observe."""
    if spec.events:
        return spec.events
    chosen = ["task-clock", "context-switches", "cpu-migrations", "page-faults"]
    if facts.hardware_counters:
        chosen += ["cycles", "instructions", "branches", "branch-misses"]
    suffix = _suffix(facts)
    return tuple(name + suffix for name in chosen if not (suffix and is_kernel_event(name)))


def are_tracepoints(events: Sequence[str], facts: HostFacts | None) -> bool:
    """Whether all events are tracepoints, which are too rare to be sampled by frequency."""
    return all(event_type(part, facts) == "tracepoint" for event in events for part in single_events(event))


def needs_event_fields(events: Sequence[str], stacks: bool) -> bool:
    """Whether the readers evaluate the fields of such events. stacks: whether there are call stacks; without them,
    fields and locations can only be distinguished in recordings without other events."""
    names = [part for event in events for part in single_events(event)]
    if stacks and any(fnmatchcase(REQUIRED_EVENTS[SCHEDULER], name) for name in names):
        return True
    return any(
        all(name.startswith(group) for name in names) and any(fnmatchcase(needed, name) for name in names)
        for group, needed in REQUIRED_EVENTS.items()
    )
