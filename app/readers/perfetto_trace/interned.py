"""What packets of a Perfetto trace name by numbers, and the arguments of track events, which use such names."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson

from ...domain.wire import Damaged, fields, signed
from ..trace.events import Array
from ..trace.made import NONE
from .packets import INTERNED, Lost, Packets
from .wire_columns import messages, places, texts_at

CATEGORIES, NAMES, KEYS, LOCATIONS, STRINGS = 1, 2, 3, 4, 29
"""Fields of InternedData."""
ANNOTATION, LOCATION, LOCATION_ID = 4, 33, 34
"""Fields of TrackEvent that become arguments."""
DEEPEST = 20
BAD_ARGUMENT = "argument of a track event that is damaged"
_NAME_ID, _BOOL, _UINT, _INT, _DOUBLE, _TEXT, _POINTER, _NESTED, _JSON, _NAME, _DICT, _ARRAY, _TEXT_ID = (
    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 17),
)
_VALUES = (_BOOL, _UINT, _INT, _DOUBLE, _TEXT, _POINTER, _NESTED, _JSON, _DICT, _ARRAY, _TEXT_ID)

Place = Callable[[str], int]


class Interned:
    """What numbers of one sort stand for: places of texts."""

    def __init__(self, packets: Packets, kind: int, place: Place, content: int = 2) -> None:
        """kind: the field of InternedData. content: which field of its entries is meant."""
        rows, spans = packets.all.inner(INTERNED)
        found = places(packets.all.data, spans, kind)
        entries = messages(packets.all.data, found.spans, (1, content))
        told, (begin, end) = entries.inner(content)
        self._places = texts_at(packets.data, begin, end, place)
        self._ids, inverse = np.unique(entries.number(1)[told], return_inverse=True)
        keys = packets.generation[rows[found.row[told]]] * (len(self._ids) + 1) + inverse
        order = np.argsort(keys, kind="stable")
        self._keys, self._places = keys[order], self._places[order]

    def of(self, generation: Array, number: Array) -> Array:
        """The place of each text, NONE where the number stands for nothing."""
        if not len(self._keys):
            return np.full(len(number), NONE, np.int64)
        at = np.minimum(np.searchsorted(self._ids, number), len(self._ids) - 1)
        keys = generation * (len(self._ids) + 1) + at
        row = np.maximum(np.searchsorted(self._keys, keys, "right") - 1, 0)
        good = (self._ids[at] == number) & (self._keys[row] == keys)
        return np.where(good, self._places[row], NONE)

    def table(self) -> dict[tuple[int, int], int]:
        """The place of each text, by generation and number."""
        generation, at = np.divmod(self._keys, len(self._ids) + 1)
        pairs = zip(generation.tolist(), self._ids[at].tolist(), strict=True)
        return dict(zip(pairs, self._places.tolist(), strict=True))


class Arguments:
    """Makes texts of the arguments of track events."""

    def __init__(self, packets: Packets, texts: Callable[[int], str], place: Place, lost: Lost) -> None:
        """texts: of a place. place: of a text."""
        self._packets, self._texts, self._place, self._lost = packets, texts, place, lost
        self._keys = Interned(packets, KEYS, place)
        self._strings = Interned(packets, STRINGS, place)
        self._quoted: dict[int, str] = {NONE: '""'}
        self._generation = 0

    def of(self, spans: Array, generation: Array) -> dict[int, list[str]]:
        """Members, each as JSON, by the rows of track events that have some."""
        found: dict[int, list[str]] = {}
        data = self._packets.all.data
        given = places(data, spans, ANNOTATION)
        if len(given):
            of = messages(data, given.spans, (_NAME_ID, _NAME, *_VALUES))
            generations = generation[given.row]
            name = self._keys.of(generations, of.number(_NAME_ID))
            told, (first, last) = of.inner(_NAME)
            name[told] = texts_at(self._packets.data, first, last, self._place)
            kind = np.zeros(len(of), np.int64)
            value, size = np.zeros(len(of), np.int64), np.zeros(len(of), np.int64)
            for number in reversed(_VALUES):
                there = of.has(number)
                kind[there] = number
                value[there], size[there] = of.value[number][there], of.size[number][there]
            strings = self._strings.of(generations, value)
            columns = (given.row, name, kind, value, value.view(np.float64), size, strings, generations, given.value)
            for row, key, sort, number, real, length, string, self._generation, at in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                if sort == _TEXT_ID:
                    shown = self.quoted(string)
                elif sort in (_DICT, _ARRAY, _NESTED):
                    shown = self._nested(given, at)
                else:
                    shown = self._plain(sort, number, real, length)
                found.setdefault(row, []).append(f"{self.quoted(key)}: {shown}")
        self._add_locations(spans, generation, found)
        return found

    def quoted(self, place: int) -> str:
        """The text at a place as JSON."""
        known = self._quoted.get(place)
        if known is None:
            known = self._quoted[place] = json.dumps(self._texts(place))
        return known

    def _plain(self, kind: int, number: int, real: float, length: int) -> str:
        if kind == _BOOL:
            return "true" if number else "false"
        if kind == _DOUBLE:
            return repr(real) if math.isfinite(real) else f'"{real}"'
        if kind in (_TEXT, _JSON) and length >= 0:
            raw = self._packets.data[number : number + length]
            return _json(raw) if kind == _JSON else json.dumps(raw.decode("utf-8", "backslashreplace"))
        if kind in (_UINT, _POINTER):
            number &= 0xFFFF_FFFF_FFFF_FFFF
            return f'"0x{number:x}"' if kind == _POINTER else str(number)
        return str(number) if kind == _INT else "null"

    def _nested(self, given: Any, at: int) -> str:
        row = int(np.searchsorted(given.value, at))
        try:
            found = self._annotation(memoryview(self._packets.data)[at : int(given.end[row])], 0)[1]
        except (Damaged, TypeError, ValueError):
            self._lost(BAD_ARGUMENT, f"at byte {at}", 1)
            return "null"
        return json.dumps(found)

    def _annotation(self, data: memoryview, depth: int) -> tuple[str, Any]:
        """Name and value of an annotation, whatever it holds."""
        name = ""
        value: Any = None
        for number, _, content in fields(data):
            if number == _NAME:
                name = _text(content)
            elif number == _NAME_ID:
                name = self._text_of(self._keys, content)
            elif number in (_DICT, _ARRAY) and depth < DEEPEST:
                key, inner = self._annotation(content, depth + 1)
                if number == _ARRAY:
                    value = [*value, inner] if isinstance(value, list) else [inner]
                else:
                    value = {**value, key: inner} if isinstance(value, dict) else {key: inner}
            elif number == _NESTED:
                value = _nested_value(content, depth + 1)
            elif number == _TEXT_ID:
                value = self._text_of(self._strings, content)
            elif number in (_TEXT, _JSON):
                value = _text(content)
            elif number in _VALUES:
                value = json.loads(self._plain(number, signed(content), _real(content), -1))
        return name, value

    def _text_of(self, interned: Interned, number: int) -> str:
        place = int(interned.of(np.array([self._generation]), np.array([signed(number)]))[0])
        return self._texts(place) if place >= 0 else ""

    def _add_locations(self, events_at: Array, generation: Array, found: dict[int, list[str]]) -> None:
        """Where in source code an event is, told in it or by a number."""
        data = self._packets.all.data
        events = messages(data, events_at, (LOCATION, LOCATION_ID))
        rows, spans = events.inner(LOCATION)
        if len(rows):
            of = messages(data, spans, (2, 3, 4))
            for part, word in ((2, "file"), (3, "function")):
                told, (first, last) = of.inner(part)
                texts = texts_at(self._packets.data, first, last, self._place)
                for row, place in zip(rows[told].tolist(), texts.tolist(), strict=True):
                    found.setdefault(row, []).append(f'"{word}": {self.quoted(place)}')
        rows = np.flatnonzero(events.has(LOCATION_ID))
        for part, word in ((2, "file"), (3, "function")):
            if not len(rows):
                break
            interned = Interned(self._packets, LOCATIONS, self._place, part)
            places_ = interned.of(generation[rows], events.number(LOCATION_ID)[rows])
            for row, place in zip(rows.tolist(), places_.tolist(), strict=True):
                if place >= 0:
                    found.setdefault(row, []).append(f'"{word}": {self.quoted(place)}')


def _json(raw: bytes) -> str:
    try:
        orjson.loads(raw)
    except ValueError:
        return json.dumps(raw.decode("utf-8", "backslashreplace"))
    return raw.decode()


def _text(value: Any) -> str:
    """Raises TypeError for what is no text."""
    if isinstance(value, int):
        raise TypeError(value)
    return bytes(value).decode("utf-8", "backslashreplace")


def _real(value: Any) -> float:
    return float(np.array([signed(value)], np.int64).view(np.float64)[0])


def _nested_value(data: Any, depth: int) -> Any:
    """A NestedValue: a list, an object, or one value."""
    keys: list[str] = []
    inner: list[Any] = []
    value: Any = None
    for number, _, content in fields(data):
        if number == 2:
            keys.append(_text(content))
        elif number in (3, 4) and depth < DEEPEST:
            inner.append(_nested_value(content, depth + 1))
        elif number == 5:
            value = signed(content)
        elif number == 6:
            real = _real(content)
            value = real if math.isfinite(real) else str(real)
        elif number == 7:
            value = bool(content)
        elif number == 8:
            value = _text(content)
    if keys:
        return dict(zip(keys, inner, strict=False))
    return inner or value
