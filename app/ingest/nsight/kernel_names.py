"""Normalized names of kernels: compilers, CUPTI and Nsight Compute write the same function in different ways.

`void at::f<(int)4, (bool)1, float *>(int, T2)` of Nsight Compute is `void at::f<4, true, float*>(int, float*)` of a
trace: Nsight Compute writes the types of constants before them, and argument types by their position.
"""

import re
from functools import lru_cache

_CASTS = re.compile(r"\((?:unsigned |signed )?(?:int|long|long long|short|char)\)(?=-?\d)")
_BOOLEANS = re.compile(r"\(bool\)([01])")
_SUFFIXES = re.compile(r"(?<![\w.])(-?\d+)(?:[uU]?[lL]{0,2})(?!\w)")
_BLANKS = re.compile(r"\s+(?=[*&>,)\]])|(?<=[<(,\[])\s+|(?<=[*&])\s+")
_QUALIFIERS = re.compile(r"^(?:(?:void|static|inline|__global__)\s+)+")


@lru_cache(maxsize=1 << 14)
def normalize_kernel_name(name: str) -> str:
    """The common part of all notations of a kernel's name: without its arguments, the types of constants, and
    spaces."""
    text = _QUALIFIERS.sub("", _strip_arguments(name.strip()))
    text = _BOOLEANS.sub(lambda found: "true" if found[1] == "1" else "false", text)
    text = _SUFFIXES.sub(r"\1", _CASTS.sub("", text))
    return _BLANKS.sub("", text.replace("(anonymous namespace)", "<unnamed>"))


@lru_cache(maxsize=1 << 14)
def get_function_name(name: str) -> str:
    """The function's own name, without namespaces, types and arguments."""
    text, depth, kept = normalize_kernel_name(name), 0, []
    for sign in text.replace("<unnamed>", "_unnamed_"):
        if sign == "<":
            depth += 1
        elif sign == ">":
            depth -= depth > 0
        elif depth == 0:
            kept.append(sign)
    return "".join(kept).rpartition("::")[2]


def _strip_arguments(name: str) -> str:
    """`name` up to the parenthesis of its arguments: the first one outside of angle brackets and braces."""
    depth = 0
    for index, sign in enumerate(name.replace("(anonymous namespace)", "<anonymous namespace>")):
        if sign in "<{":
            depth += 1
        elif sign in ">}":
            depth -= depth > 0
        elif sign == "(" and depth == 0 and index:
            return name[:index]
    return name
