"""Names of events as perf writes them, split into what is measured and how it is sampled.

perf prints an event as it was typed: `cpu-clock/freq=997/` and `cpu-clock` measure the same thing. A profile names an
event by what it measures, and keeps its sampling terms as attributes. The terms are those of perf's parser
(tools/perf/util/parse-events.l, "config terms"); the types and configs are those of <linux/perf_event.h>.
"""

import re
from collections.abc import Iterable, Sequence

HARDWARE_EVENTS = frozenset(
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
SOFTWARE_EVENTS = frozenset(
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
CACHE_EVENT = re.compile(
    r"(L1-[di]cache|LLC|[di]TLB|branch|node)(-(load|store|prefetch)(e?s)?)?(-(refs|misses|miss))?", re.I
)
MODIFIERS = re.compile(r"[ukhIGHpPSDWeb]+")
CLOCK_EVENTS = frozenset({"cpu-clock", "task-clock"})
CYCLE_EVENTS = frozenset({"cycles", "cpu-cycles"})

SAMPLED_ONLY = "sampled, not counted"
"""Shown instead of a total that samples do not determine."""
NOT_OBSERVABLE = "not seen from user space"
"""The status of an event that happens in the kernel while that is not observed: perf counts 0 of it, whatever
happened."""
SHARES_ONLY = f"{SAMPLED_ONLY}; samples give shares, not totals."
"""The same as the end of a sentence that begins with the event."""
EVENT_FACT = "event "
"""The prefix of the facts (see `Meta.facts`) that represent the lines on events in the header of a recording."""
FIRST_EVENT_FACT = "first event"
"""The fact with the event that comes first in a text of perf script, which stackcollapse-perf.pl would choose."""

SAMPLING_TERMS = frozenset(
    (
        *("freq", "period", "name", "call-graph", "stack-size", "max-stack", "time", "branch_type", "nr"),
        *("overwrite", "no-overwrite", "metric-id", "aux-sample-size", "aux-output", "percore", "inherit"),
    )
)
"""Terms that determine how an event is sampled and named, and not what is measured. no-inherit measures less: a thread
without the threads that it starts."""
_TERMS = re.compile(r"(?P<event>[^/\s]+)/(?P<terms>[^/]*)/(?P<modifiers>[A-Za-z]*)")
TRACEPOINT = re.compile(r"[\w*?.-]+:[\w*?.-]+")
_SWITCHES = frozenset({"context-switches", "cs", "cpu-migrations", "migrations", "cgroup-switches"})
"""Software events that the scheduler counts."""
_OF_PROGRAMS = re.compile(r"(syscalls|user_events|uprobes|probe_\w+|sdt_\w+):.*")
"""Tracepoints that the kernel counts as user space: they show where a program was when it entered the kernel."""
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
_WHOLE = re.compile(r"config=(0x[0-9a-fA-F]{1,8}|[0-9]{1,9})", re.ASCII)
_TYPE = re.compile(r"\btype = (\d+)\b")
_CONFIG = re.compile(r"\bconfig = (0x[0-9a-f]+|\d+)\b")


def split_modifiers(event: str) -> tuple[str, str]:
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


def is_event_name(name: str) -> bool:
    """Whether a name is that of an event; else the word before slashes is the name of a PMU."""
    return name in HARDWARE_EVENTS or name in SOFTWARE_EVENTS or CACHE_EVENT.fullmatch(name) is not None or ":" in name


def strip_modifiers(event: str) -> str:
    """The event without modifiers and terms: `page-faults/no-inherit/u` is page-faults. A name that needs its terms is
    unchanged, as in a PMU: `cpu/event=0x3c/`."""
    name = split_modifiers(split_sampling_terms(event)[0])[0]
    head = name.partition("/")[0]
    return head if is_event_name(head) and not name.startswith("mem:") else name


def split_sampling_terms(event: str) -> tuple[str, str]:
    """An event as typed → what is measured, and how it is sampled.

    `cpu-clock/freq=997/u` → ("cpu-clock:u", "freq=997"); `cpu/event=0x3c,period=9/` → ("cpu/event=0x3c/", "period=9");
    `software/config=2/` → ("page-faults", "").
    """
    match = _TERMS.fullmatch(event)
    if match is None or event.startswith("mem:"):
        return event, ""
    terms = [term.strip() for term in match["terms"].split(",") if term.strip()]
    sampling = [term for term in terms if term.partition("=")[0] in SAMPLING_TERMS]
    measured = [term for term in terms if term not in sampling]
    name, modifiers = match["event"], match["modifiers"]
    if known := _find_by_config(name, measured):
        name, measured = known, [term for term in measured if term.partition("=")[0] != "config"]
    rest = ",".join(measured)
    if rest or not is_event_name(name):
        return f"{name}/{rest}/{modifiers}", ",".join(sampling)
    return f"{name}:{modifiers}" if modifiers else name, ",".join(sampling)


def _find_by_config(name: str, terms: Sequence[str]) -> str | None:
    """The software event that a term config names; it takes precedence over the name before it."""
    configs = [_WHOLE.fullmatch(term) for term in terms if term.partition("=")[0] == "config"]
    if not configs or configs[-1] is None or (name != "software" and name not in SOFTWARE_EVENTS):
        return None
    number = int(configs[-1][1], 16 if configs[-1][1].startswith("0x") else 10)
    return _CONFIGS["1"][number] if number < len(_CONFIGS["1"]) else None


def parse_terms(event: str) -> dict[str, str]:
    """The terms of an event as typed, with their values ("" for one without)."""
    match = _TERMS.fullmatch(event)
    pairs = (each.partition("=") for each in match["terms"].split(",")) if match else ()
    return {name.strip(): value.strip() for name, _, value in reversed([*pairs]) if name.strip()}


def get_term(event: str, name: str) -> str | None:
    """The value of a term in an event as typed ("" for one without a value), or None if the event has no such term."""
    return parse_terms(event).get(name)


def name_events(recorded: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The name and the attributes of each event of one recording.

    recorded: the names as perf prints them, each with its attributes (`type = 1, config = 0x2, …`, or ""). Two that
    measure the same thing are separate, one of them as typed; otherwise the samples would count twice.
    """
    listed = list(recorded)
    names = {raw for raw, _ in listed if split_sampling_terms(raw)[0] == raw}
    found = []
    for raw, about in listed:
        name, attributes = split_sampling_terms(raw)
        if known := _find_renamed_event(name, about):
            name, attributes = known, f"name={raw}"
        if name != raw and name in names:
            name, attributes = raw, ""
        names.add(name)
        found.append((name, attributes))
    return found


def _find_renamed_event(name: str, about: str) -> str | None:
    """The event that a user renamed (`cpu-clock/name=ticks/`), by its type and config."""
    kind = _TYPE.search(about)
    if kind is None or kind[1] not in _CONFIGS or "/" in name or is_event_name(split_modifiers(name)[0]):
        return None
    config = _CONFIG.search(about)
    number = int(config[1], 0) if config else 0
    names = _CONFIGS[kind[1]]
    if number >= len(names):
        return None
    modifiers = "u" * ("exclude_kernel = 1" in about) + "k" * ("exclude_user = 1" in about)
    return f"{names[number]}:{modifiers}" if modifiers else names[number]


def get_unit(event: str, weighted: bool = True) -> str:
    """The unit of the periods and counts of a perf event: the kernel's clock events and the tracepoints sched_stat_*
    count nanoseconds. weighted: whether its periods are known; else every sample counts 1."""
    name = strip_modifiers(event)
    return "ns" if weighted and (name in CLOCK_EVENTS or _STAT_NS.fullmatch(name)) else "count"


def measures_time(event: str) -> bool:
    """Whether an event is a clock or counts CPU cycles, so that its samples show where time is spent."""
    name = strip_modifiers(event)
    inside = re.fullmatch(r"cpu(?:_core|_atom)?/(.*)/", name)
    return (inside[1] if inside else name) in CLOCK_EVENTS | CYCLE_EVENTS


def is_occurrence(event: str) -> bool:
    """Whether an event of perf occurs irregularly, as page faults and tracepoints do: all software events except
    clocks. perf guesses their periods from the most recent ones, so that their sum is no total."""
    name = strip_modifiers(event)
    return (name in SOFTWARE_EVENTS and name not in CLOCK_EVENTS) or TRACEPOINT.fullmatch(name) is not None


def uses_counter(event: str) -> bool:
    """Whether an event of perf needs a counter of the CPU, of which there are few: all but software events and
    tracepoints."""
    name = strip_modifiers(event)
    return name not in SOFTWARE_EVENTS and TRACEPOINT.fullmatch(name) is None


def is_kernel_event(event: str) -> bool:
    """Whether an event happens only in the kernel: those of the scheduler, and most tracepoints."""
    name = strip_modifiers(event)
    return name in _SWITCHES or (TRACEPOINT.fullmatch(name) is not None and not _OF_PROGRAMS.fullmatch(name))


def is_unobservable(event: str, about: str = "") -> bool:
    """Whether an event happens in the kernel, but only user space was observed, so that it never occurs.

    about: its attributes as perf prints them, which the names of tracepoints do not show. A user may request u; perf
    adds u to the modifiers for users who are not permitted to profile the kernel.
    """
    modifiers = split_modifiers(split_sampling_terms(event)[0])[1]
    added = modifiers.endswith("u") and "u" in modifiers[:-1]
    user_only = bool({"u", "h"} & {*modifiers}) and ("k" not in modifiers or added)
    return (user_only or "exclude_kernel = 1" in about) and is_kernel_event(event)


def explain_unobservable(event: str) -> str:
    """Why there is no value of such an event, and what to do."""
    return (
        f"{event}: only user space was measured, but the event occurs in the kernel. Set kernel.perf_event_paranoid "
        "to 1 or less, or give perf CAP_PERFMON, and record the event without :u."
    )


def choose_main_event(names: Sequence[str], asked_first: str | None = None) -> str | None:
    """The event that a page shows first. Of the events that occurred, it is the one named first when recording, if
    known; else the first clock or cycles event; else the first."""
    if asked_first in names:
        return asked_first
    return next(filter(measures_time, names), names[0] if names else None)


def find_event(wanted: str, names: Sequence[str], attributes: Sequence[str | None] = ()) -> int | None:
    """The one of `names` that an event as typed means: by the plain name, by how it was typed when recording, or by the
    name from its attributes."""
    if wanted in names:
        return names.index(wanted)
    if (name := split_sampling_terms(wanted)[0]) in names:
        return names.index(name)
    places = [index for index, text in enumerate(attributes) if text and f"name={wanted}" in text.split(",")]
    return places[0] if places else None
