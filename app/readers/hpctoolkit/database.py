"""Reads the files of a database into one profile."""

from collections.abc import Iterable

import numpy as np

from ...domain.arrays import BoolArray, Float64Array, Int64Array
from ...domain.builder import IMPOSSIBLE_STACK_WEIGHT, ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.event_names import choose_main_event
from ...domain.profile import Meta, Profile
from .contexts import add_stacks
from .experiment import EXCLUSIVE, Experiment, MetricColumn, read_experiment
from .format import (
    FORMAT,
    NO_OWN_VALUES,
    OTHER_FILE,
    TEXT,
    TOO_SMALL,
    UNKNOWN_CONTEXT,
    UNKNOWN_METRIC,
    UNREADABLE_FILE,
    UNREADABLE_PROFILE,
)
from .meta_db import EXECUTION, POINT, MetaDb, MetricScope, read_meta
from .metric_db import FIRST_STREAM, parse_name, read_values
from .metrics import NOISE, TEXT_NOISE, MetricEvent, OwnValues, parse_metric, round_values, subtract_callees
from .parts import META, METRICS
from .prefixed_stream import PrefixedStream
from .profile_db import Identifier, ProfileDb, ThreadValues

SUMS_FACT = "threads"
SUMS = "all together: the .metric-db files, with the values of each, were not given"
_LOST_SHARE = 1e-6
"""How much less the values of all contexts may be than that of the whole program: each is rounded."""
_SUM_NOISE = 100
"""The sum of many values differs by more than one of them."""
_GPU_WORDS = (("GPU", "GPUDEVICE"), ("context", "GPUCONTEXT"), ("stream", "GPUSTREAM"))


class DatabaseReader:
    """Reads a database, one file after the other. Not for use after `finish`."""

    def __init__(self, tree: PrefixedStream, source: str, alone: bool) -> None:
        """tree: experiment.xml or meta.db. `source` names it in messages. alone: without files
        of values. Raises UnreadableInput."""
        self._source = source
        self._builder = ProfileBuilder(FORMAT)
        self._builder.add_run()
        self._samples: list[tuple[Int64Array, ...]] = []
        self._events: dict[str, str] = {}
        self._ranks: set[int] = set()
        self._reasons: list[str] = []
        self._facts: dict[str, str] = {}
        self._meta: MetaDb | None = None
        self._experiment: Experiment | None = None
        if tree.head.startswith(META):
            self._meta = read_meta(tree, self._builder, source)
            self._tree = self._meta.tree
            self._title, self._version = self._meta.title, self._meta.version
            if not self._meta.complete:
                self._reasons.append(_truncated(source))
            for name in self._meta.unknown:
                self._builder.add_loss(NO_OWN_VALUES, name)
        else:
            self._experiment = read_experiment(tree, self._builder, source, with_sums=alone)
            self._tree = self._experiment.tree
            self._title, self._version = self._experiment.title, self._experiment.version
            self._reasons += self._experiment.reasons
            self._leaf = np.ones(len(self._tree), np.bool_)
            self._leaf[self._tree.parent[self._tree.parent >= 0]] = False
        if defect := getattr(tree, "defect", None):
            self._reasons.append(f"{source}: {defect}")

    def add_file(self, stream: PrefixedStream, name: str) -> None:
        """Add a file of values. Raises UnreadableInput, after which other files can be added."""
        if stream.head.startswith(METRICS) != (self._experiment is not None):
            wanted = "its .metric-db files" if self._experiment is not None else "its profile.db"
            raise UnreadableInput(f"{name} is of another version of the database than {self._source}. Import {wanted}.")
        if self._experiment is not None:
            self._add_metric_db(self._experiment, stream, name)
        elif self._meta is not None:
            self._add_profile_db(self._meta, stream, name)

    def add_failure(self, name: str, why: str) -> None:
        """Record that a file of the database cannot be read. why: a sentence."""
        self._builder.add_loss(UNREADABLE_FILE, name)
        self._reasons.append(why)

    def add_others(self, names: Iterable[str]) -> None:
        """Record files that were given and are not part of the database."""
        for name in names:
            self._builder.add_loss(OTHER_FILE, name)

    def finish(self) -> Profile:
        """The profile. Raises UnreadableInput if it has no values."""
        if self._experiment is not None and not self._samples:
            self._add_sums(self._experiment)
        if not self._samples:
            files = "profile.db" if self._meta is not None else ".metric-db files"
            why = f" {self._reasons[0]}" if self._reasons else ""
            raise UnreadableInput(
                f"{self._source} of {TEXT} has the call tree, and there are no values for it.{why} Import it together "
                f"with the {files} of the same directory: perfloom import DIRECTORY."
            )
        context, thread, event, weight = (np.concatenate(columns) for columns in zip(*self._samples, strict=True))
        used: BoolArray = np.zeros(len(self._tree), np.bool_)
        used[context] = True
        stack = add_stacks(self._builder, self._tree, used)[context]
        zeros = np.zeros(len(context), np.int64)
        self._builder.add_samples(zeros, thread, zeros - 1, event, stack, weight)
        if len(self._ranks) < 2:
            self._builder.clear_ranks()
        timed = [event for event, unit in self._events.items() if unit == "ns"]
        meta = Meta(
            FORMAT,
            main_event=timed[0] if timed else choose_main_event([*self._events]),
            complete=not self._reasons,
            reasons=tuple(self._reasons),
            facts={"database": self._title, "version of the database": self._version, **self._facts},
        )
        return self._builder.finish(meta)

    def _add_metric_db(self, experiment: Experiment, stream: PrefixedStream, name: str) -> None:
        values = read_values(stream, name)
        self._note_defect(stream, name)
        tree = self._tree
        known = (tree.id >= 1) & (tree.id <= len(values))
        if missing := int((~known & (tree.id >= 0)).sum()):
            raise UnreadableInput(
                f"{name} has values of {len(values):,} contexts, and {self._source} has {missing:,} others: they are "
                "not of one database. Import the files of one directory."
            )
        by_row = np.zeros((len(tree), values.shape[1]))
        by_row[known] = values[tree.id[known] - 1]
        elsewhere = np.ones(len(values), np.bool_)
        # The first context is the whole program.
        elsewhere[:1] = False
        elsewhere[tree.id[known] - 1] = False
        self._report_unknown(int((values[elsewhere] > 0).any(axis=1).sum()), name)
        thread = self._add_named_thread(name)
        for event, columns in _group(experiment.thread_metrics):
            inside = [column for column in columns if column.column < values.shape[1]]
            if not inside:
                self._builder.add_loss(UNKNOWN_METRIC, f"{name}: {event}")
                continue
            found = {column.scope: by_row[:, column.column] for column in inside}
            self._add_own(thread, *self._compute_own(found, event, NOISE))

    def _add_sums(self, experiment: Experiment) -> None:
        """Add the sums over all threads, which experiment.xml itself may have."""
        thread = None
        for event, columns in _group(experiment.sum_metrics):
            found = {}
            for column in columns:
                if values := experiment.values[column.column]:
                    found[column.scope] = np.zeros(len(self._tree))
                    found[column.scope][[*values]] = [*values.values()]
            if found:
                if thread is None:
                    thread = self._builder.intern_thread()
                    self._name_thread(thread, self._title)
                self._add_own(thread, *self._compute_own(found, event, TEXT_NOISE))
        if experiment.thread_metrics:
            self._facts[SUMS_FACT] = SUMS

    def _compute_own(self, found: dict[str, Float64Array], event: str, noise: float) -> tuple[MetricEvent, OwnValues]:
        """The values of single contexts from inclusive and exclusive ones.

        An exclusive value of a procedure or loop is the sum of its statements, which may be inside of loops, too. So
        only those of statements are values of single contexts; they are all, if they add up to the inclusive total.
        """
        metric = parse_metric(event)
        inclusive, exclusive = found.get("inclusive"), found.get(EXCLUSIVE)
        rows = np.arange(len(self._tree))
        if exclusive is not None:
            own = np.where(self._leaf, exclusive, 0)
            total = float(inclusive[self._tree.parent < 0].sum()) if inclusive is not None else 0.0
            if inclusive is None or abs(float(own.sum()) - total) <= _SUM_NOISE * noise * abs(total):
                return metric, round_values(rows, own, metric)
        assert inclusive is not None
        own, too_small = subtract_callees(rows, inclusive, self._tree.parent, noise)
        return metric, round_values(rows, own, metric, too_small)

    def _add_named_thread(self, name: str) -> int:
        parsed = parse_name(name.rsplit("/", 1)[-1])
        if parsed is None:
            thread = self._builder.intern_thread(incarnation=len(self._samples))
            self._name_thread(thread, name)
            return thread
        is_stream = parsed.thread >= FIRST_STREAM
        self._ranks.add(parsed.rank)
        thread = self._builder.intern_thread(
            pid=parsed.pid,
            tid=parsed.thread,
            host=f"host {parsed.host}",
            rank=parsed.rank,
            kind="gpu_stream" if is_stream else "thread",
        )
        what = f"GPU stream {parsed.thread - FIRST_STREAM}" if is_stream else f"thread {parsed.thread}"
        self._name_thread(thread, what)
        return thread

    def _name_thread(self, thread: int, name: str) -> None:
        if name:
            self._builder.set_thread_name(thread, 0, name)
        if self._title:
            self._builder.set_process_name(thread, self._title)

    def _add_profile_db(self, meta: MetaDb, stream: PrefixedStream, name: str) -> None:
        profile = ProfileDb(stream, name)
        if not profile.complete:
            self._reasons.append(_truncated(name))
        self._note_defect(stream, name)
        failed = 0
        for number, found in enumerate(profile.threads()):
            if isinstance(found, UnreadableInput):
                self._builder.add_loss(UNREADABLE_PROFILE, found.message)
                failed += 1
                continue
            self._add_thread_values(meta, found, self._add_identified_thread(meta, found.identifiers, number), name)
        if failed:
            self._reasons.append(f"{failed:,} of {len(profile):,} profiles in {name} cannot be read. Copy it again.")

    def _add_thread_values(self, meta: MetaDb, found: ThreadValues, thread: int, name: str) -> None:
        rows = self._tree.find(found.context)
        strange = [id for id in np.unique(found.metric).tolist() if id not in meta.known]
        if strange:
            self._builder.add_loss(UNKNOWN_METRIC, f"{name}: metric {strange[0]}", len(strange))
        for scope in meta.scopes:
            mine = np.flatnonzero((found.metric == scope.id) & (rows >= 0))
            context, first = np.unique(rows[mine], return_index=True)
            own = self._compute_scope(meta, scope, context, found.value[mine[first]])
            # Context 0 is the whole program.
            whole = found.value[(found.metric == scope.id) & (found.context == 0)]
            if len(whole) and float(own.weight.sum()) / scope.metric.factor < float(whole[0]) * (1 - _LOST_SHARE):
                self._report_unknown(1, f"{name}: {scope.metric.event}")
            self._add_own(thread, scope.metric, own)

    def _compute_scope(self, meta: MetaDb, scope: MetricScope, context: Int64Array, values: Float64Array) -> OwnValues:
        if scope.scope == POINT:
            return round_values(context, values, scope.metric)
        parent = self._tree.parent[context]
        if scope.scope != EXECUTION:
            parent = np.where(meta.passes[context] >> scope.bit & 1, parent, -1)
        own, too_small = subtract_callees(context, values, parent)
        return round_values(context, own, scope.metric, too_small)

    def _add_identified_thread(self, meta: MetaDb, identifiers: tuple[Identifier, ...], number: int) -> int:
        found = {
            meta.identifiers[one.kind] if one.kind < len(meta.identifiers) else f"kind {one.kind}": one
            for one in identifiers
        }
        node, rank, thread = found.get("NODE"), found.get("RANK"), found.get("THREAD")
        stream = found.get("GPUSTREAM") or found.get("GPUCONTEXT")
        # Greater numbers are no ranks.
        rank_number = rank.logical if rank is not None and rank.logical < 1 << 31 else None
        if rank_number is not None:
            self._ranks.add(rank_number)
        host = None
        if node is not None:
            host = f"host {node.logical if node.physical is None else format(node.physical, 'x')}"
        tid = stream or thread
        interned = self._builder.intern_thread(
            tid=tid.logical if tid is not None else None,
            host=host,
            rank=rank_number,
            kind="gpu_stream" if stream is not None else "thread",
            # Two threads with the same identifiers stay two.
            incarnation=number if tid is None or stream is not None else 0,
        )
        gpu = [f"{word} {one.logical}" for word, key in _GPU_WORDS if (one := found.get(key)) is not None]
        self._name_thread(interned, " ".join(gpu) or (f"thread {thread.logical}" if thread is not None else ""))
        return interned

    def _add_own(self, thread: int, metric: MetricEvent, own: OwnValues) -> None:
        event = self._builder.intern_event(metric.event, metric.unit)
        self._events.setdefault(metric.event, metric.unit)
        if own.impossible:
            self._builder.add_loss(IMPOSSIBLE_STACK_WEIGHT, own.example, own.impossible)
        if own.too_small:
            self._builder.add_loss(TOO_SMALL, metric.event, own.too_small)
        size = len(own.context)
        self._samples.append((own.context, np.full(size, thread), np.full(size, event), own.weight))

    def _report_unknown(self, count: int, name: str) -> None:
        if count:
            self._builder.add_loss(UNKNOWN_CONTEXT, name, count)

    def _note_defect(self, stream: PrefixedStream, name: str) -> None:
        if defect := getattr(stream, "defect", None):
            self._reasons.append(f"{name}: {defect}")


def _group(columns: list[MetricColumn]) -> list[tuple[str, list[MetricColumn]]]:
    """The columns of each metric."""
    grouped: dict[str, list[MetricColumn]] = {}
    for column in columns:
        grouped.setdefault(column.name, []).append(column)
    return [*grouped.items()]


def _truncated(name: str) -> str:
    return f"{name} is truncated: its end mark is missing. Copy it again."
