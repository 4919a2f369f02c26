"""A cache of values derived from a profile, which lives as long as the profile.

Reshaped call trees and the like depend only on the profile and a few parameters. They are built once and reused for
any time window, threads and event. Thread-safe: concurrent requests for the same value build it once.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from threading import Lock
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile

T = TypeVar("T")
MEMO_LIMIT_BYTES = 256 << 20
"""The limit for one profile; the least recently used value is evicted first. The last built value always remains."""
VALUE_BYTES = 64
"""Approximate size of a text or number in a list."""
_PLAIN = str | int | float | None


@dataclass
class _ProfileMemo:
    lock: Lock = field(default_factory=Lock)
    pinned_entries: dict[Hashable, Any] = field(default_factory=dict)
    entries: OrderedDict[Hashable, tuple[Any, int]] = field(default_factory=OrderedDict)
    building: dict[Hashable, Lock] = field(default_factory=dict)
    bytes: int = 0
    pinned_bytes: int = 0

    def find(self, key: Hashable) -> tuple[bool, Any]:
        with self.lock:
            if key in self.pinned_entries:
                return True, self.pinned_entries[key]
            if key in self.entries:
                self.entries.move_to_end(key)
                return True, self.entries[key][0]
            return False, None

    def put(self, key: Hashable, value: Any, pin: bool) -> None:
        with self.lock:
            self.building.pop(key, None)
            size = size_of(value)
            if pin:
                self.pinned_entries[key] = value
                self.pinned_bytes += size
                return
            self.entries[key] = (value, size)
            self.bytes += size
            self._evict(MEMO_LIMIT_BYTES)

    def trim(self, limit_bytes: int) -> None:
        with self.lock:
            self._evict(limit_bytes - self.pinned_bytes)

    def _evict(self, limit_bytes: int) -> None:
        """The caller holds the lock."""
        while self.bytes > limit_bytes and len(self.entries) > 1:
            _, (_, freed) = self.entries.popitem(last=False)
            self.bytes -= freed


_memos: WeakKeyDictionary[Profile, _ProfileMemo] = WeakKeyDictionary()
_memos_lock = Lock()


def memoize(profile: Profile, key: Hashable, build: Callable[[], T], *, pin: bool = False) -> T:
    """The cached value of `key` for this profile, else `build()`.

    The value must not refer to the profile, which would then never be freed. pin: not evicted while the profile exists,
    for the few values that every request needs. Exceptions of `build` are not cached.
    """
    with _memos_lock:
        shelf = _memos.setdefault(profile, _ProfileMemo())
    found, value = shelf.find(key)
    if found:
        return cast(T, value)
    with shelf.lock:
        gate = shelf.building.setdefault(key, Lock())
    with gate:
        found, value = shelf.find(key)
        if not found:
            value = build()
            shelf.put(key, value, pin)
        return cast(T, value)


def derived_bytes(profile: Profile) -> int:
    """Bytes of the values that are kept for a profile."""
    with _memos_lock:
        shelf = _memos.get(profile)
    return 0 if shelf is None else shelf.bytes + shelf.pinned_bytes


def trim_derived(profile: Profile, limit_bytes: int) -> None:
    """Forget the least recently used values of a profile, until all that are left have at most so many bytes. Pinned
    values are not forgotten, nor is the one that was used last."""
    with _memos_lock:
        shelf = _memos.get(profile)
    if shelf is not None:
        shelf.trim(limit_bytes)


def size_of(value: Any) -> int:
    """Bytes of the arrays in a value (arrays, tables, dataclasses, tuples, lists); a nominal size for other objects.

    An array that occurs several times counts once; a field marked `shared` counts in the value that owns it. Arrays
    over the memory of a stored profile do not count: its files are mapped.
    """
    return _size_of(value, set())


def _size_of(value: Any, ids: set[int]) -> int:
    if isinstance(value, np.ndarray):
        known = id(value) in ids
        ids.add(id(value))
        return 0 if known or _is_mapped(value) else value.nbytes
    if isinstance(value, list) and value and isinstance(value[0], _PLAIN):
        return VALUE_BYTES * len(value)
    if isinstance(value, Mapping):
        return sum(_size_of(part, ids) for part in value.values()) + 64
    if isinstance(value, tuple | list):
        return sum(_size_of(part, ids) for part in value) + 64
    if is_dataclass(value) and not isinstance(value, type):
        parts = (part for part in fields(value) if "shared" not in part.metadata)
        return sum(_size_of(getattr(value, part.name), ids) for part in parts) + 64
    return 64


def _is_mapped(values: Array) -> bool:
    """Whether an array is over memory that numpy did not allocate: of a table of the profile."""
    root: Any = values
    while isinstance(root, np.ndarray) and root.base is not None:
        root = root.base
    return not isinstance(root, np.ndarray)
