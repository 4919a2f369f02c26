"""The tables of a profile: their names, columns, types and units.

A profile consists of column tables (Arrow). This file is their only definition: readers fill them, the store writes and
maps them, analyses read their columns as numpy arrays. A new table is one more entry in `SCHEMAS`.

Ids are row numbers. `-1` in an id column means "none"; null in any other column means "not known".
"""

from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from .arrays import Array
from .schemas.branches import BRANCH_REQUIRED, BRANCH_SCHEMAS

NO_ID = -1
ROOT = 0
"""Row 0 of `stacks` and of `calls` is the root: the stack of a sample without a call stack."""


class FrameKind(IntEnum):
    """The kind of code of a frame. Charts color by it; the order is part of the stored form."""

    USER = 0
    KERNEL = 1
    JIT = 2
    INLINED = 3
    PYTHON = 4
    OPERATOR = 5
    GPU_KERNEL = 6
    UNKNOWN = 7
    RUNTIME = 8
    ANNOTATION = 9


HOST_TIME, DEVICE_TIME = "host time", "device time"
"""The events of a profile with slices. Their samples are durations: each starts at its time and lasts its weight in ns.
In host time those of one thread never overlap; in device time those of one stream may."""

THREAD_KINDS = ("thread", "gpu_stream", "cpu", "track")
"""The kinds of rows of `threads`. track: a lane of something that no thread ran, such as asynchronous slices."""

CATEGORY_KINDS = (
    "operator",
    "python",
    "module",
    "annotation",
    "runtime",
    "overhead",
    "kernel",
    "memcpy",
    "memset",
    "device_annotation",
    "memory",
    "other",
)
"""The kinds of slices of a category (`cat` of a Chrome trace). memory: a block, from allocation to free."""


class DeviceWorkKind(IntEnum):
    """Kinds of device work. The order is part of the stored form."""

    COMPUTATION = 0
    COMMUNICATION = 1
    MEMCPY = 2
    MEMSET = 3
    OTHER = 4


class FlowKind(IntEnum):
    """Why two slices are linked. Launches are in `device_work`. The order is part of the stored form."""

    FORWARD_BACKWARD = 0
    ASYNC = 1
    OTHER = 2


NUMERIC_ARGUMENTS = (
    "correlation",
    "External id",
    "Record function id",
    "Sequence number",
    "Fwd thread id",
    "Ev Idx",
    "Python id",
    "Python parent id",
    "Python module id",
    "Bytes",
    "bytes",
    "Addr",
    "Total Allocated",
    "Total Reserved",
    "external id",
    "external ts",
    "graph id",
    "graph node id",
)
"""Arguments with a different whole number for nearly every slice: they are in `slice_numbers`, and their key is the
index in this tuple. The order is part of the stored form; a new one comes last. All others are in `argument_sets`."""


def _make_schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


SCHEMAS: dict[str, pa.Schema] = {
    # One execution of a command. start_ns: since the epoch. clock_offset_ns: to be added to this run's own times.
    # duration_ns: from the first to the last observation in it.
    "runs": _make_schema(
        command=pa.string(),
        host=pa.string(),
        event_group=pa.int32(),
        repeat=pa.int32(),
        start_ns=pa.int64(),
        clock_offset_ns=pa.int64(),
        exit_status=pa.int32(),
        duration_ns=pa.int64(),
    ),
    # A process of a parallel program, or the process of another program, in one run, as recorded by its launcher. rank:
    # null for a program without ranks, and for a recording of a whole host. start_ns, end_ns: since the epoch.
    # exit_status: null if a signal ended it. recorded: whether it was to be recorded. losses: how many things could not
    # be read. note: sentences about it.
    "ranks": _make_schema(
        run=pa.int32(),
        rank=pa.int32(),
        host=pa.string(),
        pid=pa.int64(),
        start_ns=pa.int64(),
        end_ns=pa.int64(),
        exit_status=pa.int32(),
        signal=pa.int32(),
        recorded=pa.bool_(),
        losses=pa.int64(),
        note=pa.string(),
    ),
    # How the clock of a process was aligned with the others, by the ends of collectives. shift_ns: what was added to
    # its times beyond its run's clock_offset_ns; 0 if its clock was right, null if no collective determines it.
    # collectives: how many were compared.
    "clocks": _make_schema(run=pa.int32(), rank=pa.int32(), shift_ns=pa.int64(), collectives=pa.int64()),
    # A thread, stream or track. process: the name of the process (comm of its main thread if known, else the program on
    # its call stacks).
    "threads": _make_schema(
        run=pa.int32(),
        host=pa.string(),
        rank=pa.int32(),
        pid=pa.int64(),
        tid=pa.int64(),
        process=pa.string(),
        name=pa.string(),
        kind=pa.string(),
    ),
    # The names (comm) of a thread, in order of time: from_ns is when the name was first seen.
    "thread_names": _make_schema(thread=pa.int32(), from_ns=pa.int64(), name=pa.string()),
    # A function. name and module: the raw symbol and raw DSO text as read. display: the name on pages.
    "functions": _make_schema(
        name=pa.string(), display=pa.string(), module=pa.string(), file=pa.string(), start_line=pa.int32()
    ),
    # A code location. symbol_offset: the +0x… after the raw symbol. kind: FrameKind.
    "frames": _make_schema(
        function=pa.int32(),
        address=pa.uint64(),
        symbol_offset=pa.uint64(),
        line=pa.int32(),
        inline_depth=pa.int16(),
        kind=pa.int8(),
    ),
    # The calling context tree of frames, in preorder: the subtree of node i is rows i … end[i]-1. A call stack is
    # the id of its innermost node. Row 0 is the root (frame -1, depth 0). call: the node of `calls` it belongs to.
    "stacks": _make_schema(parent=pa.int32(), end=pa.int32(), frame=pa.int32(), depth=pa.int32(), call=pa.int32()),
    # The same tree with frames of one function (and kind) under one parent merged, as flame graphs draw it.
    "calls": _make_schema(parent=pa.int32(), end=pa.int32(), function=pa.int32(), depth=pa.int32(), kind=pa.int8()),
    # A measured quantity. unit: count, ns or bytes, else the tool's own unit (Joules). sampling: "period", "frequency"
    # or null; rate: its number. weighted: false if no period was recorded and every sample weighs 1. scaling: the
    # multiplexing factor by which the kernel's counts were multiplied (null: not multiplexed, or not known).
    # attributes: the sampling terms of the event, as perf writes them: "freq=997" (null: none).
    "events": _make_schema(
        name=pa.string(),
        unit=pa.string(),
        sampling=pa.string(),
        rate=pa.float64(),
        weighted=pa.bool_(),
        scaling=pa.float64(),
        attributes=pa.string(),
    ),
    # A weighted observation, in order of time. time_ns: from the profile's zero. cpu: -1 not known. stack: a node of
    # `stacks`. weight: the period, in the event's unit.
    "samples": _make_schema(
        time_ns=pa.int64(),
        thread=pa.int32(),
        cpu=pa.int32(),
        event=pa.int32(),
        stack=pa.int32(),
        weight=pa.int64(),
    ),
    # A counter value (perf stat), not sampled. thread, cpu: -1 for all. start_ns, end_ns: the interval, null for the
    # whole run. value: null if status is not "ok" ("not supported", "not counted", "not seen from user space"); if the
    # command was run several times, the mean, with its standard deviation in deviation_percent (null: run once).
    "counts": _make_schema(
        run=pa.int32(),
        host=pa.string(),
        rank=pa.int32(),
        thread=pa.int32(),
        cpu=pa.int32(),
        event=pa.int32(),
        start_ns=pa.int64(),
        end_ns=pa.int64(),
        value=pa.float64(),
        enabled_ns=pa.int64(),
        running_ns=pa.int64(),
        status=pa.string(),
        deviation_percent=pa.float64(),
    ),
    # A metric that perf stat computed from its counts (insn per cycle). thread, cpu: -1 for all. event: the one it was
    # printed with, -1 for none. unit: percent, else "". start_ns, end_ns: the interval, null for the whole run. value:
    # null if perf had none. A metric with several rows is not their sum.
    "count_metrics": _make_schema(
        run=pa.int32(),
        host=pa.string(),
        rank=pa.int32(),
        thread=pa.int32(),
        cpu=pa.int32(),
        event=pa.int32(),
        name=pa.string(),
        unit=pa.string(),
        start_ns=pa.int64(),
        end_ns=pa.int64(),
        value=pa.float64(),
    ),
    # A category of slices. name: as in the file. kind: one of CATEGORY_KINDS.
    "categories": _make_schema(name=pa.string(), kind=pa.string()),
    # What slices share: one row for each distinct set of arguments, without those that are NUMBERED. text: the
    # arguments as a JSON object. shapes, types, strides, values: of an operator's inputs, JSON as read. call_stack:
    # outermost last, as PyTorch writes it.
    "argument_sets": _make_schema(
        text=pa.string(),
        shapes=pa.string(),
        types=pa.string(),
        strides=pa.string(),
        values=pa.string(),
        call_stack=pa.string(),
    ),
    # A named interval, in the order (thread, start, longest first). function: its name. In a thread whose slices are
    # nested, parent is the row of the enclosing slice (-1: none), the slices within row i are rows i+1 … end-1, depth
    # counts from 0, self_ns is the time that no child covers, and stack is its call stack. On threads of kind
    # gpu_stream and track slices may overlap: depth is then the lane, so that slices of one lane never overlap, and
    # parent is an enclosing slice of another category (an annotation) or -1. stack: for device work, the call stack
    # that launched it with the work itself innermost. arguments: -1 none.
    "slices": _make_schema(
        start_ns=pa.int64(),
        duration_ns=pa.int64(),
        self_ns=pa.int64(),
        thread=pa.int32(),
        function=pa.int32(),
        category=pa.int16(),
        depth=pa.int32(),
        parent=pa.int32(),
        end=pa.int32(),
        stack=pa.int32(),
        arguments=pa.int32(),
    ),
    # The NUMBERED arguments of slices, in the order of the slices.
    "slice_numbers": _make_schema(slice=pa.int32(), key=pa.int8(), value=pa.int64()),
    # An event with a time and no duration, in order of time. thread: -1 none.
    "instants": _make_schema(
        time_ns=pa.int64(), thread=pa.int32(), function=pa.int32(), category=pa.int16(), arguments=pa.int32()
    ),
    # A slice of device work, in the order of the slices. kind: DeviceWorkKind. device: of `devices`, -1 not known.
    # launch: the slice of the host's runtime call that launched it; operator: the innermost slice of kind operator
    # around the launch; both -1 if not known. configuration: -1 none. bytes: copied or set.
    "device_work": _make_schema(
        slice=pa.int32(),
        kind=pa.int8(),
        device=pa.int32(),
        stream=pa.int64(),
        launch=pa.int32(),
        operator=pa.int32(),
        configuration=pa.int32(),
        bytes=pa.int64(),
    ),
    # Distinct launch configurations of kernels. occupancy_percent: as estimated by the profiler at the launch.
    "configurations": _make_schema(
        grid_x=pa.int64(),
        grid_y=pa.int64(),
        grid_z=pa.int64(),
        block_x=pa.int64(),
        block_y=pa.int64(),
        block_z=pa.int64(),
        registers=pa.int64(),
        shared_bytes=pa.int64(),
        blocks_per_sm=pa.float64(),
        warps_per_sm=pa.float64(),
        occupancy_percent=pa.float64(),
    ),
    # A link between two slices. kind: FlowKind.
    "flows": _make_schema(source=pa.int32(), target=pa.int32(), kind=pa.int8()),
    # A device, or the host's memory (kind cpu). kind: cpu or gpu. device: its index. compute: capability, as "8.0".
    # properties: all its properties in the file, a JSON object.
    "devices": _make_schema(
        rank=pa.int32(),
        kind=pa.string(),
        device=pa.int32(),
        name=pa.string(),
        memory_bytes=pa.int64(),
        compute=pa.string(),
        sms=pa.int32(),
        warp_size=pa.int32(),
        threads_per_sm=pa.int32(),
        properties=pa.string(),
    ),
    # A step of training or inference (ProfilerStep#3), in order of time within its rank. thread: -1 not known.
    "steps": _make_schema(rank=pa.int32(), name=pa.string(), start_ns=pa.int64(), end_ns=pa.int64(), thread=pa.int32()),
    # A quantity that changes with time. unit: bytes, count, percent or "". device: -1 none.
    "series": _make_schema(
        name=pa.string(), unit=pa.string(), rank=pa.int32(), pid=pa.int64(), process=pa.string(), device=pa.int32()
    ),
    # The values of series, in the order (series, time): each holds until the next.
    "counters": _make_schema(series=pa.int32(), time_ns=pa.int64(), value=pa.float64()),
    # A block of memory, in the order of start_ns (first those that existed before the recording: null). end_ns: null if
    # never freed. slice: the innermost slice around its allocation, end_slice: that around its free, both -1 if there
    # is none. stack: of the allocation. category: the file's own name (PARAMETER, ACTIVATION …). If the file has no
    # addresses (address is null), frees cannot be matched: allocations and frees are separate rows, with only start_ns
    # or only end_ns.
    "allocations": _make_schema(
        start_ns=pa.int64(),
        end_ns=pa.int64(),
        bytes=pa.int64(),
        device=pa.int32(),
        address=pa.int64(),
        thread=pa.int32(),
        slice=pa.int32(),
        end_slice=pa.int32(),
        stack=pa.int32(),
        category=pa.string(),
    ),
    # Memory that an allocator reserved from the system; blocks are parts of it. kind: the allocator's name (small,
    # large).
    "segments": _make_schema(
        start_ns=pa.int64(),
        end_ns=pa.int64(),
        bytes=pa.int64(),
        device=pa.int32(),
        address=pa.int64(),
        stream=pa.int64(),
        kind=pa.string(),
        stack=pa.int32(),
    ),
    # A launch of a kernel as Nsight Compute measured it, in the order of the report. number: its ID there, which need
    # not be unique. work: its row of `device_work`, -1 if its duration is not known. thread: its stream. device: -1 not
    # known. configuration: -1 none. ranges: the NVTX ranges around it, the outermost first, separated by " / ".
    "profiled_kernels": _make_schema(
        number=pa.int64(),
        function=pa.int32(),
        work=pa.int32(),
        thread=pa.int32(),
        device=pa.int32(),
        configuration=pa.int32(),
        ranges=pa.string(),
    ),
    # Distinct quantities measured of launches or lines. name: Nsight Compute's own
    # (sm__throughput.avg.pct_of_peak_sustained_elapsed), label: the name in a section; one of the two may be missing.
    # section: of the report. part: a chart or table of that section. unit: as printed.
    "metrics": _make_schema(
        name=pa.string(), label=pa.string(), section=pa.string(), part=pa.string(), unit=pa.string()
    ),
    # The measured values of a launch, in the order of the launches: numbers in `value`, anything else in `text`.
    "metric_values": _make_schema(kernel=pa.int32(), metric=pa.int32(), value=pa.float64(), text=pa.string()),
    # The result of an Nsight Compute rule. kind: as in the report (OPT, WRN, INF). speedup_percent: the estimated
    # reduction of the time of the launch (speedup_kind "global") or of the measured part ("local").
    "hints": _make_schema(
        kernel=pa.int32(),
        section=pa.string(),
        rule=pa.string(),
        kind=pa.string(),
        text=pa.string(),
        speedup_kind=pa.string(),
        speedup_percent=pa.float64(),
    ),
    # A source line or an instruction of a kernel, in the order of the report. file, line: null for an instruction.
    # address: null for a line.
    "source_lines": _make_schema(
        kernel=pa.int32(), file=pa.string(), line=pa.int64(), address=pa.int64(), text=pa.string()
    ),
    # The measured values of a line, in the order of the lines, like `metric_values`. Zeros are left out.
    "source_values": _make_schema(line=pa.int32(), metric=pa.int32(), value=pa.float64(), text=pa.string()),
    **BRANCH_SCHEMAS,
    # What could not be read: reason, count, and the first example with its position in the file.
    "losses": _make_schema(reason=pa.string(), count=pa.int64(), example=pa.string()),
}

REQUIRED: dict[str, tuple[str, ...]] = {
    "runs": (),
    "ranks": ("run", "recorded", "losses"),
    "clocks": ("run", "collectives"),
    "threads": ("run", "kind"),
    "thread_names": ("thread", "from_ns", "name"),
    "functions": ("name", "display", "module"),
    "frames": ("function", "inline_depth", "kind"),
    "stacks": ("parent", "end", "frame", "depth", "call"),
    "calls": ("parent", "end", "function", "depth", "kind"),
    "events": ("name", "unit", "weighted"),
    "samples": ("time_ns", "thread", "cpu", "event", "stack", "weight"),
    "counts": ("event", "status"),
    "count_metrics": ("run", "thread", "cpu", "event", "name", "unit"),
    "categories": ("name", "kind"),
    "argument_sets": ("text",),
    "slices": (
        "start_ns",
        "duration_ns",
        "self_ns",
        "thread",
        "function",
        "category",
        "depth",
        "parent",
        "end",
        "stack",
        "arguments",
    ),
    "slice_numbers": ("slice", "key", "value"),
    "instants": ("time_ns", "thread", "function", "category", "arguments"),
    "device_work": ("slice", "kind", "device", "launch", "operator", "configuration"),
    "configurations": (),
    "flows": ("source", "target", "kind"),
    "devices": ("kind", "device"),
    "steps": ("name", "start_ns", "end_ns", "thread"),
    "series": ("name", "unit", "device"),
    "counters": ("series", "time_ns", "value"),
    "allocations": ("bytes", "device", "thread", "slice", "end_slice", "stack"),
    "segments": ("bytes", "device", "stack"),
    "profiled_kernels": ("number", "function", "work", "thread", "device", "configuration"),
    "metrics": (),
    "metric_values": ("kernel", "metric"),
    "hints": ("kernel",),
    "source_lines": ("kernel", "text"),
    "source_values": ("line", "metric"),
    **BRANCH_REQUIRED,
    "losses": ("reason", "count", "example"),
}
"""The columns that are never null; in every other column null means "not known"."""


_NUMBERS: dict[pa.DataType, np.dtype[Any]] = {
    pa.int8(): np.dtype(np.int8),
    pa.int16(): np.dtype(np.int16),
    pa.int32(): np.dtype(np.int32),
    pa.int64(): np.dtype(np.int64),
    pa.float64(): np.dtype(np.float64),
}


FEW_ROWS = 10_000
"""Columns with at most this number of rows are handled in plain Python, which is faster."""


@cache
def empty_table(name: str) -> pa.Table:
    """The table `name` without rows."""
    schema = SCHEMAS[name]
    # Like `Schema.empty_table`, which would import pandas.
    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def get_column(table: pa.Table, name: str) -> Array:
    """Column `name` of `table` as a numpy array: without a copy if it is fixed-width, in one chunk and free of nulls.

    Nulls of integer columns become floating NaN, as in pyarrow; `table.column(name)` distinguishes them.
    """
    column = table.column(name)
    if column.num_chunks == 1:
        chunk = column.chunk(0)
        number = _NUMBERS.get(chunk.type)
        if number and len(chunk) and not chunk.null_count:
            # Like pyarrow, which would import pandas.
            return np.frombuffer(chunk.buffers()[1], number, len(chunk), chunk.offset * number.itemsize)
        if number and not len(chunk):
            return np.empty(0, number)
        array: Array = chunk.to_numpy(zero_copy_only=False)
        return array
    joined: Array = column.to_numpy()
    return joined


def take_values(table: pa.Table, name: str, rows: Array) -> list[Any]:
    """The values of column `name` in some rows of `table`, null as None."""
    column = table.column(name)
    if len(column) > FEW_ROWS:
        values: list[Any] = column.take(pa.array(rows)).to_pylist()
        return values
    values = column.to_pylist()
    return [values[row] for row in rows.tolist()]


def get_strings(table: pa.Table, name: str) -> list[str]:
    """String column `name` as Python strings; null becomes the empty string."""
    return ["" if value is None else value for value in table.column(name).to_pylist()]
