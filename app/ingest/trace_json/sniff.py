"""Detects trace events in JSON by the beginning of a file, in any encoding of Unicode."""

import codecs
import re

from .grammar import MalformedValue, NeedMoreData, decode_string, scan_value, skip_blanks

_PHASE = re.compile(rb'"ph"\s*+:\s*+"')
MANY_EVENTS_BYTES = 32 << 10
_BEFORE_EVENTS = ("metadata", "otherData", "stackFrames", "samples", "systemTraceEvents", "powerTraceAsString")
"""Keys of Google's "Trace Event Format" with values that can be so long that `traceEvents` is not in the head."""
_UNDERSTOOD = ("traceEvents", "schemaVersion", "deviceProperties", "distributedInfo", "displayTimeUnit")


def is_trace_json(head: bytes) -> bool:
    """Whether a file that starts with `head` is trace events in JSON, an object or a bare array."""
    text = _recode_to_utf8(head).lstrip()
    if text.startswith(b"["):
        return text[1:].lstrip().startswith(b"{") and _PHASE.search(text) is not None
    keys, is_cut = _scan_top_keys(head)
    return any(key in _UNDERSTOOD for key in keys) or (is_cut and keys[-1:] != [] and keys[-1] in _BEFORE_EVENTS)


def find_top_keys(head: bytes) -> list[str]:
    """The keys up to and including `traceEvents` of the object with which a file begins, as far as `head` contains
    them."""
    return _scan_top_keys(head)[0]


def _scan_top_keys(head: bytes) -> tuple[list[str], bool]:
    """(the same keys, whether the value of the last key is truncated in `head` or nested too deeply)"""
    text = _recode_to_utf8(head)
    keys: list[str] = []
    position = len(text) - len(text.lstrip())
    if text[position : position + 1] != b"{":
        return keys, False
    position += 1
    try:
        while True:
            position = skip_blanks(text, position)
            if text[position : position + 1] != b'"':
                return keys, False
            value = scan_value(text, position)
            keys.append(decode_string(text[value.start + 1 : value.end - 1]))
            if keys[-1] == "traceEvents" and len(text) - value.end > MANY_EVENTS_BYTES:
                # If there are many, their end is beyond the window.
                return keys, False
            position = scan_value(text, text.index(b":", value.end) + 1).end
    except (MalformedValue, NeedMoreData):
        return keys, True
    except ValueError:
        return keys, False


def _recode_to_utf8(head: bytes) -> bytes:
    encoding, mark = detect_encoding(head)
    text = head[mark:]
    return text if encoding is None else text.decode(encoding, "replace").encode()


def detect_encoding(head: bytes) -> tuple[str | None, int]:
    """(the encoding of a text that is not UTF-8, else None; the length of the byte order mark)."""
    marks = (codecs.BOM_UTF8, None), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")
    for mark, encoding in (*marks, (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if head.startswith(mark):
            return encoding, len(mark)
    # Which of the first bytes are zero.
    zeros = "".join(".0"[byte == 0] for byte in head[:4])
    return {".000": "utf-32-le", "000.": "utf-32-be", ".0.0": "utf-16-le", "0.0.": "utf-16-be"}.get(zeros), 0
