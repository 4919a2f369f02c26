"""Names of events as perf writes them: what is measured, told apart from how it is sampled.

perf prints an event as it was typed: `cpu-clock/freq=997/` and `cpu-clock` measure the same thing. A profile names an
event by what it measures, and keeps the terms of sampling as its attributes. The terms are those of perf's parser
(tools/perf/util/parse-events.l, "config terms"); the types and configs are those of <linux/perf_event.h>.
"""

import re
from collections.abc import Iterable, Sequence

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
MODIFIERS = re.compile(r"[ukhIGHpPSDWeb]+")
CLOCKS = frozenset({"cpu-clock", "task-clock"})
CYCLES = frozenset({"cycles", "cpu-cycles"})

SAMPLED_ONLY = "sampled, not counted"
"""In place of a total that samples do not tell."""
FIRST_EVENT = "first event"
"""The fact that tells which event a text of perf script begins with, as stackcollapse-perf.pl would choose it."""

SAMPLING_TERMS = frozenset(
    (
        *("freq", "period", "name", "call-graph", "stack-size", "max-stack", "time", "branch_type", "nr"),
        *("overwrite", "no-overwrite", "metric-id", "aux-sample-size"),
    )
)
"""Terms that say how an event is sampled and what it is called, and not what is measured."""
_TERMS = re.compile(r"(?P<event>[^/\s]+)/(?P<terms>[^/]*)/(?P<modifiers>[A-Za-z]*)")
_TRACEPOINT = re.compile(r"[\w*?.-]+:[\w*?.-]+")
_STAT_NS = re.compile(r"sched:sched_stat_(wait|sleep|iowait|blocked|runtime)")
"""Tracepoints that count nanoseconds (`__perf_count(delay)` in include/trace/events/sched.h)."""
_CONFIGS = {
    "0": (
        *("cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses", "bus-cycles"),
        *("stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"),
    ),
    "1": (
        *("cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults"),
        *("major-faults", "alignment-faults", "emulation-faults", "dummy", "bpf-output", "cgroup-switches"),
    ),
}
"""Events by type (hardware, software) and config."""
_TYPE = re.compile(r"\btype = (\d+)\b")
_CONFIG = re.compile(r"\bconfig = (0x[0-9a-f]+|\d+)\b")


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


def by_name(name: str) -> bool:
    """Whether it names an event by itself; what stands before slashes is else the name of a PMU."""
    return name in HARDWARE or name in SOFTWARE or CACHE.fullmatch(name) is not None or ":" in name


def plain(event: str) -> tuple[str, str]:
    """An event as typed → what is measured, and how it is sampled.

    `cpu-clock/freq=997/u` → ("cpu-clock:u", "freq=997"); `cpu/event=0x3c,period=9/` → ("cpu/event=0x3c/", "period=9").
    """
    found = _TERMS.fullmatch(event)
    if found is None or event.startswith("mem:"):
        return event, ""
    terms = [term.strip() for term in found["terms"].split(",") if term.strip()]
    sampling = [term for term in terms if term.partition("=")[0] in SAMPLING_TERMS]
    rest = ",".join(term for term in terms if term not in sampling)
    name, modifiers = found["event"], found["modifiers"]
    if rest or not by_name(name):
        return f"{name}/{rest}/{modifiers}", ",".join(sampling)
    return f"{name}:{modifiers}" if modifiers else name, ",".join(sampling)


def terms(event: str) -> dict[str, str]:
    """The terms of an event as typed, with their values ("" for one without)."""
    found = _TERMS.fullmatch(event)
    pairs = (each.partition("=") for each in found["terms"].split(",")) if found else ()
    return {name.strip(): value.strip() for name, _, value in reversed([*pairs]) if name.strip()}


def term(event: str, name: str) -> str | None:
    """The value of a term in an event as typed ("" for one without a value), or None where it has none of that name."""
    return terms(event).get(name)


def distinct(recorded: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """What each event of one recording is called, and its attributes.

    recorded: the names as perf prints them, each with what perf tells of it (`type = 1, config = 0x2, …`, or ""). Two
    that measure the same thing stay apart, one of them as typed: sampled twice, it would count twice.
    """
    listed = list(recorded)
    taken = {raw for raw, _ in listed if plain(raw)[0] == raw}
    found = []
    for raw, about in listed:
        name, attributes = plain(raw)
        if known := _named_by_user(name, about):
            name, attributes = known, f"name={raw}"
        if name != raw and name in taken:
            name, attributes = raw, ""
        taken.add(name)
        found.append((name, attributes))
    return found


def _named_by_user(name: str, about: str) -> str | None:
    """The event behind a name that a person gave it (`cpu-clock/name=ticks/`), by its type and config."""
    kind = _TYPE.search(about)
    if kind is None or kind[1] not in _CONFIGS or "/" in name or by_name(split(name)[0]):
        return None
    config = _CONFIG.search(about)
    number = int(config[1], 0) if config else 0
    names = _CONFIGS[kind[1]]
    if number >= len(names):
        return None
    modifiers = "u" * ("exclude_kernel = 1" in about) + "k" * ("exclude_user = 1" in about)
    return f"{names[number]}:{modifiers}" if modifiers else names[number]


def unit_of(event: str, weighted: bool = True) -> str:
    """What a period, or a count, of an event of perf is: the kernel's clock events count nanoseconds, and so do the
    tracepoints sched_stat_*. weighted: whether its periods are known; else every sample counts 1."""
    name = split(plain(event)[0])[0]
    return "ns" if weighted and (name in CLOCKS or _STAT_NS.fullmatch(name)) else "count"


def tells_time(event: str) -> bool:
    """Whether an event is a clock or the cycles of a CPU: then its samples show where time goes."""
    name = split(plain(event)[0])[0]
    inside = re.fullmatch(r"cpu(?:_core|_atom)?/(.*)/", name)
    return (inside[1] if inside else name) in CLOCKS | CYCLES


def occurs(event: str) -> bool:
    """Whether an event of perf is something that happens now and then, as page faults do and tracepoints: software
    events but clocks. perf guesses their periods from the last few, so that their sum is no total."""
    name = split(plain(event)[0])[0]
    return (name in SOFTWARE and name not in CLOCKS) or _TRACEPOINT.fullmatch(name) is not None


def main_of(names: Sequence[str], asked_first: str | None = None) -> str | None:
    """The event that a page shows first, of those that occurred: the one that was named first when recording, where
    that is known and occurred; else the first clock or cycles event, else the first."""
    if asked_first in names:
        return asked_first
    return next(filter(tells_time, names), names[0] if names else None)


def place_of(wanted: str, names: Sequence[str], attributes: Sequence[str | None] = ()) -> int | None:
    """Which of `names` is meant by an event as typed, by the plain name, by how it was typed when recording, or by the
    name that its attributes tell."""
    if wanted in names:
        return names.index(wanted)
    if (name := plain(wanted)[0]) in names:
        return names.index(name)
    given = [place for place, text in enumerate(attributes) if text and f"name={wanted}" in text.split(",")]
    return given[0] if given else None
