"""ProfileBuilder: a reader fills it row by row, then finishes it into a Profile.

Identities are interned: the same thread, function, frame or stack node always gets the same id. Samples are appended
one by one or as whole columns, so that fast readers need no loop.
"""

from array import array
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from .arrays import Array
from .call_tree import merge_children, to_preorder
from .profile import Meta, Profile
from .programs import infer_programs
from .symbols.demangler import Demangler, format_symbol
from .tables import NO_ID, ROOT, SCHEMAS, FrameKind, get_column
from .validation import find_overflowing

_Process = tuple[int, str | None, int | None, int | None]
"""Run, host, rank and number of a process."""
IMPOSSIBLE_WEIGHT = "sample with an invalid weight: the sum would exceed 2^63"
IMPOSSIBLE_STACK_WEIGHT = "stack with a weight of 2^62 or more"
IMPOSSIBLE_PERIOD = "sample with a period of 2^63 or more"
IMPOSSIBLE_WEIGHT_REASONS = (IMPOSSIBLE_WEIGHT, IMPOSSIBLE_STACK_WEIGHT, IMPOSSIBLE_PERIOD)
"""Losses that make every total wrong: with them a result is incomplete."""


@dataclass(frozen=True)
class _Thread:
    run: int
    host: str | None
    rank: int | None
    pid: int | None
    tid: int | None
    kind: str
    incarnation: int

    @property
    def process(self) -> "_Process":
        return self.run, self.host, self.rank, self.pid


class ProfileBuilder:
    """Collects one profile. Not for use after `finish`.

    demangler: for the names of this profile.
    """

    def __init__(self, format: str) -> None:
        self.format = format
        self.demangler = Demangler()
        self._runs: list[dict[str, Any]] = []
        self._threads: dict[_Thread, int] = {}
        self._names: list[tuple[int, int, str]] = []
        self._last_name: dict[int, str] = {}
        self._process: dict[int, str] = {}
        self._functions: dict[tuple[str, str, str | None, int | None], int] = {}
        self._display: dict[int, str] = {}
        self._frames: dict[tuple[int, int | None, int | None, int | None, int, int], int] = {}
        self._frame_table, self._frame_count = SCHEMAS["frames"].empty_table(), 0
        self._code: tuple[pa.Table, pa.Table] | None = None
        self._nodes: dict[int, int] = {}
        self._parents = array("q", [NO_ID])
        self._node_frames = array("q", [NO_ID])
        self._merge, self.order_tree = False, to_preorder
        self._trees: Future[tuple[pa.Table, pa.Table, Array]] | None = None
        self._events: dict[str, dict[str, Any]] = {}
        self._samples: list[tuple[Array, ...]] = []
        self._rows: list[tuple[int, int, int, int, int, int]] = []
        self._counts: list[dict[str, Any]] = []
        self._losses: dict[str, tuple[int, str]] = {}
        self._ranks: list[dict[str, Any]] = []
        self._clocks: list[dict[str, Any]] = []

    def add_run(self, command: str | None = None, host: str | None = None, **columns: Any) -> int:
        """Add an execution. `columns`: more columns of the table `runs`."""
        self._runs.append({"command": command, "host": host, **columns})
        return len(self._runs) - 1

    def update_run(self, run: int, **columns: Any) -> None:
        """Update the properties of a run."""
        self._runs[run].update(columns)

    def intern_thread(
        self,
        *,
        pid: int | None = None,
        tid: int | None = None,
        run: int = 0,
        host: str | None = None,
        rank: int | None = None,
        kind: str = "thread",
        incarnation: int = 0,
    ) -> int:
        """The id of a thread, which is added on first use. `named` adds its names.

        incarnation: distinguishes threads with equal numbers (not recorded, or reused).
        """
        key = _Thread(run, host, rank, pid, tid, kind, incarnation)
        return self._threads.setdefault(key, len(self._threads))

    def get_threads(self, kind: str) -> dict[int, int]:
        """The threads of a kind that have a number, by that number; of several, the first."""
        threads: dict[int, int] = {}
        for key, thread in self._threads.items():
            if key.kind == kind and key.tid is not None:
                threads.setdefault(key.tid, thread)
        return threads

    def clear_ranks(self) -> None:
        """Remove the rank of every thread, because there is only one process."""
        self._threads = {replace(key, rank=None): thread for key, thread in self._threads.items()}

    def set_thread_name(self, thread: int, from_ns: int, name: str) -> None:
        """Set the name of `thread` from `from_ns` on. Repeating the current name has no effect."""
        if self._last_name.get(thread) != name:
            self._last_name[thread] = name
            self._names.append((thread, from_ns, name))

    def set_process_name(self, thread: int, name: str) -> None:
        """Set the process of `thread`, if more is known than the name of its main thread."""
        self._process[thread] = name

    def intern_function(
        self,
        name: str,
        module: str = "",
        file: str | None = None,
        start_line: int | None = None,
        display: str | None = None,
    ) -> int:
        """The id of a function by its raw symbol and raw module. display: if it differs from that of
        `format_symbol`."""
        function = self._functions.setdefault((name, module, file, start_line), len(self._functions))
        if display is not None:
            self._display[function] = display
        return function

    def intern_frame(
        self,
        function: int,
        *,
        kind: FrameKind = FrameKind.USER,
        address: int | None = None,
        symbol_offset: int | None = None,
        line: int | None = None,
        inline_depth: int = 0,
    ) -> int:
        """The id of a code location."""
        key = (function, address, symbol_offset, line, inline_depth, int(kind))
        return self._frames.setdefault(key, len(self._frames) + self._frame_count)

    def intern_frames(self, rows: Iterable[tuple[int, int | None, int | None, int | None, int, int]]) -> list[int]:
        """The ids of many code locations, each (function, address, symbol_offset, line, inline_depth, kind)."""
        frames, first = self._frames, self._frame_count
        return [frames.setdefault(row, len(frames) + first) for row in rows]

    def add_frames(self, function: Array, kind: Array, address: Array, symbol_offset: Array, has_offset: Array) -> None:
        """Add distinct code locations as columns, before all others: their ids are the row numbers.

        symbol_offset: uint64, where `has_offset` (bool).
        """
        assert not self._frames and not self._frame_count
        self._frame_count = len(function)
        unknown = pa.nulls(self._frame_count, pa.int32())
        offset = pa.array(symbol_offset, pa.uint64(), mask=~has_offset)
        self._frame_table = _make_table(
            "frames", function=function, address=address, symbol_offset=offset, line=unknown, kind=kind,
            inline_depth=np.zeros(self._frame_count, np.int32),
        )  # fmt: skip

    def set_code_tables(self, functions: pa.Table, frames: pa.Table) -> None:
        """Use whole tables of functions and of code locations, for callers that have columns. Their ids are the row
        numbers, so nothing is interned."""
        self._code = functions, frames

    def intern_stack(self, frames: Iterable[int]) -> int:
        """The id of a call stack given as frame ids, outermost first. No frames: the root."""
        node = ROOT
        nodes = self._nodes
        for frame in frames:
            key = node << 32 | frame
            child = nodes.get(key)
            if child is None:
                child = nodes[key] = len(self._parents)
                self._parents.append(node)
                self._node_frames.append(frame)
            node = child
        return node

    def add_stack_tree(self, parent: Array, frame: Array, *, is_merged: bool = False) -> int:
        """Add a tree of call stacks and return the id of its first node; node i gets that id + i.

        parent: int array, smaller than each node's own index, NO_ID below the root. frame: frame ids. Nodes that
        represent the same call stack as others are merged when the profile is finished; is_merged: there are none in
        this tree.
        """
        first = len(self._parents)
        above = np.where(parent < 0, ROOT, np.add(parent, first, dtype=np.int64))
        self._parents.frombytes(above.view(np.uint8).data)
        self._node_frames.frombytes(np.ascontiguousarray(frame, np.int64).view(np.uint8).data)
        self._merge |= not is_merged or first > 1
        return first

    def intern_event(
        self,
        name: str,
        unit: str,
        *,
        weighted: bool = True,
        sampling: str | None = None,
        rate: float | None = None,
        scaling: float | None = None,
        attributes: str | None = None,
    ) -> int:
        """The id of an event. The first call determines its properties."""
        if name not in self._events:
            self._events[name] = {
                "id": len(self._events),
                "name": name,
                "unit": unit,
                "sampling": sampling,
                "rate": rate,
                "weighted": weighted,
                "scaling": scaling,
                "attributes": attributes,
            }
        known: int = self._events[name]["id"]
        return known

    def set_event_scaling(self, event: int, scaling: float | None) -> None:
        """Set the factor by which the counts of an event were scaled up."""
        list(self._events.values())[event]["scaling"] = scaling

    def get_event_unit(self, name: str) -> tuple[str, bool] | None:
        """(unit of the event, whether it is weighted); None if there is no such event yet."""
        event = self._events.get(name)
        return (event["unit"], event["weighted"]) if event else None

    def add_sample(self, time_ns: int, thread: int, event: int, stack: int, weight: int, cpu: int = -1) -> None:
        """Add one sample."""
        self._rows.append((time_ns, thread, cpu, event, stack, weight))

    def add_samples(self, time_ns: Any, thread: Any, cpu: Any, event: Any, stack: Any, weight: Any) -> None:
        """Add many samples: six sequences of equal length; stack ids are those of `stack`."""
        columns = [np.asarray(values) for values in (time_ns, thread, cpu, event, stack, weight)]
        self._samples.append(tuple(v if v.dtype.kind == "i" else v.astype(np.int64) for v in columns))

    def add_rank(self, **columns: Any) -> None:
        """Add a row of the table `ranks`, by its column names."""
        self._ranks.append(columns)

    def add_clock(self, **columns: Any) -> None:
        """Add a row of the table `clocks`, by its column names."""
        self._clocks.append(columns)

    def add_count(self, **columns: Any) -> None:
        """Add a row of the table `counts`, by its column names."""
        self._counts.append(columns)

    def add_loss(self, reason: str, example: str, count: int = 1) -> None:
        """Record that something could not be read. `example`: the first one, with its position in the file."""
        before, first = self._losses.get(reason, (0, example))
        self._losses[reason] = (before + count, first)

    def finish(self, meta: Meta | None = None) -> Profile:
        """Finish the profile. Times become relative to its first sample if `meta.start_epoch_ns` is not used.

        `meta`: if it has no duration or main event, both are derived from the samples; its `format` is the builder's.
        Samples with impossible weights, whose sum would overflow, become losses.
        """
        return self.finish_with_stack_rows(meta)[0]

    def finish_with_stack_rows(self, meta: Meta | None = None, zero: int | None = None) -> tuple[Profile, Array]:
        """Like `finish`. Also returns the row of `stacks` for each stack id, for tables that the builder does not have.

        zero: subtracted from all times; by default the time of the first sample.
        """
        columns = self._select_possible(self._build_sample_columns())
        if zero is None:
            zero = int(columns[0].min()) if len(columns[0]) else 0
        meta = meta or Meta(self.format)
        if (
            heavy := sum(count for reason, (count, _) in self._losses.items() if reason in IMPOSSIBLE_WEIGHT_REASONS)
        ) > 0:
            reason = f"The weights of {heavy:,} samples are too large; all totals lack them."
            meta = replace(meta, complete=False, reasons=(*meta.reasons, reason))
        if meta.duration_ns is None and len(columns[0]) and (last := int(columns[0].max())) != zero:
            meta = replace(meta, duration_ns=last - zero)
        self._find_programs(columns[1], columns[4])
        outline, place = self.finish_without_samples(meta, zero)
        if (columns[0][1:] < columns[0][:-1]).any():
            order = np.argsort(columns[0], kind="stable")
            columns = [values[order] for values in columns]
        time_ns, thread, cpu, event, stack, weight = columns
        samples = _make_table(
            "samples",
            time_ns=time_ns - zero,
            thread=thread,
            cpu=cpu,
            event=event,
            stack=place[stack],
            weight=weight,
        )
        return replace(outline, samples=samples), place

    def finish_without_samples(self, meta: Meta, zero: int | Sequence[int]) -> tuple[Profile, Array]:
        """Finish the profile without its samples. Returns it, and the row of `stacks` for each stack id.

        zero: subtracted from the times since when threads have their names, for all or for each thread.
        """
        stacks, calls, place = self._trees.result() if self._trees else self._build_trees()
        meta = replace(meta, format=self.format)
        if meta.main_event is None and self._events:
            meta = replace(meta, main_event=next(iter(self._events)))
        zeros = [zero] * len(self._threads) if isinstance(zero, int) else zero
        names = [{"thread": t, "from_ns": max(0, at - zeros[t]), "name": n} for t, at, n in sorted(self._names)]
        profile = Profile(
            meta=meta,
            runs=_build_rows("runs", self._runs or [{}]),
            ranks=_build_rows("ranks", self._ranks),
            clocks=_build_rows("clocks", self._clocks),
            threads=self._build_thread_table(),
            thread_names=_build_rows("thread_names", names),
            functions=self._build_function_table(),
            frames=self._build_frame_table(),
            stacks=stacks,
            calls=calls,
            events=_build_rows("events", list(self._events.values())),
            counts=_build_rows("counts", self._counts),
            losses=_build_rows(
                "losses", [{"reason": r, "count": c, "example": e} for r, (c, e) in self._losses.items()]
            ),
        )
        return profile, place

    def _select_possible(self, columns: list[Array]) -> list[Array]:
        """The columns without the samples whose weights would overflow a sum."""
        absurd = find_overflowing(columns[5])
        if absurd is None:
            return columns
        first = int(np.flatnonzero(absurd)[0])
        event = list(self._events)[int(columns[3][first])] if self._events else ""
        self.add_loss(IMPOSSIBLE_WEIGHT, f"a sample of {event} that weighs {int(columns[5][first])}", int(absurd.sum()))
        return [values[~absurd] for values in columns]

    def _build_sample_columns(self) -> list[Array]:
        """The six columns of all samples. To save memory, each part is released as soon as possible."""
        parts, self._samples = self._samples, []
        if self._rows:
            parts.append(tuple(np.array(self._rows, np.int64).T))
        if not parts:
            return [np.zeros(0, np.int64)] * 6
        return list(parts[0]) if len(parts) == 1 else [np.concatenate(values) for values in zip(*parts, strict=True)]

    def begin_trees(self, pool: Executor) -> None:
        """Begin to build the trees of stacks and calls in another thread. No frame or stack may be added after that."""
        self._trees = pool.submit(self._build_trees)

    def _build_trees(self) -> tuple[pa.Table, pa.Table, Array]:
        frame_function, frame_kind = self._get_frame_identity()
        parent, node_frame = (np.frombuffer(values, np.int64) for values in (self._parents, self._node_frames))
        distinct: Array | slice = slice(None)
        if self._merge or 0 < len(self._nodes) < len(parent) - 1:
            distinct, parent, node_frame = merge_children(parent, node_frame)
        exact = self.order_tree(parent)
        frame = node_frame[exact.order].astype(np.int32)
        kinds = len(FrameKind)
        label = frame_function[node_frame] * kinds + frame_kind[node_frame]
        merged, call_parent, call_label = merge_children(parent, label)
        del parent, node_frame, label
        call_order = self.order_tree(call_parent)
        call_label = call_label[call_order.order]
        stacks = _make_table(
            "stacks",
            parent=exact.parent,
            end=exact.end,
            frame=frame,
            depth=exact.depth,
            call=call_order.position[merged][exact.order],
        )
        calls = _make_table(
            "calls",
            parent=call_order.parent,
            end=call_order.end,
            function=np.where(call_label < 0, NO_ID, call_label // kinds),
            depth=call_order.depth,
            kind=np.where(call_label < 0, int(FrameKind.UNKNOWN), call_label % kinds),
        )
        return stacks, calls, exact.position[distinct]

    def _get_frame_identity(self) -> tuple[Array, Array]:
        """Function and kind of each frame, with one more row at the end for the root's frame -1."""
        if self._code:
            frames = self._code[1]
            return np.append(get_column(frames, "function"), 0), np.append(get_column(frames, "kind"), 0)
        function, kind = (np.array([key[place] for key in self._frames] + [0], np.int64) for place in (0, 5))
        added = (get_column(self._frame_table, name) for name in ("function", "kind"))
        return np.concatenate((next(added), function)), np.concatenate((next(added), kind))

    def _find_programs(self, thread: Array, stack: Array) -> None:
        """Name processes without a recorded main thread after the programs on the stacks of their samples."""
        main = self._find_main_threads()
        unknown = {
            number: key.process
            for key, number in self._threads.items()
            if key.kind == "thread" and key.pid is not None and number not in self._process and key.process not in main
        }
        if not unknown:
            return
        place = {process: n for n, process in enumerate(dict.fromkeys(unknown.values()))}
        of_thread = np.full(len(self._threads), NO_ID)
        of_thread[list(unknown)] = [place[process] for process in unknown.values()]
        rows = np.flatnonzero(of_thread[thread] != NO_ID)
        modules: dict[str, int] = {}
        if self._code is None:
            names, function = [key[1] for key in self._functions], self._get_frame_identity()[0]
        else:
            names = self._code[0].column("module").to_pylist()
            function = np.append(self._code[1].column("function").to_numpy(), 0)
        of_function = np.array([modules.setdefault(name, len(modules)) for name in names] or [NO_ID])
        node_frame = np.frombuffer(self._node_frames, np.int64)
        module = np.where(node_frame < 0, NO_ID, of_function[function[node_frame]])
        parent = np.frombuffer(self._parents, np.int64)
        programs = infer_programs(of_thread[thread[rows]], stack[rows], parent, module, list(modules))
        for number, process in unknown.items():
            if place[process] in programs:
                self._process[number] = programs[place[process]]

    def _find_main_threads(self) -> dict[_Process, str]:
        """The names of the main threads, by process."""
        threads = ((key, self._last_name.get(thread)) for key, thread in self._threads.items())
        return {key.process: name for key, name in threads if name and key.pid is not None and key.pid == key.tid}

    def _build_thread_table(self) -> pa.Table:
        main = self._find_main_threads()
        names: dict[_Process, set[str | None]] = {}
        for key, thread in self._threads.items():
            if key.kind == "thread":
                names.setdefault(key.process, set()).add(self._last_name.get(thread))
        rows = []
        for key, thread in self._threads.items():
            process = self._process.get(thread) or main.get(key.process)
            # Threads whose names differ have names unrelated to the process.
            alone = key.kind != "thread" or key.pid is None or len(names.get(key.process, ())) <= 1
            if process is None and alone:
                process = self._last_name.get(thread)
            numbers = {name: getattr(key, name) for name in ("run", "host", "rank", "pid", "tid", "kind")}
            rows.append(numbers | {"process": process, "name": self._last_name.get(thread)})
        return _build_rows("threads", rows)

    def _build_function_table(self) -> pa.Table:
        if self._code:
            return self._code[0]
        keys = list(self._functions)
        return _make_table(
            "functions",
            name=[key[0] for key in keys],
            display=[
                self._display.get(i) or format_symbol(key[0], key[1], self.demangler) for i, key in enumerate(keys)
            ],
            module=[key[1] for key in keys],
            file=[key[2] for key in keys],
            start_line=[key[3] for key in keys],
        )

    def _build_frame_table(self) -> pa.Table:
        if self._code:
            return self._code[1]
        function, address, offset, line, inline_depth, kind = (
            zip(*self._frames, strict=True) if self._frames else [()] * 6
        )
        table = _make_table(
            "frames", function=function, address=address, symbol_offset=offset, line=line, kind=kind,
            inline_depth=inline_depth,
        )  # fmt: skip
        return pa.concat_tables([self._frame_table, table]).combine_chunks() if self._frame_count else table


def _make_table(name: str, /, **columns: Sequence[Any] | Array | pa.Array) -> pa.Table:
    arrays = []
    for field in SCHEMAS[name]:
        values = columns[field.name]
        if isinstance(values, np.ndarray):
            values = values.astype(field.type.to_pandas_dtype(), copy=False)
        arrays.append(values if isinstance(values, pa.Array) else pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=SCHEMAS[name])


def _build_rows(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return _make_table(name, **{column: [row.get(column) for row in rows] for column in SCHEMAS[name].names})
