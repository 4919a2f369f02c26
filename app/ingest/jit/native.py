"""Calls compiled functions in machine code, without the compiler: loading that takes ten times as long.

A function has the calling convention of numba: a pointer to its result, one to an exception, then its arguments. An
array is passed as seven words or more (owner of the memory, object, number of items, bytes of one, address, shape,
strides), a tuple as what it contains. `compiler.py` checks that with numba's own description.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Result = str | list["Result"]
"""The type of a result: one of NUMBERS, ARRAY with the type of an item, the number of dimensions and "w" or READ_ONLY,
or a list for a tuple."""
NONE = "none"
ARRAY, READ_ONLY = "array ", "r"
NUMBERS = {
    NONE: ctypes.c_void_p,
    "bool": ctypes.c_bool,
    "int8": ctypes.c_int8,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8,
    "uint64": ctypes.c_uint64,
    "float64": ctypes.c_double,
}
"""Of the types of numbers, and of no value, those of ctypes."""
_HEADER_WORDS = 5
"""The words of an array before its shape."""
_OWNER, _DATA = 0, 4
_C_ORDER, _FORTRAN_ORDER, _ACCESS = 0x1, 0x2, 0x100 | 0x400
"""Bits of numpy's flags of an array. The last: aligned and writeable."""
_RETURNS_NONE = -2
"""The status of a function that returned None. That of one that raised an exception is another below or above 0."""
RELEASE = "perfloom_release"
MEMORY = f"""
declare ptr @malloc(i64)
declare void @free(ptr)

define ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %alignment) {{
    %whole = add i64 %size, 128
    %overflows = icmp ult i64 %whole, %size
    br i1 %overflows, label %failed, label %allocate
allocate:
    %owner = call ptr @malloc(i64 %whole)
    %is_null = icmp eq ptr %owner, null
    br i1 %is_null, label %failed, label %fill
fill:
    %address = ptrtoint ptr %owner to i64
    %after = add i64 %address, 127
    %start = and i64 %after, -64
    store i64 1, ptr %owner
    %data = getelementptr i64, ptr %owner, i64 3
    store i64 %start, ptr %data
    ret ptr %owner
failed:
    ret ptr null
}}

define ptr @NRT_MemInfo_alloc(i64 %size) {{
    %owner = call ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 64)
    ret ptr %owner
}}

define ptr @NRT_Allocate(i64 %size) {{
    %memory = call ptr @malloc(i64 %size)
    ret ptr %memory
}}

define void @NRT_Free(ptr %memory) {{
    call void @free(ptr %memory)
    ret void
}}

define void @NRT_MemInfo_call_dtor(ptr %owner) {{
    call void @free(ptr %owner)
    ret void
}}

define void @{RELEASE}(ptr %owner) {{
    %before = atomicrmw sub ptr %owner, i64 1 monotonic
    %is_last = icmp eq i64 %before, 1
    br i1 %is_last, label %free, label %end
free:
    call void @free(ptr %owner)
    br label %end
end:
    ret void
}}
"""
"""The memory of arrays that compiled functions allocate, in LLVM's language: its owner has a reference count, and at
word 3 the address, aligned to 64 bytes. They count references themselves."""


def describe_argument(value: Any) -> str:
    """The type of an argument, for which a function is compiled."""
    kind = type(value)
    if kind is np.ndarray:
        if value.dtype.kind not in "iub":
            raise TypeError(f"no compiled function takes an array of {value.dtype}")
        flags = value.flags.num
        order = flags & _C_ORDER or flags & _FORTRAN_ORDER
        return f"{value.dtype.str}{value.ndim}.{flags & _ACCESS | order}"
    if kind is int:
        if not -(1 << 63) <= value < 1 << 64:
            raise OverflowError(f"{value} does not fit into 64 bits")
        return "int" if value < 1 << 63 else "uint"
    if kind is bool:
        return "bool"
    if isinstance(value, tuple):
        return f"{kind.__module__}.{kind.__qualname__}({','.join(map(describe_argument, value))})"
    if isinstance(value, np.generic):
        return value.dtype.str
    raise TypeError(f"no compiled function takes a {kind.__name__}")


def append_words(words: list[int], value: Any) -> None:
    """Append the words by which an argument is passed."""
    kind = type(value)
    if kind is np.ndarray:
        words += (0, 0, value.size, value.itemsize, value.__array_interface__["data"][0], *value.shape, *value.strides)
    elif kind is int or kind is bool:
        words.append(value)
    elif isinstance(value, tuple):
        for part in value:
            append_words(words, part)
    else:
        words.append(int(value))


class _Memory:
    """Memory that a compiled function allocated, for an array that numpy makes of it. Frees it at its end."""

    def __init__(self, release: Callable[[int], object], owner: int, interface: dict[str, Any]) -> None:
        self._release, self._owner = release, owner
        self.__array_interface__ = interface

    def __del__(self) -> None:
        self._release(self._owner)


@dataclass(frozen=True)
class _Borrowed:
    """Memory of an argument, for an array that numpy makes of it."""

    arguments: tuple[Any, ...]
    __array_interface__: dict[str, Any]


class NativeFunction:
    """A function in machine code, called with values as the arguments were for which it was compiled.

    address, release: of itself, and the function RELEASE. word_count: of its arguments. result: its type. error: what
    it raises if it ends with an exception. It releases the interpreter lock.
    """

    def __init__(
        self, address: int, release: Callable[[int], object], word_count: int, result: Result, error: type[Exception]
    ) -> None:
        kinds = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * word_count]
        self._call = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(address)
        self._release, self._result, self._error = release, result, error
        self._space = _make_space(result)

    def __call__(self, arguments: tuple[Any, ...]) -> Any:
        words: list[int] = []
        append_words(words, arguments)
        space, exception = self._space(), ctypes.c_void_p()
        status = self._call(ctypes.addressof(space), ctypes.addressof(exception), *words)
        if status not in (0, _RETURNS_NONE):
            raise self._error("a compiled function failed")
        return self._take(self._result, space.value, arguments)

    def _take(self, result: Result, value: Any, arguments: tuple[Any, ...]) -> Any:
        """The result in a value of ctypes."""
        if isinstance(result, list):
            return tuple(self._take(part, getattr(value, f"part{at}"), arguments) for at, part in enumerate(result))
        if not result.startswith(ARRAY):
            return None if result == NONE else value
        _, dtype, ndim, access = result.split(" ")
        words, dimensions = list(value), int(ndim)
        shape = tuple(words[_HEADER_WORDS : _HEADER_WORDS + dimensions])
        interface = {
            "version": 3,
            "typestr": dtype,
            "shape": shape,
            "strides": tuple(words[_HEADER_WORDS + dimensions :]),
            "data": (words[_DATA], access == READ_ONLY),
        }
        if owner := words[_OWNER]:
            return np.asarray(_Memory(self._release, owner, interface))
        for argument in arguments:
            if (
                isinstance(argument, np.ndarray)
                and argument.__array_interface__["data"][0] == words[_DATA]
                and (argument.shape, argument.strides, argument.dtype.str) == (shape, interface["strides"], dtype)
            ):
                return argument
        return np.asarray(_Borrowed(arguments, interface))


def _make_space(result: Result) -> Any:
    """The type of the memory for a result, with the field `value`."""
    return type("Space", (ctypes.Structure,), {"_fields_": [("value", _make_type(result))]})


def _make_type(result: Result) -> Any:
    if isinstance(result, list):
        fields = [(f"part{at}", _make_type(part)) for at, part in enumerate(result)]
        return type("Parts", (ctypes.Structure,), {"_fields_": fields})
    if result.startswith(ARRAY):
        return ctypes.c_int64 * (_HEADER_WORDS + 2 * int(result.split(" ")[2]))
    return NUMBERS[result]


class MachineCode:
    """Code in memory, ready to be called. It stays for the whole process."""

    def __init__(self, find: Callable[[str], int], owner: object) -> None:
        """find: the address of a function by its symbol, 0 without one. owner: of the memory."""
        _kept.append(owner)
        self._find = find
        release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._find_function(RELEASE))
        self._release: Callable[[int], object] = release

    def bind(self, symbol: str, word_count: int, result: Result, error: type[Exception]) -> NativeFunction:
        """A function. See NativeFunction."""
        return NativeFunction(self._find_function(symbol), self._release, word_count, result, error)

    def _find_function(self, symbol: str) -> int:
        address = self._find(symbol)
        if not address:
            raise ValueError(f"the machine code has no function {symbol}")
        return address


_kept: list[object] = []
"""What owns the memory, which arrays of the code may need until the interpreter ends."""
