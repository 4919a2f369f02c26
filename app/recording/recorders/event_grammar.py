"""Events that perf's parser rejects on any host. The preflight checks names; this module checks the syntax.

From tools/perf/util/parse-events.l and .y, and the checks of terms in parse-events.c (`config_term_common`), of perf
6.1; syntax that only later versions accept is not rejected.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...domain.event_names import CACHE_EVENT, HARDWARE_EVENTS, MODIFIERS, SOFTWARE_EVENTS, TRACEPOINT, split_modifiers
from ...domain.jobs.parts import DEFAULT_STACK_BYTES

STACK_LIMIT = 65528
"""perf stores the size of a stack copy in 16 bits, a multiple of 8 (get_stack_size in tools/perf/util/callchain.c)."""

_FLAGS = frozenset({"percore", "time"})
_NUMBERS = _FLAGS | {
    *("config", "config1", "config2", "config3", "period", "freq", "stack-size", "max-stack", "nr"),
    *("inherit", "no-inherit", "overwrite", "no-overwrite", "aux-output", "aux-sample-size"),
}
_TEXTS = frozenset({"name", "metric-id", "call-graph", "branch_type"})
TERMS = _NUMBERS | _TEXTS
"""Terms that perf accepts for all events except tracepoints."""
_OF_TRACEPOINTS = frozenset(
    (
        *("call-graph", "stack-size", "max-stack", "nr", "inherit", "no-inherit", "overwrite", "no-overwrite"),
        *("aux-output", "aux-sample-size"),
    )
)
_COUNTED = frozenset({"config", "config1", "config2", "config3", "name", "metric-id", "period", "percore"})
"""Terms that perf stat accepts, too."""
_PARTS = re.compile(r"(?P<head>[^/]*)/(?P<terms>[^/]*)/(?P<tail>[^/]*)")
_TERM = re.compile(r"(?:'[^']*'|[^,'])*")
_NUMBER = re.compile("0x[0-9a-fA-F]+|[0-9]+", re.ASCII)
_TEXT = re.compile(r"[a-zA-Z_*?][\w*?.:!-]*|'[a-zA-Z_*?\[\]][\w*?,.\[\]:=-]*'", re.ASCII)
_NUMERIC = re.compile(r"(0x[0-9a-fA-F]+|[0-9]+):(0x[0-9a-fA-F]+|[0-9]+)|r[0-9a-fA-F]+", re.ASCII)
_BREAKPOINT = re.compile(
    r"mem:(?:0x[0-9a-fA-F]+|[0-9]+)(?:/(?P<length>[0-9]+))?(?::(?P<access>[rwx]{1,3}))?(?:/(?![0-9]+/)[^/]*/)?"
    r"(?::?(?P<modifiers>[ukhpPGHSDIWeb]*))",
    re.ASCII,
)
_GROUP = re.compile(r"[\w.-]*\{(?P<events>.*)\}(?::(?P<modifiers>.*))?", re.S)
_BEHIND = "Write it as in cpu-clock/period=9/u: modifiers such as u follow the terms."


class EventProblem(NamedTuple):
    """An error in an event. advice: what to write."""

    text: str
    advice: str


def find_group_problem(item: str) -> EventProblem | None:
    """The error of a group `{a,b}:S` as a whole; None for a valid group, and for other events."""
    match = _GROUP.fullmatch(item)
    if match is None:
        return None
    if not match["events"].strip():
        return EventProblem(f"{item} is a group without events.", "Add events, as in {cycles,instructions}.")
    return _fault_of_modifiers(match["modifiers"] or "", "a group")


def find_event_problem(event: str, counting: bool) -> EventProblem | None:
    """The error of a single event, or None. counting: for perf stat."""
    if event.startswith("mem:"):
        return _fault_of_breakpoint(event)
    match = _PARTS.fullmatch(event)
    if match is None:
        name, _, modifiers = event.partition(":")
        return _fault_of_modifiers(modifiers, name) if _is_symbol(name) else None
    name, tail = match["head"].strip(), match["tail"]
    bare = split_modifiers(name)[0] if ":" in split_modifiers(name)[0] else name.partition(":")[0]
    if bare != name and (_is_symbol(bare) or _is_tracepoint(bare)):
        return EventProblem(f"{name[len(bare) :]} precedes the terms of {bare}.", _BEHIND)
    # After these, perf's grammar accepts a colon.
    if tail.startswith(":") and (_is_tracepoint(name) or _NUMERIC.fullmatch(name) or CACHE_EVENT.fullmatch(name)):
        tail = tail[1:]
    return _fault_of_modifiers(tail, name) or next(_faults_of_terms(event, name, match["terms"], counting), None)


def _is_symbol(name: str) -> bool:
    return name in SOFTWARE_EVENTS or name in HARDWARE_EVENTS or CACHE_EVENT.fullmatch(name) is not None


def _is_tracepoint(name: str) -> bool:
    return TRACEPOINT.fullmatch(name) is not None and not _NUMERIC.fullmatch(name)


def _fault_of_modifiers(modifiers: str, name: str) -> EventProblem | None:
    if not modifiers:
        return None
    if not MODIFIERS.fullmatch(modifiers):
        return EventProblem(
            f"{modifiers} is not a modifier of {name}.", "Use u for user space, k for the kernel, or nothing."
        )
    twice = next(
        (modifier for modifier in modifiers if modifiers.count(modifier) > (3 if modifier == "p" else 1)), None
    )
    if twice is not None:
        return EventProblem(f"{modifiers} repeats the modifier {twice}.", "Use each once, p at most three times.")
    return None


def _fault_of_breakpoint(event: str) -> EventProblem | None:
    match = _BREAKPOINT.fullmatch(event)
    if match is None:
        advice = "Write an address and the kind of access, as in mem:0x4005d0/4:rw"
        return EventProblem(f"{event} is not a breakpoint for perf.", advice)
    access = match["access"] or ""
    if len({*access}) < len(access) or ("x" in access and access != "x"):
        text = f"No breakpoint can be set for {access}."
        return EventProblem(text, "Use r, w or rw for data, only x for code.")
    if match["length"] and int(match["length"]) not in (1, 2, 4, 8):
        return EventProblem(f"A breakpoint cannot watch {match['length']} bytes.", "Use 1, 2, 4 or 8.")
    return _fault_of_modifiers(match["modifiers"], "a breakpoint")


def _faults_of_terms(event: str, name: str, terms: str, counting: bool) -> Iterator[EventProblem]:
    if not terms:
        return
    pairs = [tuple(part.strip() for part in text.partition("=")) for text in _terms(terms)]
    values = {key: value for key, _, value in pairs}
    tracepoint = _is_tracepoint(name)
    allowed = _OF_TRACEPOINTS if tracepoint else TERMS
    for key, sign, value in pairs:
        if not key or (sign and not value):
            yield EventProblem(f"A term of {event} is empty.", "Write terms as in cpu-clock/period=9,percore/.")
        if (tracepoint or _is_symbol(name)) and key not in allowed:
            yield EventProblem(f"{name} has no term {key}.", f"perf knows {', '.join(sorted(allowed))}.")
        if key in _NUMBERS and sign:
            yield from _number_problems(event, key, value)
        elif key in _TEXTS and not _TEXT.fullmatch(value):
            yield EventProblem(
                f"perf does not accept the value of {key} in {event}.", f"Write {key}=WORD, with letters and digits."
            )
        if counting and key in TERMS and (tracepoint or key not in _COUNTED):
            yield EventProblem(f"perf stat does not accept the term {key}.", "Remove it: it is only for samples.")
    if values.get("call-graph") == "dwarf" and parse_number(values.get("stack-size", "")) > STACK_LIMIT:
        text = f"perf cannot copy stacks of {values['stack-size']} bytes."
        yield EventProblem(text, f"Use at most {STACK_LIMIT}; {DEFAULT_STACK_BYTES} is typical.")
    if tracepoint or name in SOFTWARE_EVENTS:
        needed = ["call-graph=lbr"] if values.get("call-graph") == "lbr" else []
        needed += ["branch_type"] if "branch_type" in values else []
        needed += ["aux-output"] if "aux-output" in values and values["aux-output"] != "0" else []
        for term in needed:
            yield EventProblem(f"{term} works only with hardware events, not with {name}.", "Remove it, or use cycles.")


def _number_problems(event: str, key: str, value: str) -> Iterator[EventProblem]:
    if not _NUMBER.fullmatch(value):
        advice = "Write only digits, without an exponent or a sign."
        yield EventProblem(f"{key}={value} of {event} is not a number for perf.", advice)
    elif parse_number(value) >= (1 << 63 if key in ("period", "freq") else 1 << 64):
        yield EventProblem(f"{key}={value} of {event} is too large.", "Use a smaller number.")
    elif key in _FLAGS and parse_number(value) > 1:
        yield EventProblem(f"{key}={value} of {event} is neither 0 nor 1.", f"Write {key}=0 or {key}=1.")


def _terms(terms: str) -> list[str]:
    """The terms between the slashes; a comma in quotes is part of a term."""
    found, at = [], 0
    while at <= len(terms):
        term = _TERM.match(terms, at)
        end = term.end() if term and term.end() > at else at
        # After an unclosed quote, the rest is one term.
        end = end if end == len(terms) or terms[end] == "," else len(terms)
        found.append(terms[at:end])
        at = end + 1
    return found


def parse_number(value: str) -> int:
    """A number as perf parses it: decimal even with a leading 0; 0 for other text."""
    return (int(value, 16) if value.startswith("0x") else int(value)) if _NUMBER.fullmatch(value) else 0
