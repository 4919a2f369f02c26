"""JSON of traces, strict or not, on bytes: values and their members as they are in the text.

No number is converted and no string unescaped here, so that times stay exact and texts are those of the file.
Recoverable errors are corrected: extra commas, control characters and invalid escapes in strings, words that are not
JSON (NaN, Infinity), which become null.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

Text = bytes | memoryview
PLAUSIBLE_BYTES = 1 << 20
"""Longer events are not searched for."""
MAX_ARGUMENT_DEPTH = 64
"""The maximum nesting depth of an argument's value that is kept."""
MAX_DEPTH = 1000
"""Deeper values are not followed to their end."""
MAX_TIME_NS = 2**62
"""Times are nearer to zero than this, so that sums and differences of two fit into 64 bits."""
SHORT_BYTES = 4 << 10
"""The number of bytes in which an event is searched for at first."""
MAX_NUMBER_CHARS = 40
"""Numbers of fewer characters and without an exponent are finite."""

BETWEEN = re.compile(rb"[\s,\x00\x1e]*+")
"""Allowed text between two events."""

_START = re.compile(rb'\}\s*+,?\s*+(\{\s*+")')
_TOKEN = re.compile(rb'\s*+(?:("(?:[^"\\]++|\\.)*+("?))|([][{}:,])|[^]\s"[{}:,]++)', re.DOTALL)
_PLAIN = rb'(?:"[^"\\\x00-\x1f]*+"|-?(?:0|[1-9][0-9]{0,17}+)(?:\.[0-9]{1,17}+)?|true|false|null)'
_MEMBERS = re.compile(rb'(?:\s*+"[^"\\\x00-\x1f]*+"\s*+:\s*+' + _PLAIN + rb"\s*+,)*+")
_ELEMENTS = re.compile(rb"(?:\s*+" + _PLAIN + rb"\s*+,)*+")
_TIGHT = re.compile(rb'(?:"[^"\\\x00-\x1f]*+":' + _PLAIN + rb",)*+")
"""Members of an object, elements of a list, and members without white space, each with a comma after it and no
irregularity: many tokens at once."""
_PLAIN_MEMBER = rb'\s*+"[^"\\\x00-\x1f]*+"\s*+:\s*+' + _PLAIN + rb"\s*+"
_PLAIN_MEMBERS = rb"(?:" + _PLAIN_MEMBER + rb",)*+"
_PLAIN_EVENT = re.compile(
    rb"\{("
    + _PLAIN_MEMBERS
    + rb")(?:("
    + _PLAIN_MEMBER
    + rb')|\s*+"args"\s*+:\s*+(\{(?:'
    + _PLAIN_MEMBERS
    + _PLAIN_MEMBER
    + rb"|\s*+)\})\s*+(?:,("
    + _PLAIN_MEMBERS
    + _PLAIN_MEMBER
    + rb"))?)\}"
)
"""A strict object without any irregularity in which only `args` is an object, and has no object or list."""
_SPLIT_MEMBER = re.compile(rb'"([^"]*+)"\s*+:\s*+("[^"]*+"|[^\s,}]++)')
_SPLIT_ARGUMENT = re.compile(rb'("([^"]*+)"\s*+:\s*+("[^"]*+"|[^\s,}]++))')
_MEMBER = re.compile(
    rb'[\s,]*+("(?:[^"\\]++|\\.)*+")\s*+:\s*+(?:("(?:[^"\\]++|\\.)*+")|([^]\s"[{}:,]++))',
    re.DOTALL,
)
"""A member of a strict object that is no list and no object."""
_ODD = re.compile(rb'[\x00-\x1f]|(?<!\\)(?:\\\\)*+\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPES = re.compile(rb'[\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?+')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?")
_WHOLE = re.compile(rb"-?(?:0|[1-9][0-9]{0,18})(?:\.0+)?")
_TIME = re.compile(rb"\s*([-+]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([-+]?[0-9]{1,6}))?\s*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)")
_LITERALS = (b"true", b"false", b"null")


def skip_blanks(data: Text, position: int) -> int:
    """The end of the allowed text between two events."""
    match = BETWEEN.match(data, position)
    assert match is not None
    return match.end()


class UnterminatedValue(Exception):
    """A value without an end. open: where it and the unfinished values in it begin."""

    def __init__(self, open_: list[int]) -> None:
        super().__init__()
        self.open = open_


class MalformedValue(UnterminatedValue):
    """Text that is no JSON value."""


class NeedMoreData(UnterminatedValue):
    """The text ends before the value does."""


@dataclass(frozen=True)
class JsonValue:
    """A value in a text: where it starts and ends. non_strict: it is not strict JSON. depth: its nesting depth."""

    start: int
    end: int
    non_strict: bool
    depth: int


def scan_value(data: Text, start: int, deepest: int = MAX_DEPTH) -> JsonValue:
    """The value that begins at `start`, or after the white space there. Raises Damaged, More."""
    closers = bytearray()
    opened = [start]
    depth, bent = 0, False
    expected, comma = "value", False
    begin, position = -1, start
    while True:
        if expected == "key" or (expected == "value" and closers[-1:] == b"]"):
            simple = (_MEMBERS if expected == "key" else _ELEMENTS).match(data, position)
            if simple is not None and simple.end() > position:
                position, comma = simple.end(), True
        match = _TOKEN.match(data, position)
        if match is None or match[2] == b"":
            raise NeedMoreData(opened)
        position = match.end()
        sign = match[3]
        text = match[1]
        if begin < 0:
            begin = position - len(text or sign or match[0].lstrip())
        if sign is None and text is None:
            # A word may continue after the end of the available text.
            if position == len(data):
                raise NeedMoreData(opened)
            bent = bent or not is_strict_literal(match[0].lstrip())
        if text is not None:
            bent = bent or _ODD.search(text) is not None
        if expected == "colon":
            if sign != b":":
                raise MalformedValue(opened)
            expected = "value"
            comma = False
            continue
        if expected == "key":
            if text is not None:
                expected = "colon"
                continue
            if sign not in (b"}", b","):
                raise MalformedValue(opened)
        if expected == "next" and sign not in (b",", b"}", b"]"):
            raise MalformedValue(opened)
        if sign == b",":
            within = closers[-1:]
            if not within or (expected == "value" and within == b"}"):
                raise MalformedValue(opened)
            bent = bent or expected != "next"
            expected, comma = "key" if within == b"}" else "value", True
            continue
        if sign in (b"{", b"["):
            closers += b"}" if sign == b"{" else b"]"
            opened.append(position - 1)
            depth = max(depth, len(closers))
            if depth > deepest:
                raise MalformedValue(opened)
            expected, comma = "key" if sign == b"{" else "value", False
            continue
        if sign is not None:
            if sign == b":" or closers[-1:] != sign or (expected == "value" and sign == b"}"):
                raise MalformedValue(opened)
            bent = bent or comma
            closers.pop()
            opened.pop()
        if not closers:
            return JsonValue(begin, position, bent, depth)
        expected, comma = "next", False


class UnterminatedValues:
    """Positions of values that are known not to end, so that none is scanned twice.

    Values within a damaged value that are open at the damage are damaged there as well: however often a file opens what
    it does not close, each part of it is checked once.
    """

    def __init__(self) -> None:
        self.damaged: set[int] = set()
        self.cut_off: set[int] = set()

    def scan_value(
        self, data: Text, start: int, place: int, *, at_end: bool, longest: int, deepest: int = MAX_DEPTH
    ) -> JsonValue:
        """See `scan_value`; a longer value is damaged. place: position of data[0] in the file. at_end: whether
        the file ends with the data."""
        if place + start in self.damaged:
            raise MalformedValue([])
        if place + start in self.cut_off:
            raise NeedMoreData([])
        try:
            return scan_value(data, start, deepest)
        except MalformedValue as error:
            self.damaged.update(place + at for at in error.open)
            raise
        except NeedMoreData as error:
            if at_end:
                self.cut_off.update(place + at for at in error.open)
                raise
            if len(data) - start < longest:
                raise
            # A value that began late may be longer than the data, and yet be valid.
            self.damaged.update(place + at for at in error.open if at <= start + longest // 2)
            raise MalformedValue([]) from None


def is_strict_literal(word: bytes) -> bool:
    """Whether a text without quotes is a number, true, false or null that every JSON decoder accepts."""
    if word in _LITERALS:
        return True
    if _NUMBER.fullmatch(word) is None:
        return False
    return (len(word) < MAX_NUMBER_CHARS and b"e" not in word.lower()) or abs(float(word)) < float("inf")


def iterate_members(data: bytes, start: int) -> Iterator[tuple[bytes, bytes, bytes, int]]:
    """(name, text as written, value as written, its nesting depth) of the members of the strict object at `start`."""
    position = data.index(b"{", start) + 1
    while True:
        while match := _MEMBER.match(data, position):
            position, name = match.end(), match[1][1:-1]
            text = match[2] or match[3]
            yield (unescape(name) if b"\\" in name else name), data[match.start(1) : position], text, 0
        match = _TOKEN.match(data, position)
        assert match is not None
        position = match.end()
        if match[3] == b"}":
            return
        if match[3] == b",":
            continue
        begin, name = match.start(1), match[1][1:-1]
        position = data.index(b":", position) + 1
        match = _TOKEN.match(data, position)
        assert match is not None
        if match[3] is None:
            position, depth = match.end(), 0
            text = match[1] or match[0].lstrip()
        else:
            inner = scan_value(data, position)
            position, depth = inner.end, inner.depth
            text = data[inner.start : inner.end]
        yield (unescape(name) if b"\\" in name else name), data[begin:position], text, depth


def split_plain_event(
    data: Text, start: int
) -> tuple[int, dict[bytes, bytes], list[tuple[bytes, bytes, bytes]]] | None:
    """(the end of the event at `start`, its members' values by name as `iterate_members` has them, the members of its
    `args` as (text as written, name, value)); None for what only `scan_value` can read. Fast: most events are so."""
    match = _PLAIN_EVENT.match(data, start)
    if match is None:
        return None
    before, last, arguments, after = match.groups()
    texts = dict(_SPLIT_MEMBER.findall(before))
    if arguments is None:
        texts.update(_SPLIT_MEMBER.findall(last))
        return match.end(), texts, []
    texts[b"args"] = arguments
    if after is not None:
        texts.update(_SPLIT_MEMBER.findall(after))
    return match.end(), texts, _SPLIT_ARGUMENT.findall(arguments)


def find_event_candidates(data: Text, start: int, end: int) -> Iterator[int]:
    """Where in data[start:end] events seem to begin, as far as can be determined without the preceding text."""
    return (match.start(1) for match in _START.finditer(data, start, end))


def is_event(data: Text, start: int, place: int, hopeless: UnterminatedValues, *, at_end: bool, longest: int) -> bool:
    """Whether a complete event begins at `start` that is within the limits of length and depth.

    hopeless: unterminated values of this search only. place, at_end: see `UnterminatedValues`.
    """
    if place + start in hopeless.damaged or place + start in hopeless.cut_off:
        return False
    if (strict := _parse_strict_object(bytes(data[start : start + min(longest, SHORT_BYTES)]))) is not None:
        return "ph" in strict
    part = data[start : start + longest]
    at_end = at_end and start + longest >= len(data)
    try:
        value = hopeless.scan_value(
            part, 0, place + start, at_end=at_end, longest=longest, deepest=MAX_ARGUMENT_DEPTH + 2
        )
    except (MalformedValue, NeedMoreData):
        return False
    raw = bytes(part[: value.end])
    return any(
        name == b"ph"
        for name, *_ in iterate_members(to_strict_json(raw, 0, value.end)[0] if value.non_strict else raw, 0)
    )


def _parse_strict_object(text: bytes) -> dict[str, object] | None:
    """The object that `text` begins with, if it is strict JSON within the depth limit; its texts are not those of the
    file. None if only `scan_value` can decide."""
    try:
        found, end = _DECODER.raw_decode(text.decode("latin-1"))
    except (ValueError, RecursionError):
        return None
    return (
        found
        if isinstance(found, dict) and text.count(b"{", 0, end) + text.count(b"[", 0, end) <= MAX_ARGUMENT_DEPTH
        else None
    )


def _refuse_constant(word: str) -> None:
    raise ValueError(word)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def unescape(raw: bytes) -> bytes:
    """The decoded text of a string, in UTF-8."""
    return decode_string(raw).encode()


def to_strict_json(data: bytes, start: int, end: int) -> tuple[bytes, int]:
    """(the value data[start:end] as strict JSON, how many words in it became null)."""
    parts: list[bytes] = []
    lost = 0
    position = start
    while position < end:
        match = _TIGHT.match(data, position, end)
        if match is not None and match.end() > position:
            parts += match[0][:-1], b","
            position = match.end()
        match = _TOKEN.match(data, position, end)
        if match is None:
            break
        position = match.end()
        if match[1] is not None:
            parts.append(_ESCAPES.sub(_escape_byte, match[1]))
        elif match[3] == b",":
            if parts and parts[-1] not in (b",", b"[", b"{"):
                parts.append(b",")
        elif match[3] is not None:
            if match[3] in (b"}", b"]") and parts[-1] == b",":
                parts.pop()
            parts.append(match[3])
        else:
            word = match[0].lstrip()
            good = is_strict_literal(word)
            lost += not good
            parts.append(word if good else b"null")
    return b"".join(parts), lost


def _escape_byte(found: re.Match[bytes]) -> bytes:
    text = found[0]
    if text[0] < 0x20:
        return b"\\u%04x" % text[0]
    return text if len(text) > 1 else b"\\\\"


def parse_nanoseconds(text: bytes) -> int | None:
    """Microseconds as written, as exact nanoseconds (rounded half away from zero); None if it is not a number.

    Raises OverflowError from FARTHEST_NS on.
    """
    match = _TIME.fullmatch(text)
    if not match or not (match[2] or match[3]):
        return None
    fraction = match[3] or b""
    digits = (match[2] + fraction).lstrip(b"0")
    exponent = int(match[4] or 0) - len(fraction) + 3
    if digits and len(digits) + exponent > 19:
        raise OverflowError
    if exponent >= 0:
        ns = int(digits or b"0") * 10**exponent if digits else 0
    else:
        kept = digits[:exponent]
        ns = int(kept or b"0") + (len(digits) >= -exponent and digits[exponent : exponent + 1 or None] >= b"5")
    if ns >= MAX_TIME_NS:
        raise OverflowError
    return -ns if match[1] == b"-" else ns


def parse_int(text: bytes) -> int | None:
    """The whole number in a JSON value, if it fits 64 bits."""
    if not _WHOLE.fullmatch(text):
        return None
    number = int(text.partition(b".")[0])
    return number if -(2**63) <= number < 2**63 else None


def decode_string(raw: bytes) -> str:
    """The decoded text of a string. Invalid Unicode is kept as written: \\xff, \\ud800."""
    text = raw.decode("utf-8", "surrogateescape")
    if "\\" in text:
        text = json.loads(f'"{text}"', strict=False)
    return text if text.isascii() else _SURROGATE.sub(_format_escape, text)


def decode_json(raw: bytes) -> str:
    """A JSON text that is valid Unicode. Invalid parts are shown as written, like in `decode_string`."""
    text = raw.decode("utf-8", "surrogateescape")
    if "\\u" in text:
        text = _LONE.sub(lambda found: f"\\\\{found[1]}" if found[1] else found[0], text)
    return text if text.isascii() else _SURROGATE.sub(lambda found: "\\" + _format_escape(found), text)


def is_unicode(raw: bytes, is_json: bool) -> bool:
    """Whether `decode_string`, or `decode_json`, show a text without invalid parts."""
    if raw.isascii() and b"\\u" not in raw:
        return True
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    if "\\u" not in text:
        return True
    if is_json:
        return not any(match[1] for match in _LONE.finditer(text))
    return _SURROGATE.search(json.loads(f'"{text}"', strict=False)) is None


def _format_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
