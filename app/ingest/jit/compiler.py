"""Compiles loops to object code with numba. Only what is not in the file of compiled loops (`library.py`) needs it.

The compiler alone takes a third of a second and 80 MB to load.
"""

import io
import threading
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numba
from numba.core import types as numba_types
from numba.np.numpy_support import as_dtype

from ..machine_code.elf_image import ElfImage
from ..symbols.elf_symbols import list_undefined
from .linked_code import LinkedCode
from .linker import link
from .native import ARRAY, NUMBERS, READ_ONLY, Result, append_words
from .object_code import ObjectCode, emit_object

_njit: Any = numba.njit
_typeof: Any = numba.typeof
_kinds: Any = numba_types
# The user's environment must not change what is compiled, or leave out checks.
_config: Any = numba.config
_config.DISABLE_JIT, _config.BOUNDSCHECK = 0, None
LOCK = threading.Lock()
"""Of the compiler."""


@dataclass(frozen=True)
class CompiledLoop:
    """A function in LLVM's assembly. word_count: words of its arguments. result: its type."""

    symbol: str
    word_count: int
    result: Result
    assembly: str


class LoopCompiler:
    """Compiles one function for any types of its arguments. options: of numba.njit."""

    def __init__(self, function: types.FunctionType, **options: Any) -> None:
        self._function = function
        self._options = options
        self._dispatcher: Any = None

    @property
    def dispatcher(self) -> Any:
        """The function as numba calls it from others."""
        if self._dispatcher is None:
            plain = self._function
            names = dict(plain.__globals__)
            function = types.FunctionType(plain.__code__, names, plain.__name__, plain.__defaults__)
            function.__module__, function.__qualname__ = plain.__module__, plain.__qualname__
            # Without what makes it callable from Python, which is most of the work for small functions.
            options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "nogil": True, "error_model": "numpy"}
            self._dispatcher = _njit(**options, **self._options)(function)
            # Last, because functions may call themselves and each other.
            names |= {name: _resolve(names[name]) for name in plain.__code__.co_names if name in names}
        return self._dispatcher

    def compile(self, arguments: tuple[Any, ...]) -> CompiledLoop:
        """The function, compiled for arguments of these types.

        Raises TypeError for arguments or results that cannot be passed in words.
        """
        signature = tuple(_typeof(value) for value in arguments)
        self.dispatcher.compile(signature)
        compiled = self.dispatcher.overloads[signature]
        packed = compiled.target_context.get_arg_packer(compiled.fndesc.argtypes).argument_types
        words: list[int] = []
        append_words(words, arguments)
        if len(packed) != len(words) or any(str(kind) in ("float", "double") for kind in packed):
            raise TypeError(f"{self._function.__name__} takes other arguments than words")
        return CompiledLoop(
            compiled.fndesc.llvm_func_name,
            len(words),
            _describe_result(compiled.signature.return_type),
            self.dispatcher.inspect_llvm(signature),
        )


def _resolve(value: Any) -> Any:
    """What numba calls for a name of a function."""
    resolve = getattr(value, "resolve_for_compiler", None)
    return value if resolve is None else resolve()


def _describe_result(kind: Any) -> Result:
    if isinstance(kind, _kinds.BaseTuple):
        return [_describe_result(part) for part in kind]
    if isinstance(kind, _kinds.Array):
        return f"{ARRAY}{as_dtype(kind.dtype).str} {kind.ndim} {'w' if kind.mutable else READ_ONLY}"
    if str(kind) in NUMBERS:
        return str(kind)
    raise TypeError(f"no result of type {kind}")


def make_code(assemblies: Iterable[str]) -> ObjectCode | LinkedCode:
    """The code of functions in LLVM's assembly, linked if that is possible."""
    code = emit_object(assemblies)
    return link(code) or ObjectCode(code, tuple(list_undefined(ElfImage.read(io.BytesIO(code)))))
