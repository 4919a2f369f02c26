"""Whether compiled loops can be used by code that has another way, which is slower for much data."""

from . import cache
from .mode import is_plain


def has_compiled_loops() -> bool:
    """Whether loops were compiled before and can be loaded. Loads them, which takes 0.02 s."""
    if is_plain() or not cache.is_ready():
        return False
    from .decorators import HAS_NUMBA

    return HAS_NUMBA
