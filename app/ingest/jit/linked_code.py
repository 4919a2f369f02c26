"""Machine code that is linked, apart from the address where it will be: loading it needs no linker.

LLVM's linker takes 0.03 s and 40 MB to load.
"""

import ctypes
import mmap
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from .native import MachineCode

WORD_BYTES = 8


@dataclass(frozen=True)
class LinkedCode:
    """content: instructions up to `data_at`, then data. symbols: where functions are in it. own: where it has addresses
    in itself, counted from its beginning. outside: where it needs those of symbols of the process."""

    content: bytes
    data_at: int
    symbols: dict[str, int]
    own: tuple[int, ...]
    outside: dict[str, tuple[int, ...]]

    def load(self) -> MachineCode:
        """The code, ready to be called. Raises ImportError if a symbol is missing, or memory cannot be executed."""
        memory = mmap.mmap(-1, len(self.content), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory[:] = self.content
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        words = np.frombuffer(memory, np.uint8)
        _add(words, self.own, base)
        for name, places in self.outside.items():
            _add(words, places, _find_symbol(name))
        protect = ctypes.CDLL(None).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if self.data_at and protect(base, self.data_at, mmap.PROT_READ | mmap.PROT_EXEC):
            raise ImportError("this system does not execute memory that a process has written")
        return MachineCode(lambda name: base + self.symbols[name] if name in self.symbols else 0, memory)


def _find_symbol(name: str) -> int:
    """The address of a symbol of this process. Raises ImportError."""
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0
    except AttributeError:
        raise ImportError(f"compiled loops need {name}") from None


def _add(words: Array, places: tuple[int, ...], value: int) -> None:
    """Add a value to the 64-bit words at these places, which may be anywhere."""
    at = np.array(places, np.int64)[:, None] + np.arange(WORD_BYTES)
    found = words[at].view("<u8")
    found += np.uint64(value)
    words[at] = found.view(np.uint8)
