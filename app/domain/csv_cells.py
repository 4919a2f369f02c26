"""What a text becomes in a CSV file, so that no spreadsheet takes it for a formula."""

import re
import unicodedata
from typing import Any

_FORMULA = frozenset("=+-@\N{MINUS SIGN}")
_IGNORED = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that show nothing: Default_Ignorable_Code_Point of Unicode, as far as it is not of category Cf, and
the empty Braille pattern."""


def escape_csv_cell(value: Any) -> Any:
    """What is in a CSV file for a value: a text that a spreadsheet may take for a formula gets an apostrophe before
    it, as OWASP advises (CSV Injection)."""
    return "'" + value if isinstance(value, str) and _like_formula(value) else value


def _like_formula(text: str) -> bool:
    if text[:1] in ("\t", "\r", "\n"):
        return True
    for character in text:
        # Full-width and small signs, such as ＝ and ﹦, are those signs to a spreadsheet.
        if unicodedata.normalize("NFKC", character) in _FORMULA:
            return True
        # Spreadsheets drop these before they look: control characters and invisible ones.
        hidden = unicodedata.category(character) in ("Cc", "Cf") or _IGNORED.match(character)
        if not character.isspace() and not hidden:
            return False
    return False
