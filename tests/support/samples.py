"""A profile as a list of its samples, in plain Python, to compare two ways of reading."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import NamedTuple

from perfloom.domain.profile import Profile


class Frame(NamedTuple):
    """address and offset None: not printed."""

    name: str
    module: str
    address: int | None
    offset: int | None
    line: int | None
    kind: int
    inline_depth: int


class Sample(NamedTuple):
    """stack: outermost first."""

    time_ns: int
    comm: str | None
    pid: int | None
    tid: int | None
    cpu: int
    event: str
    weight: int
    stack: tuple[Frame, ...]


def samples_of(profile: Profile) -> list[Sample]:
    """Every sample, in the order of the table; times are absolute if the text had any."""
    functions = profile.functions.to_pylist()
    frames = [
        Frame(
            functions[row["function"]]["name"],
            functions[row["function"]]["module"],
            row["address"],
            row["symbol_offset"],
            row["line"],
            row["kind"],
            row["inline_depth"],
        )
        for row in profile.frames.to_pylist()
    ]
    stacks: list[tuple[Frame, ...]] = []
    for row in profile.stacks.to_pylist():
        stacks.append((*stacks[row["parent"]], frames[row["frame"]]) if row["parent"] >= 0 else ())
    threads = profile.threads.to_pylist()
    names: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for row in profile.thread_names.to_pylist():
        names[row["thread"]].append((row["from_ns"], row["name"]))
    events = profile.events.column("name").to_pylist()
    zero = int(profile.meta.facts.get("clock of first sample", "0 ns").removesuffix(" ns"))
    found = []
    for row in profile.samples.to_pylist():
        known = names.get(row["thread"], [])
        at = bisect_right([since for since, _ in known], row["time_ns"]) - 1
        thread = threads[row["thread"]]
        found.append(
            Sample(
                row["time_ns"] + zero,
                known[at][1] if known else None,
                thread["pid"],
                thread["tid"],
                row["cpu"],
                events[row["event"]],
                row["weight"],
                stacks[row["stack"]],
            )
        )
    return found


def has_additional_name(name: str, module: str) -> bool:
    """Whether perf 6.1 may not know a symbol: entries of the procedure linkage table, and functions of [vdso] that are
    not in its build-id cache (docs/formats/perf-data.md)."""
    # ".plt" and ".plt.sec": their code before the first entry, and entries without a name.
    return "@plt" in name or name.startswith(".plt") or (module == "[vdso]" and name != "[unknown]")


def without_additional_names(samples: list[Sample], others: list[Sample]) -> list[Sample]:
    """The samples, with what `others` have instead of the names of `has_additional_name`."""
    result = []
    for sample, other in zip(samples, others, strict=True):
        stack = sample.stack
        if len(stack) == len(other.stack):
            pairs = zip(stack, other.stack, strict=True)
            stack = tuple(
                frame._replace(name=theirs.name, offset=theirs.offset, kind=theirs.kind)
                if has_additional_name(frame.name, frame.module)
                and (frame.address, frame.module) == (theirs.address, theirs.module)
                else frame
                for frame, theirs in pairs
            )
        result.append(sample._replace(stack=stack))
    return result


def losses_of(profile: Profile) -> dict[str, tuple[int, str]]:
    """(count, first example) by reason."""
    return {row["reason"]: (row["count"], row["example"]) for row in profile.losses.to_pylist()}
