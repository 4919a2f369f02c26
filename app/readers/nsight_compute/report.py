"""Reads launches from a report of Nsight Compute (.ncu-rep), without `ncu`.

Numbers of fields are those of the definitions that come with Nsight Compute (extras/FileFormat: ProfilerReport.proto,
ProfilerResultsCommon.proto, ProfilerSection.proto, RuleResults.proto, Nvtx.proto). A report contains the machine code
of kernels, not the text that `ncu` disassembles: instructions are identified by their offset in the function.
"""

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from ...domain.arrays import Array
from ...domain.errors import UnreadableInput
from ...ingest.nsight.summary_metrics import SOURCE_SECTION
from ...ingest.protobuf_wire import (
    BYTES,
    FIXED32,
    FIXED64,
    MalformedMessage,
    decode_packed,
    iterate_fields,
    read_varint,
)
from .format import COUNTS_OUTSIDE, DAMAGED, RANGE_RESULT, TOO_LONG, UNKNOWN_LAUNCH, UNNAMED_METRIC
from .launches import Launch, MeasurementCollector, SourceLine
from .profile import build_profile
from .report_blocks import (
    CODE,
    RANGE,
    BlockEntry,
    BlockReader,
    ReportMessage,
    Value,
    parse_value,
)
from .units import get_unit

if TYPE_CHECKING:
    from ...domain.profile import Profile

INSTRUCTIONS_FACT = "instructions"
INSTRUCTIONS_TEXT = (
    "A report contains machine code, not its text: instructions are identified by their offset in the function. If "
    "ncu is installed where Perfloom reads the report, it prints the text."
)
_TYPES = {1: "INF", 2: "WRN", 3: "ERR", 4: "OPT"}
_VERSIONS = {
    "CUDA Version": "CUDA version",
    "Display Driver Version": "driver version",
    "Nsight Compute Target": "version of Nsight Compute",
}
_LINKS = re.compile(r"@(\w+):([^@\n]*)@")
_CODE_BYTES = 1 << 24
"""The maximum size of a GPU function."""
_MAX_LIST_BYTES = 1 << 25
MAX_REPORTED = 100
"""The maximum number of named values (opcodes, ports) in a list."""
_ADDRESSES = 1 << 63
_PAIR = (0x1A, None, 0x0A, None, None, None, 0x12, None, None, None)
"""The sizes of a value of a list with numbers: the list's tag and size, the key's tag and size, the key, and the same
of the value."""
_STALLED, _NOT_ISSUED = "smsp__pcsamp_warps_issue_stalled_", "_not_issued"
_NOT_ISSUED_SUM = "group:smsp__pcsamp_warp_stall_reasons_not_issued", "Warp Stall Sampling (Not-issued Samples)"
"""The metric that Nsight Compute shows for the sum of these reasons."""
_NO_COUNTERS = ("launch__", "device__", "nvlink__", "numa__", "c2clink__")
_WHOLE_TAGS = (0x20, 0x28)


def read_report(data: bytes, source: str, format: str, defect: str | None) -> "Profile":
    """The profile of a report. source: names it in messages. Raises UnreadableInput if it has no launches."""
    report = Report(data)
    defect = " ".join(part for part in (defect, report.defect) if part) or None
    if not report.launches:
        ranges = (
            " It has only results of ranges: measure with --replay-mode kernel."
            if RANGE_RESULT in report.losses
            else ""
        )
        raise UnreadableInput(
            f"{source} has no kernel launch.{f' {defect}' if defect else ''}{ranges} Open it in "
            "Nsight Compute, and measure again if it shows none: ncu --set full -o report PROGRAM."
        )
    return build_profile(report, format, defect, report.facts)


class Report(MeasurementCollector):
    """What was read of a report. defect: what is wrong with the file itself."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.facts: dict[str, str] = {}
        self._where = "the beginning"
        self._speedups: set[int] = set()
        self._functions: dict[int, str] = {}
        blocks = BlockReader(data, self._add_damage, self._read_session)
        for entry in blocks.iterate_entries():
            if entry.kind == CODE:
                self._read_code(entry)
            elif entry.kind == RANGE:
                self.add_loss(RANGE_RESULT, f"after launch {len(self.launches)}", "")
            else:
                self._where = f"launch {len(self.launches)}"
                _ResultReader(self, entry, self._functions)
        self.defect = blocks.defect
        self._name_speedups()
        self.launch_of = {number: number for number in range(len(self.launches))}

    def _add_damage(self) -> None:
        self.add_loss(DAMAGED, self._where, "")

    def add_damage(self, what: str) -> None:
        """Record damage in the current launch."""
        self.add_loss(DAMAGED, self._where, what)

    def _read_session(self, header: ReportMessage) -> None:
        for session in header.iterate_messages(3):
            for version in session.iterate_messages(8):
                if (name := _VERSIONS.get(version.get_text(1))) and (text := version.get_text(2)):
                    self.facts[name] = text[:200]

    def _read_code(self, entry: BlockEntry) -> None:
        """The start of each function of a module."""
        for function in ReportMessage(entry.data, self._add_damage).get_message(9).iterate_messages(1):
            address = function.get_int(2)
            if address is not None and address < _ADDRESSES:
                self._functions[address] = function.get_text(1)

    def parse_speedup(self, item: ReportMessage) -> tuple[int | None, float | None]:
        """The speedup that a rule estimates: the number of its kind, and percent."""
        kind = percent = None
        for piece in item.get_contents(10)[-1:]:
            kind = ReportMessage(piece, self._add_damage).get_int(1)
            percent = _check_finite(_get_float(piece))
        if kind is not None:
            self._speedups.add(kind)
        return kind, percent

    def _name_speedups(self) -> None:
        """Kinds are counted from 0 or from 1, depending on the version; None if no number shows which."""
        begin = 0 if 0 in self._speedups else 1 if 2 in self._speedups else None
        names = {} if begin is None else {begin: "local", begin + 1: "global"}
        for launch in self.launches:
            for hint in launch.hints:
                hint["speedup_kind"] = names.get(hint["speedup_kind"])


class _ResultReader:
    """Reads one result of a launch into the report."""

    def __init__(self, report: Report, entry: BlockEntry, functions: dict[int, str]) -> None:
        self.report = report
        self.strings = entry.strings
        self.message = ReportMessage(entry.data, lambda: report.add_damage(""))
        name = next((text for field in (7, 6, 5) if (text := self.message.get_text(field))), "")
        if not name:
            report.add_loss(UNKNOWN_LAUNCH, f"after launch {len(report.launches)}", "")
            return
        self.launch = Launch(len(report.launches), name, self._read_identity(entry.header.get_message(6)))
        self.launch.ranges = self._read_ranges()
        report.launches.append(self.launch)
        self.labels: dict[str, tuple[str, str]] = {}
        self.shown: list[tuple[str, str, str]] = []
        self.titles = self._read_sections()
        self.values: dict[str, Value] = {}
        self.lists: dict[str, memoryview] = {}
        self._read_metrics()
        self._read_hints()
        self._read_source(functions)

    def _read_identity(self, process: ReportMessage) -> dict[str, str]:
        message = self.message
        numbers = {
            "Process ID": message.get_int(1) if message.get_int(1) is not None else process.get_int(1),
            "Context": message.get_int(22),
            "Stream": message.get_int(23),
        }
        values = {name: str(value) for name, value in numbers.items() if value is not None}
        for field, name in ((10, "Grid Size"), (11, "Block Size")):
            axes = [message.get_message(field).get_int(axis) for axis in (1, 2, 3)]
            if None not in axes:
                values[name] = f"({', '.join(map(str, axes))})"
        path = re.split(r"[/\\]", process.get_text(3))[-1]
        return values | {
            name: text for name, text in (("Host Name", process.get_text(2)), ("Process Name", path)) if text
        }

    def _read_ranges(self) -> tuple[str, ...]:
        """The NVTX ranges that were open on the launching thread, the outermost first."""
        return tuple(
            name
            for state in self.message.iterate_messages(21)
            for thread in state.iterate_messages(2)
            for domain in thread.iterate_messages(2)
            for message in domain.iterate_messages(3)
            if (name := message.get_text(1))
        )

    def _read_sections(self) -> dict[str, str]:
        """Names of sections by identifier; their metrics are in the order of the sections."""
        sections = sorted(self.message.iterate_messages(17), key=lambda section: section.get_int(3) or 0)
        titles = {section.get_text(1): section.get_text(2) or section.get_text(1) for section in sections}
        for section in sections:
            title = titles[section.get_text(1)]
            for place, metrics in (
                (True, section.get_message(4).iterate_messages(2)),
                (False, section.get_message(6).iterate_messages(1)),
            ):
                for metric in metrics:
                    name, label, unit = metric.get_text(1), metric.get_text(2), metric.get_text(5)
                    if place and name and title:
                        self.shown.append((title, name, label))
                    if name and (label or unit):
                        before = self.labels.get(name, ("", ""))
                        self.labels[name] = (before[0] or label, before[1] or unit)
        return titles

    def _get_unit(self, name: str) -> str:
        return self.labels.get(name, ("", ""))[1] or get_unit(name)

    def _read_metrics(self) -> None:
        report, launch = self.report, self.launch
        for piece in self.message.get_contents(13):
            try:
                self._read_metric(piece)
            except MalformedMessage:
                report.add_damage("metric")
        numbers = [
            _whole_of(self.values.get(name))
            for name in (
                "launch__device_id",
                "device__attribute_compute_capability_major",
                "device__attribute_compute_capability_minor",
            )
        ]
        if numbers[0] is not None:
            launch.identity["Device"] = str(numbers[0])
        if None not in numbers[1:]:
            launch.identity["CC"] = f"{numbers[1]}.{numbers[2]}"
        metrics = {name: self._get_value(name) for name in dict.fromkeys([*self.values, *self.lists])}
        rows = [(name, label or None, title) for title, name, label in self.shown if name in metrics]
        for name, label, section in [*rows, *((name, None, None) for name in metrics)]:
            value, text = metrics[name]
            if value is not None or text:
                unit = self._get_unit(name)
                report.add_value(launch, report.intern_metric(name, label, section, None, unit), value, text, unit)

    def _read_metric(self, piece: memoryview) -> None:
        """Add the value of a metric, and where its list begins. Raises Damaged."""
        number, value, at, listed = 0, None, 0, None
        while at < len(piece):
            tag, begin = read_varint(piece, at, len(piece))
            if tag == 3 << 3 | BYTES:
                listed = piece[at:]
                break
            size, after = read_varint(piece, begin, len(piece))
            if tag == 1 << 3:
                number, at = size, after
            elif tag & 7 == BYTES and size <= len(piece) - after:
                at = after + size
                value = parse_value(piece[after:at]) if tag >> 3 == 2 else value
            elif tag & 7 == 0:
                at = after
            else:
                raise MalformedMessage(at)
        if number >= len(self.strings):
            self.report.add_loss(UNNAMED_METRIC, f"launch {self.launch.number}", f"{number:,} of {len(self.strings):,}")
            return
        name = self.strings[number]
        if value is not None:
            self.values[name] = value
        if listed is not None:
            self.lists[name] = listed

    def _get_value(self, name: str) -> tuple[float | None, str | None]:
        """The number and the text of a metric. For a list with names, or a single value, it is in the text."""
        value = self.values.get(name)
        number = _check_finite(value)
        text = None if number is not None or value is None else str(value)
        pairs = list(self._read_pairs(name, 1)) if name in self.lists else []
        if pairs and (value is None or isinstance(pairs[0][0], str)):
            pairs = list(self._read_pairs(name, MAX_REPORTED + 1))
            more = "; …" if len(pairs) > MAX_REPORTED else ""
            listed = "; ".join(
                f"{key}: {_format_value(one)}" if isinstance(key, str) and key else _format_value(one)
                for key, one in pairs[:MAX_REPORTED]
            )
            if listed:
                text = f"{_format_value(value)} ({listed}{more})" if value is not None else listed + more
        return number, text

    def _read_pairs(self, name: str, most: int) -> Iterator[tuple[Value | None, Value | None]]:
        """The first entries of a metric's list: (what each value is of, the value)."""
        try:
            for number, kind, content in islice(iterate_fields(self.lists[name]), most):
                if number == 3 and kind == BYTES:
                    yield _pair(content)
        except MalformedMessage:
            self.report.add_damage(name)

    def _read_hints(self) -> None:
        for rule in self.message.iterate_messages(19):
            section = rule.get_text(4)
            for item in rule.get_message(3).iterate_messages(1):
                message = item.get_message(1)
                text = _LINKS.sub(_link, message.get_text(1))
                kind, percent = self.report.parse_speedup(item)
                if text or percent is not None:
                    self.launch.hints.append(
                        {
                            "section": self.titles.get(section, section) or None,
                            "rule": rule.get_text(1) or rule.get_text(2) or None,
                            "kind": _TYPES.get(message.get_int(2) or 0),
                            "text": text or None,
                            "speedup_kind": kind,
                            "speedup_percent": percent,
                        }
                    )

    def _read_source(self, functions: dict[int, str]) -> None:
        """Add the instructions: those with a text in the report, and those with counts."""
        lines = {
            address: line
            for line in self.message.iterate_messages(12)
            if (address := line.get_int(1) or 0) < _ADDRESSES
        }
        values: dict[int, list[tuple[int, float | None, str | None]]] = {address: [] for address in lines}
        begins = [] if lines else self._get_function_starts()
        not_issued: dict[int, float] = defaultdict(float)
        places = sorted([*lines, *begins])
        first, last = (places[0], places[-1] + _CODE_BYTES) if places else (0, 0)
        for name, listed in self.lists.items():
            found = None if name.startswith(_NO_COUNTERS) else self._read_counts(name, listed)
            if found is None or not places:
                continue
            keys, counts = found
            inside = (keys >= first) & (keys < last)
            if not inside.any():
                continue
            if not inside.all():
                self.report.add_loss(COUNTS_OUTSIDE, f"launch {self.launch.number}", name)
            metric = self.report.intern_metric(
                name, self.labels.get(name, ("", ""))[0] or None, SOURCE_SECTION, None, ""
            )
            late = name.startswith(_STALLED) and name.endswith(_NOT_ISSUED)
            for address in keys[inside].tolist():
                values.setdefault(address, [])
            some = inside & (counts != 0) & np.isfinite(counts)
            for address, count in zip(keys[some].tolist(), counts[some].tolist(), strict=True):
                values[address].append((metric, count, None))
                if late:
                    not_issued[address] += count
        for address, count in not_issued.items():
            metric = self.report.intern_metric(*_NOT_ISSUED_SUM, SOURCE_SECTION, None, "")
            values[address].append((metric, count, None))
        own, name = self.message.get_text(5), self.message.get_text(6) or self.launch.name
        names = dict.fromkeys(begins, name) | {at: name if of == own else of for at, of in functions.items()}
        starts = sorted(names)
        for address in sorted(values):
            line = lines.get(address)
            text = (line.get_text(2) or line.get_text(3)) if line else ""
            if not text:
                self.report.facts[INSTRUCTIONS_FACT] = INSTRUCTIONS_TEXT
                at = bisect_right(starts, address) - 1
                text = f"{names[starts[at]]}+{address - starts[at]:#x}" if at >= 0 else ""
            file, number = self._find_location(line) if line else (None, None)
            self.report.sources.append(
                SourceLine(self.launch.number, self.launch.name, file, number, address, text, values[address])
            )

    def _find_location(self, line: ReportMessage) -> tuple[str | None, int | None]:
        """The file and the line of source of an instruction."""
        locator = line.get_message(5)
        known = locator.get_int(3)
        file = locator.get_text(4) or (self.strings[known] if known is not None and known < len(self.strings) else "")
        number = locator.get_int(2)
        return file or None, number if number is not None and 0 < number < 10**9 else None

    def _get_function_starts(self) -> list[int]:
        """The start of each function of the launch."""
        name = "launch__function_pcs"
        pairs = [one for _, one in self._read_pairs(name, MAX_REPORTED)] if name in self.lists else []
        return [place for value in pairs or [self.values.get(name)] if (place := _whole_of(value)) is not None]

    def _read_counts(self, name: str, listed: memoryview) -> tuple[Array, Array] | None:
        """The addresses of a metric's list and their counts; None if it is of something else."""
        if len(listed) > _MAX_LIST_BYTES:
            self.report.add_loss(TOO_LONG, f"launch {self.launch.number}", name)
            return None
        try:
            columns = decode_packed(listed)
        except MalformedMessage:
            columns = np.zeros(0, np.int64)
        if len(columns) and len(columns) % len(_PAIR) == 0:
            rows = columns.reshape(-1, len(_PAIR))
            tags = all((rows[:, at] == tag).all() for at, tag in enumerate(_PAIR) if tag is not None)
            if tags and np.isin(rows[:, (4, 8)], _WHOLE_TAGS).all():
                return rows[:, 5], rows[:, 9].view(np.uint64).astype(np.float64)
        pairs = [
            (place, number)
            for key, value in self._read_pairs(name, len(listed))
            if (place := _whole_of(key)) is not None and (number := _check_finite(value)) is not None
        ]
        if not pairs:
            return None
        return np.array([place for place, _ in pairs], np.int64), np.array([number for _, number in pairs], np.float64)


def _pair(content: memoryview) -> tuple[Value | None, Value | None]:
    """One value of a list: (what it is of, the value). Raises Damaged."""
    found: list[Value | None] = [None, None]
    for number, kind, part in iterate_fields(content):
        if number in (1, 2) and kind == BYTES:
            found[number - 1] = parse_value(part)
    return found[0], found[1]


def _get_float(content: memoryview) -> float | None:
    """The floating-point number in a message, in any of its fields."""
    try:
        for _, kind, value in iterate_fields(content):
            if kind == FIXED64:
                return float(np.uint64(value).view(np.float64))
            if kind == FIXED32:
                return float(np.uint32(value).view(np.float32))
    except MalformedMessage:
        pass
    return None


def _check_finite(value: Value | None) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _whole_of(value: Value | None) -> int | None:
    """A whole number that may be an address."""
    return int(value) if isinstance(value, int | float) and 0 <= value < _ADDRESSES and value == int(value) else None


def _format_value(value: Value | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:,.15g}"


def _link(found: re.Match[str]) -> str:
    """The text of a link in a rule: @section:Occupancy:Occupancy@, @url:the guide:https://…@."""
    kind, rest = found[1], found[2]
    first, _, last = rest.partition(":")
    if kind == "url":
        return f"{first} ({last})" if last else first
    return last or first
