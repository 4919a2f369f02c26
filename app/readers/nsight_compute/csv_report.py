"""The output of Nsight Compute as launches, their metrics and hints, and source lines."""

import re
from collections import Counter

from ...ingest.nsight.summary_metrics import SOURCE_SECTION
from .csv_tables import (
    IDENTITY_COLUMNS,
    OTHER_COLUMNS,
    RANGE_COLUMNS,
    CsvHeader,
    CsvRow,
    PageKind,
    iterate_rows,
)
from .launches import Launch, MeasurementCollector, SourceLine
from .numbers import DecimalMark

SOURCE_COLUMNS = ("#", "Address", "Source", "Line No", "Line", "File", "File Path", "File Name")
EMPTY_CELLS = ("0", "-", "")
_NAMED = re.compile(r"(.*) \(([A-Za-z0-9_]+__[\w.:]+)\)")
_METRIC_NAME = re.compile(r"[a-z0-9_]+__[\w.:]+")
_INSTANCES = re.compile(r"(\S+) \(.*\)", re.DOTALL)
_QUOTED = re.compile(r'"([^"]*)"')
_RANGE_WORDS = 6
"""The text after the name of an NVTX range: type and value of its payload, of its color, of its message."""


class CsvReport(MeasurementCollector):
    """What was read of a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.last_lost = 0
        self.style = DecimalMark()
        self._by_key: dict[tuple[str, ...], Launch] = {}
        self._heading: CsvHeader | None = None
        self._seen: Counter[tuple[str, ...]] = Counter()
        self._units: list[str] = []
        self._columns: list[tuple[int, int]] = []
        for row in iterate_rows(text, lambda reason, number, said: None):
            self._look(row)
            if self.style.is_certain:
                break
        self._number = self.style.make_parser()
        for row in iterate_rows(text, self._add_loss):
            self._take(row)

    def _add_loss(self, reason: str, number: int, said: str) -> None:
        self.add_loss(reason, f"line {number}", said)
        self.last_lost = max(self.last_lost, number)

    def _look(self, row: CsvRow) -> None:
        """Learn from a row how numbers are written."""
        if row.heading.kind is PageKind.DETAILS:
            self.style.feed(row.get_cell("Metric Value"))
            self.style.feed(row.get_cell("Estimated Speedup"))
            return
        for name, cell in zip(row.heading.columns, row.cells, strict=True):
            if name not in IDENTITY_COLUMNS and name not in SOURCE_COLUMNS and name[:2] != "0x":
                self.style.feed(cell)

    def _take(self, row: CsvRow) -> None:
        if row.heading is not self._heading:
            self._heading, self._units, self._columns = row.heading, [], []
            self._seen.clear()
            self.kinds.add(row.heading.kind)
        if row.heading.kind is PageKind.SOURCE:
            self._parse_source_row(row)
        elif row.heading.kind is PageKind.DETAILS:
            self._parse_detail_row(row)
        elif row.get_cell("ID"):
            self._parse_raw_row(row)
        elif not self._columns and not self._units:
            self._units = [cell.strip() for cell in row.cells]
        else:
            self._add_loss(OTHER_COLUMNS, row.number, ",".join(row.cells))

    def _launch(self, row: CsvRow, again: int = 0) -> Launch:
        """The launch of a row. again: distinguishes launches with equal identity."""
        name = row.get_cell("Kernel Name")
        key = (row.get_cell("Host Name"), row.get_cell("Process ID"), row.get_cell("ID"), name, str(again))
        launch = self._by_key.get(key)
        if launch is None:
            number = int(row.get_cell("ID")[:18] or 0)
            launch = self._by_key[key] = Launch(number, name, {})
            self.launches.append(launch)
        for column in IDENTITY_COLUMNS:
            if column not in launch.identity and (cell := row.get_cell(column)):
                launch.identity[column] = cell
        if not launch.ranges:
            for part in RANGE_COLUMNS:
                range_column = next((name for name in row.heading.columns if part in name), None)
                if range_column is not None and not launch.ranges:
                    launch.ranges = parse_ranges(row.get_cell(range_column))
        return launch

    def _parse_raw_row(self, row: CsvRow) -> None:
        columns = row.heading.columns
        if not self._columns:
            units = self._units or [""] * len(columns)
            self._columns = [
                (index, self.intern_metric(name, None, None, None, units[index]))
                for index, name in enumerate(columns)
                if name and name not in IDENTITY_COLUMNS and not any(part in name for part in RANGE_COLUMNS)
            ]
        key = (row.get_cell("Host Name"), row.get_cell("Process ID"), row.get_cell("ID"), row.get_cell("Kernel Name"))
        launch = self._launch(row, self._seen[key])
        self._seen[key] += 1
        units = self._units or [""] * len(columns)
        for index, metric in self._columns:
            self._add_measurement(launch, metric, row.cells[index].strip(), units[index])

    def _parse_detail_row(self, row: CsvRow) -> None:
        launch = self._launch(row)
        section = row.get_cell("Section Name") or None
        if title := row.get_cell("Metric Name"):
            match = _NAMED.fullmatch(title)
            name, label = (
                (match[2], match[1]) if match else (title, None) if _METRIC_NAME.fullmatch(title) else (None, title)
            )
            unit = row.get_cell("Metric Unit")
            metric = self.intern_metric(name, label, section, row.get_cell("Body Item Label") or None, unit)
            self._add_measurement(launch, metric, row.get_cell("Metric Value"), unit)
        if rule := row.get_cell("Rule Name"):
            launch.hints.append(
                {
                    "section": section,
                    "rule": rule,
                    "kind": row.get_cell("Rule Type") or None,
                    "text": row.get_cell("Rule Description") or None,
                    "speedup_kind": row.get_cell("Estimated Speedup Type") or None,
                    "speedup_percent": self._number(row.get_cell("Estimated Speedup").removesuffix("%")),
                }
            )

    def _add_measurement(self, launch: Launch, metric: int, cell: str, unit: str) -> None:
        if not cell:
            return
        value, text = self._number(cell), None
        if value is None:
            value, text = self._split_value(cell)
        self.add_value(launch, metric, value, text, unit)

    def _split_value(self, cell: str) -> tuple[float | None, str]:
        """(the number that the numbers of instances follow, the text) of a value that is no number."""
        parts = _INSTANCES.fullmatch(cell)
        return (self._number(parts[1]) if parts else None), cell

    def _parse_source_row(self, row: CsvRow) -> None:
        heading, file = row.heading, row.heading.file or row.get_cell("File Path", "File Name", "File") or None
        line = row.get_cell("Line No", "Line") or (row.get_cell("#") if file else "")
        if not self._columns:
            self._columns = [
                (index, self.intern_metric(named, None if named else name, SOURCE_SECTION, None, ""))
                for index, name in enumerate(heading.columns)
                if name and name not in SOURCE_COLUMNS
                for named in [name if _METRIC_NAME.fullmatch(name) else None]
            ]
        values: list[tuple[int, float | None, str | None]] = []
        for index, metric in self._columns:
            cell = row.cells[index]
            if cell in EMPTY_CELLS:
                continue
            value, text = self._number(cell), None
            if value is None:
                value, text = self._split_value(cell.strip())
            if value != 0 and (value is not None or text):
                values.append((metric, value, text))
        self.sources.append(
            SourceLine(
                block=heading.block,
                kernel=heading.kernel,
                file=file,
                line=int(line) if line.isdecimal() and len(line) < 10 else None,
                address=parse_address(row.get_cell("Address")),
                text=row.cells[heading.column_indices["Source"]],
                values=list(dict.fromkeys(values)),
            )
        )


def parse_ranges(cell: str) -> tuple[str, ...]:
    """The names of NVTX ranges, the outermost first. Each is printed as "domain:name:none:none:…", in quotes."""
    names = []
    for quoted in _QUOTED.findall(cell):
        rest = quoted.partition(":")[2] or quoted
        words = rest.rsplit(":", _RANGE_WORDS)
        name = words[0] if len(words) > _RANGE_WORDS else rest
        if name:
            names.append(name)
    return tuple(names)


def parse_address(text: str) -> int | None:
    """A hexadecimal address of the source page."""
    digits = text.strip().removeprefix("0x")
    if not re.fullmatch(r"[0-9a-fA-F]{1,16}", digits):
        return None
    address = int(digits, 16)
    return address if address < 1 << 63 else None
