"""Loads the loops that were compiled before. Code that has another way, without loops, asks whether there are some."""

import errno
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import cache
from .mode import is_plain

if TYPE_CHECKING:
    from .library import CompiledFunction
    from .native import MachineCode


@dataclass(frozen=True)
class LoadedLoops:
    """The compiled functions, by the name of the loop and the types of its arguments, and their code."""

    functions: "dict[tuple[str, str], CompiledFunction]"
    code: "MachineCode"


@functools.cache
def load_loops() -> LoadedLoops | None:
    """What was compiled before; None if there is nothing, or other users could have written it, or this system does not
    execute it. Raises MemoryError: the compiler would need more than loading."""
    if is_plain() or not cache.prepare_folder():
        return None
    from .library import read_library

    library = read_library(cache.get_library_path())
    if library is None:
        return None
    try:
        code = library.code.load()
    except (ImportError, OSError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            raise MemoryError from error
        return None
    return LoadedLoops({(function.loop, function.arguments): function for function in library.functions}, code)


def has_compiled_loops() -> bool:
    """Whether loops were compiled before and can be loaded. Loads them, which takes 0.02 s."""
    return load_loops() is not None
