"""Builds a Profile from the sums of a callgrind file."""

import os.path
import re

import numpy as np

from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.profile import Meta, Profile
from ...domain.symbols.demangler import format_symbol
from ...domain.tables import FrameKind
from ...domain.units import NS_PER_MS, NS_PER_S, NS_PER_US
from ...ingest.facts import STACKS_FACT
from .format import FORMAT, NO_FORMULA
from .lines import MAX_COST, CallgrindParser, ThreadCosts
from .tree import Graph, build_tree

CALLS = "calls"
UNKNOWN = "???"
STACKS = (
    "estimated from callers, callees and costs, as if all calls of a function were alike; the self cost of "
    "functions is exact"
)
TRUNCATED = "The file ends without its totals: it is truncated, or the program was killed while writing it."
UNITS = {
    "ns": ("ns", 1),
    "us": ("ns", NS_PER_US),
    "µs": ("ns", NS_PER_US),
    "ms": ("ns", NS_PER_MS),
    "s": ("ns", NS_PER_S),
}
UNITS |= {"bytes": ("bytes", 1), "b": ("bytes", 1)}
UNITS_OF_EVENT_NAMES = {
    "nanoseconds": "ns",
    "microseconds": "us",
    "milliseconds": "ms",
    "ns": "ns",
    "us": "us",
    "ms": "ms",
}
UNITS_OF_EVENT_NAMES |= {"bytes": "bytes"}
"""Units that are names of events."""

_UNIT_IN_NAME = re.compile(r"(.+?)_?\((\d{1,6})?\s*([A-Za-zµ]+)\)")
_ADDRESS = re.compile(r"0x[0-9a-f]{4,16}")


def build_profile(parser: CallgrindParser, source: str, defect: str | None) -> Profile:
    """The profile. Raises UnreadableInput if the file has no cost."""
    builder = ProfileBuilder(FORMAT)
    losses = dict(parser.losses)
    samples = sum(_add_thread(builder, parser, pid, thread, part) for (pid, thread, _), part in parser.parts.items())
    if not samples:
        raise UnreadableInput(
            f"{source} has no costs: nothing was counted, or its line events: is missing. Record again."
        )
    for part in parser.parts.values():
        for name, terms in parser.formulas.items():
            if name not in _compute_factors(parser, part):
                example = " + ".join(f"{factor} {word}" for factor, word in terms)
                losses.setdefault(NO_FORMULA, (1, f"{name} = {example}"[:160]))
    for reason, (count, example) in losses.items():
        builder.add_loss(reason, example, count)
    command = parser.facts.pop("cmd", "").strip() or None
    builder.add_run(command=command)
    reasons = [defect] if defect else []
    if not parser.ended and parser.facts.get("creator", "").startswith("callgrind"):
        reasons.append(TRUNCATED)
    facts = parser.facts | ({STACKS_FACT: STACKS} if any(part.calls.places for part in parser.parts.values()) else {})
    return builder.finish(Meta(FORMAT, command=command, complete=not reasons, reasons=tuple(reasons), facts=facts))


def unit_of(event: str, creator: str = "") -> tuple[str, str, int]:
    """Name and unit of an event, and the factor of its numbers: Xdebug's "Time_(10ns)" has ns and 10."""
    if creator.startswith("xdebug "):
        # Events without a unit: version 2 counts microseconds, later ones tens of nanoseconds.
        times = "Time_(us)" if creator.startswith("xdebug 2") else "Time_(10ns)"
        event = {"Time": times, "Memory": "Memory_(bytes)"}.get(event, event)
    match = _UNIT_IN_NAME.fullmatch(event)
    word = match[3].lower() if match else UNITS_OF_EVENT_NAMES.get(event.lower(), "")
    if word not in UNITS:
        return event, "count", 1
    unit, factor = UNITS[word]
    return (match[1], unit, factor * int(match[2] or 1)) if match else (event, unit, factor)


def _compute_factors(parser: CallgrindParser, part: ThreadCosts) -> dict[str, np.ndarray]:
    """The factors of the thread's events in each event of the profile: its own, and those of formulas."""
    own = np.eye(len(part.events), dtype=np.int64)
    columns = dict(zip(part.events, own, strict=True))
    for name, terms in parser.formulas.items():
        if name not in columns and all(word in columns for _, word in terms):
            column = sum((factor * columns[word] for factor, word in terms), np.zeros(len(own), np.int64))
            if int(np.abs(column).max(initial=0)) < 1 << 31:
                columns[name] = column
    return columns


def _add_thread(
    builder: ProfileBuilder, parser: CallgrindParser, pid: int | None, thread: int | None, part: ThreadCosts
) -> int:
    """Add the stacks and samples of one thread; returns the number of samples."""
    graph, functions = part.graph()
    columns = _compute_factors(parser, part)
    names = []
    events = []
    for name, column in columns.items():
        shown, unit, factor = unit_of(name, parser.facts.get("creator", ""))
        if (graph.own.astype(np.float64) @ (np.abs(column) * factor)).sum() < MAX_COST:
            names.append(builder.intern_event(shown, unit))
            events.append(column * factor)
    if not events:
        return 0
    factors = np.column_stack(events)
    tree = build_tree(Graph(graph.own @ factors, graph.caller, graph.called, graph.cost @ factors, graph.count))
    if len(graph.count) and CALLS not in columns:
        names.append(builder.intern_event(CALLS, "count"))
    row = builder.intern_thread(pid=pid, tid=thread)
    command = os.path.basename((parser.facts.get("cmd", "").split() or [""])[0])
    if command:
        builder.set_process_name(row, command)
    if thread is not None or command:
        builder.set_thread_name(row, 0, command if thread is None else f"thread {thread}")
    frames = np.array([_intern_frame(builder, parser, part, *function) for function in functions], np.int64)
    if not len(tree.parent):
        return 0
    first = builder.add_stack_tree(tree.parent, frames[tree.function])
    node, event = np.nonzero(tree.weight[:, : len(names)])
    same = np.zeros(len(node), np.int64)
    builder.add_samples(
        same, same + row, same - 1, np.array(names)[event], node + first, tree.weight[node, event].astype(np.int64)
    )
    return len(node)


def _intern_frame(
    builder: ProfileBuilder, parser: CallgrindParser, part: ThreadCosts, name: int, file: int, object: int
) -> int:
    words = [parser.names[code] if code >= 0 else UNKNOWN for code in (name, file, object)]
    raw, source, module = ("" if word == UNKNOWN else word for word in words)
    line = part.lines.get((name + 1) << 42 | (file + 1) << 21 | (object + 1), 0)
    function = builder.intern_function(
        words[0],
        module,
        source or None,
        line if source and 0 < line < 1 << 31 else None,
        display=format_symbol(raw, module, builder.demangler),
    )
    unknown = not raw or _ADDRESS.fullmatch(raw) is not None
    return builder.intern_frame(function, kind=FrameKind.UNKNOWN if unknown else FrameKind.USER)
