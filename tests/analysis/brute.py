"""The definitions once more, in plain Python, sample by sample: what the fast ways are compared with."""

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from perfloom.analysis.stacks.flamegraph import FlameGroup
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection, format_thread_key
from perfloom.domain.tables import DEVICE_TIME, HOST_TIME

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


def all_stacks(profile: Profile) -> list[tuple[Frame, ...]]:
    """The call stack of each node of `stacks`, outermost frame first, straight from the stored tables."""
    frames, functions = profile.frames.to_pylist(), profile.functions.to_pylist()
    found: list[tuple[Frame, ...]] = []
    for node in profile.stacks.select(["parent", "frame"]).to_pylist():
        if node["parent"] < 0:
            found.append(())
            continue
        place = frames[node["frame"]]
        function = functions[place["function"]]
        found.append((*found[node["parent"]], (function["display"], function["module"], place["kind"])))
    return found


def all_samples(profile: Profile) -> list[Sample]:
    """Every sample with its stack."""
    events, stacks = profile.events["name"].to_pylist(), all_stacks(profile)
    samples = []
    for row, sample in enumerate(profile.samples.to_pylist()):
        samples.append(
            Sample(
                row,
                sample["time_ns"],
                sample["thread"],
                events[sample["event"]],
                sample["weight"],
                stacks[sample["stack"]] if stacks else (),
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
    launched = launches(profile) if selection.step is not None else {}
    for sample in all_samples(profile):
        thread = threads[sample.thread]
        key = format_thread_key(thread["rank"], thread["pid"], thread["tid"])
        if event is not None and sample.event != event:
            continue
        part = weight_in(profile, selection, sample, launched)
        if part is None:
            continue
        if selection.threads and not {key, *names[sample.thread]} & set(selection.threads):
            continue
        if selection.ranks and not any(
            thread["rank"] is not None and low <= thread["rank"] <= high for low, high in selection.ranks
        ):
            continue
        process = {f"{'-' if thread['rank'] is None else thread['rank']}/{thread['pid'] or '-'}", thread["process"]}
        if selection.processes and not process & set(selection.processes):
            continue
        if selection.hosts and (thread["host"] or "-") not in selection.hosts:
            continue
        stack = filtered(sample.stack, selection, known)
        if stack is None:
            continue
        if reshape:
            stack = reshaped(stack, selection)
        kept.append(Sample(sample.row, sample.time_ns, sample.thread, sample.event, part, stack))
    return kept


def weight_in(profile: Profile, selection: Selection, sample: Sample, launched: dict[int, int]) -> int | None:
    """What of a sample's weight is in the window and the step; None where it is not there at all."""
    rank = profile.threads["rank"][sample.thread].as_py()
    windows = [(-math.inf, math.inf)]
    if selection.step is not None:
        steps = [s for s in profile.steps.to_pylist() if s["name"] == selection.step and s["rank"] in (None, rank)]
        windows = [(step["start_ns"], step["end_ns"]) for step in steps]
        if sample.event == DEVICE_TIME:
            of_step = any(low <= launched[sample.row] < high for low, high in windows)
            windows = [(-math.inf, math.inf)] if of_step else []
    total, there = 0, False
    for low, high in windows:
        low = low if selection.start_ns is None else max(low, selection.start_ns)
        high = high if selection.end_ns is None else min(high, selection.end_ns)
        begins_inside = low <= sample.time_ns < high
        if sample.event in (HOST_TIME, DEVICE_TIME):
            # Nanosecond by nanosecond.
            moments = range(sample.time_ns, sample.time_ns + sample.weight)
            part = sum(low <= moment < high for moment in moments)
        else:
            part = sample.weight if begins_inside else 0
        total += part
        there |= begins_inside or part > 0
    return total if there else None


def launches(profile: Profile) -> dict[int, int]:
    """When the work of each device sample was launched, by row; of works just alike, the one launched first."""
    slices, samples = profile.slices.to_pylist(), profile.samples.to_pylist()
    device = profile.events["name"].to_pylist().index(DEVICE_TIME) if profile.device_work.num_rows else None
    found = {}
    for row, sample in enumerate(samples):
        if sample["event"] != device:
            continue
        alike = []
        for work in profile.device_work.to_pylist():
            of = slices[work["slice"]]
            same = (of["thread"], of["start_ns"], of["duration_ns"], of["stack"])
            anchor = work["launch"] if work["launch"] >= 0 else work["operator"]
            if anchor >= 0 and same == tuple(sample[k] for k in ("thread", "time_ns", "weight", "stack")):
                alike.append(slices[anchor]["start_ns"])
        found[row] = min(alike, default=sample["time_ns"])
    return found


def filtered(
    stack: tuple[Frame, ...], selection: Selection, files: dict[tuple[str, str], set[str]]
) -> tuple[Frame, ...] | None:
    """As pprof's FilterSamplesByName and ShowFrom do it: by the function's name, its files and its module."""
    patterns = (*selection.focuses, selection.ignore, selection.hide, selection.show, selection.show_from)
    if all(pattern is None for pattern in patterns):
        return stack
    if not stack:
        return None
    if not all(any(matches(focus, f, files) for f in stack) for focus in selection.focuses):
        return None
    if selection.ignore is not None and any(matches(selection.ignore, f, files) for f in stack):
        return None
    return tuple(stack[place] for place in shown_frames(stack, selection, files)) or None


def matches(pattern: str, frame: Frame, files: dict[tuple[str, str], set[str]]) -> bool:
    return any(re.search(pattern, text) for text in (*frame[:2], *files.get(frame[:2], ())))


def shown_frames(stack: tuple[Frame, ...], selection: Selection, files: dict[tuple[str, str], set[str]]) -> list[int]:
    """The places of the frames that hide, show and show_from leave."""
    places = list(range(len(stack)))
    if selection.hide is not None:
        places = [n for n in places if not matches(selection.hide, stack[n], files)]
    if selection.show is not None:
        places = [n for n in places if matches(selection.show, stack[n], files)]
    if selection.show_from is not None:
        while places and not matches(selection.show_from, stack[places[0]], files):
            del places[0]
    return places


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


def split_by(profile: Profile, group: FlameGroup) -> FlameGroup:
    """Without any name of a thread there is nothing to split by."""
    names = [row[word] for row in profile.threads.to_pylist() for word in ("name", "process")]
    return group if group is not FlameGroup.COMM or any(names) else FlameGroup.NONE


def group_of(profile: Profile, sample: Sample, group: FlameGroup) -> str:
    threads = profile.threads.to_pylist()
    thread = threads[sample.thread]
    if group is FlameGroup.RANK:
        return "no rank" if thread["rank"] is None else f"rank {thread['rank']}"
    if group is FlameGroup.HOST:
        return thread["host"] or "unknown host"
    if group is FlameGroup.PROCESS:
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
    if group is FlameGroup.THREAD:
        return f"{thread['name'] or 'thread'} {thread['tid']}"
    if group is FlameGroup.COMM:
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
