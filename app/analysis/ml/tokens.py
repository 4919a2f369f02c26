"""Tokens of a language model: number evaluated by each step, and rate per second.

Steps that readers name `prefill` and `decode` are evaluations of the prompt and of one token. If the program writes a
counter of tokens, it gives their number; else a decode step is one token, and the length of a prompt is unknown.
docs/metrics.md has the definitions.
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
"""Names of counters of all tokens so far, in any case."""


@dataclass(frozen=True)
class TokenRate:
    """Tokens of some steps. steps, tokens: their number (tokens None: unknown). ns: their time, including gaps between
    consecutive tokens. step_ns: average duration of a step."""

    steps: int
    tokens: int | None
    ns: int
    step_ns: float

    @property
    def per_s(self) -> float | None:
        """Tokens per second; None if unknown."""
        return None if self.tokens is None or not self.ns else self.tokens * NS_PER_S / self.ns


def parse_step_kind(step: str) -> str:
    """prefill or decode, by the name of a step; else empty."""
    match = _NAMES.fullmatch(step)
    return match[1] if match else ""


def step_tokens(profile: Profile, names: Sequence[str], start_ns: Array) -> Array:
    """Number of tokens evaluated by each step: float64, NaN if unknown. Steps are sorted by time."""
    kinds = [parse_step_kind(name) for name in names]
    counter = _counter(profile) if any(kinds) else None
    if counter is None:
        return np.array([1.0 if kind == "decode" else np.nan for kind in kinds], np.float64)
    time_ns, value = counter
    # Tokens counted between a step and the next belong to the former.
    at = np.append(start_ns, np.iinfo(np.int64).max)
    reached = np.append(0.0, value)[np.searchsorted(time_ns, at, "left")]
    rise = np.diff(reached)
    return np.where(np.array([bool(kind) for kind in kinds]) & (rise > 0), rise, np.nan)


def tokens_per_second(tokens: Array, length_ns: Array) -> Array:
    """Tokens per second of steps, NaN if unknown."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Array = np.where(length_ns > 0, tokens * NS_PER_S / length_ns, np.nan)
    return found


def token_rates(names: Sequence[str], start_ns: Array, end_ns: Array, tokens: Array) -> dict[str, TokenRate]:
    """Token rates of these steps (sorted by time) by `prefill` and `decode`; only those that occur."""
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
    """(when, how many) of the counter of tokens; None if there is none, or if it decreases."""
    for row, name in enumerate(get_strings(profile.series, "name")):
        if name.lower() in _COUNTERS:
            rows = np.flatnonzero(get_column(profile.counters, "series") == row)
            value = get_column(profile.counters, "value")[rows]
            if len(value) and value[0] >= 0 and (np.diff(value) >= 0).all():
                return get_column(profile.counters, "time_ns")[rows], value
    return None
