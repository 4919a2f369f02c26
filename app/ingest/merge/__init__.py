"""Several profiles as one: the files of one run, each a rank of the result.

They are added one at a time (`ProfileMerger`), and only new content of each is kept: functions, code locations and call
stacks are shared by all ranks of a program; samples and counts are spooled.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array, Int64Array
from ...domain.builder import IMPOSSIBLE_WEIGHT, ProfileBuilder
from ...domain.event_names import FIRST_EVENT_FACT
from ...domain.profile import Meta, Profile
from ...domain.tables import NO_ID, ROOT, SCHEMAS, FrameKind, get_column
from ...domain.validation import WeightHistogram
from ..chunked_tables import ChunkedTable, SpillFile
from ..clock_alignment import Aligner, ClockShift
from ..facts import FIRST_SAMPLE_FACT, FactMerger
from ..interning import KeyInterner
from ..jit.sample_merge import SampleRun, merge_runs
from ..stat_counts import COUNTS_FORMAT
from .spans import ProcessSpans
from .tables import TableMerger

MIXED = "mixed"
MAX_WITH_ADDRESSES = 16
"""With more files than this, addresses of code are not kept: every process has different ones, so they would be as many
as all files together have. Function and offset in it are equivalent, and the same in all processes."""
BATCH_ROWS = 1 << 16
FUNCTION = ("name", "module", "file", "start_line", "display")
FRAME = ("function", "address", "symbol_offset", "line", "inline_depth", "kind")


@dataclass(frozen=True)
class Origin:
    """The source of a profile. label: for messages. rank, host: if the profile does not contain them.

    run: that its threads belong to (see `Merging.run`); None: its own runs become runs of the result.
    """

    label: str
    rank: int | None = None
    host: str | None = None
    run: int | None = None


@dataclass(frozen=True)
class MergeInput:
    """What is kept of an added profile. run: the first of its runs. losses: how many it has.

    clock_ns: its zero on perf's clock. has_slices: its samples come from slices. own_run: its runs are not those of a
    job. ranked: its rank is known. rank: of its threads, if it is the same for all. single_process: it is one process,
    and not several whose clocks were aligned before. length_ns: its duration, from its zero on; first_ns: where that
    begins.
    """

    origin: Origin
    meta: Meta
    samples: SampleRun
    run: int
    runs: int
    clock_ns: int | None
    losses: int
    has_slices: bool = False
    own_run: bool = False
    ranked: bool = False
    rank: int | None = None
    single_process: bool = True
    counts: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def first_ns(self) -> int:
        return 0 if self.has_slices else self.samples.first_ns

    @property
    def length_ns(self) -> int | None:
        return self.samples.last_ns if self.samples.rows and not self.has_slices else self.meta.duration_ns


Offsets = Callable[[Sequence[MergeInput]], list[int]]
Ends = dict[int, tuple[int, int]]
"""(from, to) of runs, in ns."""


@dataclass(frozen=True)
class MergedProfile:
    """profile: without the chunked tables. chunked_tables: the tables that may have many rows."""

    profile: Profile
    chunked_tables: dict[str, ChunkedTable]

    def to_profile(self) -> Profile:
        """The complete profile, in memory."""
        return replace(self.profile, **{name: pieces.to_table() for name, pieces in self.chunked_tables.items()})


def merge(profiles: Sequence[Profile], aligner: Aligner | None = None) -> Profile:
    """One profile with the samples of all: each profile is its own run (or several), its threads belong to it.

    Several spans of a process (see `spans`) count as one. If there are several profiles, threads without a rank get the
    number of their profile as rank. Times are converted to one clock if the profiles permit it: by the time of day at
    which each started, else by perf's clock if all are from one host; otherwise all start together. aligner: then
    refines the alignment. A single profile is returned unchanged.
    """
    if len(profiles) == 1:
        return profiles[0]
    merging = ProfileMerger(SpillFile(io.BytesIO()), addresses=len(profiles) <= MAX_WITH_ADDRESSES, aligner=aligner)
    for profile in profiles:
        merging.add(profile, Origin(f"rank {merging.process_count}", merging.process_count))
    return merging.finish().to_profile()


def align_starts(parts: Sequence[MergeInput]) -> list[int]:
    """What is added to the times of each part, in ns, so that they are on one clock; the first sample is at 0."""
    starts = [part.meta.start_epoch_ns for part in parts]
    if any(start is None for start in starts):
        hosts = {part.meta.facts.get("hostname") for part in parts}
        clocks = {part.meta.clock for part in parts}
        starts = [part.clock_ns for part in parts]
        if len(hosts) > 1 or len(clocks) > 1 or None in hosts or any(start is None for start in starts):
            starts = [0] * len(parts)
    known = [start for start in starts if start is not None]
    firsts = [start + part.first_ns for start, part in zip(known, parts, strict=True) if part.samples.rows]
    zero = min(firsts or known or [0])
    return [start - zero for start in known]


class ProfileMerger:
    """Profiles being merged. Not for use after `finish`. Raises OSError if nothing can be spooled."""

    def __init__(self, spill: SpillFile, *, addresses: bool = True, aligner: Aligner | None = None) -> None:
        """addresses: whether those of code locations are kept (see FEW). aligner: aligns clocks of processes; without
        one, their differences remain."""
        self.builder = ProfileBuilder(MIXED)
        self.parts: list[MergeInput] = []
        self._spill = spill
        self._addresses = addresses
        self._formats: set[str] = set()
        self._facts = FactMerger()
        self._heaviness = WeightHistogram()
        self._nodes = KeyInterner()
        self._tables = TableMerger(spill)
        self._processes = ProcessSpans()
        self._aligner = aligner
        self._process: list[int] = []
        self._shifts: list[int] = []
        self._marks: dict[tuple[Any, ...], int] = {}
        self._part_of_thread: list[int] = []
        self._own_offset: dict[int, int] = {}
        self._scaled: dict[int, list[float]] = {}
        self._turns: dict[int, tuple[int, int]] = {}

    def add_run(self, **columns: Any) -> int:
        """Add an execution of a command, for `Origin.run`. columns: of the table `runs`."""
        return self.builder.add_run(**columns)

    @property
    def process_count(self) -> int:
        """The number of processes of which a profile was added: spans of one process count once."""
        return len(self._processes)

    def add(self, profile: Profile, origin: Origin) -> MergeInput:
        """Add a profile. A further span of a known process has that one's origin."""
        builder = self.builder
        job = None if origin.run is None else (origin.run, origin.rank, origin.label)
        process, first = self._processes.assign(profile, len(self.parts), job)
        own_run = origin.run is None
        self._process.append(process)
        if self._aligner is not None:
            self._aligner.add(profile, len(self.parts), process, origin.run)
        if first < len(self.parts):
            origin = replace(self.parts[first].origin, run=self.parts[first].run)
        runs = self._add_runs(profile, origin)
        threads = self._add_threads(profile, origin, runs, process)
        events = np.array([self._add_event(row) for row in profile.events.to_pylist()] or [0], np.int64)
        rows = zip(*_copy_to_lists(profile.functions, FUNCTION), strict=True)
        functions = np.array([builder.intern_function(*row) for row in rows] or [0], np.int64)
        stacks = self._add_stacks(profile, functions.tolist())
        columns = {name: get_column(profile.samples, name) for name in profile.samples.column_names}
        self._heaviness.add(columns["weight"])
        columns |= {
            "thread": threads[columns["thread"]],
            "event": events[columns["event"]],
            "stack": stacks[columns["stack"]],
        }
        clock = profile.meta.facts.get(FIRST_SAMPLE_FACT, "").removesuffix(" ns")
        ranks = set(profile.threads.column("rank").drop_null().to_pylist())
        part = MergeInput(
            origin=origin,
            meta=replace(profile.meta, facts={k: v for k, v in profile.meta.facts.items() if k == "hostname"}),
            samples=SampleRun(self._spill, columns),
            run=int(runs[0]),
            runs=len(runs),
            clock_ns=int(clock) if clock.isdecimal() else None,
            losses=sum(profile.losses.column("count").to_pylist()),
            has_slices=bool(profile.slices.num_rows),
            own_run=own_run,
            ranked=not own_run or profile.threads.column("rank").null_count < profile.threads.num_rows,
            rank=next(iter(ranks)) if len(ranks) == 1 else origin.rank,
            single_process=len(ranks) < 2 and not profile.clocks.num_rows,
        )
        ids = {"runs": runs, "threads": threads, "events": events, "functions": functions, "stacks": stacks}
        self._tables.add(profile, process, origin.rank, ids)
        if profile.counts.num_rows:
            part.counts.append(self._spool_counts(profile.counts, origin, runs, threads, events))
        for row in profile.losses.to_pylist():
            builder.add_loss(row["reason"], f"{origin.label}, {row['example']}", row["count"])
        for row in profile.clocks.to_pylist():
            builder.add_clock(**row | {"run": int(runs[row["run"]])})
        self.parts.append(part)
        self._formats.add(profile.meta.format)
        self._facts.add(profile.meta.facts)
        return part

    def finish(
        self, offsets: Offsets = align_starts, better: Callable[[Meta, Ends], Meta] | None = None
    ) -> MergedProfile:
        """The merged profile. offsets: what is added to the times of each part. better: computes the final Meta from
        the Meta of the parts, and from when each run began and ended on the clock of the result."""
        added = self._align_clocks(self._processes.compute_offsets(offsets(self.parts)))
        # A rank number has no meaning if there is only one process.
        alone = self.process_count == 1 < len(self.parts) and not any(part.ranked for part in self.parts)
        if alone:
            self.builder.clear_ranks()
        least = self._heaviness.find_overflow_threshold()
        if least is not None:
            self.builder.add_loss(
                IMPOSSIBLE_WEIGHT, f"a weight of at least {least:.0f}", self._heaviness.count_excluded(least)
            )
        for event in {*self._scaled, *self._turns}:
            self.builder.set_event_scaling(event, self._compute_scaling(event))
        ends = self._compute_ends(added)
        if self._formats:
            # Counts that accompany a recording are not another recording.
            others = self._formats - {COUNTS_FORMAT} or self._formats
            self.builder.format = others.pop() if len(others) == 1 else MIXED
        if self._nodes.count:
            keys = self._nodes.keys()
            self.builder.add_stack_tree((keys >> 32) - 1, keys & 0xFFFFFFFF)
        zeros = [-added[part] for part in self._part_of_thread]
        meta = self._build_meta(added, "" if alone else None)
        outline, place = self.builder.finish_without_samples(better(meta, ends) if better else meta, zeros)
        samples = sum(part.samples.rows for part in self.parts) - self._heaviness.count_excluded(least)
        counts = sum(rows for part in self.parts for _, _, rows in part.counts)
        place = place.astype(np.int32)
        pieces = (
            ChunkedTable("samples", samples, lambda: self._merge_samples(added, place, least)),
            ChunkedTable("counts", counts, lambda: self._merge_counts(added)),
        )
        return MergedProfile(
            outline, {piece.name: piece for piece in pieces} | self._tables.finish(added, place, ranks=not alone)
        )

    def _align_clocks(self, added: Sequence[int]) -> list[int]:
        """What is added to the times of each part so that the processes of its run share one clock."""
        shifts = {} if self._aligner is None else self._aligner.compute_shifts(added)
        self._shifts = [shifts[one].shift_ns if one in shifts else 0 for one in self._process]
        if self._aligner is not None and len(self._processes) > 1:
            for process, part in {one: part for part, one in reversed([*enumerate(self._process)])}.items():
                self._tell_clock(self.parts[part], shifts.get(process))
        found = [at + shift for at, shift in zip(added, self._shifts, strict=True)]
        for run in {part.origin.run for part in self.parts} if any(self._shifts) else ():
            # The start of each run does not change.
            mine = [n for n, part in enumerate(self.parts) if part.origin.run == run]
            lasting = [n for n in mine if self.parts[n].samples.rows] or mine
            before, after = (min(of[n] + self.parts[n].first_ns for n in lasting) for of in (added, found))
            for n in mine:
                found[n] += before - after
        return found

    def _tell_clock(self, part: MergeInput, shift: ClockShift | None) -> None:
        if part.has_slices and part.single_process:
            self.builder.add_clock(
                run=part.run,
                rank=part.rank,
                shift_ns=None if shift is None else shift.shift_ns,
                collectives=0 if shift is None else shift.collectives,
            )

    def _compute_ends(self, added: Sequence[int]) -> Ends:
        """When the data of each run begins and ends, on the clock of the result; also set in the runs."""
        ends: Ends = {}
        begins: dict[int, int] = {}
        for part, offset in zip(self.parts, added, strict=True):
            length = part.length_ns
            if part.own_run:
                for run in range(part.run, part.run + part.runs):
                    begins[run] = min(begins.get(run, offset), offset)
            if length is None or part.runs > 1:
                continue
            low, high = part.first_ns + offset, length + offset
            before = ends.get(part.run, (low, high))
            ends[part.run] = min(before[0], low), max(before[1], high)
        for run, offset in begins.items():
            self.builder.update_run(run, clock_offset_ns=self._own_offset.get(run, 0) + offset)
        for first, start in self._processes.iterate_starts():
            if self.parts[first].own_run:
                self.builder.update_run(self.parts[first].run, start_ns=start)
        for run, (low, high) in ends.items():
            self.builder.update_run(run, duration_ns=high - low)
        return ends

    def _build_meta(self, added: Sequence[int], label: str | None) -> Meta:
        """label: of each part, if it is not the part's own."""
        reasons = [
            _format_part_reason(part.origin.label if label is None else label, reason)
            for part in self.parts
            for reason in part.meta.reasons
        ]
        metas = [part.meta for part in self.parts]
        starts = [
            None if meta.start_epoch_ns is None else meta.start_epoch_ns + shift
            for meta, shift in zip(metas, self._shifts, strict=True)
        ]
        commands, clocks = {meta.command for meta in metas}, {meta.clock for meta in metas}
        lows = [part.first_ns + add for part, add in zip(self.parts, added, strict=True) if part.samples.rows]
        highs = [(part.length_ns or 0) + add for part, add in zip(self.parts, added, strict=True) if part.samples.rows]
        known = [meta.duration_ns for meta in metas if meta.duration_ns is not None]
        duration: int | None = (max(highs) - min(lows) or None) if highs else max(known, default=None)
        return Meta(
            MIXED,
            duration_ns=duration if known else None,
            start_epoch_ns=None if None in starts else min(start for start in starts if start is not None),
            clock=clocks.pop() if len(clocks) == 1 else None,
            main_event=next(
                (
                    meta.main_event
                    for meta in sorted(metas, key=lambda meta: meta.format == COUNTS_FORMAT)
                    if meta.main_event is not None
                ),
                None,
            ),
            command=commands.pop() if len(commands) == 1 else None,
            complete=all(meta.complete for meta in metas),
            reasons=tuple(reasons),
            capabilities=tuple(sorted({capability for meta in metas for capability in meta.capabilities})),
            facts=self._facts.merge({FIRST_SAMPLE_FACT, FIRST_EVENT_FACT}) | _find_first_event(metas),
        )

    def _merge_samples(self, added: Sequence[int], place: Array, least: float | None) -> Iterator[pa.RecordBatch]:
        for rows in merge_runs([part.samples for part in self.parts], added):
            if least is not None:
                rows = rows[np.abs(rows["weight"].astype(np.float64)) < least]
            columns = {name: np.ascontiguousarray(rows[name]) for name in SCHEMAS["samples"].names}
            columns["stack"] = place[columns["stack"]]
            yield pa.RecordBatch.from_arrays([pa.array(c) for c in columns.values()], schema=SCHEMAS["samples"])

    def _merge_counts(self, added: Sequence[int]) -> Iterator[pa.RecordBatch]:
        tables: list[pa.Table] = []
        for part, offset in zip(self.parts, added, strict=True):
            for at, size, _ in part.counts:
                table = pa.ipc.open_stream(pa.py_buffer(self._spill.get(at, size))).read_all()
                if offset and part.origin.run is not None:
                    for name in ("start_ns", "end_ns"):
                        place = table.schema.get_field_index(name)
                        moved = pa.compute.add(table.column(name), pa.scalar(offset, pa.int64()))
                        table = table.set_column(place, name, moved)
                tables.append(table)
            if sum(table.num_rows for table in tables) >= BATCH_ROWS:
                yield from pa.concat_tables(tables).combine_chunks().to_batches()
                tables = []
        if tables:
            yield from pa.concat_tables(tables).combine_chunks().to_batches()

    def _add_runs(self, profile: Profile, origin: Origin) -> Array:
        if origin.run is not None:
            return np.full(max(1, profile.runs.num_rows), origin.run, np.int64)
        ids = []
        for row in profile.runs.to_pylist() or [{}]:
            start = profile.meta.start_epoch_ns if row.get("start_ns") is None else row["start_ns"]
            ids.append(self.builder.add_run(**row | {"start_ns": start}))
            self._own_offset[ids[-1]] = row.get("clock_offset_ns") or 0
        return np.array(ids, np.int64)

    def _add_threads(self, profile: Profile, origin: Origin, runs: Array, process: int) -> Array:
        sliced = bool(profile.slices.num_rows)
        counter: Counter[tuple[Any, ...]] = Counter()
        ids = []
        for row in profile.threads.to_pylist():
            key = {
                "run": int(runs[row["run"]]),
                "host": origin.host if origin.run is not None and origin.host else row["host"] or origin.host,
                "rank": origin.rank if row["rank"] is None else row["rank"],
                "pid": row["pid"],
                "tid": row["tid"],
                "kind": row["kind"],
            }
            # Rows that are no threads of a program have no numbers.
            name = row["name"] if row["kind"] == "track" else None
            again = (*key.values(), name)
            mark = (process if sliced else None, name, counter[again])
            thread = self.builder.intern_thread(**key, incarnation=self._marks.setdefault(mark, len(self._marks)))
            counter[again] += 1
            if thread == len(self._part_of_thread):
                self._part_of_thread.append(len(self.parts))
            if row["process"] is not None:
                self.builder.set_process_name(thread, row["process"])
            ids.append(thread)
        for row in profile.thread_names.to_pylist():
            self.builder.set_thread_name(ids[row["thread"]], row["from_ns"], row["name"])
        return np.array(ids or [0], np.int64)

    def _add_event(self, row: dict[str, Any]) -> int:
        name, weighted = row["name"], row["weighted"]
        same = self.builder.get_event_unit(name)
        if same is not None and same != (row["unit"], weighted):
            # Samples that weigh a period and samples that weigh one have no meaningful sum.
            name = f"{name} ({'by period' if weighted else 'without period'})"
        event = self.builder.intern_event(
            name,
            row["unit"],
            weighted=weighted,
            **{of: row[of] for of in ("sampling", "rate", "scaling", "attributes")},
        )
        self._scaled.setdefault(event, []).append(row["scaling"] or 1.0)
        return event

    def _compute_scaling(self, event: int) -> float | None:
        """The scaling factor of an event's counts in all parts: time enabled ÷ time running, if the parts contain
        these, else the greatest factor of one part."""
        enabled, running = self._turns.get(event, (0, 0))
        factor = enabled / running if running else max(self._scaled.get(event, [1.0]))
        return factor if factor > 1.00005 else None

    def _add_stacks(self, profile: Profile, functions: list[int]) -> Int64Array:
        """The builder's id of each stack of the profile. functions: the builder's id of each function."""
        builder, inlined = self.builder, int(FrameKind.INLINED)
        columns = _copy_to_lists(profile.frames, FRAME)
        columns[0] = [functions[function] for function in columns[0]]
        if not self._addresses:
            # It distinguishes inlined frames.
            columns[1] = [a if kind == inlined else None for a, kind in zip(columns[1], columns[5], strict=True)]
        frames = np.array(builder.intern_frames(zip(*columns, strict=True)) or [0], np.int64)
        parent, frame = get_column(profile.stacks, "parent"), get_column(profile.stacks, "frame")
        depth = get_column(profile.stacks, "depth")
        order = np.argsort(depth.astype(np.int16) if len(depth) and depth.max() < 1 << 15 else depth, kind="stable")
        bounds = np.searchsorted(depth[order], np.arange(1, (int(depth.max()) if len(depth) else 0) + 2))
        ids = np.full(max(1, len(parent)), ROOT, np.int64)
        for low, high in pairwise(bounds.tolist()):
            nodes = order[low:high]
            # The root precedes all numbers.
            ids[nodes] = 1 + self._nodes.intern(ids[parent[nodes]] << 32 | frames[frame[nodes]])
        return ids

    def _spool_counts(
        self, table: pa.Table, origin: Origin, runs: Array, threads: Array, events: Array
    ) -> tuple[int, int, int]:
        """Spool the rows of `counts` with the builder's ids. Returns (offset, number of bytes, number of rows)."""
        thread = table.column("thread").fill_null(NO_ID).to_numpy()
        run = table.column("run")
        event = events[get_column(table, "event")]
        changed = {
            "run": pa.array(runs[run.fill_null(0).to_numpy()], pa.int32(), mask=run.is_null().to_numpy()),
            "thread": pa.array(np.append(threads, NO_ID)[np.where(thread >= 0, thread, -1)], pa.int32()),
            "event": pa.array(event, pa.int32()),
        }
        if origin.rank is not None:
            changed["rank"] = table.column("rank").fill_null(origin.rank)
        if origin.host is not None:
            changed["host"] = table.column("host").fill_null(origin.host)
        columns = [changed.get(name, table.column(name)) for name in table.column_names]
        table = pa.Table.from_arrays(columns, schema=SCHEMAS["counts"])
        enabled, running = (table.column(name) for name in ("enabled_ns", "running_ns"))
        both = pa.compute.and_(enabled.is_valid(), running.is_valid()).to_numpy()
        for number in np.unique(event[both]).tolist():
            mine = both & (event == number)
            before = self._turns.get(number, (0, 0))
            self._turns[number] = (
                before[0] + int(enabled.fill_null(0).to_numpy()[mine].sum()),
                before[1] + int(running.fill_null(0).to_numpy()[mine].sum()),
            )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        data = sink.getvalue()
        return self._spill.put(data), data.size, table.num_rows


def _find_first_event(metas: Sequence[Meta]) -> dict[str, str]:
    """The fact with the first event of the first text of perf script."""
    first = next((meta.facts[FIRST_EVENT_FACT] for meta in metas if FIRST_EVENT_FACT in meta.facts), None)
    return {} if first is None else {FIRST_EVENT_FACT: first}


def _format_part_reason(label: str, reason: str) -> str:
    """Why it is incomplete, with the label of the process if there are several."""
    return f"{label[:1].upper()}{label[1:]}: {reason}" if label else reason


def _copy_to_lists(table: pa.Table, names: Sequence[str]) -> list[list[Any]]:
    return [table.column(name).to_pylist() for name in names]
