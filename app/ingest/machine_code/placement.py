"""Addresses of a recording as addresses in a binary.

perf prints addresses of a process, or offsets in a file, depending on its version and on whether there are call stacks.
Both differ from addresses in the binary by a constant for each mapping: the bias, a multiple of the page size. It is
found by the symbols that perf printed with their offsets, so that text without records of mappings suffices.
"""

import re
from collections.abc import Sequence

import numpy as np

from ...domain.arrays import Array, BoolArray
from .elf import Symbols

PAGE = np.uint64(4096)
MAX_BIASES = 1024
"""Mappings of one binary: one for each process with its own addresses."""
MAX_PAIRS = 4_000_000
_HASH = re.compile(r"::h[0-9a-f]{16}$")
_WORD = re.compile(r"[A-Za-z0-9_$]+$")


def place_addresses(names: Sequence[str], address: Array, offset: Array, symbols: Symbols) -> tuple[Array, BoolArray]:
    """(addresses in the binary, whether they are known) of code locations of one binary.

    names: of their functions, as perf prints them. address: uint64. offset: of the address from the start of its
    function, uint64; the greatest uint64 if it is unknown. A location is known if its function starts where a symbol
    of the binary does.
    """
    known_offset = offset != np.uint64(2**64 - 1)
    begin = address - np.where(known_offset, offset, np.uint64(0))
    biases = _find_biases(names, begin, known_offset, symbols)
    target, placed = address.copy(), np.zeros(len(address), bool)
    for bias in biases:
        moved = begin - bias
        row = np.searchsorted(symbols.start, moved)
        starts = symbols.start[np.minimum(row, len(symbols.start) - 1)] == moved
        fits = np.where(known_offset, starts, symbols.find(address - bias) >= 0) & ~placed
        target[fits] = address[fits] - bias
        placed |= fits
    return target, placed


def _find_biases(names: Sequence[str], begin: Array, known_offset: BoolArray, symbols: Symbols) -> Array:
    """Biases, those that explain most functions first."""
    rows = np.flatnonzero(known_offset)
    if not len(rows) or not len(symbols.start):
        return np.zeros(0, np.uint64)
    # Each function once.
    functions: dict[tuple[int, str], None] = dict.fromkeys(
        zip(begin[rows].tolist(), (names[row] for row in rows.tolist()), strict=True)
    )
    low = symbols.start % PAGE
    order = np.argsort(low, kind="stable")
    sorted_low = low[order]
    votes: dict[int, int] = {}
    pairs = 0
    for start, name in functions:
        word = base_word(name).encode()
        first, last = np.searchsorted(sorted_low, np.array([start % 4096, start % 4096 + 1], np.uint64)).tolist()
        for row in order[first:last].tolist():
            stop = symbols.names.find(b"\0", int(symbols.name[row]))
            if word in symbols.names[int(symbols.name[row]) : stop]:
                bias = (start - int(symbols.start[row])) % 2**64
                votes[bias] = votes.get(bias, 0) + 1
        pairs += last - first
        if pairs > MAX_PAIRS:
            break
    best = sorted(votes, key=lambda bias: (-votes[bias], bias))[:MAX_BIASES]
    return np.array(best, np.uint64)


def base_word(name: str) -> str:
    """The last identifier of a function's name without its arguments, which its mangled name contains; empty for
    operators."""
    if "operator" in name:
        return ""
    name = _HASH.sub("", name.split(" [clone", 1)[0]).removesuffix("@plt")
    depth, kept = 0, []
    for place, character in enumerate(name):
        if character in "<({[":
            # What follows the parentheses of the arguments is not part of the name.
            if character == "(" and depth == 0 and place and not name[place:].startswith("(anonymous"):
                break
            depth += 1
        elif character in ">)}]":
            depth -= 1
        elif depth == 0:
            kept.append(character)
    plain = "".join(kept).split(".", 1)[0] if not name.startswith(".") else "".join(kept)
    found = _WORD.search(plain.rstrip(": "))
    return found[0] if found else ""
