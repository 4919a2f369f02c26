"""Operations on 64 bytes at once, or 8, for loops: compiled where loops are, else in numpy.

Texts are arrays of bytes (uint8) with PAD readable bytes after their end. Masks are 64 bits, the lowest for the
first byte.
"""

from typing import Any

from ..jit.decorators import jit_intrinsic
from . import simd_plain

_COMPILED = f"{__package__}.simd_compiled"
PAD = 128

copy64: Any = jit_intrinsic(simd_plain.copy64, _COMPILED)
count_trailing_zeros: Any = jit_intrinsic(simd_plain.count_trailing_zeros, _COMPILED)
equal_mask: Any = jit_intrinsic(simd_plain.equal_mask, _COMPILED)
load_word: Any = jit_intrinsic(simd_plain.load_word, _COMPILED)
multiply_fold: Any = jit_intrinsic(simd_plain.multiply_fold, _COMPILED)
nonblank_mask: Any = jit_intrinsic(simd_plain.nonblank_mask, _COMPILED)
popcount: Any = jit_intrinsic(simd_plain.popcount, _COMPILED)
special_mask: Any = jit_intrinsic(simd_plain.special_mask, _COMPILED)
