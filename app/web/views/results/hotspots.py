"""/results/<id>/hotspots: self and total by function, module or thread."""

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.stacks.hotspots import BY, hotspots
from ....domain.errors import InvalidRequest
from ....domain.profile import Profile
from ...rendering import Page, render
from .frame import Frame, Link, open_frame
from .functions import FunctionRow, function_rows, scale_of, tells_modules
from .tables import (
    FILE,
    PAGE_SIZE,
    Heading,
    Order,
    Pager,
    asked_order,
    asked_page,
    asked_search,
    heading,
    here,
    keep_matching,
    pager,
    table_file,
)

blueprint = Blueprint("hotspots", __name__)
SORTS = ("name", "module", "self", "total")


@dataclass(frozen=True)
class HotspotsPage(Page):
    """by: function, module or thread. with_modules: whether any is known. second: whether there is a second column, of
    modules or processes. everything: how many rows there are without the search."""

    template: ClassVar[str] = "results/hotspots.html"
    frame: Frame
    by: str
    with_modules: bool
    second: bool
    choices: tuple[Link, ...]
    search: str
    hidden: tuple[tuple[str, str], ...]
    headings: dict[str, Heading]
    rows: tuple[FunctionRow, ...]
    pager: Pager
    csv: str


@blueprint.get("/results/<id>/hotspots")
def show(id: str) -> Response:
    """A page of the table."""
    frame, profile = open_frame(id, "hotspots")
    by, order, page = _by(), asked_order(SORTS, "-self"), asked_page()
    rows = _rows(frame, profile, by, order)
    scale, with_modules = scale_of(rows, frame.unit), tells_modules(profile)
    window = rows.iloc[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return render(
        HotspotsPage(
            frame=frame,
            by=by,
            with_modules=with_modules,
            second=by == "thread" or (by == "function" and with_modules),
            choices=tuple(
                Link(word, f"By {word}", here(("by", None if word == "function" else word), ("page", None)), word == by)
                for word in BY
                if word in (by, "function", "thread") or with_modules
            ),
            search=request.args.get("search", ""),
            hidden=tuple((k, v) for k, v in request.args.items(multi=True) if k not in ("search", "page")),
            headings={
                "name": heading(order, "name", by.capitalize(), css="name"),
                "module": heading(order, "module", "Process" if by == "thread" else "Module", css="name name--second"),
                "self": heading(
                    order,
                    "self",
                    "Self",
                    numeric=True,
                    unit=scale.label,
                    description=f"{frame.event} in it, not in what it calls",
                ),
                "total": heading(
                    order,
                    "total",
                    "Total",
                    numeric=True,
                    unit=scale.label,
                    description=f"{frame.event} in it and in all that it calls",
                ),
            },
            rows=function_rows(frame, window, scale),
            pager=pager(page, len(rows), PAGE_SIZE, noun=by),
            csv=here(("page", None)).replace(f"/results/{id}/hotspots", f"/results/{id}/hotspots.csv", 1),
        )
    )


@blueprint.get(f"/results/<id>/hotspots.{FILE}")
def as_file(id: str, form: str) -> Response:
    """All rows that the search leaves, in the order of the page; columns as `perfloom report` names them."""
    frame, profile = open_frame(id, "hotspots")
    rows = _rows(frame, profile, _by(), asked_order(SORTS, "-self"))
    return table_file(f"{frame.name} hotspots", form, rows)


def _by() -> str:
    by = request.args.get("by") or "function"
    if by not in BY:
        raise InvalidRequest(f"by is one of {', '.join(BY)}, not {by[:40]!r}.", "by")
    return by


def _rows(frame: Frame, profile: Profile, by: str, order: Order) -> pd.DataFrame:
    rows = hotspots(profile, frame.selection.only(event=frame.event or None), by)
    rows = keep_matching(rows, asked_search(), ("name", "module"))
    # Without totals shares are what there is to sort by.
    unknown = order.column in ("self", "total") and rows[order.column].isna().all()
    column = f"{order.column}_percent" if unknown else order.column
    # Stable, so that rows alike keep the order of the table: the greatest self weight first.
    return rows.sort_values(column, ascending=not order.descending, kind="stable", na_position="last")
