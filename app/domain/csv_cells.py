"""What a text becomes in a CSV file, so that no spreadsheet takes it for a formula."""

import unicodedata
from typing import Any

_FORMULA = frozenset("=+-@＝＋－＠")


def csv_cell(value: Any) -> Any:
    """What stands in a CSV file for a value: a text that a spreadsheet may take for a formula gets an apostrophe before
    it, as OWASP advises (CSV Injection)."""
    return "'" + value if isinstance(value, str) and _like_formula(value) else value


def _like_formula(text: str) -> bool:
    if text[:1] in ("\t", "\r", "\n"):
        return True
    for character in text:
        if character in _FORMULA:
            return True
        # Spreadsheets drop these before they look: control characters and invisible ones.
        if not character.isspace() and unicodedata.category(character) not in ("Cc", "Cf"):
            return False
    return False
