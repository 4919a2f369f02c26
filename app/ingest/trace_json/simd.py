"""Operations on 64 bytes at once, or 8, for loops: compiled where loops are, else in numpy.

Texts are arrays of bytes (uint8) with PAD readable bytes after their end. Masks are 64 bits, the lowest for the
first byte.
"""

from typing import TYPE_CHECKING

from ..jit.decorators import HAS_NUMBA

if TYPE_CHECKING or HAS_NUMBA:
    from .simd_compiled import (
        copy64,
        count_trailing_zeros,
        equal_mask,
        load_word,
        multiply_fold,
        nonblank_mask,
        popcount,
        special_mask,
    )
else:
    from .simd_plain import (
        copy64,
        count_trailing_zeros,
        equal_mask,
        load_word,
        multiply_fold,
        nonblank_mask,
        popcount,
        special_mask,
    )

__all__ = [
    "PAD",
    "copy64",
    "count_trailing_zeros",
    "equal_mask",
    "load_word",
    "multiply_fold",
    "nonblank_mask",
    "popcount",
    "special_mask",
]
PAD = 128
