"""A cache of the most recently used mapped profiles, with the data that was derived from them."""

import os
import threading
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from ...domain.errors import NotFound

if TYPE_CHECKING:
    from ...domain.profile import Profile

MAX_PROFILES = 8
"""Profiles that are always kept, however much was derived from them."""
MAX_SMALL_PROFILES = 64
"""Profiles that are kept while little was derived from them: a comparison of groups of runs reads all of them."""
MAX_DERIVED_BYTES = 2 << 30
"""With more derived from all of them, each keeps an equal part of it; if that is not enough, only `MAX_PROFILES` are
kept."""

_all: "weakref.WeakSet[ProfileCache]" = weakref.WeakSet()


class ProfileCache:
    """The most recently used profiles. Thread-safe and fork-safe."""

    def __init__(self, size: int = MAX_PROFILES, most: int = MAX_SMALL_PROFILES) -> None:
        self._size, self._most = size, max(size, most)
        self._profiles: OrderedDict[Path, tuple[tuple[int, int], Profile]] = OrderedDict()
        self._lock = threading.Lock()
        _all.add(self)

    def get(self, directory: Path, cache: Path | None = None) -> "Profile":
        """The profile in `directory`: the same object as long as it is cached. Raises NotFound if there is none.

        cache: the directory with stored derived data.
        """
        # Imported here, because lists of results and steps of jobs do not need these modules.
        from ...ingest.storage_names import MANIFEST
        from . import columns, table_cache

        try:
            found = os.stat(directory / MANIFEST)
        except FileNotFoundError:
            raise NotFound("The files of this result are gone; read its original again, or delete it.") from None
        version = (found.st_ino, found.st_mtime_ns)
        with self._lock:
            known = self._profiles.get(directory)
            if known is not None and known[0] == version:
                self._profiles.move_to_end(directory)
                self._evict_oldest()
                return known[1]
        profile = columns.read(directory)
        if cache is not None:
            table_cache.load_into(cache, profile)
        with self._lock:
            known = self._profiles.get(directory)
            if known is not None and known[0] == version:
                return known[1]
            self._profiles[directory] = (version, profile)
            self._profiles.move_to_end(directory)
            self._evict_oldest()
        return profile

    def _evict_oldest(self) -> None:
        """What was derived grows after a profile was added. The caller holds the lock."""
        from ...analysis.core.memo import derived_bytes, trim_derived

        if len(self._profiles) <= self._size:
            return
        derived = sum(derived_bytes(profile) for _, profile in self._profiles.values())
        part = MAX_DERIVED_BYTES // len(self._profiles)
        for _, profile in self._profiles.values():
            if derived <= MAX_DERIVED_BYTES:
                break
            before = derived_bytes(profile)
            # What was used last is enough for most requests. A profile that is opened again has nothing.
            trim_derived(profile, part)
            derived -= before - derived_bytes(profile)
        while len(self._profiles) > self._most or (len(self._profiles) > self._size and derived > MAX_DERIVED_BYTES):
            _, (_, oldest) = self._profiles.popitem(last=False)
            derived -= derived_bytes(oldest)

    def evict(self, directory: Path) -> None:
        """Remove the profile in `directory` from the cache."""
        with self._lock:
            self._profiles.pop(directory, None)

    def evict_deleted(self) -> None:
        """Drop the profiles of deleted results: the space of their files is free only when no process maps them."""
        from ...ingest.storage_names import MANIFEST

        with self._lock:
            deleted = [directory for directory in self._profiles if not (directory / MANIFEST).exists()]
            for directory in deleted:
                del self._profiles[directory]

    def unlock(self) -> None:
        """After a fork, replace the lock: another thread of the parent may have held it."""
        self._lock = threading.Lock()


def evict_deleted_profiles() -> None:
    """Drop the profiles of results that another process deleted, from all caches of this process."""
    for profiles in list(_all):
        profiles.evict_deleted()


def _after_fork() -> None:
    for profiles in list(_all):
        profiles.unlock()


os.register_at_fork(after_in_child=_after_fork)
