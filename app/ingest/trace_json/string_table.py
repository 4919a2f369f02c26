"""Distinct texts in compiled loops: a hash table of byte strings in plain arrays."""

import secrets
from typing import Any, NamedTuple

import numpy as np

from ...domain.arrays import Array
from ..jit.decorators import jit_inline, jit_no_refcount, uint64
from .simd import PAD, copy64, load_word, multiply_fold
from .values import mask_low_bytes


class StringTable(NamedTuple):
    """Texts by id. Text i is text[start[i] : start[i] + length[i]], first found at `place[i]`; hash[i] is its hash.

    slots: the candidate text of each slot, -1 none; a power of two, at least twice as many as there is room for texts.
    seed: differs in each process, so that no file can be crafted whose texts all collide. The number of texts and of
    their bytes are at[2] and at[3] of a separate array.
    """

    slots: Array
    hash: Array
    start: Array
    length: Array
    place: Array
    text: Array
    seed: Any


SEED = np.uint64(secrets.randbits(64) | 1)


def make_table(texts: int, size: int) -> StringTable:
    """An empty table with room for a number of texts and of bytes in total."""
    room = 1 << max(6, (2 * texts - 1).bit_length())
    return StringTable(
        np.full(room, -1, np.int32),
        np.empty(room // 2, np.uint64),
        np.empty(room // 2, np.int64),
        np.empty(room // 2, np.int32),
        np.empty(room // 2, np.int64),
        np.empty(size + PAD, np.uint8),
        SEED,
    )


def grow(old: StringTable, count: int, used: int, texts: int, size: int) -> StringTable:
    """A table with the same `count` texts, of `used` bytes, and the given total capacity."""
    new = make_table(texts, size)
    for name in ("hash", "start", "length", "place"):
        getattr(new, name)[:count] = getattr(old, name)[:count]
    new.text[:used] = old.text[:used]
    _fill_slots(new, count)
    return new


@jit_no_refcount
def _fill_slots(table: StringTable, count: int) -> None:
    mask = len(table.slots) - 1
    for code in range(count):
        slot = np.int64(table.hash[code] & uint64(mask))
        while table.slots[slot] >= 0:
            slot = (slot + 1) & mask
        table.slots[slot] = code


@jit_inline
def hash_text(data: Array, p: int, length: int, seed: Any) -> Any:
    """The hash of a text."""
    found = seed ^ uint64(length)
    end = p + length
    while end - p > 16:
        found = multiply_fold(load_word(data, p) ^ uint64(0xA0761D6478BD642F), load_word(data, p + 8) ^ found)
        p += 16
    left = end - p
    one = mask_low_bytes(load_word(data, p), left)
    other = mask_low_bytes(load_word(data, p + 8), left - 8) if left > 8 else uint64(0)
    found = multiply_fold(one ^ uint64(0xE7037ED1A0B428DB), other ^ found)
    return multiply_fold(found ^ uint64(0x8EBC6AF09C88C6E3), seed)


@jit_inline
def _equal_texts(one: Array, p: int, other: Array, q: int, length: int) -> bool:
    while length > 8:
        if load_word(one, p) != load_word(other, q):
            return False
        p += 8
        q += 8
        length -= 8
    return bool(mask_low_bytes(load_word(one, p), length) == mask_low_bytes(load_word(other, q), length))


@jit_inline
def intern(data: Array, p: int, length: int, place: int, table: StringTable, at: Array) -> int:
    """The id of a text, which is inserted if it is new; -1 if the length is negative."""
    if length < 0:
        return -1
    found = hash_text(data, p, length, table.seed)
    mask = len(table.slots) - 1
    slot: Any = np.int64(found & uint64(mask))
    while True:
        code = table.slots[slot]
        if code < 0:
            break
        if (
            table.hash[code] == found
            and table.length[code] == length
            and _equal_texts(data, p, table.text, table.start[code], length)
        ):
            return int(code)
        slot = (slot + 1) & mask
    at[3] = _append(data, p, length, table.text, at[3])
    return _insert(slot, found, length, place, table, at)


@jit_inline
def intern_object(data: Array, pieces: Array, count: int, place: int, table: StringTable, at: Array) -> int:
    """The id of the JSON object of some members, like `intern`. Part i is data[pieces[2i] :][:pieces[2i+1]]."""
    found = table.seed
    length = 1
    for i in range(count):
        found = hash_text(data, pieces[2 * i], pieces[2 * i + 1], found)
        length += pieces[2 * i + 1] + 1
    mask = len(table.slots) - 1
    slot: Any = np.int64(found & uint64(mask))
    while True:
        code = table.slots[slot]
        if code < 0:
            break
        if table.hash[code] == found and table.length[code] == length:
            p = table.start[code] + 1
            i = 0
            while i < count and _equal_texts(data, pieces[2 * i], table.text, p, pieces[2 * i + 1]):
                p += pieces[2 * i + 1] + 1
                i += 1
            if i == count:
                return int(code)
        slot = (slot + 1) & mask
    p = at[3]
    table.text[p] = 123
    for i in range(count):
        p = _append(data, pieces[2 * i], pieces[2 * i + 1], table.text, p + 1)
        table.text[p] = 44
    table.text[p] = 125
    at[3] = p + 1
    return _insert(slot, found, length, place, table, at)


@jit_inline
def _append(data: Array, p: int, length: int, text: Array, to: int) -> int:
    """Copy a text to `to`; returns its end. Up to 64 bytes after it are overwritten."""
    done = 0
    while done < length:
        copy64(data, p + done, text, to + done)
        done += 64
    return to + length


@jit_inline
def _insert(slot: int, found: Any, length: int, place: int, table: StringTable, at: Array) -> int:
    code = at[2]
    table.slots[slot] = code
    table.hash[code] = found
    table.start[code] = at[3] - length
    table.length[code] = length
    table.place[code] = place
    at[2] = code + 1
    return int(code)


@jit_inline
def remove_last(table: StringTable, code: int, at: Array) -> None:
    """Remove the last inserted text."""
    mask = len(table.slots) - 1
    slot = np.int64(table.hash[code] & uint64(mask))
    while table.slots[slot] != code:
        slot = (slot + 1) & mask
    table.slots[slot] = -1
    at[2] = code
    at[3] -= table.length[code]


@jit_no_refcount
def intern_all(data: Array, lengths: Array, place: int, table: StringTable, at: Array, codes: Array) -> None:
    """Write the ids of consecutive texts in `data` into codes; see `intern`."""
    p = 0
    for i in range(len(lengths)):
        codes[i] = intern(data, p, lengths[i], place, table, at)
        p += max(lengths[i], 0)


def clear(table: StringTable) -> None:
    """Remove all texts."""
    table.slots[:] = -1
