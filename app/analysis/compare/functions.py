"""Differences between two profiles, by function or stack."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from ...domain.arrays import Array
from ...domain.event_names import SAMPLED_ONLY
from ...domain.profile import Profile
from ...domain.selection import Selection, check_choice
from ...domain.tables import ROOT, get_strings
from ..core.functions import FunctionIndex, functions_of
from ..core.measurements import find_share_only_events
from ..core.sample_counts import MIN_COMPARED_SAMPLES, count_call_samples
from ..core.sample_rollup import sum_call_weights
from ..core.sample_selection import event_names
from ..core.schema import Column, TableRows, build_rows, table_function
from ..formulas.measures import evaluate_weights
from ..formulas.resolution import ResolvedFormula
from ..stacks.call_tree import CallTree
from ..stacks.hotspots import function_weights, to_percent
from ..stacks.shapes import shape_of
from .matching import NOT_FOUND, map_functions, pair_events, pair_formulas
from .relative_change import divide, percent_of_base
from .stack_matching import get_stack_tree, match_stacks

BY = ("function", "stack")
FEW_SAMPLES, UNDEFINED = "few", "undefined"
STATUSES = ("grew", "shrank", "appeared", "vanished", "same", FEW_SAMPLES, UNDEFINED)
NOT_SAMPLED = -1
"""As a number of samples: the weights are not from samples."""
_DELTA = "other_{0} − base_{0}, with the base scaled first if the comparison is normalized; "
_DELTA += f"missing for an event that was {SAMPLED_ONLY}."
COLUMNS = (
    Column("name", "", "Name of the function; by stack, the names of all frames from the outermost, joined by “;”."),
    Column("module", "", "Program or library of the function; by stack, of the innermost frame."),
    Column("event", "", "The measured event, as named in the other profile."),
    Column("unit", "", "The unit of the weights: count, ns or bytes."),
    Column(
        "status",
        "",
        "grew, shrank, appeared, vanished or same, by total, or by self if the totals are equal; few if the values "
        f"differ but both have fewer than {MIN_COMPARED_SAMPLES} samples, too few for a conclusion; undefined if a "
        "formula has no value on one side.",
    ),
    Column("base_self", "event", "Weight of the function itself in the base profile, as measured, if known.", "number"),
    Column(
        "other_self", "event", "Weight of the function itself in the other profile, as measured, if known.", "number"
    ),
    Column("delta_self", "event", _DELTA.format("self"), "number"),
    Column(
        "base_total",
        "event",
        "Weight of the function and its callees in the base profile, as measured, if known.",
        "number",
    ),
    Column(
        "other_total",
        "event",
        "Weight of the function and its callees in the other profile, as measured, if known.",
        "number",
    ),
    Column("delta_total", "event", _DELTA.format("total"), "number"),
    Column("base_self_percent", "%", "base_self in percent of everything selected in the base.", "float64"),
    Column("other_self_percent", "%", "other_self in percent of everything selected in the other.", "float64"),
    Column(
        "delta_self_percent",
        "%",
        "delta_self in percent of everything selected in the base, scaled if the comparison is normalized: then it "
        "is the difference of the two shares in percentage points.",
        "float64",
    ),
    Column("base_total_percent", "%", "base_total in percent of everything selected in the base.", "float64"),
    Column("other_total_percent", "%", "other_total in percent of everything selected in the other.", "float64"),
    Column("delta_total_percent", "%", "delta_total in percent, computed like delta_self_percent.", "float64"),
    Column(
        "base_samples",
        "",
        "Number of samples in base_total; of a formula, of the rarest of its events. Missing if weights are not "
        "sampled.",
        "Int64",
    ),
    Column("other_samples", "", "Number of samples in other_total, in the same way.", "Int64"),
    Column("ratio_self", "", "other_self ÷ base_self, with the base scaled as for delta_self.", "Float64"),
    Column("ratio_total", "", "other_total ÷ base_total, with the base scaled as for delta_total.", "Float64"),
)


@dataclass(frozen=True, eq=False)
class _Side:
    """The values of one side. own, total: int64 by item; whole: weight of the selection. own_samples, total_samples:
    number of samples of these, UNKNOWN if they are not from samples."""

    own: Array
    total: Array
    whole: int
    own_samples: Array
    total_samples: Array


@dataclass(frozen=True, eq=False)
class _Aligned:
    """The functions (stacks) of both, by item. base, other: their values. shown: the items with weight. describe: makes
    the names and modules of items."""

    base: _Side
    other: _Side
    shown: Array
    describe: Callable[[list[int]], dict[str, Any]]


@table_function
def diff_functions(
    base: Profile,
    other: Profile,
    base_selection: Selection,
    other_selection: Selection,
    by: str = "function",
    normalize: bool = True,
    status_of: str | None = None,
) -> TableRows:
    """One row for each event and function (or stack) with weight in either; sorted by absolute change of self,
    descending.

    Functions are the same if display name and module are equal. Stacks are the same if all their functions are; stacks
    at which a sample ends in either profile have a row. normalize: the base is multiplied by Σ other / Σ base of the
    event, so that runs of different length are compared by share and the differences of self add up to zero (except for
    rounding and samples without a stack); if either sum is zero, nothing is scaled. Events: the selected ones, else all
    that both have; sampled events without a total are always compared by share. `invert` has no effect, `recursion`
    affects only stacks.

    Of a formula, the values on the sums of its events, in the order of the first one; nothing is scaled, and only the
    percentages of differences exist: of the value of the base.

    status_of: "self" or "total" if only that is shown, so that the status refers to it; None: as the column describes.

    Raises InvalidRequest if there is no event to compare.
    """
    check_choice("by", by, BY)
    align: _Align = _align_functions if by == "function" else _align_stacks
    formulas = pair_formulas(base, other, base_selection, other_selection)
    if formulas is not None:
        return _diff_formula(base, other, base_selection, other_selection, *formulas, align, status_of)
    names, units = event_names(other), get_strings(other.events, "unit")
    parts: list[dict[str, Any]] = []
    for before, after in pair_events(base, other, base_selection, other_selection):
        unknown = unknown_columns(base, other, before, after)
        scaled = normalize or bool(unknown)
        (aligned,) = align(base, other, base_selection, other_selection, [(before, after)])
        columns, order = _measure_columns(aligned.base, aligned.other, aligned.shown, scaled, status_of)
        part = aligned.describe(order) | columns
        for side in unknown:
            for name in (f"{side}_self", f"{side}_total"):
                part[name] = np.full(len(order), None)
        parts.append(part | {"event": [names[after]] * len(order), "unit": [units[after]] * len(order)})
    return build_rows(COLUMNS, {column.name: _join([part[column.name] for part in parts]) for column in COLUMNS})


def _join(parts: list[Any]) -> Any:
    """The values of a column from those of several events."""
    if len(parts) == 1:
        return parts[0]
    if parts and all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [value for part in parts for value in part]


def unknown_columns(base: Profile, other: Profile, before: int, after: int) -> tuple[str, ...]:
    """The prefixes of columns whose values are unknown for a pair of events: base, other, delta. Events with any are
    compared only by share."""
    sides = (("base", before in find_share_only_events(base)), ("other", after in find_share_only_events(other)))
    guessed = tuple(side for side, unknown in sides if unknown)
    return (*guessed, "delta") if guessed else ()


_Align = Callable[[Profile, Profile, Selection, Selection, Sequence[tuple[int, int]]], list[_Aligned]]
"""The values of pairs of events in base and other, which have the same items."""


def _align_functions(
    base: Profile,
    other: Profile,
    base_selection: Selection,
    other_selection: Selection,
    pairs: Sequence[tuple[int, int]],
) -> list[_Aligned]:
    return [_align_event(base, other, base_selection, other_selection, *pair) for pair in pairs]


def _align_event(
    base: Profile, other: Profile, base_selection: Selection, other_selection: Selection, before: int, after: int
) -> _Aligned:
    rows, own, total, whole = function_weights(other, other_selection, after)
    base_rows, base_own, base_total, base_whole = function_weights(base, base_selection, before)
    own_samples, total_samples = _function_samples(other, other_selection, after, len(rows))
    base_samples = _function_samples(base, base_selection, before, len(base_rows))
    place = map_functions(other, base, rows)
    known = place != NOT_FOUND
    # Index of each function of the base in the result of `function_weights`, by its canonical id.
    at = np.zeros(base.functions.num_rows, np.int64)
    at[functions_of(base).canonical[base_rows]] = np.arange(len(base_rows))
    match = at[place[known]]
    alone = np.ones(len(base_rows), bool)
    alone[match] = False
    one = _align_base(len(rows), known, match, (base_own, base_total, *base_samples), alone, base_whole)
    none = np.zeros(int(alone.sum()), np.int64)
    two = _Side(np.r_[own, none], np.r_[total, none], whole, np.r_[own_samples, none], np.r_[total_samples, none])
    functions, base_functions = functions_of(other), functions_of(base)
    names = functions.names_of(rows) + base_functions.names_of(base_rows[alone])
    modules = functions.modules_of(rows) + base_functions.modules_of(base_rows[alone])
    shown = np.flatnonzero((one.own != 0) | (one.total != 0) | (two.own != 0) | (two.total != 0))
    return _Aligned(
        one, two, shown, lambda order: {"name": [names[i] for i in order], "module": [modules[i] for i in order]}
    )


def _function_samples(profile: Profile, selection: Selection, event: int, count: int) -> tuple[Array, Array]:
    """The number of samples of the self and total weights of functions; UNKNOWN if they are not from samples."""
    calls = count_call_samples(profile, selection, event)
    if calls is None:
        return np.full(count, NOT_SAMPLED), np.full(count, NOT_SAMPLED)
    _, own, total, _ = function_weights(profile, selection, event, calls=calls)
    return own, total


def _align_stacks(
    base: Profile,
    other: Profile,
    base_selection: Selection,
    other_selection: Selection,
    pairs: Sequence[tuple[int, int]],
) -> list[_Aligned]:
    """The items are the stacks that end at a sample of any of the events."""
    one = [_StackSums.of(base, base_selection, before) for before, _ in pairs]
    two = [_StackSums.of(other, other_selection, after) for _, after in pairs]
    tree, base_tree = (
        get_stack_tree(profile, of) for profile, of in ((other, other_selection), (base, base_selection))
    )
    match = match_stacks(base, other, base_selection, other_selection)
    ends = np.any([sums.own != 0 for sums in two], axis=0)
    base_ends = np.any([sums.own != 0 for sums in one], axis=0)
    ends[match.node] |= base_ends[match.base_node]
    ends[:1] = False
    nodes, alone = np.flatnonzero(ends), match.alone[base_ends[match.alone]]
    place = match.place[nodes]
    known_here, known_there = functions_of(other), functions_of(base)

    def describe(order: list[int]) -> dict[str, Any]:
        item = np.array(order, np.int64)
        here = item < len(nodes)
        node = np.concatenate((nodes, alone))[item]
        modules = np.empty(len(item), object)
        for mine, functions, of in ((here, known_here, tree), (~here, known_there, base_tree)):
            modules[mine] = functions.modules_of(of.function[node[mine]])
        names = _StackNames(((known_here, tree), (known_there, base_tree)), (~here).astype(int).tolist(), node.tolist())
        return {"name": names, "module": modules.tolist()}

    nowhere = np.full(len(alone), NOT_FOUND)
    return [
        _Aligned(
            before.take(base_tree.end, np.concatenate((place, alone))),
            after.take(tree.end, np.concatenate((nodes, nowhere))),
            np.arange(len(nodes) + len(alone)),
            describe,
        )
        for before, after in zip(one, two, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _StackSums:
    """The values of an event by node of a tree: int64. samples: None if they are not from samples."""

    own: Array
    samples: Array | None

    @classmethod
    def of(cls, profile: Profile, selection: Selection, event: int) -> "_StackSums":
        shape = shape_of(profile, selection.replace(invert=False), kinds=False)
        calls = count_call_samples(profile, selection, event)
        own = shape.weights(sum_call_weights(profile, selection, event))
        return cls(own, None if calls is None else shape.weights(calls))

    def take(self, end: Array, nodes: Array) -> _Side:
        """Of these nodes, zero for `NOT_FOUND`. end: where the subtrees of the tree end."""
        known = np.flatnonzero(nodes >= 0)
        of_known = nodes[known]
        columns = []
        for sums in (self.own, self.samples):
            for found in (
                (np.full(len(known), NOT_SAMPLED),) * 2 if sums is None else _own_and_total(sums, end, of_known)
            ):
                column = np.zeros(len(nodes), np.int64)
                column[known] = found
                columns.append(column)
        own, total, own_samples, total_samples = columns
        return _Side(own, total, int(self.own.sum()), own_samples, total_samples)


def _own_and_total(sums: Array, end: Array, nodes: Array) -> tuple[Array, Array]:
    running = np.zeros(len(sums) + 1, np.int64)
    np.cumsum(sums, out=running[1:])
    return sums[nodes], running[end[nodes]] - running[nodes]


@dataclass(frozen=True, eq=False)
class _StackNames(Sequence[str]):
    """The names of stacks, made where they are read: those of all stacks of a recording are many times as long as it.
    trees: of both sides; side, node: of each stack."""

    trees: tuple[tuple[FunctionIndex, CallTree], tuple[FunctionIndex, CallTree]]
    side: list[int]
    node: list[int]

    def __len__(self) -> int:
        return len(self.node)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        (functions, tree), node = self.trees[self.side[at]], self.node[at]
        path = []
        while node != ROOT:
            path.append(functions.name_of(int(tree.function[node])))
            node = int(tree.parent[node])
        return ";".join(reversed(path))


def _diff_formula(
    base: Profile,
    other: Profile,
    base_selection: Selection,
    other_selection: Selection,
    one: ResolvedFormula,
    two: ResolvedFormula,
    align: _Align,
    status_of: str | None,
) -> TableRows:
    """The rows of a formula, which is `one` in the base and `two` in the other."""
    selections = base_selection.replace(event=None), other_selection.replace(event=None)
    pairs = [(before, two.events[name]) for name, before in one.events.items()]
    parts = dict(zip(one.events, align(base, other, *selections, pairs), strict=True))
    lead = next(iter(parts.values()))
    shown = np.unique(np.concatenate([part.shown for part in parts.values()]))
    weight = lead.base.own[shown] + lead.other.own[shown]
    total = lead.base.total[shown] + lead.other.total[shown]
    shown = shown[np.lexsort((shown, -total, -weight))]
    data: dict[str, Array] = {}
    for name, word in (("self", "own"), ("total", "total")):
        for side, profile, formula in (("base", base, one), ("other", other, two)):
            sums = {formula.events[event]: getattr(getattr(part, side), word)[shown] for event, part in parts.items()}
            data[f"{side}_{name}"] = evaluate_weights(profile, formula, sums)
        before, after = data[f"base_{name}"], data[f"other_{name}"]
        data[f"delta_{name}"] = after - before
        data[f"ratio_{name}"] = divide(after, before)
        data[f"delta_{name}_percent"] = percent_of_base(after - before, before)
        data |= dict.fromkeys((f"base_{name}_percent", f"other_{name}_percent"), np.full(len(shown), np.nan))
    samples = {
        side: np.min([getattr(part, side).total_samples[shown] for part in parts.values()], axis=0)
        for side in ("base", "other")
    }
    sampled = not any((count == NOT_SAMPLED).any() for count in samples.values())
    data["status"] = _formula_status(data, status_of or "total")
    missing = {side: getattr(lead, side).total[shown] == 0 for side in ("base", "other")}
    data["status"][missing["base"] & ~missing["other"]] = "appeared"
    data["status"][missing["other"] & ~missing["base"]] = "vanished"
    if sampled:
        few = np.maximum(samples["base"], samples["other"]) < MIN_COMPARED_SAMPLES
        data["status"][few & (data["status"] != "same")] = FEW_SAMPLES
    for side, count in samples.items():
        data[f"{side}_samples"] = count.astype(object) if sampled else np.full(len(shown), None)
    described = lead.describe(shown.tolist())
    described |= {"event": [two.name] * len(shown), "unit": [two.formula.unit] * len(shown)}
    return build_rows(COLUMNS, described | data)


def _formula_status(data: dict[str, Array], of: str) -> Array:
    delta = data[f"delta_{of}"]
    status = np.where(delta > 0, "grew", np.where(delta < 0, "shrank", "same")).astype(object)
    status[np.isnan(delta)] = UNDEFINED
    return status


def _align_base(count: int, known: Array, match: Array, measured: tuple[Array, ...], alone: Array, whole: int) -> _Side:
    """The weights and samples of the base: first for the `count` items of the other (zero if not `known`), then for
    items that only the base has (`alone`)."""
    sides = []
    for weight in measured:
        found = np.zeros(count, np.int64)
        found[known] = weight[match]
        sides.append(np.r_[found, weight[alone]])
    own, total, own_samples, total_samples = sides
    return _Side(own, total, whole, own_samples, total_samples)


def _measure_columns(
    base: _Side, other: _Side, shown: Array, normalize: bool, status_of: str | None
) -> tuple[dict[str, Array], list[int]]:
    """The numeric columns for the items `shown`, and the items in the order of the rows."""
    factor = other.whole / base.whole if normalize and base.whole and other.whole else 1.0
    data: dict[str, Array] = {}
    for name in ("self", "total"):
        before, after = (side.own if name == "self" else side.total for side in (base, other))
        before, after = before[shown], after[shown]
        scaled = before if factor == 1.0 else np.rint(before * factor).astype(np.int64)
        data[f"base_{name}"], data[f"other_{name}"], data[f"delta_{name}"] = before, after, after - scaled
        data[f"base_{name}_percent"] = to_percent(before, base.whole)
        data[f"other_{name}_percent"] = to_percent(after, other.whole)
        data[f"delta_{name}_percent"] = to_percent(after - before * factor, round(base.whole * factor))
        data[f"ratio_{name}"] = divide(after, before * factor)
    data["status"] = _status(data, status_of)
    sampled = not ((base.total_samples == NOT_SAMPLED).any() or (other.total_samples == NOT_SAMPLED).any())
    if sampled:
        of = "own_samples" if status_of == "self" else "total_samples"
        few = np.maximum(getattr(base, of), getattr(other, of))[shown] < MIN_COMPARED_SAMPLES
        data["status"][few & (data["status"] != "same")] = FEW_SAMPLES
    for name, side in (("base_samples", base), ("other_samples", other)):
        data[name] = side.total_samples[shown] if sampled else np.full(len(shown), None)
    order = np.lexsort((shown, -np.abs(data["delta_total"]), -np.abs(data["delta_self"])))
    return {name: values[order] for name, values in data.items()}, shown[order].tolist()


def _status(data: dict[str, Array], of: str | None) -> Array:
    """The status of each item. The total decides whether a profile contains it, independent of the measure; if the
    measure is zero on both sides, the status is "same"."""
    delta = data[f"delta_{of or 'total'}"]
    if of is None:
        delta = np.where(delta != 0, delta, data["delta_self"])
    status = np.where(delta > 0, "grew", np.where(delta < 0, "shrank", "same")).astype(object)
    status[(data["base_total"] == 0) & (data[f"other_{of or 'total'}"] != 0)] = "appeared"
    status[(data[f"base_{of or 'total'}"] != 0) & (data["other_total"] == 0)] = "vanished"
    return status
