"""The program of a process by its call stacks, if its main thread was not recorded."""

import re
from collections.abc import Sequence

import numpy as np

from .arrays import Array

COMM_CHARACTERS = 15
"""The length to which the kernel cuts a program's name."""
_NO_PROGRAM = re.compile(r"\.so(\.[0-9.]+)?$|\.(ko(\.\w+)?|map|jar|dll|dump|py)$|^perf-\d+|^memfd:|^anon")


def get_program_name(module: str) -> str:
    """The name of a process that runs this file, as the kernel cuts it; "" for a library, the kernel, and code without
    a file."""
    path = module.removesuffix(" (deleted)")
    name = path.rpartition("/")[2]
    if not path.startswith("/") or path.startswith("//") or _NO_PROGRAM.search(name) or ".so." in name:
        return ""
    return name[:COMM_CHARACTERS]


def infer_programs(
    process: Array, stack: Array, parent: Array, module: Array, modules: Sequence[str]
) -> dict[int, str]:
    """The program of each process: the outermost program on most of its stacks.

    process, stack: of samples. parent, module: of the nodes of the call tree (row 0 is the root); module is an index
    into `modules`, -1 for none.
    """
    names = [get_program_name(text) for text in modules]
    known = sorted({name for name in names if name})
    if not known or not len(stack):
        return {}
    code = np.array([known.index(name) if name else -1 for name in names] + [-1])[module]
    pairs, count = np.unique(np.stack([process, stack]), axis=1, return_counts=True)
    process, node = pairs
    found = np.full(len(node), -1)
    while (node > 0).any():
        found = np.where((node > 0) & (code[node] >= 0), code[node], found)
        node = np.where(node > 0, parent[node], 0)
    has_program = found >= 0
    weight = np.zeros((int(process.max()) + 1, len(known)), np.int64)
    np.add.at(weight, (process[has_program], found[has_program]), count[has_program])
    return {row: known[int(best)] for row, best in enumerate(weight.argmax(axis=1)) if weight[row].any()}
