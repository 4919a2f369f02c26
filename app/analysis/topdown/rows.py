"""The top-down tree of a selection: the share of pipeline slots in each category."""

import math

from ...domain.profile import Profile
from ...domain.selection import Selection
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..counts.formula_values import evaluate_formulas
from .models import Category, ResolvedModel, resolve_models

SLACK_PERCENT = 0.5
"""Shares outside of 0 to 100 by less are rounding errors."""
DISAGREE = "outside of 0 to 100 %: its events were not counted at the same time, or this is another CPU"
SUM_SLACK_PERCENT = 5.0
"""How far the shares of level 1 may be from 100 together."""
COLUMNS = (
    Column("model", "", "The kind of CPU whose formulas apply."),
    Column("category", "", "Name of the category."),
    Column("level", "", "1, or 2 for a part of a category of level 1.", "int64"),
    Column("parent", "", "The category that it is a part of; missing at level 1."),
    Column("percent", "percent", "Share of all pipeline slots.", "Float64"),
    Column("threshold_percent", "percent", "From which share on it is worth a look.", "float64"),
    Column("above", "", "Whether its share and that of its parent are above their thresholds.", "bool"),
    Column("hint", "", "What it means, and what to do about it."),
    Column("formula", "", "The formula, with events and other categories."),
    Column("note", "", "Why the share may be wrong or is missing."),
)


@table_function
def compute_topdown(profile: Profile, selection: Selection) -> TableRows:
    """One row for each category whose events were measured, in preorder; none if level 1 was not measured.

    A share is evaluated on the sums of its events, as a formula is. The selected event has no effect. The definitions
    are those of intel.toml and amd.toml. Where the counts fit several models, that with the most categories applies,
    then that whose shares of level 1 sum to about 100 percent.
    """
    choices = resolve_models(profile)
    values = [(model, _shares(profile, selection, model)) for model in choices]
    if not values:
        return build_rows(COLUMNS, {column.name: [] for column in COLUMNS})
    most = len(choices[0].categories)
    best = [(model, shares) for model, shares in values if len(model.categories) == most]
    model, shares = min(best, key=lambda pair: _distance(*pair))
    return build_rows(COLUMNS, _columns(model, shares))


def _shares(profile: Profile, selection: Selection, model: ResolvedModel) -> list[tuple[float, str | None]]:
    """Percent and note of each category."""
    formulas = tuple(resolved for _, resolved in model.categories)
    rows = evaluate_formulas(profile, selection, "selection", formulas)
    return [
        (math.nan if percent is None else float(percent), note)
        for percent, note in zip(rows.column("total"), rows.column("note"), strict=True)
    ]


def _level_1(model: ResolvedModel, shares: list[tuple[float, str | None]]) -> float:
    """The sum of the shares of level 1."""
    return sum(share for (category, _), (share, _) in zip(model.categories, shares, strict=True) if category.level == 1)


def _distance(model: ResolvedModel, shares: list[tuple[float, str | None]]) -> float:
    distance = abs(100 - _level_1(model, shares))
    return math.inf if math.isnan(distance) else distance


def _columns(model: ResolvedModel, shares: list[tuple[float, str | None]]) -> dict[str, list[object]]:
    whole = abs(_level_1(model, shares) - 100) <= SUM_SLACK_PERCENT
    found = {
        category.name: (category, resolved.formula.expression, *share)
        for (category, resolved), share in zip(model.categories, shares, strict=True)
    }
    above = _find_above([(category, percent) for category, _, percent, _ in found.values()])
    values: dict[str, list[object]] = {column.name: [] for column in COLUMNS}
    for category, expression, percent, note in found.values():
        notes = [note] if note else []
        if percent < -SLACK_PERCENT or percent > 100 + SLACK_PERCENT:
            notes.append(DISAGREE)
        elif category.level == 1 and not whole and not math.isnan(percent):
            notes.append(f"the shares of level 1 sum to {_level_1(model, shares):.0f} %, not to 100 %")
        values["model"].append(model.model.title)
        values["category"].append(category.name)
        values["level"].append(category.level)
        values["parent"].append(category.parent or None)
        values["percent"].append(percent)
        values["threshold_percent"].append(category.above)
        values["above"].append(category.name in above)
        values["hint"].append(category.hint)
        values["formula"].append(expression)
        values["note"].append("; ".join(notes) or None)
    return values


def _find_above(shares: list[tuple[Category, float]]) -> frozenset[str]:
    """The names of the categories that are worth a look."""
    high = {category.name for category, percent in shares if percent > category.above}
    high |= {category.parent for category, _ in shares if category.marks_parent and category.name in high}
    return frozenset(
        category.name
        for category, _ in shares
        if category.name in high and (category.alone or not category.parent or category.parent in high)
    )


TABLES = (Table("topdown", "Top-down", COLUMNS, compute_topdown),)
"""The tables of this module."""
