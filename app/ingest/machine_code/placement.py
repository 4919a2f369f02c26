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
FIRST_FUNCTIONS = 200
MIN_SHARE = 10
"""A bias that explains fewer than one in so many of the first functions may be a chance."""
_HASH = re.compile(r"::h[0-9a-f]{16}$")
_WORD = re.compile(r"[A-Za-z0-9_$]+$")


def place_addresses(names: Sequence[str], address: Array, offset: Array, symbols: Symbols) -> tuple[Array, BoolArray]:
    """(addresses in the binary, whether they are known) of code locations of one binary.

    names: of their functions, as perf prints them. address: uint64. offset: of the address from the start of its
    function, uint64; the greatest uint64 if it is unknown. A location is known if its function starts where a symbol
    of the binary does; without an offset, if it is in a symbol with a bias of other locations.
    """
    known_offset = offset != np.uint64(2**64 - 1)
    begin = address - np.where(known_offset, offset, np.uint64(0))
    target, placed = address.copy(), np.zeros(len(address), bool)
    if not len(symbols.start):
        return target, placed
    functions = _list_functions(names, begin, known_offset)
    votes: dict[int, int] = {}
    used: dict[int, None] = {}
    pairs = first = 0
    # A few functions mostly show the biases of all. The others are asked only for what is not placed then.
    for count in (FIRST_FUNCTIONS, len(functions)):
        of_round = [one for one in functions[first:count] if not placed[one[2]]]
        pairs = _count_votes(of_round, symbols, votes, pairs)
        enough = len(of_round) // MIN_SHARE if count < len(functions) else 0
        for bias in sorted(votes, key=lambda one: (-votes[one], one))[:MAX_BIASES]:
            rest = np.flatnonzero(known_offset & ~placed)
            if not len(rest) or votes[bias] < enough:
                break
            moved = begin[rest] - np.uint64(bias)
            row = np.searchsorted(symbols.start, moved)
            rest = rest[symbols.start[np.minimum(row, len(symbols.start) - 1)] == moved]
            target[rest], placed[rest] = address[rest] - np.uint64(bias), True
            if len(rest):
                used[bias] = None
        first = count
    for bias in used:
        rest = np.flatnonzero(~known_offset & ~placed)
        rest = rest[symbols.find(address[rest] - np.uint64(bias)) >= 0]
        target[rest], placed[rest] = address[rest] - np.uint64(bias), True
    return target, placed


def _list_functions(names: Sequence[str], begin: Array, known_offset: BoolArray) -> list[tuple[int, str, int]]:
    """(start, name, a row) of each function, spread over the rows."""
    rows = np.flatnonzero(known_offset).tolist()
    found = {(start, names[row]): row for row, start in zip(rows, begin[rows].tolist(), strict=True)}
    functions = [(start, name, row) for (start, name), row in found.items()]
    step = max(1, len(functions) // FIRST_FUNCTIONS)
    return [one for part in range(step) for one in functions[part::step]]


def _count_votes(functions: Sequence[tuple[int, str, int]], symbols: Symbols, votes: dict[int, int], pairs: int) -> int:
    """Count for each bias the functions that it explains; twice if their names are the same. pairs: how many functions
    and symbols were compared before. Returns how many are now."""
    if not functions or pairs > MAX_PAIRS:
        return pairs
    low = (symbols.start % PAGE).astype(np.int16)
    order = np.argsort(low, kind="stable")
    in_page = np.array([start % 4096 for start, _, _ in functions], np.int16)
    firsts, lasts = (np.searchsorted(low[order], in_page, side).tolist() for side in ("left", "right"))
    for (start, name, _), first, last in zip(functions, firsts, lasts, strict=True):
        word = base_word(name).encode()
        for row in order[first:last].tolist():
            stop = symbols.names.find(b"\0", int(symbols.name[row]))
            symbol = symbols.names[int(symbols.name[row]) : stop]
            if word in symbol:
                bias = (start - int(symbols.start[row])) % 2**64
                votes[bias] = votes.get(bias, 0) + (2 if word == symbol else 1)
        pairs += last - first
        if pairs > MAX_PAIRS:
            break
    return pairs


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
