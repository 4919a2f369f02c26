"""Parses the CSV that `ncu --csv` prints: the table of each row, and the content of its columns.

A file may contain several tables one after the other, each with its heading: the pages raw, details and source of a
report, or those of several reports. Output of ncu and of the program may surround them.
"""

import codecs
import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

MAX_LINE_BYTES = 1 << 22
MAX_RECORD_LINES = 200
"""A row of more lines than this lacks a quotation mark."""
SNIFFED_LINES = 400
UNTERMINATED_QUOTE = "row with an unterminated quotation mark"
OTHER_COLUMNS = "row with other columns than its header"
TOO_LONG = "line of more than 4 MiB"
CSV_LOSSES = (UNTERMINATED_QUOTE, OTHER_COLUMNS, TOO_LONG)
IDENTITY_COLUMNS = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Time", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC", "Device Name"),
)
"""The columns that identify the launch of a row; all others of the page raw are metrics."""
RANGE_COLUMNS = ("Push/Pop_Range", "Start/Stop_Range")
"""Parts of the names of the columns with NVTX ranges."""
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SAYS = re.compile(r"==[A-Z]+==")
_HEADING = re.compile(r"(?:^|[\s,\"])(?:Kernel Name|Source)(?:$|[\s,\"])")
_PLACES = ("Kernel Name", "Function Name", "File Path", "File Name")


class PageKind(Enum):
    """The kinds of rows of a table: one per launch, one per metric or rule of a launch, one per source line."""

    RAW = "raw"
    DETAILS = "details"
    SOURCE = "source"
    SUMMARY = "summary"


@dataclass(frozen=True)
class CsvHeader:
    """The columns of a table. kernel, file: printed before a table of source lines. block: the number of the kernel on
    the page, from 1; 0 if none was printed."""

    kind: PageKind
    columns: tuple[str, ...]
    kernel: str = ""
    file: str = ""
    block: int = 0

    @cached_property
    def column_indices(self) -> dict[str, int]:
        """The index of each column, the first of a name."""
        return {name: place for place, name in reversed(list(enumerate(self.columns)))}


@dataclass(frozen=True)
class CsvRow:
    """A row of a table. number: of its line in the file, from 1."""

    heading: CsvHeader
    cells: list[str]
    number: int

    def get_cell(self, *names: str) -> str:
        """The value of the first of these columns that exists."""
        for name in names:
            place = self.heading.column_indices.get(name)
            if place is not None:
                return self.cells[place].strip()
        return ""


LossCallback = Callable[[str, int, str], None]


@dataclass
class _SourceTableContext:
    """What was printed so far before a table of source lines. blocks: the number of kernels so far."""

    kernel: str = ""
    file: str = ""
    blocks: int = 0


def decode_text(data: bytes) -> str:
    """The text of a file: UTF-8, or UTF-16 with a byte order mark (PowerShell writes that)."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    return data.decode("utf-8", "replace")


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` has a table of Nsight Compute near its beginning."""
    if b"\0" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return False
    lines = decode_text(head).split("\n")[:SNIFFED_LINES]
    return any(
        parse_header(_parse_cells(line.rstrip("\r"))) is not None
        for line in lines
        if "Name" in line or "Source" in line
    )


def parse_header(cells: Sequence[str]) -> CsvHeader | None:
    """The heading in a row; None if it is none."""
    columns = tuple(cell.strip() for cell in cells)
    known = set(columns)
    if "Kernel Name" in known and "Metric Name" in known:
        if {"ID", "Metric Value"} <= known:
            return CsvHeader(PageKind.DETAILS, columns)
        return CsvHeader(PageKind.SUMMARY, columns) if {"Minimum", "Maximum"} & known else None
    if {"ID", "Kernel Name"} <= known:
        return CsvHeader(PageKind.RAW, columns)
    if "Source" in known and {"#", "Address", "Line No", "Line"} & known and len(columns) > 2:
        return CsvHeader(PageKind.SOURCE, columns)
    return None


def iterate_rows(text: str, loss_callback: LossCallback) -> Iterator[CsvRow]:
    """The rows of all tables, without headings and other lines. lost: called with reason, line number and text of each
    lost row."""
    heading: CsvHeader | None = None
    place = _SourceTableContext()
    for number, record in _iterate_rows(text, loss_callback):
        cells = _parse_cells(record)
        csv_header = parse_header(cells) if _HEADING.search(record) else None
        if csv_header is not None:
            if csv_header.kind is PageKind.SOURCE:
                csv_header = CsvHeader(csv_header.kind, csv_header.columns, place.kernel, place.file, place.blocks)
            heading = csv_header
        elif cells and cells[0].strip() in _PLACES and len([cell for cell in cells if cell.strip()]) <= 4:
            _read_context(place, cells)
        elif heading is not None and (fitting := _fit_cells(cells, heading)) is not None:
            yield CsvRow(heading, fitting, number)
        elif (
            heading is not None
            and len(cells) != 1
            and (record.startswith('"') or cells[:1] == [] or cells[0].isdecimal())
        ):
            loss_callback(OTHER_COLUMNS, number, record)


def _read_context(place: _SourceTableContext, cells: list[str]) -> None:
    """Parse a line above a table of source lines: "Kernel Name","f(int)" or "File Path","/a/b.cu"."""
    pairs = zip(cells[::2], cells[1::2], strict=False)
    for name, value in pairs:
        if name.strip() in ("Kernel Name", "Function Name"):
            place.kernel, place.file, place.blocks = value, "", place.blocks + 1
        elif name.strip() in ("File Path", "File Name"):
            place.file = value


def _fit_cells(cells: list[str], heading: CsvHeader) -> list[str] | None:
    """The cells of a row, one for each column of its heading; None for another row. Empty cells at the end may be
    missing, or be extra."""
    wanted = len(heading.columns)
    if len(cells) > wanted and not any(cell.strip() for cell in cells[wanted:]):
        cells = cells[:wanted]
    if heading.kind is PageKind.SOURCE:
        return cells if len(cells) == wanted else None
    if heading.kind is PageKind.SUMMARY:
        return None
    if len(cells) < wanted and heading.kind is PageKind.DETAILS and len(cells) > heading.column_indices["Metric Value"]:
        # Rules, in the last columns, may be missing.
        cells = cells + [""] * (wanted - len(cells))
    if len(cells) != wanted:
        return None
    number = cells[heading.column_indices["ID"]].strip()
    return cells if number.isdecimal() or (not number and heading.kind is PageKind.RAW) else None


def _iterate_rows(text: str, loss_callback: LossCallback) -> Iterator[tuple[int, str]]:
    """Rows with the number of their first line; a row continues on the next line while a quotation mark is open."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line, first = lines[at].rstrip("\r"), at
        at += 1
        if not line.strip() or _SAYS.match(line):
            continue
        if len(line) > MAX_LINE_BYTES:
            loss_callback(TOO_LONG, first + 1, f"{len(line):,} characters")
            continue
        if line.count('"') % 2 and line.startswith('"'):
            more, end = [line], at
            while end < len(lines) and end - first < MAX_RECORD_LINES:
                more.append(lines[end].rstrip("\r"))
                end += 1
                if more[-1].count('"') % 2:
                    break
            if sum(part.count('"') for part in more) % 2 or sum(map(len, more)) > MAX_LINE_BYTES:
                loss_callback(UNTERMINATED_QUOTE, first + 1, line)
                continue
            line, at = "\n".join(more), end
        yield first + 1, line


def _parse_cells(record: str) -> list[str]:
    """The cells of a row; none if it is not CSV."""
    # A setting of the whole process; the default is shorter than the name of a kernel may be.
    csv.field_size_limit(2 * MAX_LINE_BYTES)
    try:
        return next(csv.reader([record]), [])
    except csv.Error:
        return []
