"""The invariants between the tables of a profile. Analyses rely on them; files from elsewhere are checked."""

import numpy as np
import pyarrow as pa

from .arrays import Array
from .arrow import functions as pc
from .call_tree import to_preorder
from .profile import Meta, Profile
from .tables import (
    CATEGORY_KINDS,
    NO_ID,
    NUMERIC_ARGUMENTS,
    REQUIRED,
    SCHEMAS,
    THREAD_KINDS,
    DeviceWorkKind,
    FlowKind,
    FrameKind,
    get_column,
)

# table -> columns that hold row numbers of another table, and whether -1 (none) is permitted
REFERENCES: dict[str, dict[str, tuple[str, bool]]] = {
    "ranks": {"run": ("runs", False)},
    "clocks": {"run": ("runs", False)},
    "threads": {"run": ("runs", True)},
    "thread_names": {"thread": ("threads", False)},
    "frames": {"function": ("functions", False)},
    "stacks": {"call": ("calls", False)},
    "samples": {"thread": ("threads", False), "event": ("events", False), "stack": ("stacks", False)},
    "counts": {"thread": ("threads", True), "event": ("events", False), "run": ("runs", True)},
    "count_metrics": {"run": ("runs", True), "thread": ("threads", True), "event": ("events", True)},
    "slices": {
        "thread": ("threads", False),
        "function": ("functions", False),
        "category": ("categories", False),
        "parent": ("slices", True),
        "stack": ("stacks", False),
        "arguments": ("argument_sets", True),
    },
    "slice_numbers": {"slice": ("slices", False)},
    "instants": {
        "thread": ("threads", True),
        "function": ("functions", False),
        "category": ("categories", False),
        "arguments": ("argument_sets", True),
    },
    "device_work": {
        "slice": ("slices", False),
        "device": ("devices", True),
        "launch": ("slices", True),
        "operator": ("slices", True),
        "configuration": ("configurations", True),
    },
    "flows": {"source": ("slices", False), "target": ("slices", False)},
    "steps": {"thread": ("threads", True)},
    "series": {"device": ("devices", True)},
    "counters": {"series": ("series", False)},
    "allocations": {
        "device": ("devices", True),
        "thread": ("threads", True),
        "slice": ("slices", True),
        "end_slice": ("slices", True),
        "stack": ("stacks", False),
    },
    "segments": {"device": ("devices", True), "stack": ("stacks", False)},
    "profiled_kernels": {
        "function": ("functions", False),
        "work": ("device_work", True),
        "thread": ("threads", False),
        "device": ("devices", True),
        "configuration": ("configurations", True),
    },
    "metric_values": {"kernel": ("profiled_kernels", False), "metric": ("metrics", False)},
    "hints": {"kernel": ("profiled_kernels", False)},
    "source_lines": {"kernel": ("profiled_kernels", False)},
    "branch_edges": {"source": ("functions", False), "target": ("functions", False)},
    "branches": {"thread": ("threads", False), "event": ("events", False), "edge": ("branch_edges", False)},
    "source_values": {"line": ("source_lines", False), "metric": ("metrics", False)},
}


def find_error(profile: Profile) -> str | None:
    """What is wrong with a profile, as part of a sentence; None if every analysis can process it."""
    for name, table in profile.tables().items():
        if table.schema != SCHEMAS[name]:
            return f"the table {name} has unexpected columns"
        try:
            table.validate(full=True)
        except pa.ArrowException as error:
            return f"the table {name} is damaged ({str(error).splitlines()[0][:200]})"
        for required in REQUIRED[name]:
            if table.column(required).null_count:
                return f"{name}.{required} has missing values"
    return (
        _find_wrong_reference(profile)
        or _find_wrong_tree(profile)
        or _find_wrong_slices(profile)
        or _find_wrong_value(profile)
        or _find_wrong_meta(profile.meta)
    )


def sum_overflows(weight: Array) -> bool:
    """Whether the sum of absolute weights (int64) overflows int64."""
    if not len(weight):
        return False
    peak = max(-int(weight.min()), int(weight.max()))
    return peak * len(weight) >= 1 << 63 and float(np.abs(weight.astype(np.float64)).sum()) >= float(1 << 63)


class WeightHistogram:
    """The number and sum of weights by order of magnitude, enough to find the impossible ones."""

    def __init__(self) -> None:
        self.count = np.zeros(66, np.int64)
        self._sum = np.zeros(66, np.float64)

    def add(self, weight: Array) -> None:
        """Add weights (int64)."""
        size = np.abs(weight.astype(np.float64))
        order = np.frexp(size)[1]
        self.count += np.bincount(order, minlength=66)
        self._sum += np.bincount(order, size, 66)

    def find_overflow_threshold(self) -> float | None:
        """The absolute weight from which on weights are dropped, the greatest first, until the sum of the others fits
        an int64; None if the sum of all fits."""
        if self._sum.sum() < float(1 << 63):
            return None
        # Those of order n are below 2^n; the sum of the zeros, order 0, is always small enough.
        return 2.0 ** int(np.flatnonzero(np.cumsum(self._sum) < float(1 << 62))[-1])

    def count_excluded(self, least: float | None) -> int:
        """How many weights are dropped from `least` on."""
        return 0 if least is None else int(self.count[int(np.frexp(least)[1]) :].sum())


def find_overflowing(weight: Array) -> Array | None:
    """Which weights cannot be right (see `Heaviness.least_impossible`), as bools; None if all can."""
    if not sum_overflows(weight):
        return None
    heaviness = WeightHistogram()
    heaviness.add(weight)
    least = heaviness.find_overflow_threshold()
    return None if least is None else np.abs(weight.astype(np.float64)) >= least


def _find_wrong_reference(profile: Profile) -> str | None:
    tables = profile.tables()
    for name, references in REFERENCES.items():
        for of, (target, none_allowed) in references.items():
            ids = _mask_known(tables[name], of)
            low = NO_ID if none_allowed else 0
            # A profile may have threads without having runs.
            high = max(1, tables[target].num_rows) if target == "runs" else tables[target].num_rows
            if len(ids) and (int(ids.min()) < low or int(ids.max()) >= high):
                return f"{name}.{of} refers to rows that {target} does not have"
    return None


def _find_wrong_tree(profile: Profile) -> str | None:
    stacks, calls, frames = profile.stacks, profile.calls, profile.frames
    for name, table, item, items in (
        ("stacks", stacks, "frame", frames.num_rows),
        ("calls", calls, "function", profile.functions.num_rows),
    ):
        if not table.num_rows:
            return f"the tree {name} has no root"
        parent, ids = get_column(table, "parent"), get_column(table, item)
        if parent[0] != NO_ID or ids[0] != NO_ID:
            return f"the tree {name} does not start with its root"
        below = np.arange(1, table.num_rows)
        if len(below) and not (parent[1:].min() >= 0 and (parent[1:] < below).all()):
            return f"the tree {name} is not in order"
        if len(below) and not (ids[1:].min() >= 0 and ids[1:].max() < items):
            return f"{name}.{item} refers to rows that do not exist"
        right = to_preorder(parent)
        if not (
            np.array_equal(right.position, np.arange(table.num_rows))
            and np.array_equal(right.end, get_column(table, "end"))
            and np.array_equal(right.depth, get_column(table, "depth"))
        ):
            return f"the tree {name} is not in order"
    call, kinds = get_column(stacks, "call"), len(FrameKind)
    for name, table in (("frames", frames), ("calls", calls)):
        kind = get_column(table, "kind")
        if len(kind) and not (kind.min() >= 0 and kind.max() < kinds):
            return f"{name}.kind has an unknown value"
    if not np.array_equal(get_column(calls, "depth")[call], get_column(stacks, "depth")):
        return "the trees stacks and calls differ"
    if stacks.num_rows > 1:
        frame = get_column(stacks, "frame")[1:]
        if not (
            np.array_equal(get_column(calls, "parent")[call[1:]], call[get_column(stacks, "parent")[1:]])
            and np.array_equal(get_column(calls, "function")[call[1:]], get_column(frames, "function")[frame])
            and np.array_equal(get_column(calls, "kind")[call[1:]], get_column(frames, "kind")[frame])
        ):
            return "the trees stacks and calls differ"
    return None


def _find_wrong_slices(profile: Profile) -> str | None:
    slices = profile.slices
    thread, start, length, parent, end = (
        get_column(slices, name) for name in ("thread", "start_ns", "duration_ns", "parent", "end")
    )
    row = np.arange(len(thread))
    if len(row):
        if (
            int(length.min()) < 0
            or int(get_column(slices, "self_ns").min()) < 0
            or int(get_column(slices, "depth").min()) < 0
        ):
            return "a slice has a negative duration"
        if (np.abs(start.astype(np.float64)) + length).max() >= float(1 << 62):
            return "a slice is out of range"
        same = thread[1:] == thread[:-1]
        if (thread[1:] < thread[:-1]).any() or (same & (start[1:] < start[:-1])).any():
            return "the slices are not in order"
        if (parent >= row).any() or (end <= row).any() or int(end.max()) > len(row):
            return "the slices are not nested"
        inside = parent >= 0
        around = parent[inside]
        if (end[inside] > end[around]).any() or (thread[inside] != thread[around]).any():
            return "the slices are not nested"
    for name, of in (
        *(("device_work", "slice"), ("slice_numbers", "slice"), ("counters", "series")),
        *(("metric_values", "kernel"), ("hints", "kernel"), ("source_values", "line")),
    ):
        rows = get_column(profile.tables()[name], of)
        if (rows[1:] < rows[:-1]).any():
            return f"the table {name} is not in order"
    for name, of, known in (
        ("device_work", "kind", len(DeviceWorkKind)),
        ("flows", "kind", len(FlowKind)),
        ("slice_numbers", "key", len(NUMERIC_ARGUMENTS)),
    ):
        values = get_column(profile.tables()[name], of)
        if len(values) and not (values.min() >= 0 and values.max() < known):
            return f"{name}.{of} has an unknown value"
    if not set(profile.categories.column("kind").to_pylist()) <= set(CATEGORY_KINDS):
        return "categories.kind has an unknown value"
    return None


def _find_wrong_value(profile: Profile) -> str | None:
    time_ns = get_column(profile.samples, "time_ns")
    if len(time_ns) and (int(time_ns[0]) < 0 or (time_ns[1:] < time_ns[:-1]).any()):
        return "the samples are not in order of time"
    cpu = get_column(profile.samples, "cpu")
    if len(cpu) and int(cpu.min()) < NO_ID:
        return "samples.cpu is not a CPU number"
    kinds = set(profile.threads.column("kind").to_pylist())
    if not kinds <= set(THREAD_KINDS):
        return "threads.kind has an unknown value"
    names = profile.events.column("name").to_pylist()
    if len(set(names)) != len(names):
        return "two events have the same name"
    for name, of in (
        *(("counts", "value"), ("metric_values", "value"), ("source_values", "value")),
        ("hints", "speedup_percent"),
    ):
        value = profile.tables()[name].column(of)
        if len(value) and not np.isfinite(pc.drop_null(value).to_numpy()).all():
            return f"{name}.{of} is not a number"
    for name, of in (
        ("losses", "count"),
        *(("branches", of) for of in profile.branches.column_names if of not in REFERENCES["branches"]),
    ):
        known = _mask_known(profile.tables()[name], of)
        if len(known) and int(known.min()) < 0:
            return f"{name}.{of} is negative"
    return None


def _find_wrong_meta(meta: Meta) -> str | None:
    for name, value in (("duration_ns", meta.duration_ns), ("start_epoch_ns", meta.start_epoch_ns)):
        if value is not None and not -(2**63) <= value < 2**63:
            return f"{name} is out of range"
    if meta.duration_ns is not None and meta.duration_ns < 0:
        return "duration_ns is negative"
    return None


def _mask_known(table: pa.Table, name: str) -> Array:
    known: Array = pc.drop_null(table.column(name)).to_numpy()
    return known
