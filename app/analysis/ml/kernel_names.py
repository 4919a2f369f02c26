"""Short names of kernels, without the long template types of C++.

`void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, …>(int, …)` becomes
`vectorized_elementwise_kernel · CUDAFunctor_add`, CUTLASS's `void cutlass::Kernel<cutlass_80_tensorop_…>(…)` becomes
the name of its operation. Different kernels may share a short name; pages also show the full name.
"""

import re

_GENERIC = frozenset({"Kernel", "Kernel2", "kernel", "device_kernel", "run", "kernel_entry", "_5x_cudnn", ""})
_TELLING = re.compile(
    r"(?<!\w)(\w*[Ff]unctor\w*|\w+_kernel_(?:cuda|impl)\w*|(?:launch_clamp|direct_copy|copy_device)_\w+|\w+Ops(?=<))"
)
_WRAPPERS = frozenset(
    {
        "BinaryFunctor",
        "BUnaryFunctor",
        "AUnaryFunctor",
        "CUDAFunctorOnSelf",
        "gpu_kernel_impl",
        "gpu_kernel_impl_nocast",
    }
)
_ANONYMOUS = re.compile(r"\(anonymous(?: namespace| class)?\)::|\{lambda\([^{}]*\)#\d+\}|<unnamed>::")
MAX_LENGTH, MIN_LENGTH = 160, 8


def shorten_kernel_name(name: str) -> str:
    """`name` without return type, namespaces, arguments and types, with the functor that distinguishes it."""
    if "<" not in name and "(" not in name:
        return name[:MAX_LENGTH]
    text = _ANONYMOUS.sub("", name)
    base, types = _parts(text)
    if base in _GENERIC:
        inner = _parts(_first(types))[0] if types else ""
        return (inner if len(inner) > MIN_LENGTH else _qualify(text, base) or base or name)[:MAX_LENGTH]
    type_name = next((word for word in _TELLING.findall(types) if word not in _WRAPPERS and word not in base), "")
    return (f"{base} · {type_name}" if type_name else base)[:MAX_LENGTH] or name[:MAX_LENGTH]


def _parts(text: str) -> tuple[str, str]:
    """The last word of a qualified name outside of brackets, and its template arguments."""
    depth, words, types, start = 0, [""], "", 0
    for place, sign in enumerate(text):
        if sign == "<":
            start = place + 1 if depth == 0 else start
            depth += 1
        elif sign == ">" and depth:
            depth -= 1
            types = text[start:place] if depth == 0 else types
        elif depth == 0:
            if sign == "(":
                break
            if sign in ": ":
                # What is behind a space or colons begins a new word, unless the text ends with it.
                words.append("")
                types = ""
            else:
                words[-1] += sign
    return next((word for word in reversed(words) if word), ""), types


def _qualify(text: str, base: str) -> str:
    """The last two words of a name whose last one is generic: `gemvx::kernel`."""
    found = re.findall(rf"(\w+::{re.escape(base)})(?!\w)", text) if base else []
    return str(found[-1]) if found else ""


def _first(types: str) -> str:
    """The first of several types."""
    depth = 0
    for place, sign in enumerate(types):
        depth += {"<": 1, ">": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            return types[:place]
    return types
