"""Tokens of a language model: how many each step evaluated, and how many there were in a second.

Steps that readers call `prefill` and `decode` are evaluations of the prompt and of a token each. A counter of tokens,
as a program writes it, tells how many it were; without one a step of decoding is one token, and a prompt's length is
not known. docs/metrics.md has the definitions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.tables import get_column, get_strings
from ...domain.units import NS_PER_S

KINDS = ("prefill", "decode")
_NAMES = re.compile(rf"({'|'.join(KINDS)})(?: \d+)?")
_COUNTERS = ("tokens", "n_tokens")
"""Names of counters of all tokens so far, whatever their case."""


@dataclass(frozen=True)
class TokenRate:
    """Tokens of some steps. steps, tokens: how many (tokens None: not known). ns: the time that they took, of tokens
    one behind the other what lies between them too. step_ns: what one step took on average."""

    steps: int
    tokens: int | None
    ns: int
    step_ns: float

    @property
    def per_s(self) -> float | None:
        """Tokens in a second; None where that is not known."""
        return None if self.tokens is None or not self.ns else self.tokens * NS_PER_S / self.ns


def parse_step_kind(step: str) -> str:
    """prefill or decode, as a step is called; empty for any other."""
    match = _NAMES.fullmatch(step)
    return match[1] if match else ""


def step_tokens(profile: Profile, names: Sequence[str], start_ns: Array) -> Array:
    """How many tokens each step evaluated: float64, NaN where that is not known. Steps in order of time."""
    kinds = [parse_step_kind(name) for name in names]
    counter = _counter(profile) if any(kinds) else None
    if counter is None:
        return np.array([1.0 if kind == "decode" else np.nan for kind in kinds], np.float64)
    time_ns, value = counter
    # What is counted behind a step, and before the next, is of this one.
    at = np.append(start_ns, np.iinfo(np.int64).max)
    reached = np.append(0.0, value)[np.searchsorted(time_ns, at, "left")]
    rise = np.diff(reached)
    return np.where(np.array([bool(kind) for kind in kinds]) & (rise > 0), rise, np.nan)


def tokens_per_second(tokens: Array, length_ns: Array) -> Array:
    """Tokens in a second of steps, NaN where that is not known."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Array = np.where(length_ns > 0, tokens * NS_PER_S / length_ns, np.nan)
    return found


def token_rates(names: Sequence[str], start_ns: Array, end_ns: Array, tokens: Array) -> dict[str, TokenRate]:
    """By `prefill` and `decode` what these steps evaluated, which are in order of time; nothing where there is none."""
    kinds, found = np.array([parse_step_kind(name) for name in names], "U7"), {}
    length = end_ns - start_ns
    for kind in KINDS:
        rows = np.flatnonzero(kinds == kind)
        if not len(rows):
            continue
        whole, took = float(tokens[rows].sum()), int(length[rows].sum())
        if kind == "decode":
            behind = rows[1:][np.diff(rows) == 1]
            took += int(np.maximum(start_ns[behind] - end_ns[behind - 1], 0).sum())
        found[kind] = TokenRate(len(rows), None if np.isnan(whole) else round(whole), took, float(length[rows].mean()))
    return found


def _counter(profile: Profile) -> tuple[Array, Array] | None:
    """(when, how many) of the counter of tokens; None where there is none, or it goes back."""
    for row, name in enumerate(get_strings(profile.series, "name")):
        if name.lower() in _COUNTERS:
            rows = np.flatnonzero(get_column(profile.counters, "series") == row)
            value = get_column(profile.counters, "value")[rows]
            if len(value) and value[0] >= 0 and (np.diff(value) >= 0).all():
                return get_column(profile.counters, "time_ns")[rows], value
    return None
