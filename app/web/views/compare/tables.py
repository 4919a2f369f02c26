"""/compare/<table>: what changed between two traces in operators, kernels, modules, memory or the parts of a step."""

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.compare.tables import (
    COMPARED,
    STATUSES,
    Compared,
    Measure,
    by_of,
    bys,
    differing,
    has,
    measure_of,
    measures_of,
)
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ....domain.selection import Selection, flag
from ....domain.units import quantity
from ....store import Result
from ...pages import chips, with_query
from ...rendering import Page, render
from ...services import services
from ..results.frame import Link, own_words, selected, time_units
from ..results.sheets import Sheet, Shown, sheet, words
from ..results.tables import FILE, asked_order, asked_search, here, keep_matching, rows_asked, table_file
from ..trace.operators import LABELS
from .functions import Bar, Side, change_bar, change_tone, sided, status_column, statuses, tabs

blueprint = Blueprint("compare_tables", __name__)
FACTORS = {"time": 1_000}
"""What numbers of a measure are multiplied with: times, which are in µs, to be ns."""
UNITS = {"time": "ns", "bytes": "bytes", "count": "count"}


@dataclass(frozen=True)
class CompareTablePage(Page):
    """`/compare/<table>?base=&other=`. choices: what a row is."""

    template: ClassVar[str] = "compare/table.html"
    base: Side
    other: Side
    swap: str
    bar: Bar
    tabs: tuple[Link, ...]
    noun: str
    choices: tuple[Link, ...]
    measures: tuple[Link, ...]
    scales: tuple[Link, ...]
    statuses: tuple[Link, ...]
    sheet: Sheet
    csv: str


@dataclass(frozen=True)
class _Asked:
    base: Result
    other: Result
    profiles: tuple[Profile, Profile]
    selection: Selection
    compared: Compared
    measure: Measure
    each_step: bool
    status: str
    by: str


@blueprint.get("/compare/<table>")
def show(table: str) -> Response:
    """The comparison as a table."""
    asked = _asked(table)
    everything = _rows(asked)
    by = asked.by or "name"
    noun = asked.compared.noun if by == "name" else by
    columns = _columns(asked, noun.capitalize())
    order = asked_order(words(columns), "-delta")
    rows = _narrowed(asked, everything)
    rows = rows.sort_values(
        order.column,
        ascending=not order.descending,
        kind="stable",
        na_position="last",
        key=(lambda values: values.abs()) if order.column.startswith("delta") else None,
    )
    measured = asked.measure.label.lower() + (" in a step" if asked.each_step and asked.measure.sums else "")
    both = all(profile.steps.num_rows for profile in asked.profiles) and table != "steps"
    return render(
        CompareTablePage(
            base=sided("Base", "base", asked.base, quantity(asked.base.duration_ns, "ns")),
            other=sided("Other", "other", asked.other, quantity(asked.other.duration_ns, "ns")),
            swap=here(("base", asked.other.id), ("other", asked.base.id), ("page", None)),
            bar=bar_of(asked.selection, asked.profiles[1]),
            tabs=tabs(asked.profiles, table),
            noun=noun,
            choices=tuple(
                Link(word, LABELS[word], here(("by", None if word == "name" else word), ("page", None)), word == by)
                for word in bys(*asked.profiles, table)
            ),
            measures=tuple(
                Link(one.column, one.label, here(("of", one.column), ("page", None)), one is asked.measure)
                for one in measures_of(asked.compared, *asked.profiles)
            ),
            scales=(
                Link("step", "Each step", here(("each-step", None), ("page", None)), asked.each_step),
                Link("whole", "Whole recordings", here(("each-step", "0"), ("page", None)), not asked.each_step),
            )
            if both
            else (),
            statuses=statuses(everything, asked.status),
            sheet=sheet(
                f"Differences: {measured}",
                rows,
                columns,
                order,
                noun="row",
                bar=change_bar(rows, "delta"),
                bar_label="Of the greatest change",
                wide=False,
            ),
            csv=here(("page", None)).replace(f"/compare/{table}", f"/compare/{table}.csv", 1),
        )
    )


def _columns(asked: _Asked, label: str) -> tuple[Shown, ...]:
    unit, factor = UNITS[asked.measure.kind], FACTORS.get(asked.measure.kind, 1)
    return (
        Shown("name", label, "name"),
        status_column(),
        Shown("base", "Base", "value", scale="value", unit=unit, times=factor),
        Shown("other", "Other", "value", scale="value", unit=unit, times=factor),
        Shown(
            "delta",
            "Change",
            "value",
            "Other less base",
            "value",
            unit=unit,
            times=factor,
            signed=True,
            tone=change_tone("delta"),
        ),
        Shown("delta_percent", "%", "percent", "Change as a share of the base", signed=True),
    )


@blueprint.get(f"/compare/<table>.{FILE}")
def as_file(table: str, form: str) -> Response:
    """All rows that status and search leave."""
    asked = _asked(table)
    return table_file(f"{asked.base.name} to {asked.other.name} {table}", form, _narrowed(asked, _rows(asked)))


@blueprint.get("/api/v1/compare/<table>")
def as_json(table: str) -> Response:
    """The table as a list of objects; format=csv|parquet: as a file."""
    asked = _asked(table)
    return rows_asked(f"{asked.base.name} to {asked.other.name} {table}", _narrowed(asked, _rows(asked)))


def _asked(table: str) -> _Asked:
    if table not in COMPARED:
        raise NotFound(f"There is no comparison of {table[:40]!r}; there is one of {', '.join(COMPARED)}.")
    if not (request.args.get("base") and request.args.get("other")):
        raise InvalidRequest("Two results are compared; choose them on the page Compare.", "base")
    results = services().store.results
    base, other = (results.get(request.args[word]) for word in ("base", "other"))
    profiles = results.open(base.id), results.open(other.id)
    if not any(has(profile, table) for profile in profiles):
        raise NotFound(f"Neither of these results has {COMPARED[table].title.lower()}; compare their functions.")
    status = request.args.get("status", "")
    if status and status not in STATUSES:
        raise InvalidRequest(f"status is one of {', '.join(STATUSES)}, not {status[:40]!r}.", "status")
    compared, by = COMPARED[table], by_of(*profiles, table, request.args.get("by", ""))
    each = flag("each-step", request.args.get("each-step") or "1")
    return _Asked(
        base=base,
        other=other,
        profiles=profiles,
        selection=selected().only(event=None),
        compared=compared,
        measure=measure_of(measures_of(compared, *profiles), request.args.get("of", "")),
        each_step=each and all(profile.steps.num_rows for profile in profiles),
        status=status,
        by=by,
    )


def _rows(asked: _Asked) -> pd.DataFrame:
    return differing(
        *asked.profiles,
        asked.selection,
        asked.compared.name,
        asked.measure.column,
        each_step=asked.each_step,
        by=asked.by,
    )


def _narrowed(asked: _Asked, rows: pd.DataFrame) -> pd.DataFrame:
    if asked.status:
        rows = rows[rows["status"] == asked.status]
    return keep_matching(rows, asked_search(), ("name",))


def bar_of(selection: Selection, profile: Profile) -> Bar:
    """The bar of a selection in which no event counts. profile: one of those compared."""
    own = own_words()

    def url(changed: Selection) -> str:
        return with_query(request.path, changed.to_query() + own)

    return Bar(
        selection=selection,
        event="",
        unit="",
        measure="",
        events=(),
        time_units=time_units(profile),
        chips=chips(selection, url),
        reset=url(Selection()),
        own=own,
        carried=selection.to_query() + own,
    )
