"""The grammar of branch stacks in perf script's text: the fields brstack, brstacksym and brstackoff.

An entry is FROM/TO/PREDICTION/TRANSACTION/ABORT/CYCLES[/TYPE[/SPECULATION]], the newest branch first, as
`perf_sample__fprintf_brstack`, `…brstacksym` and `…brstackoff` of tools/perf/builtin-script.c print it (Linux 3.10 to
6.12). FROM and TO are 0xADDRESS, SYMBOL+0xOFFSET or [unknown], each with (DSO) behind it if that field is printed,
after a space from perf 6.12 on. Nothing separates the entries of brstacksym from the frame before them, and symbols and
modules may contain spaces, slashes and parentheses: so an entry is found by its end, which has a fixed form."""

import re
from dataclasses import dataclass

import re2

from .grammar import UNKNOWN_SYMBOL, decode_text

_MARKER = re2.compile(rb"/[X-]/[A-]/")
ENTRY_END = re.compile(
    rb"/([MP-])(N?)/[X-]/[A-]/(\d{1,9})(?:/(-|N/A|[A-Z0-9_]{0,20})(?:/(?:-|N/A|[A-Z0-9_]{0,40}))?)?(?=\s|$)"
)
"""The end of an entry. Groups: prediction, whether it was not taken, cycles, type."""
MAX_ENTRY_BYTES = 8192

_SOURCE_END = re.compile(rb"(?:\+0x[0-9a-f]{1,16}|^0x[0-9a-f]{1,16}|^\[unknown\])(?:/| ?\()")
_PLACE = re.compile(
    rb"(?:0x(?P<address>[0-9a-f]{1,16})|(?P<symbol>.*?)(?:\+0x(?P<offset>[0-9a-f]{1,16}))?)\Z", re.DOTALL
)
_MODULE = re.compile(rb"(?:\+0x[0-9a-f]{1,16}|^0x[0-9a-f]{1,16}|^\[unknown\])( ?\()")
_MODULE_OFFSET = re.compile(rb"\+0x[0-9a-f]{1,16}\Z")
_ADDRESS = re.compile(rb"(?:^|(?<=\s))0x[0-9a-f]{1,16}(?:/| ?\()")
_FRAME_ADDRESS = re.compile(rb"\s*[0-9a-f]{4,16}(?=\s)")
_FRAME_MODULE = re.compile(rb" \((?=[/\[])")
_PARENTHESIS = re.compile(rb"[()]")


def may_have_entries(text: bytes) -> bool:
    """Whether a text may have branch stacks. RE2 searches a text once, which takes a sixth of what four searches for
    bytes take, and lets other threads run."""
    return _MARKER.search(text) is not None


@dataclass(frozen=True)
class BranchPlace:
    """An end of a branch. symbol: raw, "[unknown]" if perf knew none. offset: in the symbol. address: of brstack, or
    the offset in the module of brstackoff. module: raw, empty if not printed."""

    symbol: str
    offset: int | None
    address: int | None
    module: str


def find_first_entry(text: bytes) -> int | None:
    """Where the first entry starts in the text of a line before its first `ENTRY_END`: behind a sample's header and
    its frame, if they are on the line. None if there is no entry."""
    if len(text) > MAX_ENTRY_BYTES:
        return None
    header = text.rfind(b": ")
    start = header + 2 if header >= 0 else 0
    rest = text[start:]
    address = _ADDRESS.search(rest)
    at = address.start() if address else _skip_frame(rest)
    at += len(rest[at:]) - len(rest[at:].lstrip())
    return start + at if parse_entry(rest[at:]) is not None else None


def parse_entry(text: bytes) -> tuple[BranchPlace, BranchPlace] | None:
    """(from, to) of the text of an entry before its `ENTRY_END`; None if it is none."""
    if len(text) > MAX_ENTRY_BYTES or (end := _SOURCE_END.search(text)) is None:
        return None
    slash = end.end() - 1
    if text[slash : slash + 1] == b"(":
        slash = _find_module_end(text, slash)
    if text[slash : slash + 1] != b"/":
        return None
    source, target = _parse_place(text[:slash]), _parse_place(text[slash + 1 :])
    return None if source is None or target is None else (source, target)


def _skip_frame(text: bytes) -> int:
    """The end of the frame at the start of a text, else 0."""
    address = _FRAME_ADDRESS.match(text)
    if address is None:
        return 0
    module = _FRAME_MODULE.search(text)
    opened = module.start() + 1 if module else text.find(b" (") + 1
    if opened <= 0:
        return address.end()
    return _find_module_end(text, opened) or address.end()


def _find_module_end(text: bytes, opened: int) -> int:
    """The end of a module in parentheses, which may contain others; 0 without one."""
    depth = 0
    for parenthesis in _PARENTHESIS.finditer(text, opened):
        depth += 1 if parenthesis[0] == b"(" else -1
        if depth == 0:
            return parenthesis.end()
    return 0


def _parse_place(text: bytes) -> BranchPlace | None:
    module = b""
    if text.endswith(b")") and (opened := _MODULE.search(text)) is not None:
        # With -F +dsoff, an offset follows the module.
        text, module = text[: opened.start(1)], _MODULE_OFFSET.sub(b"", text[opened.end() : -1])
    place = _PLACE.match(text)
    if place is None or not text:
        return None
    if place["address"] is not None:
        return BranchPlace(UNKNOWN_SYMBOL, None, int(place["address"], 16), decode_text(module))
    if place["offset"] is None and text != UNKNOWN_SYMBOL.encode():
        return None
    offset = None if place["offset"] is None else int(place["offset"], 16)
    return BranchPlace(decode_text(place["symbol"]), offset, None, decode_text(module))
