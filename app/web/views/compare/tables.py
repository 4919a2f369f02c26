"""/compare/<table>: what changed between two traces in operators, kernels, modules, memory or the parts of a step."""

from dataclasses import dataclass
from typing import Any, ClassVar

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
from ....analysis.core.schema import records
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ....domain.selection import Selection, flag
from ....domain.units import Quantity, quantity, scale_for
from ....store import Result
from ...pages import chips, with_query
from ...rendering import Page, render
from ...services import services
from ..results.frame import Link, own_words, selected, time_units
from ..results.tables import (
    FILE,
    PAGE_SIZE,
    Heading,
    Pager,
    asked_order,
    asked_page,
    asked_search,
    heading,
    here,
    keep_matching,
    pager,
    rows_asked,
    table_file,
)
from ..trace.operators import LABELS
from .functions import Bar, Side, sided, statuses, tabs

blueprint = Blueprint("compare_tables", __name__)
SORTS = ("delta", "delta_percent", "name", "status", "base", "other")
NS_PER_US = 1_000
UNITS = {"time": "ns", "bytes": "bytes", "count": "count"}


@dataclass(frozen=True)
class ChangedRow:
    """A row of both. bar: of the greatest change, -100 to 100."""

    name: str
    status: str
    base: Quantity
    other: Quantity
    change: Quantity
    percent: Quantity
    bar: float


@dataclass(frozen=True)
class CompareTablePage(Page):
    """`/compare/<table>?base=&other=`. measured: what is compared, in words. choices: what a row is."""

    template: ClassVar[str] = "compare/table.html"
    base: Side
    other: Side
    swap: str
    bar: Bar
    tabs: tuple[Link, ...]
    noun: str
    measured: str
    choices: tuple[Link, ...]
    measures: tuple[Link, ...]
    scales: tuple[Link, ...]
    statuses: tuple[Link, ...]
    search: str
    hidden: tuple[tuple[str, str], ...]
    headings: tuple[Heading, ...]
    rows: tuple[ChangedRow, ...]
    pager: Pager
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
    order, page = asked_order(SORTS, "-delta"), asked_page()
    rows = _narrowed(asked, everything)
    rows = rows.sort_values(
        order.column,
        ascending=not order.descending,
        kind="stable",
        na_position="last",
        key=(lambda values: values.abs()) if order.column.startswith("delta") else None,
    )
    unit, factor = UNITS[asked.measure.kind], NS_PER_US if asked.measure.kind == "time" else 1
    greatest = float(rows["delta"].abs().max() or 0) if len(rows) else 0.0
    largest = rows[["base", "other", "delta"]].abs().max().max() if len(rows) else 0
    scale = scale_for(0 if pd.isna(largest) else float(largest) * factor, unit)
    percents = scale_for(100, "percent")

    def changed(row: dict[str, Any]) -> ChangedRow:
        base, other, delta = (
            scale.quantity(None if row[name] is None else row[name] * factor) for name in ("base", "other", "delta")
        )
        share = percents.quantity(row["delta_percent"])
        sign = "+" if row["delta"] > 0 else ""
        return ChangedRow(
            name=row["name"],
            status=row["status"],
            base=base,
            other=other,
            change=Quantity(delta.value, sign + delta.text, sign + delta.exact),
            percent=Quantity(share.value, (sign if share.value is not None else "") + share.text, share.exact),
            bar=100.0 * row["delta"] / greatest if greatest else 0.0,
        )

    window = rows.iloc[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    by = asked.by or "name"
    noun = asked.compared.noun if by == "name" else by
    both = all(profile.steps.num_rows for profile in asked.profiles) and table != "steps"
    return render(
        CompareTablePage(
            base=sided("Base", "base", asked.base, quantity(asked.base.duration_ns, "ns")),
            other=sided("Other", "other", asked.other, quantity(asked.other.duration_ns, "ns")),
            swap=here(("base", asked.other.id), ("other", asked.base.id), ("page", None)),
            bar=bar_of(asked.selection, asked.profiles[1]),
            tabs=tabs(asked.profiles, table),
            noun=noun,
            measured=asked.measure.label.lower() + (" in a step" if asked.each_step and asked.measure.sums else ""),
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
            search=request.args.get("search", ""),
            hidden=tuple((k, v) for k, v in request.args.items(multi=True) if k not in ("search", "page")),
            headings=(
                heading(order, "name", noun.capitalize(), css="name"),
                heading(order, "status", "What", css="fit"),
                heading(order, "base", "Base", numeric=True, unit=scale.label),
                heading(order, "other", "Other", numeric=True, unit=scale.label),
                heading(order, "delta", "Change", numeric=True, unit=scale.label, description="Other less base"),
                heading(order, "delta_percent", "%", numeric=True, description="Change as a share of the base"),
            ),
            rows=tuple(changed(row) for row in records(window)),
            pager=pager(page, len(rows), PAGE_SIZE, noun="row"),
            csv=here(("page", None)).replace(f"/compare/{table}", f"/compare/{table}.csv", 1),
        )
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
