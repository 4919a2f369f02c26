"""Rows of source lines and of instructions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ....analysis.source.code_index import CodeIndex
from ....analysis.source.figures import FunctionCode
from ....analysis.source.listing import FileLines
from ....domain.arrays import Array
from ....domain.schemas.code import Code
from ....domain.symbols.demangler import Demangler
from ....domain.tables import get_column
from ....domain.text import shorten
from .cells import FigureCell, FigureColumn

MAX_INSTRUCTIONS = 20_000
MAX_CHAIN = 6
HOT_PERCENT = 5.0
"""Of the selection: from this self weight on a line is marked as hot."""


class SourceRow(NamedTuple):
    """A line. cells: its figures. anchor: its id on the page. jump: the id of its first instruction, empty without
    code. bars: self and total in percent, None for neither. is_gap: whether lines before it are left out."""

    number: int
    text: str
    cells: tuple[FigureCell, ...]
    anchor: str
    jump: str
    bars: tuple[float, float] | None
    is_hot: bool
    is_gap: bool


@dataclass(frozen=True)
class SourceSection:
    """Lines of one file. detail: what is wrong with its text. is_open: whether it is shown at first."""

    path: str
    detail: str
    rows: tuple[SourceRow, ...]
    is_open: bool


class InstructionRow(NamedTuple):
    """An instruction. anchor: its id. target: the id of the instruction of this function to which it jumps, empty
    without one. jumps: how many instructions of this function jump to it. place: file and line; chain: those with the
    functions that are inlined there; line: the id of its line. starts: the name of the function that begins here."""

    address: str
    text: str
    cells: tuple[FigureCell, ...]
    anchor: str
    target: str
    jumps: int
    place: str
    chain: str
    line: str
    bars: tuple[float, float] | None
    is_hot: bool
    starts: str


def anchor_of_line(file: int, line: int) -> str:
    """The id of a line on the page."""
    return f"l{file}-{line}"


def anchor_of_address(address: int) -> str:
    """The id of an instruction on the page."""
    return f"a{address:x}"


def build_sections(
    files: Sequence[FileLines], found: FunctionCode, addresses: Array, columns: Sequence[FigureColumn]
) -> tuple[SourceSection, ...]:
    """The lines of a function by file."""
    main = found.lines[0]
    # The first instruction of each line.
    first = np.full(len(found.line), -1, np.int64)
    first[found.line_of[::-1]] = np.arange(len(found.rows))[::-1]
    blank = tuple(FigureCell("", "") for _ in columns)
    sections = []
    for order, one in enumerate(files):
        rows = []
        before = one.numbers[0] - 1 if one.numbers else 0
        for at, number, line in zip(range(len(one.numbers)), one.numbers, one.line, strict=True):
            known = line >= 0
            own, total = (float(main.own_percent[line]), float(main.total_percent[line])) if known else (0.0, 0.0)
            rows.append(
                SourceRow(
                    number=number,
                    text=one.texts[at] if one.texts is not None else "",
                    cells=tuple(column.cells[line] for column in columns) if known else blank,
                    anchor=anchor_of_line(one.file, number),
                    jump=anchor_of_address(int(addresses[found.rows[first[line]]])) if known else "",
                    bars=(_limit(total), _limit(own)) if total or own else None,
                    is_hot=own >= HOT_PERCENT,
                    is_gap=number != before + 1,
                )
            )
            before = number
        sections.append(SourceSection(one.path, one.detail, tuple(rows), order == 0))
    return tuple(sections)


def build_instruction_rows(
    code: Code, index: CodeIndex, found: FunctionCode, columns: Sequence[FigureColumn]
) -> tuple[InstructionRow, ...]:
    """The first MAX_INSTRUCTIONS instructions of a function."""
    rows = found.rows[:MAX_INSTRUCTIONS]
    part = code.instructions.take(rows)
    texts, targets = part.column("text").to_pylist(), part.column("target").to_pylist()
    address = index.address[rows].tolist()
    here = frozenset(address)
    jumps: dict[int, int] = {}
    for target in targets:
        if target in here:
            jumps[target] = jumps.get(target, 0) + 1
    places = index.place[rows].tolist()
    names = {place: _describe_place(code, place) for place in set(places)}
    line_of = found.line_of[: len(rows)].tolist()
    anchors = [anchor_of_line(file, line) if file >= 0 else "" for file, line in _pairs(found)]
    main = found.instructions[0]
    own, total = main.own_percent.tolist(), main.total_percent.tolist()
    symbol_names = _name_symbols(code, found)
    starts = {int(index.first[symbol]): name for symbol, name in symbol_names.items()}
    return tuple(
        InstructionRow(
            f"{address[at]:x}",
            texts[at],
            tuple(column.cells[at] for column in columns),
            anchor_of_address(address[at]),
            anchor_of_address(targets[at]) if targets[at] in here else "",
            jumps.get(address[at], 0),
            *names[places[at]],
            anchors[line_of[at]],
            (_limit(total[at]), _limit(own[at])) if total[at] or own[at] else None,
            own[at] >= HOT_PERCENT,
            starts.get(row, "") if len(starts) > 1 else "",
        )
        for at, row in enumerate(rows.tolist())
    )


def _pairs(found: FunctionCode) -> list[tuple[int, int]]:
    return list(zip(found.file.tolist(), found.line.tolist(), strict=True))


def _name_symbols(code: Code, found: FunctionCode) -> dict[int, str]:
    demangler, names = Demangler(), code.symbols.column("name")
    return {symbol: demangler.format(names[symbol].as_py()) for symbol in found.symbols.tolist()}


def _describe_place(code: Code, place: int) -> tuple[str, str]:
    """(file and line, the same with all callers of inlined code)."""
    if place < 0:
        return "", ""
    demangler = Demangler()
    chain: list[tuple[str, str]] = []
    parents, files, lines = (get_column(code.places, name) for name in ("parent", "file", "line"))
    while place >= 0 and len(chain) < MAX_CHAIN:
        path = str(code.files.column("path")[int(files[place])].as_py())
        text = f"{path.rpartition('/')[2]}:{int(lines[place]) or '?'}"
        chain.append((text, shorten(demangler.format(code.places.column("function")[place].as_py()), 120)))
        place = int(parents[place])
    return chain[0][0], "\ninlined into ".join(f"{name} at {text}" for text, name in chain)


def _limit(percent: float) -> float:
    return min(100.0, max(0.0, percent))
