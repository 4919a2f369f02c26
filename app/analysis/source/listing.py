"""The lines of source files that a page shows: those with figures, with what surrounds them."""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.schemas.code import Code
from ..core.memo import memoize

CONTEXT = 3
"""Lines before and after."""
MAX_WHOLE = 2_000
"""A range with more lines is shown only around lines with code."""
MAX_LINE = 400


@dataclass(frozen=True, eq=False)
class FileLines:
    """Lines of one file. numbers: ascending, with gaps. texts: of these, None without the file. line: for each number
    the index in `FunctionCode.line`, -1 for a line without code. detail: of the file, as in `Code`."""

    file: int
    path: str
    detail: str
    numbers: tuple[int, ...]
    texts: tuple[str, ...] | None
    line: tuple[int, ...]


def list_lines(profile: Profile, code: Code, file: Array, line: Array, weight: Array) -> tuple[FileLines, ...]:
    """The lines to show for a function, by file; the file with the largest weight first.

    file, line, weight: of the lines of the function's code.
    """
    found = []
    paths, details = code.files.column("path").to_pylist(), code.files.column("detail").to_pylist()
    for number in np.unique(file[file >= 0]).tolist():
        own = np.flatnonzero((file == number) & (line > 0))
        if not len(own):
            continue
        texts = _split_lines(profile, code, number)
        by_number = dict(zip(line[own].tolist(), own.tolist(), strict=True))
        numbers = _choose_numbers(sorted(by_number), None if texts is None else len(texts))
        found.append(
            FileLines(
                file=number,
                path=paths[number],
                detail=details[number] or "",
                numbers=tuple(numbers),
                texts=None if texts is None else tuple(_text_at(texts, at) for at in numbers),
                line=tuple(by_number.get(at, -1) for at in numbers),
            )
        )
    sums = {one.file: float(np.nansum(weight[file == one.file])) for one in found}
    return tuple(sorted(found, key=lambda one: -sums[one.file]))


def text_of_line(profile: Profile, code: Code, file: int, line: int) -> str:
    """The text of a line, empty if it is unknown."""
    texts = _split_lines(profile, code, file) if file >= 0 else None
    return "" if texts is None else _text_at(texts, line).strip()


def _split_lines(profile: Profile, code: Code, file: int) -> list[str] | None:
    def build() -> list[str] | None:
        text = code.files.column("text")[file].as_py()
        return None if text is None else str(text).split("\n")

    return memoize(profile, ("lines of file", id(code), file), build)


def _choose_numbers(numbers: list[int], count: int | None) -> list[int]:
    """The lines to show. count: lines of the file, None without its text."""
    if count is None:
        return numbers
    if numbers[-1] - numbers[0] < MAX_WHOLE:
        return list(range(max(1, numbers[0] - CONTEXT), max(numbers[-1], min(count, numbers[-1] + CONTEXT)) + 1))
    around = {near for at in numbers for near in range(at - CONTEXT, at + CONTEXT + 1) if 1 <= near <= count}
    return sorted(around.union(numbers))


def _text_at(texts: list[str], number: int) -> str:
    text = texts[number - 1] if 1 <= number <= len(texts) else ""
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}…"
