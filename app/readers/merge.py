"""Several profiles as one: the files of one run, each a rank of the result."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..domain.builder import ProfileBuilder
from ..domain.profile import Meta, Profile
from ..domain.tables import ROOT, FrameKind, column
from .perf_assembly import FIRST_SAMPLE

Array = np.ndarray[Any, Any]
MIXED = "mixed"
SHOWN_VALUES = 4


def merge(profiles: Sequence[Profile]) -> Profile:
    """One profile with the samples of all: each profile is a run of its own (or several), its threads belong to it.

    Threads without a rank get the number of their profile as rank. Times are put on one clock where the profiles
    tell enough: by the time of day at which each started, else by perf's clock where all are of one host; otherwise
    all start together. One profile is returned as it is.
    """
    if len(profiles) == 1:
        return profiles[0]
    formats = {profile.meta.format for profile in profiles}
    builder = ProfileBuilder(formats.pop() if len(formats) == 1 else MIXED)
    offsets = _offsets(profiles)
    for number, (profile, offset) in enumerate(zip(profiles, offsets, strict=True)):
        _Merging(builder, profile, number, offset).add()
    merged = builder.finish(_meta(profiles, offsets))
    if all(profile.meta.duration_ns is None for profile in profiles):
        merged = replace(merged, meta=replace(merged.meta, duration_ns=None))
    return merged


def _offsets(profiles: Sequence[Profile]) -> list[int]:
    """What is to be added to the times of each profile, in ns."""
    starts = [profile.meta.start_epoch_ns for profile in profiles]
    if any(start is None for start in starts):
        hosts = {profile.meta.facts.get("hostname") for profile in profiles}
        clocks = {profile.meta.clock for profile in profiles}
        first = [profile.meta.facts.get(FIRST_SAMPLE, "").removesuffix(" ns") for profile in profiles]
        if len(hosts) > 1 or len(clocks) > 1 or None in hosts or not all(text.isdecimal() for text in first):
            return [0] * len(profiles)
        starts = [int(text) for text in first]
    known = [start for start in starts if start is not None]
    return [start - min(known) for start in known]


def _meta(profiles: Sequence[Profile], offsets: Sequence[int]) -> Meta:
    metas = [profile.meta for profile in profiles]
    facts = {}
    for name in dict.fromkeys(name for meta in metas for name in meta.facts):
        values = list(dict.fromkeys(meta.facts[name] for meta in metas if name in meta.facts))
        more = f" and {len(values) - SHOWN_VALUES} more" if len(values) > SHOWN_VALUES else ""
        facts[name] = "; ".join(values[:SHOWN_VALUES]) + more
    facts.pop(FIRST_SAMPLE, None)
    commands = {meta.command for meta in metas}
    clocks = {meta.clock for meta in metas}
    starts = [meta.start_epoch_ns for meta in metas]
    return Meta(
        MIXED,
        start_epoch_ns=None if None in starts else min(start for start in starts if start is not None),
        clock=clocks.pop() if len(clocks) == 1 else None,
        main_event=next((meta.main_event for meta in metas if meta.main_event is not None), None),
        command=commands.pop() if len(commands) == 1 else None,
        complete=all(meta.complete for meta in metas),
        reasons=tuple(f"Rank {i}: {reason}" for i, meta in enumerate(metas) for reason in meta.reasons),
        facts=facts,
    )


class _Merging:
    """Adds one profile to the builder: every id is replaced by the builder's."""

    def __init__(self, builder: ProfileBuilder, profile: Profile, number: int, offset: int) -> None:
        self.builder = builder
        self.profile = profile
        self.number = number
        self.offset = offset

    def add(self) -> None:
        profile, builder = self.profile, self.builder
        runs = np.array([self._run(row) for row in profile.runs.to_pylist() or [{}]], np.int64)
        threads = self._threads(runs)
        events = np.array([self._event(row) for row in profile.events.to_pylist()] or [0], np.int64)
        stacks = self._stacks()
        columns = {name: column(profile.samples, name) for name in profile.samples.column_names}
        builder.samples(
            columns["time_ns"] + self.offset,
            threads[columns["thread"]],
            columns["cpu"],
            events[columns["event"]],
            stacks[columns["stack"]],
            columns["weight"],
        )
        for row in profile.counts.to_pylist():
            row["run"] = int(runs[row["run"]]) if row["run"] is not None else None
            row["event"] = int(events[row["event"]])
            row["thread"] = int(threads[row["thread"]]) if (row["thread"] or 0) >= 0 and len(threads) else -1
            row["rank"] = self.number if row["rank"] is None else row["rank"]
            builder.count(**row)
        for row in profile.losses.to_pylist():
            builder.lost(row["reason"], f"rank {self.number}, {row['example']}", row["count"])

    def _run(self, row: dict[str, Any]) -> int:
        start = self.profile.meta.start_epoch_ns
        offset = (row.get("clock_offset_ns") or 0) + self.offset
        start = row.get("start_ns") if row.get("start_ns") is not None else start
        return self.builder.run(**row | {"start_ns": start, "clock_offset_ns": offset})

    def _threads(self, runs: Array) -> Array:
        seen: Counter[tuple[Any, ...]] = Counter()
        ids = []
        for row in self.profile.threads.to_pylist():
            key = {
                "run": int(runs[row["run"]]),
                "host": row["host"],
                "rank": self.number if row["rank"] is None else row["rank"],
                "pid": row["pid"],
                "tid": row["tid"],
                "kind": row["kind"],
            }
            again = tuple(key.values())
            thread = self.builder.thread(**key, incarnation=seen[again])
            seen[again] += 1
            if row["process"] is not None:
                self.builder.process(thread, row["process"])
            ids.append(thread)
        for row in self.profile.thread_names.to_pylist():
            self.builder.named(ids[row["thread"]], row["from_ns"] + self.offset, row["name"])
        return np.array(ids or [0], np.int64)

    def _event(self, row: dict[str, Any]) -> int:
        name, weighted = row["name"], row["weighted"]
        same = self.builder.event_like(name)
        if same is not None and same != (row["unit"], weighted):
            # Samples that weigh a period and samples that weigh one do not add up to anything.
            name = f"{name} ({'by period' if weighted else 'without period'})"
        return self.builder.event(
            name,
            row["unit"],
            weighted=weighted,
            sampling=row["sampling"],
            rate=row["rate"],
            scaling=row["scaling"],
        )

    def _stacks(self) -> Array:
        """The builder's id of each stack of the profile."""
        profile, builder = self.profile, self.builder
        functions = [
            builder.function(row["name"], row["module"], row["file"], row["start_line"], row["display"])
            for row in profile.functions.to_pylist()
        ]
        frames = np.array(
            [
                builder.frame(
                    functions[row["function"]],
                    kind=FrameKind(row["kind"]),
                    address=row["address"],
                    symbol_offset=row["symbol_offset"],
                    line=row["line"],
                    inline_depth=row["inline_depth"],
                )
                for row in profile.frames.to_pylist()
            ]
            or [0],
            np.int64,
        )
        parent, frame = column(profile.stacks, "parent"), column(profile.stacks, "frame")
        first = builder.stacks(parent[1:].astype(np.int64) - 1, frames[frame[1:]])
        ids = np.arange(len(parent)) + first - 1
        ids[:1] = ROOT
        return ids
