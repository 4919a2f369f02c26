"""Columns that grow at their end without being copied."""

import mmap
from contextlib import suppress
from typing import Any

import numpy as np

from ...domain.arrays import Array

INITIAL_ROWS = 1 << 16


class GrowableColumn:
    """A column of numbers of one type. Its memory is mapped, so that it is returned to the system when it is not
    referenced any more."""

    def __init__(self, kind: Any) -> None:
        self._kind = np.dtype(kind)
        self._memory: mmap.mmap | None = None
        self._room = 0
        self.count = 0

    def reserve(self, count: int) -> Array:
        """An array with room for at least this many entries; earlier arrays must no longer be used."""
        if self._memory is None or count > self._room:
            room = max(INITIAL_ROWS, count, self._room * 3 // 2)
            size = room * self._kind.itemsize
            try:
                if self._memory is None:
                    self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                else:
                    self._memory.resize(size)
            except OSError as error:
                raise MemoryError(str(error)) from None
            with suppress(OSError, AttributeError):
                self._memory.madvise(mmap.MADV_HUGEPAGE)
            self._room = room
        return np.frombuffer(self._memory, self._kind)

    def add(self, values: Array) -> None:
        """Append values."""
        end = self.count + len(values)
        self.reserve(end)[self.count : end] = values
        self.count = end

    def to_array(self) -> Array:
        """The column as it is now."""
        return self.reserve(self.count)[: self.count]
