"""SVG elements of charts, and the width of their text.

Charts are drawn without a browser. So text is measured with a small table of glyph widths of the wider fonts in
static/css/tokens.css: a label can be narrower than its room, but not wider.
"""

import re
import unicodedata
from html import escape
from typing import Any
from xml.etree import ElementTree

from ..domain.text import shorten_middle

_INVALID_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
NARROW_EM, DIGIT_EM, UPPER_EM, WIDE_EM = 0.46, 0.64, 0.85, 1.0
NARROW_GLYPHS = frozenset("ijltfrIJ.,:;'|!()[] /-\\`\"")
WIDE_GLYPHS = frozenset("mwMW@%")
UPPER_GLYPHS = frozenset("#&+<=>~^")
EAST_ASIAN_EM, OTHER_EM = 1.4, 1.0


def add_element(parent: Any, tag: str, attributes: dict[str, str]) -> Any:
    """Add an element to another one; with None, make the root element."""
    if parent is None:
        return ElementTree.Element(tag, attributes)
    return ElementTree.SubElement(parent, tag, attributes)


def add_link(parent: Any, url: str, label: str, css: str = "") -> Any:
    """Add a link that can be reached with the Tab key; a group without a URL. label: its accessible name."""
    attributes = {"class": css} if css else {}
    if url:
        return add_element(parent, "a", {"href": url, "aria-label": strip_invalid_xml(label)} | attributes)
    return add_element(parent, "g", attributes)


def strip_invalid_xml(text: str) -> str:
    """`text` with characters that are invalid in XML (control characters, lone surrogates) replaced by U+FFFD."""
    return text if text.isascii() and text.isprintable() else _INVALID_XML.sub("\ufffd", text)


def escape_text(text: str) -> str:
    """`text` as the content of an element or an attribute."""
    return escape(strip_invalid_xml(text))


def measure_text_em(text: str) -> float:
    """An upper bound of the width of a line of `text` in the fonts of a page, in em."""
    return sum(_glyph_em(character) for character in text)


def _glyph_em(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if not character.isascii():
        return EAST_ASIAN_EM if unicodedata.east_asian_width(character) in "WF" else OTHER_EM
    if character in NARROW_GLYPHS:
        return NARROW_EM
    if character in WIDE_GLYPHS:
        return WIDE_EM
    return UPPER_EM if character.isupper() or character in UPPER_GLYPHS else DIGIT_EM


def fit_text(text: str, em: float) -> str:
    """`text` with valid characters, its middle shortened if it could be wider than `em`."""
    text = strip_invalid_xml(text)
    longest = min(len(text), int(em / 0.4))
    while longest > 1 and measure_text_em(shorten_middle(text, longest)) > em:
        longest -= 1
    return shorten_middle(text, longest)
