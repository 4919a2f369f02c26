"""Numbers as Nsight Compute prints them: grouped, in the locale of the writer, with a varying unit.

The same text may be two numbers ("1.234" is 1.234 in English, and 1234 in German). So all numbers of a file are checked
first: `DecimalMark` counts those that are valid with only one of the two marks.
"""

import math
import re
from collections.abc import Callable
from functools import lru_cache

from ...domain.units import NS_PER_S

ABSENT = frozenset({"", "-", "n/a", "N/A", "nan", "-nan", "(!) nan", "(!) n/a", "no data", "inf", "-inf"})
"""Texts of cells without a number."""
MAX_NUMBER_CHARS = 60
MAX_PROOFS = 1_000
"""One decimal mark must be proved by this many more numbers, so that the others can be ignored."""
_SPACES = re.compile(r"(?<=\d)[ \u00a0\u2009\u202f'’](?=\d{3}(?!\d))")
_PLAIN = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_NUMBER = re.compile(r"[+-]?\d[\d.,]*(?:[eE][+-]?\d+)?")
# Only valid with this decimal mark: 12.50 and 0.1234 (not three digits), 1,234.567 and 1,234,567.
_DECIMALS = r"[+-]?\d+{0}(?:\d{{1,2}}|\d{{4,}})(?:[eE][+-]?\d+)?"
_BOTH = r"[+-]?\d{{1,3}}(?:{1}\d{{3}})+{0}\d+"
_GROUPS = r"[+-]?\d{{1,3}}(?:{1}\d{{3}}){{2,}}"
# A group of digits never begins with 0: 0.123 has decimals.
_SMALL = r"[+-]?0{0}\d+"
_PROVING = {
    mark: re.compile("|".join((_DECIMALS, _BOTH, _GROUPS, _SMALL)).format(re.escape(mark), re.escape(other)))
    for mark, other in ((".", ","), (",", "."))
}
_FACTORS = {
    "n": 1e-9,
    "u": 1e-6,
    "µ": 1e-6,
    "μ": 1e-6,
    "m": 1e-3,
    "": 1.0,
    "K": 1e3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
}
_SECONDS = re.compile(r"([numµμ]?)(?:second|sec|s)")
_BYTES = re.compile(r"([KkMGT]?)(i?)(?:byte|B)(?:/block)?")


class DecimalMark:
    """The decimal mark of a file: a dot, unless more numbers are only valid with a comma."""

    def __init__(self) -> None:
        self._dots = 0
        self._commas = 0

    @property
    def is_certain(self) -> bool:
        """Whether no more numbers need to be checked."""
        return abs(self._dots - self._commas) >= MAX_PROOFS

    def feed(self, text: str) -> None:
        """Take a number into account."""
        if "." in text or "," in text:
            bare = _SPACES.sub("", text)
            self._dots += _PROVING["."].fullmatch(bare) is not None
            self._commas += _PROVING[","].fullmatch(bare) is not None

    @property
    def is_comma(self) -> bool:
        """Whether the decimal mark is a comma."""
        return self._commas > self._dots

    def make_parser(self) -> Callable[[str], float | None]:
        """A function that parses a text: None if it is no number, or not finite. It caches numbers, because most
        recur."""
        comma = self.is_comma
        return lru_cache(maxsize=1 << 18)(lambda text: _parse_number(text, comma))


def _parse_number(text: str, comma: bool) -> float | None:
    text = text.strip()
    if text in ABSENT or len(text) > MAX_NUMBER_CHARS:
        return None
    if not comma and text.isascii() and text.replace(".", "", 1).isdecimal():
        return float(text)
    bare = _SPACES.sub("", text)
    if not _NUMBER.fullmatch(bare):
        return None
    bare = bare.replace(".", "").replace(",", ".") if comma else bare.replace(",", "")
    if not _PLAIN.fullmatch(bare):
        return None
    value = float(bare)
    return value if math.isfinite(value) else None


def to_nanoseconds(value: float, unit: str) -> float | None:
    """A time in ns; None for a unit that is not a time."""
    match = _SECONDS.fullmatch(unit.strip())
    return value * _FACTORS[match[1]] * NS_PER_S if match else None


def to_bytes(value: float, unit: str) -> float | None:
    """A size in bytes; None for a unit that is not a size. Prefixes are powers of 1000, those with an i of 1024."""
    match = _BYTES.fullmatch(unit.strip())
    if not match:
        return None
    if match[2]:
        return float(value * 1024 ** "KMGT".index(match[1].upper() or "K") * (1024 if match[1] else 1))
    return value * _FACTORS[match[1]]
