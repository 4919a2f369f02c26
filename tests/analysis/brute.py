"""The definitions once more, in plain Python, sample by sample: what the fast ways are compared with."""

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from perfloom.analysis.flamegraph import Group
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection, thread_key

Frame = tuple[str, str, int]
"""Display name, module, kind."""
Path = tuple[Any, ...]


@dataclass(frozen=True)
class Sample:
    row: int
    time_ns: int
    thread: int
    event: str
    weight: int
    stack: tuple[Frame, ...]


def all_samples(profile: Profile) -> list[Sample]:
    """Every sample with its stack, outermost frame first, straight from the stored tables."""
    frames, functions = profile.frames.to_pylist(), profile.functions.to_pylist()
    parent, frame = profile.stacks["parent"].to_pylist(), profile.stacks["frame"].to_pylist()
    events = profile.events["name"].to_pylist()
    samples = []
    for row, sample in enumerate(profile.samples.to_pylist()):
        stack = []
        node = sample["stack"]
        while node > 0:
            place = frames[frame[node]]
            function = functions[place["function"]]
            stack.append((function["display"], function["module"], place["kind"]))
            node = parent[node]
        samples.append(
            Sample(
                row,
                sample["time_ns"],
                sample["thread"],
                events[sample["event"]],
                sample["weight"],
                tuple(reversed(stack)),
            )
        )
    return samples


def files(profile: Profile) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for function in profile.functions.to_pylist():
        if function["file"]:
            found[function["display"], function["module"]].add(function["file"])
    return found


def selected(profile: Profile, selection: Selection, *, reshape: bool = True, event: str | None = None) -> list[Sample]:
    """The samples that are selected, of one event or of all; with `reshape`, stacks as they are drawn."""
    threads = profile.threads.to_pylist()
    names = [{row["name"]} if row["name"] else set() for row in threads]
    for row in profile.thread_names.to_pylist():
        names[row["thread"]].add(row["name"])
    kept = []
    known = files(profile)
    for sample in all_samples(profile):
        thread = threads[sample.thread]
        key = thread_key(thread["rank"], thread["pid"], thread["tid"])
        if event is not None and sample.event != event:
            continue
        if selection.start_ns is not None and sample.time_ns < selection.start_ns:
            continue
        if selection.end_ns is not None and sample.time_ns >= selection.end_ns:
            continue
        if selection.threads and not {key, *names[sample.thread]} & set(selection.threads):
            continue
        if selection.ranks and not any(
            thread["rank"] is not None and low <= thread["rank"] <= high for low, high in selection.ranks
        ):
            continue
        stack = filtered(sample.stack, selection, known)
        if stack is None:
            continue
        if reshape:
            stack = reshaped(stack, selection)
        kept.append(Sample(sample.row, sample.time_ns, sample.thread, sample.event, sample.weight, stack))
    return kept


def filtered(
    stack: tuple[Frame, ...], selection: Selection, files: dict[tuple[str, str], set[str]]
) -> tuple[Frame, ...] | None:
    """As pprof's FilterSamplesByName does it: by the function's name, its files and its module."""

    def matches(pattern: str, frame: Frame) -> bool:
        return any(re.search(pattern, text) for text in (*frame[:2], *files.get(frame[:2], ())))

    if selection.focus is None and selection.ignore is None and selection.hide is None:
        return stack
    if not stack:
        return None
    if selection.focus is not None and not any(matches(selection.focus, f) for f in stack):
        return None
    if selection.ignore is not None and any(matches(selection.ignore, f) for f in stack):
        return None
    if selection.hide is not None:
        stack = tuple(f for f in stack if not matches(selection.hide, f))
    return stack or None


def reshaped(stack: tuple[Frame, ...], selection: Selection) -> tuple[Frame, ...]:
    if selection.recursion:
        stack = collapsed(stack)
    return stack[::-1] if selection.invert else stack


def collapsed(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """From the innermost function to its outermost call, from there to the caller, to its outermost call …"""
    kept = []
    at = len(stack) - 1
    while at >= 0:
        at = next(i for i, frame in enumerate(stack) if frame[:2] == stack[at][:2])
        kept.append(stack[at])
        at -= 1
    return tuple(reversed(kept))


def split_by(profile: Profile, group: Group) -> Group:
    """Without any name of a thread there is nothing to split by."""
    names = [row[word] for row in profile.threads.to_pylist() for word in ("name", "process")]
    return group if group is not Group.COMM or any(names) else Group.NONE


def group_of(profile: Profile, sample: Sample, group: Group) -> str:
    threads = profile.threads.to_pylist()
    thread = threads[sample.thread]
    if group is Group.RANK:
        return "no rank" if thread["rank"] is None else f"rank {thread['rank']}"
    if group is Group.HOST:
        return thread["host"] or "unknown host"
    if group is Group.PROCESS:
        # A process is named by the first of its threads.
        first: dict[tuple[Any, ...], dict[str, Any]] = {}
        for one in threads:
            first.setdefault(process_of(one), one)
        plain = [process_name(one) for one in first.values()]
        name = process_name(first[process_of(thread)])
        if plain.count(name) == 1:
            return name
        rank = "no rank" if thread["rank"] is None else f"rank {thread['rank']}"
        return f"{name} · {rank} · {thread['host'] or 'unknown host'}"
    if group is Group.THREAD:
        return f"{thread['name'] or 'thread'} {thread['tid']}"
    if group is Group.COMM:
        given = [n for n in profile.thread_names.to_pylist() if n["thread"] == sample.thread]
        since = [n for n in given if n["from_ns"] <= sample.time_ns]
        if given:
            return (max(reversed(since), key=lambda n: n["from_ns"]) if since else given[0])["name"]
        return thread["name"] or thread["process"] or "unknown"
    raise ValueError(group)


def process_of(thread: dict[str, Any]) -> tuple[Any, ...]:
    name = (thread["process"] or "") if thread["pid"] is None else ""
    return thread["host"], thread["rank"], thread["pid"], name


def process_name(thread: dict[str, Any]) -> str:
    name = thread["process"] or "process"
    return name if thread["pid"] is None else f"{name} {thread['pid']}"


def weighed(paths: list[tuple[Path, int]]) -> dict[Path, tuple[int, int]]:
    """Self and total by path, of those that have any weight; the root is the empty path."""
    own: dict[Path, int] = defaultdict(int)
    total: dict[Path, int] = defaultdict(int, {(): 0})
    for path, weight in paths:
        own[path] += weight
        for depth in range(len(path) + 1):
            total[path[:depth]] += weight
    return {path: (own[path], weight) for path, weight in total.items() if weight or not path}
