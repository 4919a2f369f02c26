"""Which samples wait and which compute, by the functions of their call stacks."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array
from ...domain.arrow import functions as pc
from ...domain.profile import Profile
from ...domain.tables import ROOT, get_column
from .functions import base_name, functions_of
from .memo import memoize
from .patterns import compile_pattern
from .trees import nearest_ancestor
from .waiting_functions import resuming_pattern, spinning_module_pattern, waiting_module_pattern, waiting_pattern


@dataclass(frozen=True, eq=False)
class WaitingCalls:
    """By node of `calls`. waits: whether samples on it wait (bools). call: the outermost node of its call stack that
    waits (int64); the node itself if it does not wait."""

    waits: Array
    call: Array


def waiting_calls_of(profile: Profile) -> WaitingCalls:
    """The nodes of `calls` that wait. A sample waits if its stack has a function that waits (see `waiting_functions`),
    with no function after it that runs tasks of the program."""
    patterns = (waiting_pattern(), waiting_module_pattern(), spinning_module_pattern(), resuming_pattern())
    return memoize(profile, ("waiting calls", patterns), lambda: _find(profile, patterns))


def _find(profile: Profile, patterns: tuple[str, str, str, str]) -> WaitingCalls:
    calls, functions = profile.calls, functions_of(profile)
    size = calls.num_rows
    if size <= 1 or not profile.functions.num_rows:
        return WaitingCalls(np.zeros(size, bool), np.arange(size))
    parent, end, function = (get_column(calls, name) for name in ("parent", "end", "function"))
    by_name, by_module, spinning, resuming = patterns
    files = [base_name(module) for module in functions.modules]
    resumes = _match(resuming, functions.names)[functions.name]
    waits = _match(by_name, functions.names)[functions.name] | _match(by_module, files)[functions.module]
    unnamed = np.array([name.startswith("[") for name in functions.names] + [True], bool)[functions.name]
    alone = _match(spinning, files)[functions.module] & unnamed & ~waits
    wait, resume, spin = ((found[function] & (function >= 0)) for found in (waits & ~resumes, resumes, alone))
    root = np.arange(size) == ROOT
    nearest = nearest_ancestor(parent, end, wait | resume | root)
    below = wait[nearest]
    above = below[np.maximum(parent, 0)] & ~root
    entry = (wait & ~above) | (spin & ~below) | root
    waiting = below | spin
    outermost = nearest_ancestor(parent, end, entry)
    return WaitingCalls(waiting, np.where(waiting, outermost, np.arange(size)))


def _match(pattern: str, texts: list[str]) -> Array:
    """Which of these texts match, as bools, and False for none (code -1)."""
    compile_pattern(pattern, "waiting functions")
    # Arrow has the same library for patterns, and applies it to a whole column.
    matches = pc.match_substring_regex(pa.array(texts, pa.string()), pattern)
    return np.array([*matches.to_pylist(), False], bool)
