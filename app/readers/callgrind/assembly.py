"""From what a callgrind file says to a Profile."""

import os.path
import re

import numpy as np

from ...domain.builder import ProfileBuilder, format_symbol
from ...domain.errors import UnreadableInput
from ...domain.profile import Meta, Profile
from ...domain.tables import FrameKind
from ...domain.units import NS_PER_MS, NS_PER_S, NS_PER_US
from ...ingest.facts import STACKS_FACT
from .format import FORMAT, NO_FORMULA
from .lines import MOST, Part, Reading
from .tree import Graph, tree_of

CALLS = "calls"
UNKNOWN = "???"
STACKS = (
    "estimated from callers, callees and costs, as if all calls of a function were alike; the self cost of "
    "functions is exact"
)
CUT_OFF = "The file ends without its totals: it is truncated, or the program was killed while writing it."
UNITS = {
    "ns": ("ns", 1),
    "us": ("ns", NS_PER_US),
    "µs": ("ns", NS_PER_US),
    "ms": ("ns", NS_PER_MS),
    "s": ("ns", NS_PER_S),
}
UNITS |= {"bytes": ("bytes", 1), "b": ("bytes", 1)}
NAMED = {"nanoseconds": "ns", "microseconds": "us", "milliseconds": "ms", "ns": "ns", "us": "us", "ms": "ms"}
NAMED |= {"bytes": "bytes"}
"""Units that are names of events."""

_OF_NAME = re.compile(r"(.+?)_?\((\d{1,6})?\s*([A-Za-zµ]+)\)")
_ADDRESS = re.compile(r"0x[0-9a-f]{4,16}")


def assembled(reading: Reading, source: str, defect: str | None) -> Profile:
    """The profile. Raises UnreadableInput where nothing was spent."""
    builder = ProfileBuilder(FORMAT)
    losses = dict(reading.losses)
    samples = sum(_part(builder, reading, pid, thread, part) for (pid, thread, _), part in reading.parts.items())
    if not samples:
        raise UnreadableInput(
            f"{source} has no costs: nothing was counted, or its line events: is missing. Record again."
        )
    for part in reading.parts.values():
        for name, terms in reading.formulas.items():
            if name not in _columns(reading, part):
                example = " + ".join(f"{factor} {word}" for factor, word in terms)
                losses.setdefault(NO_FORMULA, (1, f"{name} = {example}"[:160]))
    for reason, (count, example) in losses.items():
        builder.add_loss(reason, example, count)
    command = reading.facts.pop("cmd", "").strip() or None
    builder.add_run(command=command)
    reasons = [defect] if defect else []
    if not reading.ended and reading.facts.get("creator", "").startswith("callgrind"):
        reasons.append(CUT_OFF)
    facts = reading.facts | ({STACKS_FACT: STACKS} if any(part.calls.places for part in reading.parts.values()) else {})
    return builder.finish(Meta(FORMAT, command=command, complete=not reasons, reasons=tuple(reasons), facts=facts))


def unit_of(event: str, creator: str = "") -> tuple[str, str, int]:
    """The name of an event, its unit, and by what its numbers are to be multiplied: Xdebug's "Time_(10ns)" is time."""
    if creator.startswith("xdebug "):
        # Where it does not say so, its second version counts microseconds, a later one tens of nanoseconds.
        times = "Time_(us)" if creator.startswith("xdebug 2") else "Time_(10ns)"
        event = {"Time": times, "Memory": "Memory_(bytes)"}.get(event, event)
    found = _OF_NAME.fullmatch(event)
    word = found[3].lower() if found else NAMED.get(event.lower(), "")
    if word not in UNITS:
        return event, "count", 1
    unit, factor = UNITS[word]
    return (found[1], unit, factor * int(found[2] or 1)) if found else (event, unit, factor)


def _columns(reading: Reading, part: Part) -> dict[str, np.ndarray]:
    """By how much each event of the part counts in each event that there is to be, its own and those of formulas."""
    own = np.eye(len(part.events), dtype=np.int64)
    found = dict(zip(part.events, own, strict=True))
    for name, terms in reading.formulas.items():
        if name not in found and all(word in found for _, word in terms):
            column = sum((factor * found[word] for factor, word in terms), np.zeros(len(own), np.int64))
            if int(np.abs(column).max(initial=0)) < 1 << 31:
                found[name] = column
    return found


def _part(builder: ProfileBuilder, reading: Reading, pid: int | None, thread: int | None, part: Part) -> int:
    """Add what one thread did; how many samples."""
    graph, functions = part.graph()
    columns = _columns(reading, part)
    names = []
    events = []
    for name, column in columns.items():
        shown, unit, factor = unit_of(name, reading.facts.get("creator", ""))
        if (graph.own.astype(np.float64) @ (np.abs(column) * factor)).sum() < MOST:
            names.append(builder.intern_event(shown, unit))
            events.append(column * factor)
    if not events:
        return 0
    factors = np.column_stack(events)
    tree = tree_of(Graph(graph.own @ factors, graph.caller, graph.called, graph.cost @ factors, graph.count))
    if len(graph.count) and CALLS not in columns:
        names.append(builder.intern_event(CALLS, "count"))
    row = builder.intern_thread(pid=pid, tid=thread)
    command = os.path.basename((reading.facts.get("cmd", "").split() or [""])[0])
    if command:
        builder.set_process_name(row, command)
    if thread is not None or command:
        builder.set_thread_name(row, 0, command if thread is None else f"thread {thread}")
    frames = np.array([_frame(builder, reading, part, *one) for one in functions], np.int64)
    if not len(tree.parent):
        return 0
    first = builder.add_stack_tree(tree.parent, frames[tree.function])
    node, event = np.nonzero(tree.weight[:, : len(names)])
    same = np.zeros(len(node), np.int64)
    builder.add_samples(
        same, same + row, same - 1, np.array(names)[event], node + first, tree.weight[node, event].astype(np.int64)
    )
    return len(node)


def _frame(builder: ProfileBuilder, reading: Reading, part: Part, name: int, file: int, object: int) -> int:
    words = [reading.names[code] if code >= 0 else UNKNOWN for code in (name, file, object)]
    raw, source, module = ("" if word == UNKNOWN else word for word in words)
    line = part.lines.get((name + 1) << 42 | (file + 1) << 21 | (object + 1), 0)
    function = builder.intern_function(
        words[0],
        module,
        source or None,
        line if source and 0 < line < 1 << 31 else None,
        display=format_symbol(raw, module),
    )
    unknown = not raw or _ADDRESS.fullmatch(raw) is not None
    return builder.intern_frame(function, kind=FrameKind.UNKNOWN if unknown else FrameKind.USER)
