"""Builds a profile from the tokens of perf script's text, chunk by chunk.

Repeated parts are known by their text: lines of stacks, tasks, events. Lines that the tokenizer could not parse are
read here one by one; if this fails too, they are counted as lost, with the first example and its line number.
"""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ...domain.arrays import Array, number_values
from ...domain.builder import IMPOSSIBLE_PERIOD, IMPOSSIBLE_WEIGHT
from ...domain.event_names import FIRST_EVENT_FACT, NOT_OBSERVABLE, explain_unobservable, get_unit
from ...domain.losses import EVENT_WITHOUT_VALUE
from ...domain.profile import Meta, Profile
from ...domain.rank_state import INCOMPLETE
from ...domain.tables import NO_ID, ROOT
from ...domain.timed_events import IN_ORDER as NO_CLOCK
from ...domain.validation import find_overflowing
from ...ingest.facts import BACKWARD_CLOCK_FACT, FIRST_SAMPLE_FACT
from ...ingest.jit.readiness import has_compiled_loops
from ...ingest.losses import UNRECOGNIZED_LINE
from ...ingest.perf_text.callchains import parse_loss
from ...ingest.perf_text.grammar import (
    MAX_WEIGHT,
    decode_text,
    format_example,
    is_frame_like,
    is_tracepoint,
    parse_header,
    parse_record,
    parse_task,
)
from ...ingest.perf_text.losses import LOST_IN_KERNEL
from ...ingest.perf_text.script_builder import ThreadedProfileBuilder
from ...ingest.perf_text.stack_tree import build_stack_tree
from ...ingest.perf_text.tokenizer import Tokens
from .event_naming import EventNames, get_event_fact
from .sample_lines import UnfinishedSample
from .sample_times import describe_backward_times, fill_times, to_epoch_ns
from .stack_lines import SPECIAL, StackLines
from .thread_naming import name_threads

MANY_NODES = 100_000
"""Trees with more nodes are put in preorder by a compiled loop."""
MAX_REASON_CHARS = 500
MAX_FACTS = 200
MAX_FACT = 20_000
IN_ORDER = NO_CLOCK
"""The clock of a text without times."""

INNER_STAT_COMMAND = re.compile(r" -- \S*perf stat -x, -o .{1,4096}?perf-stat\.txt ", re.DOTALL)
"""Part of the recorded command line: perf stat counts inside of perf record."""
PERF_COMMS = ("perf", "perf-exec")
WAIT_COMM = "perfloom-wait"
"""It executes the program when perf stat observes it (recording/plan/wait.sh)."""
NO_FRAME = "unrecognized line in a stack"
UNKNOWN_FIELDS = "text after the event of a sample"
_COLUMNS = {
    "order": np.int64,
    "time_ns": np.int64,
    "thread": np.int32,
    "name": np.int32,
    "cpu": np.int32,
    "event": np.int32,
    "stack": np.int32,
    "weight": np.int64,
}
_RATE = re.compile(r"\{ sample_period, sample_freq \} = (\d+)", re.ASCII)


class ScriptProfileBuilder:
    """Collects one profile from one text of perf script."""

    def __init__(self, format: str) -> None:
        self.builder = ThreadedProfileBuilder(format)
        self._format = format
        self.stack_lines = StackLines(self.builder)
        self._tasks: dict[bytes, tuple[int, int, int]] = {}
        self._threads: list[tuple[int | None, int | None]] = []
        self._names: dict[str, int] = {}
        self._events: dict[bytes, int] = {}
        self._facts: dict[str, str] = {}
        self.columns: dict[str, list[Array]] = {name: [] for name in _COLUMNS}
        self._open: UnfinishedSample | None = None
        self._called = EventNames(self._facts)
        self._main_event: str | None = None
        self._node_count = 0
        self.reasons: list[str] = []

    def feed_header(self, text: bytes) -> None:
        """Parse the header between the two rules at the start of perf's text."""
        lines: list[bytes] = []
        for line in text.splitlines():
            if line.startswith(b"#") or not lines:
                lines.append(line)
            else:
                # The recorded command's arguments may contain line ends.
                lines[-1] += b"\n" + line
        for line in lines:
            self._parse_comment(line)

    def feed(self, chunk: bytes, tokens: Tokens, first_line: int, cut: bool) -> None:
        """Parse a chunk whose first line has the number first_line. cut: it may end within a sample."""
        for row in tokens.comments[:MAX_FACTS].tolist():
            self._parse_comment(chunk[tokens.starts[row] : tokens.starts[row + 1] - 1])
        frames = self.stack_lines.intern_many(tokens.texts)
        stacks = self.add_stacks(frames, tokens.stack_lines, tokens.stack_ends, tokens.texts.__getitem__)
        sample_stack = stacks[tokens.stack] if len(tokens.stack) else np.zeros(0, np.int64)
        odd = np.concatenate((tokens.unparsed, tokens.line[sample_stack < 0]))
        to_read = np.zeros(len(tokens.sample_bounds), bool)
        to_read[np.searchsorted(tokens.sample_bounds, odd, "right") - 1] = True
        to_read[:1] |= self._open is not None
        to_read[-1:] |= cut
        rows = np.flatnonzero(to_read)
        # A sample's header is one of the bounds.
        good = ~to_read[np.searchsorted(tokens.sample_bounds, tokens.line)]
        self.add_columns(tokens, good, sample_stack, first_line)
        more = tokens.trailing_text[~to_read[np.searchsorted(tokens.sample_bounds, tokens.trailing_text)]]
        if len(more):
            example = chunk[tokens.starts[more[0]] : tokens.starts[more[0] + 1]]
            self._add_loss(UNKNOWN_FIELDS, example, first_line + int(more[0]), len(more))
        ends = np.append(tokens.sample_bounds[1:], len(tokens.starts) - 1)
        for block in rows.tolist():
            low, high = int(tokens.sample_bounds[block]), int(ends[block])
            self._read(chunk, tokens.starts[low : high + 1].tolist(), first_line + low)
            if not (cut and block == len(tokens.sample_bounds) - 1):
                self.close()

    def add_stacks(self, frames: Array, lines: Array, ends: Array, get_line: Callable[[int], bytes]) -> Array:
        """The stack id of each stack; -1 if one of its lines is no part of a stack. frames: of the locations, see
        `StackLines`. ends: where each stack ends in `lines`, which are locations. get_line: the line of one."""
        begins = np.concatenate(([0], ends[:-1])) if len(ends) else ends
        simple = np.ones(len(ends), bool)
        if (is_special := frames == SPECIAL).any():
            special = np.concatenate(([0], np.cumsum(is_special[lines])))
            simple = special[ends] == special[begins]
        parent, frame, node = build_stack_tree(ends, frames.astype(np.int32)[lines], simple)
        first = self.builder.add_stack_tree(parent, frame, is_merged=True)
        self._node_count = first + len(parent)
        stacks = np.where(node < 0, ROOT, node + first)
        for stack in np.flatnonzero(~simple).tolist():
            codes = lines[begins[stack] : ends[stack]].tolist()
            stacks[stack] = self.stack_lines.intern_stack([get_line(code) for code in codes])
        return stacks

    def add_truncated_line(self, line: bytes, number: int) -> None:
        """Handle a last line without an end: if it cannot be parsed, the text was truncated."""
        header = parse_header(line)
        if (
            self.stack_lines.describe(line + b"\n") is None
            and not (header and header.certain)
            and not line.startswith(b"#")
        ):
            self.reasons.append(f"The text ends in the middle of line {number}; the rest is missing.")

    def add_truncated_sample(self, line: bytes, number: int) -> None:
        """Check the last line (with its line end) of a text whose samples end with an empty line."""
        header = parse_header(line[:-1]) if line[:1] != b"\t" else None
        if (header and header.certain and not header.tail) or (
            line[:1] in b" \t" and self.stack_lines.describe(line) is not None
        ):
            self.reasons.append(f"The text ends in the middle of a sample, after line {number}; the rest is missing.")

    def add_loss(self, reason: str, example: str, count: int = 1) -> None:
        """Record a loss."""
        self.builder.add_loss(reason, example, count)

    def begin_trees(self, pool: Executor) -> None:
        """Begin to build the trees of stacks and calls in another thread. No stack may be added after that."""
        self._choose_tree_order()
        self.builder.begin_trees(pool)

    def _choose_tree_order(self) -> None:
        if self._node_count > MANY_NODES and has_compiled_loops():
            from ...ingest.jit.tree_loops import to_preorder

            self.builder.order_tree = to_preorder

    def finish(self, more: Callable[[ThreadedProfileBuilder], str] | None = None) -> Profile:
        """The profile of all that was taken in. more: adds further samples, at times of the text's clock, and returns
        why the recording is not complete, if it knows."""
        self.close()
        columns = {}
        for name, kind in _COLUMNS.items():
            parts = self.columns.pop(name)
            columns[name] = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.zeros(0, kind)
            del parts
        if len(columns["order"]) and (np.diff(columns["order"]) < 0).any():
            order = np.argsort(columns["order"], kind="stable")
            columns = {name: values[order] for name, values in columns.items()}
        columns = self._select_possible(columns)
        timed = fill_times(columns)
        if timed and (backward := describe_backward_times(columns)):
            self._facts[BACKWARD_CLOCK_FACT] = backward
        name_threads(columns, list(self._names), self.builder, self._split_thread)
        if len(columns["event"]):
            self._main_event = self._called.choose_main_event(list(self._events))
            if len(self._events) > 1:
                first = list(self._events.values()).index(int(columns["event"][0]))
                self._facts[FIRST_EVENT_FACT] = self._called.get_name(list(self._events)[first])[0]
        self.builder.add_samples(
            *(columns.pop(name) for name in ("time_ns", "thread", "cpu", "event", "stack", "weight"))
        )
        del columns
        run = self.builder.add_run(command=self._facts.get("cmdline"), host=self._facts.get("hostname"))
        for name in self._called.find_unobservable(self._events):
            event = self.intern_event(name.encode(), weighted=True)
            self.builder.add_count(run=run, thread=NO_ID, cpu=-1, event=event, value=None, status=NOT_OBSERVABLE)
            self.add_loss(f"{EVENT_WITHOUT_VALUE}{NOT_OBSERVABLE}", explain_unobservable(name))
        if more is not None and timed and (reason := more(self.builder)):
            self.reasons.append(reason)
        self._choose_tree_order()
        span = self.builder.get_time_span_ns() if timed else None
        profile = self.builder.finish(self._build_meta(span and span[0]))
        if not timed:
            profile = replace(profile, meta=replace(profile.meta, duration_ns=None, clock=IN_ORDER))
        return profile

    def _select_possible(self, columns: dict[str, Array]) -> dict[str, Array]:
        """The columns without the samples whose periods would overflow a sum."""
        absurd = find_overflowing(columns["weight"])
        if absurd is None:
            return columns
        number, weight = (int(columns[name][absurd][0]) for name in ("order", "weight"))
        self.builder.add_loss(IMPOSSIBLE_WEIGHT, f"line {number}: a period of {weight}", int(absurd.sum()))
        return {name: values[~absurd] for name, values in columns.items()}

    def _build_meta(self, zero: int | None) -> Meta:
        facts = dict(self._facts)
        if zero is not None:
            facts[FIRST_SAMPLE_FACT] = f"{zero} ns"
        return Meta(
            self._format,
            start_epoch_ns=None if zero is None else to_epoch_ns(zero, facts.get("reference time", "")),
            clock=facts.get("clockid"),
            main_event=self._main_event,
            command=facts.get("cmdline"),
            complete=not self.reasons,
            reasons=tuple(self.reasons),
            facts=facts,
        )

    def _parse_comment(self, line: bytes) -> None:
        """A line such as "# hostname : node7"."""
        line = line[:MAX_FACT]
        name, colon, value = decode_text(line.lstrip(b"# ")).partition(":")
        name, value = name.strip(), value.strip()
        if loss := parse_loss(name, value[:MAX_REASON_CHARS]):
            self.reasons += [value[:MAX_REASON_CHARS]] if name == INCOMPLETE else []
            self.add_loss(*loss)
        elif colon and value and len(name) <= 40 and len(self._facts) < MAX_FACTS:
            if name == "event":
                name = get_event_fact(value) or name
            self._facts.setdefault(name, value)

    def set_columns(self, columns: dict[str, Array]) -> None:
        """Take in all samples at once, by columns: in this order their lines, times (-1 without), threads, names (-1:
        not printed) and CPUs (see `intern_task`), events (see `intern_event`), stacks and weights."""
        self.columns = {name: [values] for name, values in columns.items()}

    def add_columns(self, tokens: Tokens, good: Array, stack: Array, first_line: int) -> None:
        """Take in samples. good: mask of those whose lines are as usual. stack: the stack id of each."""
        if not good.any():
            return
        rows = slice(None) if good.all() else np.flatnonzero(good)
        prefix, event_code, weight = tokens.prefix[rows], tokens.event[rows], tokens.weight[rows]
        of_prefix = np.zeros((3, len(tokens.prefixes)), np.int32)
        # Not the threads of other records: a record of lost samples adds no thread.
        for code in np.flatnonzero(np.bincount(prefix)).tolist():
            of_prefix[:, code] = self.intern_task(tokens.prefixes[code])
        events = np.zeros(len(tokens.events), np.int32)
        _, first = number_values(event_code)
        for code, has_weight in zip(event_code[first].tolist(), (weight[first] >= 0).tolist(), strict=True):
            events[code] = self.intern_event(tokens.events[code], has_weight)
        thread, name, cpu = (values[prefix] for values in of_prefix)
        columns = (
            first_line + tokens.line[rows],
            tokens.time_ns[rows],
            thread,
            name,
            cpu,
            events[event_code],
            stack[rows],
            np.where(weight < 0, 1, weight) if (weight < 0).any() else weight,
        )
        kept = thread != NO_ID
        for (column, kind), values in zip(_COLUMNS.items(), columns, strict=True):
            self.columns[column].append((values if kept.all() else values[kept]).astype(kind))

    def intern_task(self, prefix: bytes) -> tuple[int, int, int]:
        """Thread (NO_ID: of a helper), name (-1: not printed) and CPU from the text before the time."""
        known = self._tasks.get(prefix)
        if known is None:
            task = parse_task(prefix)
            name = -1 if task.comm is None else self._names.setdefault(task.comm, len(self._names))
            nameless = task.pid is None and task.tid is None
            inside = task.comm in PERF_COMMS and INNER_STAT_COMMAND.search(self._facts.get("cmdline", ""))
            if inside or task.comm == WAIT_COMM:
                # perf stat, which counts inside of perf record, and the program are one thread.
                known = self._tasks[prefix] = (NO_ID, name, task.cpu)
                return known
            thread = self._intern_thread(task.pid, task.tid, name + 1 if nameless else 0)
            if thread == len(self._threads):
                self._threads.append((task.pid, task.tid))
            known = self._tasks[prefix] = (thread, name, task.cpu)
        return known

    def _split_thread(self, thread: int, incarnation: int) -> int:
        """The thread with the same numbers as another one, but this incarnation."""
        return self._intern_thread(*self._threads[thread], incarnation)

    def _intern_thread(self, pid: int | None, tid: int | None, incarnation: int) -> int:
        return self.builder.intern_thread(pid=pid, tid=tid, host=self._facts.get("hostname"), incarnation=incarnation)

    def intern_event(self, raw: bytes, weighted: bool) -> int:
        """The event with a name as perf prints it. weighted: whether it has periods."""
        event = self._events.get(raw)
        if event is None:
            (name, attributes), about = self._called.get_name(raw), self._called.get_header_line(raw)
            rate = _RATE.search(about)
            sampling = None if not rate else "frequency" if "freq = 1" in about else "period"
            event = self._events[raw] = self.builder.intern_event(
                name,
                get_unit(name, weighted),
                weighted=weighted,
                sampling=sampling,
                rate=float(rate[1]) if rate and len(rate[1]) < 300 else None,
                attributes=attributes or None,
            )
        return event

    def _read(self, chunk: bytes, starts: Sequence[int], first_line: int) -> None:
        """Read lines one by one; `starts` has where each begins and where the last ends."""
        for at, (start, end) in enumerate(pairwise(starts)):
            line = chunk[start : end - 1]
            if not line.strip():
                self.close()
            elif not line.startswith(b"#"):
                self._read_line(line, first_line + at)

    def _read_line(self, line: bytes, number: int) -> None:
        indented = line[:1] in b" \t"
        record = parse_record(line)
        if record:
            self.close()
            kind, lost = record
            if kind.startswith("LOST"):
                self._add_loss(LOST_IN_KERNEL, line, number, max(1, lost))
            return
        if line[:1] != b"\t":
            header = parse_header(line)
            if header and (header.certain or not indented):
                self.close()
                self._open = UnfinishedSample(header, number, line)
                if (header.weight or 0) > MAX_WEIGHT:
                    self._add_loss(IMPOSSIBLE_PERIOD, line, number)
                    self._open.dropped = True
                return
        if self._open is None:
            self._add_loss(UNRECOGNIZED_LINE, line, number)
        elif self.stack_lines.describe(line + b"\n") is not None and (indented or is_frame_like(line)):
            self._open.lines.append(line + b"\n")
        else:
            self._add_loss(NO_FRAME, line, number)

    def close(self) -> None:
        """Count the open sample, if any."""
        sample, self._open = self._open, None
        if sample is None or sample.dropped:
            return
        header, lines = sample.header, sample.lines
        if header.tail and not lines and is_frame_like(header.tail):
            lines = [b" " + header.tail + b"\n"]
        elif header.tail and not is_tracepoint(header.event):
            self._add_loss(UNKNOWN_FIELDS, sample.line, sample.number)
        if not header.certain and not lines:
            self._add_loss(UNRECOGNIZED_LINE, sample.line, sample.number)
            return
        thread, name, cpu = self.intern_task(header.prefix)
        if thread == NO_ID:
            return
        row = (
            sample.number,
            -1 if header.time_ns is None else header.time_ns,
            thread,
            name,
            cpu,
            self.intern_event(header.event, header.weight is not None),
            self.stack_lines.intern_stack(lines),
            1 if header.weight is None else header.weight,
        )
        for (column, kind), value in zip(_COLUMNS.items(), row, strict=True):
            self.columns[column].append(np.array([value], kind))

    def _add_loss(self, reason: str, line: bytes, number: int, count: int = 1) -> None:
        self.builder.add_loss(reason, format_example(line.strip(), number), count)
