"""The steps of a trace of a language model: the evaluation of the prompt (`prefill`), then of each token (`decode`).

A program may mark them with these words. Otherwise the marks with the most time are considered evaluations, or the
interval between computations of the last tensor; the first is then that of the prompt.
"""

import re

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.tables import get_column, get_strings
from ...ingest.trace.tables import build_table
from .names import parse_operator_name

MARK = "mark"
"""The category of slices that are no operators."""
LAST_TENSORS = ("result_output", "lm_head", "output.weight")
"""The last tensor of an evaluation of a language model: the probability of each token."""
_NUMBER = r"(?:[_ ](?:step|token))?[_ #:.-]*\d*"
_PREFILL = re.compile(rf"(?:prefill|prompt(?:[_ ]eval(?:uation)?)?){_NUMBER}", re.IGNORECASE)
_DECODE = re.compile(rf"(?:decode|generate|next[_ ]token){_NUMBER}", re.IGNORECASE)


def steps_of(profile: Profile) -> pa.Table:
    """The table `steps`, of one thread and in order of time; without rows if fewer than two can be determined."""
    names, found = get_strings(profile.functions, "name"), _SliceColumns(profile)
    rows, prompt = _find_evaluation_marks(found, names)
    marked = len(rows) > 1
    if not marked:
        rows = _select_longest_marks(found, names)
    begin = found.start[rows]
    if len(rows) < 2:
        rows = _select_last_tensors(found, names)
        begin = np.concatenate((found.start.min(initial=0, keepdims=True), found.end[rows]))[: len(rows)]
    if len(rows) < 2:
        rows = begin = rows[:0]
    if not marked:
        prompt = np.arange(len(rows)) == 0
    return build_table(
        "steps",
        rank=[None] * len(rows),
        name=_name_steps(prompt),
        start_ns=begin,
        end_ns=found.end[rows],
        thread=found.thread[rows],
    )


class _SliceColumns:
    """The columns of `slices` that matter here."""

    def __init__(self, profile: Profile) -> None:
        self.start, length, self.thread, self.function, self.depth, category = (
            get_column(profile.slices, name)
            for name in ("start_ns", "duration_ns", "thread", "function", "depth", "category")
        )
        self.end = self.start + length
        categories = get_strings(profile.categories, "name")
        self.mark = category == (categories.index(MARK) if MARK in categories else len(categories))

    def of_one_thread(self, rows: Array) -> Array:
        """Those of the thread with the most time in them, in order of time, without nested ones."""
        if not len(rows):
            return rows
        rows = rows[self.thread[rows] == int(np.bincount(self.thread[rows], (self.end - self.start)[rows]).argmax())]
        rows = rows[np.argsort(self.start[rows], kind="stable")]
        before = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(self.end[rows])[:-1])
        found: Array = rows[self.start[rows] >= before]
        return found


def _find_evaluation_marks(found: _SliceColumns, names: list[str]) -> tuple[Array, Array]:
    """(marks for the evaluation of a prompt or of tokens, which of them are of a prompt); nothing without tokens."""
    kinds = np.array([2 * bool(_DECODE.fullmatch(name)) + bool(_PREFILL.fullmatch(name)) for name in names] or [0])
    kind = np.where(found.mark, kinds[found.function], 0)
    if not (kind == 2).any():
        return np.zeros(0, np.int64), np.zeros(0, bool)
    rows = found.of_one_thread(np.flatnonzero(kind))
    return rows, kind[rows] == 1


def _select_longest_marks(found: _SliceColumns, names: list[str]) -> Array:
    """The outermost marks with the name that took most of the time, of names that occur several times."""
    outer = np.flatnonzero(found.mark & (found.depth == 0))
    often = np.bincount(found.function[outer], minlength=len(names)) > 1
    spent = np.bincount(found.function[outer], (found.end - found.start)[outer], len(names)) * often
    if not spent.any():
        return outer[:0]
    return found.of_one_thread(outer[found.function[outer] == int(spent.argmax())])


def _select_last_tensors(found: _SliceColumns, names: list[str]) -> Array:
    """Computations of the last tensor."""
    last = [number for number, name in enumerate(names) if parse_operator_name(name).get("tensor") in LAST_TENSORS]
    return found.of_one_thread(np.flatnonzero(np.isin(found.function, last)))


def _name_steps(prompt: Array) -> list[str]:
    """The names of steps: `prefill`, or with numbers if there are several, and `decode 1`, `decode 2`, …"""
    several, counts, called = int(prompt.sum()) > 1, [0, 0], []
    for of_prompt in prompt.tolist():
        counts[of_prompt] += 1
        called.append(
            "prefill" if of_prompt and not several else f"{'prefill' if of_prompt else 'decode'} {counts[of_prompt]}"
        )
    return called
