"""Texts in CSV files, escaped so that no spreadsheet interprets them as formulas."""

import re
import unicodedata
from typing import Any

_FORMULA = frozenset("=+-@\N{MINUS SIGN}")
_IGNORED = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Invisible letters and marks: Default_Ignorable_Code_Point of Unicode, except category Cf, and the empty Braille
pattern."""


def escape_csv_cell(value: Any) -> Any:
    """The value of a cell. A text that a spreadsheet may interpret as a formula gets a leading apostrophe, as OWASP
    recommends (CSV Injection)."""
    return "'" + value if isinstance(value, str) and _looks_like_formula(value) else value


def _looks_like_formula(text: str) -> bool:
    if text[:1] in ("\t", "\r", "\n"):
        return True
    for character in text:
        # Spreadsheets treat full-width and small signs, such as ＝ and ﹦, like the ordinary signs.
        if unicodedata.normalize("NFKC", character) in _FORMULA:
            return True
        # Spreadsheets remove control characters and invisible ones first.
        hidden = unicodedata.category(character) in ("Cc", "Cf") or _IGNORED.match(character)
        if not character.isspace() and not hidden:
            return False
    return False
