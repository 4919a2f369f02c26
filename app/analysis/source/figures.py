"""The figures of a function's lines and instructions: of every event and formula."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Float64Array
from ...domain.profile import Profile
from ...domain.schemas.code import Code
from ...domain.selection import Selection
from ...domain.tables import get_strings
from ..core.functions import function_id
from ..core.measurements import find_counted_events, find_share_only_events
from ..core.memo import memoize
from ..core.sample_selection import event_names
from ..formulas.evaluation import evaluate
from ..formulas.resolution import resolve_formulas
from .code_index import CodeIndex, index_code, list_symbols
from .line_weights import find_nodes, sum_labels, sum_stack_weights


@dataclass(frozen=True, eq=False)
class Figures:
    """Self and total of an event or formula. name: of it. own, total: NaN where they are unknown, and of events that
    give only shares. own_percent, total_percent: of the whole selection."""

    name: str
    unit: str
    own: Float64Array
    total: Float64Array
    own_percent: Float64Array
    total_percent: Float64Array
    is_formula: bool = False


@dataclass(frozen=True, eq=False)
class FunctionCode:
    """The code of a function. rows: its instructions, rows of `instructions`. line_of: for each of them the index of
    its line. file, line: of each line; -1 and 0 for instructions without one. symbols: rows of `symbols`.

    instructions, lines: the figures, the selected event first.
    """

    rows: Array
    line_of: Array
    file: Array
    line: Array
    symbols: Array
    instructions: tuple[Figures, ...]
    lines: tuple[Figures, ...]


def compute_function_code(
    profile: Profile, code: Code, selection: Selection, function: int | str, event: int, *, at_calls: bool = False
) -> FunctionCode:
    """The figures of a function, given by its row of `functions` or its name (then in all modules).

    event: the one that is first. at_calls: whether inlined code belongs to the line of the function that called it,
    instead of the line where it is written. Raises NotFound.
    """
    functions = function_id(profile, function)
    key = ("function code", id(code), selection.replace(event=None), tuple(functions.tolist()), event, at_calls)
    return memoize(profile, key, lambda: _compute(profile, code, selection, functions, event, at_calls))


def _compute(
    profile: Profile, code: Code, selection: Selection, functions: Array, event: int, at_calls: bool
) -> FunctionCode:
    index = index_code(profile, code)
    symbols = list_symbols(profile, index, functions)
    rows = _list_rows(index, symbols)
    place = index.place[rows].astype(np.int64)
    if at_calls:
        place = np.where(place >= 0, index.caller[np.maximum(place, 0)], -1)
    known = place >= 0
    file = np.where(known, index.file[np.maximum(place, 0)], -1)
    line = np.where(known, index.line[np.maximum(place, 0)], 0)
    keys, line_of = np.unique(np.stack((file, line), 1), axis=0, return_inverse=True)
    line_of = line_of.reshape(-1)
    label = np.full(len(index.symbol) + 1, -1, np.int64)
    label[rows] = np.arange(len(rows))
    line_label = np.full(len(label), -1, np.int64)
    line_label[rows] = line_of
    nodes = find_nodes(profile, index, symbols)
    events = [event, *(other for other in range(profile.events.num_rows) if other != event)] if event >= 0 else []
    instructions, lines = [], []
    for one in events:
        weights = sum_stack_weights(profile, selection, one)
        instructions.append(_make_figures(profile, one, sum_labels(nodes, label, len(rows), weights), weights[1]))
        lines.append(_make_figures(profile, one, sum_labels(nodes, line_label, len(keys), weights), weights[1]))
    instructions += _evaluate_formulas(profile, events, instructions)
    lines += _evaluate_formulas(profile, events, lines)
    return FunctionCode(rows, line_of, keys[:, 0], keys[:, 1], symbols, tuple(instructions), tuple(lines))


def _list_rows(index: CodeIndex, symbols: Array) -> Array:
    parts = [np.arange(index.first[symbol], index.first[symbol + 1]) for symbol in symbols.tolist()]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _make_figures(profile: Profile, event: int, sums: tuple[Array, Array], subtree: Array) -> Figures:
    everything = int(subtree[0]) if len(subtree) else 0
    scale = np.nan if event in find_share_only_events(profile) else 1.0
    percent = 100.0 / everything if everything else 0.0
    own, total = (values.astype(np.float64) for values in sums)
    return Figures(
        name=event_names(profile)[event],
        unit=get_strings(profile.events, "unit")[event],
        own=own * scale,
        total=total * scale,
        own_percent=own * percent,
        total_percent=total * percent,
    )


def _evaluate_formulas(profile: Profile, events: Sequence[int], figures: Sequence[Figures]) -> list[Figures]:
    """The formulas whose events were measured, of sums; x ÷ 0 is NaN."""
    by_event: Mapping[int, Figures] = dict(zip(events, figures, strict=True))
    weighted = profile.events.column("weighted").to_pylist()
    counted = find_counted_events(profile)
    found = []
    for resolved in resolve_formulas(profile):
        rows = set(resolved.events.values())
        # Samples without periods say nothing about counts.
        if not rows <= set(by_event) or (len(rows) > 1 and not all(weighted[row] or row in counted for row in rows)):
            continue
        own = {name: by_event[row].own for name, row in resolved.events.items()}
        total = {name: by_event[row].total for name, row in resolved.events.items()}
        missing = np.full(len(figures[0].own), np.nan)
        found.append(
            Figures(
                name=resolved.formula.name,
                unit=resolved.formula.unit or "",
                own=np.broadcast_to(evaluate(resolved.steps, own), missing.shape),
                total=np.broadcast_to(evaluate(resolved.steps, total), missing.shape),
                own_percent=missing,
                total_percent=missing,
                is_formula=True,
            )
        )
    return found
