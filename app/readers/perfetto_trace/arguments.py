"""The arguments of track events, as texts in JSON."""

import json
import math
from typing import Any

import numpy as np

from ...domain.arrays import Array, Int32Array, Int64Array
from ...ingest.jit.decorators import HAS_NUMBA
from ...ingest.jit.protobuf_columns import CONTENT, FieldColumns, MessageColumns, read_messages
from ...ingest.json_text import parse_json
from ...ingest.protobuf_wire import MalformedMessage, iterate_fields, to_signed
from ...ingest.trace.event_builder import NONE, TraceEventBuilder
from .format import BAD_ARGUMENT
from .interned import KEYS, LOCATIONS, STRINGS, InternedStrings
from .packets import LossCallback, Packets
from .texts import decode_text, format_float, read_texts

ANNOTATION, LOCATION, LOCATION_ID = 4, 33, 34
"""Fields of TrackEvent that become arguments."""
MAX_DEPTH = 20
_NAME_ID, _BOOL, _UINT, _INT, _DOUBLE, _TEXT, _POINTER, _NESTED, _JSON, _NAME, _DICT, _ARRAY, _TEXT_ID = (
    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 17),
)
_VALUES = (_BOOL, _UINT, _INT, _DOUBLE, _TEXT, _POINTER, _NESTED, _JSON, _DICT, _ARRAY, _TEXT_ID)


class ArgumentDecoder:
    """Creates texts of the arguments of track events."""

    def __init__(self, packets: Packets, made: TraceEventBuilder, lost: LossCallback) -> None:
        self._packets, self._made, self._lost = packets, made, lost
        self._keys = InternedStrings(packets, KEYS, made.intern_text)
        self._strings = InternedStrings(packets, STRINGS, made.intern_text)
        self._quoted: dict[int, str] = {NONE: '""'}
        self._generation = 0

    def decode(self, events: MessageColumns, generation: Array, category: Array) -> Int32Array:
        """The index of the arguments of each event. category: the index of the category among them, NONE for none."""
        contents = events.listed[ANNOTATION].select_contents()
        more = self._find_deferred(events, generation, category)
        found = np.full(len(events), NONE, np.int32)
        if not len(contents) and not more.size:
            return found
        by_hand = np.ones(len(events), bool)
        if HAS_NUMBA and self._keys.fits_in_key and self._strings.fits_in_key:
            by_hand[:] = False
            by_hand[self._write(contents, more, generation, found)] = True
        members = self._format_members(contents.select(by_hand[contents.row]), generation)
        for row, key, place in more[:, by_hand[more[0]]].T.tolist():
            members.setdefault(row, []).append(f"{self.quote_text(key)}: {self.quote_text(place)}")
        for row, parts in members.items():
            found[row] = self._made.intern_text("{" + ", ".join(parts) + "}")
        return found

    def _write(self, given: FieldColumns, more: Array, generation: Array, found: Array) -> Array:
        """Write arguments by compiled loops. Returns the events that are left."""
        from .argument_writer import WORDS, ArgumentWriter

        wanted = np.concatenate((self._keys.places, self._strings.places, *more[1:]))
        used, number = np.unique(wanted, return_inverse=True)
        cuts = np.cumsum([len(self._keys.places), len(self._strings.places), more.shape[1]])
        of_keys, of_strings, keys, values = np.split(number + len(WORDS), cuts)
        writer = ArgumentWriter(
            self._packets.data, generation, [self.quote_text(place).encode() for place in used.tolist()]
        )
        writer.add_table(self._keys.index, of_keys)
        writer.add_table(self._strings.index, of_strings)
        rows, codes = writer.write(np.stack((given.row, given.value, given.end)), np.stack((more[0], keys, values)))
        places = np.array([self._made.intern_text(text.decode()) for text in writer.texts.texts()] or [NONE], np.int32)
        done = codes >= 0
        found[rows[done]] = places[codes[done]]
        left: Array = rows[~done]
        return left

    def _format_members(self, given: FieldColumns, generation: Array) -> dict[int, list[str]]:
        """Arguments, each a member of an object in JSON, by the rows of their events."""
        members: dict[int, list[str]] = {}
        of = read_messages(self._packets.all.data, given.spans, (_NAME_ID, _NAME, *_VALUES))
        generations = generation[given.row]
        name = self._keys.lookup(generations, of.get_number(_NAME_ID))
        present, spans = of.get_spans(_NAME)
        name[present] = read_texts(self._packets.data, spans, self._made.intern_text)
        kind = np.zeros(len(of), np.int64)
        value, size = np.zeros(len(of), np.int64), np.zeros(len(of), np.int64)
        for number in reversed(_VALUES):
            there = of.has(number)
            kind[there] = number
            value[there], size[there] = of.value[number][there], of.size[number][there] - CONTENT
        strings = self._strings.lookup(generations, value)
        columns = (
            given.row,
            name,
            kind,
            value,
            value.view(np.float64),
            size,
            strings,
            generations,
            given.value,
            given.end,
        )
        for row, key, sort, number, real, length, string, self._generation, begin, end in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            if sort == _TEXT_ID:
                plain = self.quote_text(string)
            elif sort in (_DICT, _ARRAY, _NESTED):
                plain = self._write_nested(begin, end)
            else:
                plain = self._format_text(sort, number, real, length)
            members.setdefault(row, []).append(f"{self.quote_text(key)}: {plain}")
        return members

    def quote_text(self, place: int) -> str:
        """The text at a position as JSON."""
        known = self._quoted.get(place)
        if known is None:
            known = self._quoted[place] = json.dumps(self._made.get_texts()[place])
        return known

    def _format_text(self, kind: int, number: int, real: float, length: int) -> str:
        if kind == _BOOL:
            return "true" if number else "false"
        if kind == _DOUBLE:
            return format_float(real)
        if kind in (_TEXT, _JSON) and length >= 0:
            raw = self._packets.data[number : number + length]
            return _to_json(raw) if kind == _JSON else json.dumps(decode_text(raw))
        if kind in (_UINT, _POINTER):
            number &= 0xFFFF_FFFF_FFFF_FFFF
            return f'"0x{number:x}"' if kind == _POINTER else str(number)
        return str(number) if kind == _INT else "null"

    def _write_nested(self, begin: int, end: int) -> str:
        try:
            found = self._parse_annotation(memoryview(self._packets.data)[begin:end], 0)[1]
        except (MalformedMessage, TypeError, ValueError):
            self._lost(BAD_ARGUMENT, f"at byte {begin}", 1)
            return "null"
        return json.dumps(found)

    def _parse_annotation(self, data: memoryview, depth: int) -> tuple[str, Any]:
        """Name and value of an annotation of any type."""
        name = ""
        value: Any = None
        for number, _, content in iterate_fields(data):
            if number == _NAME:
                name = _check_text(content)
            elif number == _NAME_ID:
                name = self._text_of(self._keys, content)
            elif number in (_DICT, _ARRAY) and depth < MAX_DEPTH:
                key, inner = self._parse_annotation(content, depth + 1)
                if number == _ARRAY:
                    value = value if isinstance(value, list) else []
                    value.append(inner)
                else:
                    value = value if isinstance(value, dict) else {}
                    value[key] = inner
            elif number == _NESTED:
                value = _parse_nested_value(content, depth + 1)
            elif number == _TEXT_ID:
                value = self._text_of(self._strings, content)
            elif number in (_TEXT, _JSON):
                value = _check_text(content)
            elif number in _VALUES:
                value = json.loads(self._format_text(number, to_signed(content), _to_double(content), -1))
        return name, value

    def _text_of(self, interned_strings: InternedStrings, number: int) -> str:
        place = interned_strings.table.get((self._generation, to_signed(number)))
        return self._made.get_texts()[place] if place is not None else ""

    def _find_deferred(self, events: MessageColumns, generation: Array, category: Array) -> Int64Array:
        """The deferred arguments, as columns row, position of the key and of the value: the source location of an
        event, inline or interned, and the category."""
        text, data = self._made.intern_text, self._packets.data
        parts = []
        rows, spans = events.get_spans(LOCATION)
        locations = read_messages(events.data, spans, (2, 3, 4))
        numbered = np.flatnonzero(events.has(LOCATION_ID))
        for part, word in ((2, "file"), (3, "function")):
            present, spans = locations.get_spans(part)
            parts.append((rows[present], text(word), read_texts(data, spans, text)))
        for part, word in ((2, "file"), (3, "function")):
            if len(numbered):
                interned_strings = InternedStrings(self._packets, LOCATIONS, text, part)
                place = interned_strings.lookup(generation[numbered], events.get_number(LOCATION_ID)[numbered])
                parts.append((numbered[place >= 0], text(word), place[place >= 0]))
        rows = np.flatnonzero(category >= 0)
        parts.append((rows, text("category"), category[rows]))
        listed = [np.stack((rows, np.full(len(rows), word), values)) for rows, word, values in parts]
        together = np.concatenate(listed, axis=1).astype(np.int64, copy=False)
        return together if len(rows) == together.shape[1] else together[:, np.argsort(together[0], kind="stable")]


def _to_json(raw: bytes) -> str:
    try:
        parse_json(raw)
    except ValueError:
        return json.dumps(decode_text(raw))
    return raw.decode()


def _check_text(value: Any) -> str:
    """Raises TypeError for a value that is no text."""
    if isinstance(value, int):
        raise TypeError(value)
    return decode_text(bytes(value))


def _to_double(value: Any) -> float:
    return float(np.array([to_signed(value)], np.int64).view(np.float64)[0])


def _parse_nested_value(data: Any, depth: int) -> Any:
    """A NestedValue: a list, an object, or one value."""
    keys: list[str] = []
    inner: list[Any] = []
    value: Any = None
    for number, _, content in iterate_fields(data):
        if number == 2:
            keys.append(_check_text(content))
        elif number in (3, 4) and depth < MAX_DEPTH:
            inner.append(_parse_nested_value(content, depth + 1))
        elif number == 5:
            value = to_signed(content)
        elif number == 6:
            real = _to_double(content)
            value = real if math.isfinite(real) else str(real)
        elif number == 7:
            value = bool(content)
        elif number == 8:
            value = _check_text(content)
    if keys:
        return dict(zip(keys, inner, strict=False))
    return inner or value
