"""Builds a profile from the launches that Nsight Compute measured.

A report contains durations of launches but not their starts. Nsight Compute runs one launch at a time, so they are
consecutive in the order of the report; the time between them is unknown and omitted.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.meta import KERNEL_REPORT
from ...domain.profile import Meta, Profile
from ...domain.tables import DEVICE_TIME, NO_ID, SCHEMAS, FrameKind
from ...ingest.nsight.kernel_names import normalize_kernel_name
from ...ingest.nsight.summary_metrics import TIMES_FACT
from ...ingest.trace.pytorch_names import get_work_kind
from .csv_report import CsvReport
from .csv_tables import PageKind
from .launches import Launch, MeasurementCollector
from .numbers import to_bytes, to_nanoseconds

NO_DURATION_FACT = "launches without a duration"
TIMES_TEXT = (
    "Nsight Compute records how long each kernel took, not when it began: kernels are placed one after another, "
    "and the time between them is unknown. Kernels are measured one at a time, by default with flushed caches and "
    "fixed clocks, so their durations differ from those of a normal run."
)
MAX_DURATION_NS = 1 << 53
_SAID = re.compile(r"^==(?:ERROR|WARNING)== (.*)$", re.MULTILINE)
_AXES = re.compile(r"\(?\s*(\d{1,18})\s*[,x]\s*(\d{1,18})\s*[,x]\s*(\d{1,18})\s*\)?")
_DETAILS_OF_DEVICE = ("device_name", "sms", "warp_size", "threads_per_sm")


def build_profile_from_csv(text: str, source: str, defect: str | None, format: str) -> Profile:
    """The profile of this text. source: names the file in messages. defect: what is wrong with the file itself.

    Raises UnreadableInput if it has no launches.
    """
    reading = CsvReport(text)
    _assign_sources(reading)
    if not reading.launches:
        raise UnreadableInput(_explain_empty(text, source))
    if not text.endswith("\n") and reading.last_lost == text.count("\n") + 1:
        defect = " ".join(part for part in (defect, "The file ends in the middle of a row; print it again.") if part)
    return build_profile(reading, format, defect)


def build_profile(
    reading: MeasurementCollector, format: str, defect: str | None, facts: dict[str, str] | None = None
) -> Profile:
    """The profile of the measured values. facts: further facts of the profile."""
    return _KernelTables(reading).profile(format, defect, facts or {})


def _explain_empty(text: str, source: str) -> str:
    said = _SAID.findall(text)
    message = f" ncu reported: {' '.join(said[-1].split())[:300].rstrip('.')}." if said else ""
    summary = ""
    for row in text.splitlines()[:1000]:
        if '"Minimum"' in row and '"Metric Name"' in row:
            summary = (
                " It was printed with --print-summary, which has no individual launches; print it without that option."
            )
    return (
        f"{source} has no kernel launch.{message}{summary} Print a report with "
        "ncu --import REPORT.ncu-rep --csv --page raw, and check whether it has launches."
    )


def _assign_sources(reading: CsvReport) -> None:
    """Assign the lines of each kernel of the source page to a launch: the first kernel of a name to the first launch of
    that name, and so on. A kernel without a launch gets one of which only the name is known."""
    waiting: dict[str, list[Launch]] = defaultdict(list)
    for launch in reading.launches:
        waiting[normalize_kernel_name(launch.name)].append(launch)
    of_block: dict[int, Launch] = {}
    for line in reading.sources:
        if line.block not in of_block:
            launches = waiting[normalize_kernel_name(line.kernel)]
            if not launches and not line.kernel and len(reading.launches) == 1:
                launches = list(reading.launches)
            if launches:
                of_block[line.block] = launches.pop(0)
            else:
                of_block[line.block] = Launch(max(0, line.block - 1), line.kernel, {})
                reading.launches.append(of_block[line.block])
    reading.launch_of = {block: reading.launches.index(launch) for block, launch in of_block.items()}


class _KernelTables:
    """The rows of the tables that the builder does not have."""

    def __init__(self, reading: MeasurementCollector) -> None:
        self.reading = reading
        self.builder = ProfileBuilder("")
        self.devices: dict[tuple[str, str], int] = {}
        self.device_rows: list[dict[str, Any]] = []
        self.configurations: dict[tuple[Any, ...], int] = {}
        self.functions: list[int] = []
        self.threads: list[int] = []
        self.of_device: list[int] = []
        self.configured: list[int] = []
        self.stacks: list[int] = []
        self.durations = [_get_duration(launch) for launch in reading.launches]
        for launch in reading.launches:
            self._add(launch)

    def _add(self, launch: Launch) -> None:
        builder, identity = self.builder, launch.identity
        device = self._add_device(launch)
        stream, context = _parse_int(identity.get("Stream")), _parse_int(identity.get("Context"))
        thread = builder.intern_thread(
            pid=_parse_int(identity.get("Process ID")),
            tid=stream,
            host=identity.get("Host Name"),
            kind="gpu_stream",
            incarnation=(device + 1) << 32 | (context or 0) & 0xFFFFFFFF,
        )
        builder.set_thread_name(thread, 0, "stream" if stream is None else f"stream {stream}")
        if name := identity.get("Process Name"):
            builder.set_process_name(thread, name)
        function = builder.intern_function(launch.name)
        frames = [
            builder.intern_frame(builder.intern_function(name), kind=FrameKind.ANNOTATION) for name in launch.ranges
        ]
        self.stacks.append(builder.intern_stack([*frames, builder.intern_frame(function, kind=FrameKind.GPU_KERNEL)]))
        self.functions.append(function)
        self.threads.append(thread)
        self.of_device.append(device)
        self.configured.append(self._add_configuration(launch))

    def _add_device(self, launch: Launch) -> int:
        """The row of a launch's device; adds the device's properties in the launch."""
        key = launch.identity.get("Device", ""), launch.identity.get("CC", "")
        if not any(key):
            return NO_ID
        if key not in self.devices:
            number = _parse_int(key[0])
            row = dict.fromkeys(SCHEMAS["devices"].names) | {"kind": "gpu", "compute": key[1] or None}
            row |= {"device": len(self.devices) if number is None else number}
            row["name"] = key[0] if number is None and key[0] else None
            self.devices[key] = len(self.device_rows)
            self.device_rows.append(row)
        row = self.device_rows[self.devices[key]]
        if name := (launch.summary_values["device_name"][2] if "device_name" in launch.summary_values else ""):
            row["name"] = name
        for word in _DETAILS_OF_DEVICE[1:]:
            value = _get_summary_value(launch, word)
            if row[word] is None and value is not None and 0 <= value < 1 << 31:
                row[word] = int(value)
        return self.devices[key]

    def _add_configuration(self, launch: Launch) -> int:
        grid, block = (_parse_dimensions(launch.identity.get(word, "")) for word in ("Grid Size", "Block Size"))
        registers, shared = _get_summary_value(launch, "registers"), _get_shared_memory_bytes(launch)
        sms = _get_summary_value(launch, "sms")
        blocks = None if None in grid else float(np.prod([float(n or 0) for n in grid]))
        found = (
            *grid,
            *block,
            None if registers is None or abs(registers) >= 1 << 62 else int(registers),
            None if shared is None else int(shared),
            blocks / sms if blocks is not None and sms else None,
            None,
            _get_summary_value(launch, "theoretical_percent"),
        )
        if not any(value is not None for value in found):
            return NO_ID
        return self.configurations.setdefault(found, len(self.configurations))

    def profile(self, format: str, defect: str | None, more: dict[str, str]) -> Profile:
        reading, builder = self.reading, self.builder
        builder.format = format
        for reason, (count, example) in reading.losses.items():
            builder.add_loss(reason, example, count)
        rows = [row for row, duration in enumerate(self.durations) if duration is not None]
        lengths = np.array([self.durations[row] for row in rows], np.int64)
        starts = np.cumsum(lengths) - lengths
        if rows:
            event = builder.intern_event(DEVICE_TIME, "ns")
            zeros = np.zeros(len(rows), np.int64)
            stacks, threads = (np.array([of[row] for row in rows], np.int64) for of in (self.stacks, self.threads))
            builder.add_samples(starts, threads, zeros - 1, zeros + event, stacks, lengths)
        hosts = {launch.identity.get("Host Name") for launch in reading.launches}
        commands = {launch.identity.get("Process Name") for launch in reading.launches}
        command = commands.pop() if len(commands) == 1 else None
        builder.add_run(command=command, host=hosts.pop() if len(hosts) == 1 else None)
        facts = {"launches": f"{len(reading.launches):,}"} | ({TIMES_FACT: TIMES_TEXT} if rows else {})
        if missing := len(self.durations) - len(rows):
            facts[NO_DURATION_FACT] = f"{missing:,}: gpu__time_duration was not measured"
        if reading.kinds:
            facts |= {"pages": ", ".join(kind.value for kind in PageKind if kind in reading.kinds)}
        meta = Meta(
            format,
            capabilities=(KERNEL_REPORT,),
            command=command,
            complete=defect is None,
            reasons=(defect,) if defect else (),
            facts=facts | more,
        )
        profile, place = builder.finish_with_stack_rows(meta, 0)
        # The report does not cover all time from the first to the last launch.
        profile = replace(profile, meta=replace(profile.meta, duration_ns=None))
        order = sorted(range(len(rows)), key=lambda at: (self.threads[rows[at]], at))
        work = {rows[at]: row for row, at in enumerate(order)}
        return replace(
            profile,
            **self._build_slice_tables([rows[at] for at in order], starts[order], lengths[order], place),
            configurations=_make_table("configurations", list(zip(*self.configurations, strict=True))),
            devices=pa.Table.from_pylist(self.device_rows, schema=SCHEMAS["devices"]),
            profiled_kernels=_make_table(
                "profiled_kernels",
                [
                    [launch.number for launch in reading.launches],
                    self.functions,
                    [work.get(row, NO_ID) for row in range(len(reading.launches))],
                    self.threads,
                    self.of_device,
                    self.configured,
                    [" / ".join(launch.ranges) or None for launch in reading.launches],
                ],
            ),
            metrics=_make_table("metrics", list(zip(*reading.metrics, strict=True))),
            metric_values=_build_values(reading),
            hints=pa.Table.from_pylist(
                [hint | {"kernel": row} for row, launch in enumerate(reading.launches) for hint in launch.hints],
                schema=SCHEMAS["hints"],
            ),
            **_build_sources(reading),
        )

    def _build_slice_tables(self, rows: Sequence[int], start: Any, length: Any, place: Any) -> dict[str, pa.Table]:
        """The tables of slices. rows: the launch of each."""
        if not rows:
            return {}
        count = len(rows)
        reading, zeros, own = self.reading, [0] * count, list(range(1, count + 1))
        stack = [int(place[self.stacks[row]]) for row in rows]
        thread, function = ([of[row] for row in rows] for of in (self.threads, self.functions))
        none = [NO_ID] * count
        return {
            "categories": _make_table("categories", [["kernel"], ["kernel"]]),
            "slices": _make_table(
                "slices", [start, length, length, thread, function, zeros, zeros, none, own, stack, none]
            ),
            "device_work": _make_table(
                "device_work",
                [
                    range(count),
                    [int(get_work_kind("kernel", reading.launches[row].name)) for row in rows],
                    [self.of_device[row] for row in rows],
                    [_parse_int(reading.launches[row].identity.get("Stream")) for row in rows],
                    none,
                    none,
                    [self.configured[row] for row in rows],
                    [None] * count,
                ],
            ),
        }


def _make_table(name: str, columns: Sequence[Any]) -> pa.Table:
    """The table `name` from its columns, in order; empty if there are none."""
    schema = SCHEMAS[name]
    columns = columns or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _build_values(reading: MeasurementCollector) -> pa.Table:
    """The table `metric_values`: duplicates are stored once."""
    kernels: list[int] = []
    metrics: list[int] = []
    values: list[float | None] = []
    texts: list[str | None] = []
    for row, launch in enumerate(reading.launches):
        measured = {
            (metric, None if value != value else value, launch.texts.get(at)): None
            for at, (metric, value) in enumerate(zip(launch.metrics, launch.values, strict=True))
        }
        kernels += [row] * len(measured)
        metrics += [metric for metric, _, _ in measured]
        values += [value for _, value, _ in measured]
        texts += [text for _, _, text in measured]
    return _make_table("metric_values", [kernels, metrics, values, texts])


def _build_sources(reading: MeasurementCollector) -> dict[str, pa.Table]:
    lines = reading.sources
    values = [(row, *value) for row, line in enumerate(lines) for value in line.values]
    return {
        "source_lines": _make_table(
            "source_lines",
            [
                [reading.launch_of[line.block] for line in lines],
                [line.file for line in lines],
                [line.line for line in lines],
                [line.address for line in lines],
                [line.text for line in lines],
            ],
        ),
        "source_values": _make_table("source_values", list(zip(*values, strict=True))),
    }


def _get_summary_value(launch: Launch, key: str) -> float | None:
    return launch.summary_values[key][1] if key in launch.summary_values else None


def _get_duration(launch: Launch) -> int | None:
    """The duration of a launch, in whole ns."""
    if "duration" not in launch.summary_values:
        return None
    _, value, _, unit = launch.summary_values["duration"]
    nanoseconds = None if value is None else to_nanoseconds(value, unit or "ns")
    return round(nanoseconds) if nanoseconds is not None and 0 <= nanoseconds < MAX_DURATION_NS else None


def _get_shared_memory_bytes(launch: Launch) -> float | None:
    """Shared memory of a block in bytes, as in traces: the bytes that the kernel and its launch request, without those
    that the system adds."""
    parts = [launch.summary_values[key] for key in ("shared_static", "shared_dynamic") if key in launch.summary_values]
    parts = parts or ([launch.summary_values["shared_all"]] if "shared_all" in launch.summary_values else [])
    sizes = [None if value is None else to_bytes(value, unit or "byte") for _, value, _, unit in parts]
    known = [size for size in sizes if size is not None and 0 <= size < 1 << 62]
    return sum(known) if known and len(known) == len(sizes) else None


def _parse_dimensions(text: str) -> tuple[int | None, int | None, int | None]:
    found = _AXES.fullmatch(text.strip())
    return (int(found[1]), int(found[2]), int(found[3])) if found else (None, None, None)


def _parse_int(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and text.isascii() and len(text) < 19 else None
