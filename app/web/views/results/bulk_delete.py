"""/results/delete: delete several results after one confirmation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import parse_qsl

from flask import Blueprint, flash, redirect, request
from werkzeug.wrappers import Response

from ....domain.errors import NotFound, PerfloomError
from ....domain.units import Quantity, format_bytes, format_quantity, format_utc, format_utc_iso
from ....store import Result
from ...pages import result_url, with_query
from ...rendering import Page, render
from ...services import current_services

blueprint = Blueprint("bulk_delete", __name__)
MAX_IDS = 1000


@dataclass(frozen=True)
class DeletionRow:
    """A result to be deleted. error: why it could not be, empty before."""

    id: str
    name: str
    url: str
    size: Quantity
    created_text: str
    created_iso: str
    error: str


@dataclass(frozen=True)
class DeleteResultsPage(Page):
    """`/results/delete`. rows: the largest first. missing: how many of the selected ones no longer exist. back: the
    query of the list. failed: whether the rows are those that could not be deleted."""

    template: ClassVar[str] = "results/bulk_delete.html"
    rows: tuple[DeletionRow, ...]
    size: Quantity
    missing: int
    back: str
    back_url: str
    failed: bool


@blueprint.get("/results/delete")
def confirm() -> Response:
    """List what would be deleted. result: an id, several; back: the query of the list."""
    ids = _ids(request.args.getlist("result"))
    found = _find(ids)
    if not ids:
        flash("No result selected; select at least one in the list.", "warn")
        return redirect(_list_url(request.args.get("back", "")), 303)
    return _page(found, len(ids) - len(found), request.args.get("back", ""))


@blueprint.post("/results/delete")
def delete() -> Response:
    """Delete these results, each on its own: one that fails stops no other. The page lists the failed ones."""
    results, back = current_services().store.results, request.form.get("back", "")
    deleted: list[Result] = []
    failed: dict[str, PerfloomError] = {}
    found = _find(_ids(request.form.getlist("result")))
    for result in found:
        try:
            results.delete(result.id)
        except NotFound:
            # Deleted meanwhile by another request.
            continue
        except PerfloomError as error:
            failed[result.id] = error
        else:
            deleted.append(result)
    if deleted:
        flash(f"Deleted {_count(deleted)} ({format_bytes(sum(result.bytes for result in deleted))}).", "good")
    elif not failed:
        flash("The selected results were already deleted.", "warn")
    if not failed:
        return redirect(_list_url(back), 303)
    rest = [result for result in found if result.id in failed]
    return _page(rest, 0, back, failed)


def _page(
    results: Sequence[Result], missing: int, back: str, failed: dict[str, PerfloomError] | None = None
) -> Response:
    failed = failed or {}
    page = DeleteResultsPage(
        rows=tuple(
            DeletionRow(
                id=result.id,
                name=result.name,
                url=result_url(result.id),
                size=format_quantity(result.bytes, "bytes"),
                created_text=format_utc(result.created),
                created_iso=format_utc_iso(result.created),
                error=failed[result.id].message if result.id in failed else "",
            )
            for result in sorted(results, key=lambda result: -result.bytes)
        ),
        size=format_quantity(sum(result.bytes for result in results), "bytes"),
        missing=missing,
        back=back,
        back_url=_list_url(back),
        failed=bool(failed),
    )
    return render(page, max((error.http_status for error in failed.values()), default=200))


def _ids(texts: Sequence[str]) -> tuple[str, ...]:
    """The selected ids, each once."""
    return tuple(dict.fromkeys(text for text in texts if text))[:MAX_IDS]


def _find(ids: Sequence[str]) -> list[Result]:
    found = (current_services().store.results.find(id) for id in ids)
    return [result for result in found if result is not None]


def _count(results: Sequence[Result]) -> str:
    return "1 result" if len(results) == 1 else f"{len(results)} results"


def _list_url(back: str) -> str:
    """The list, with the words of the query `back`."""
    return with_query("/", parse_qsl(back))
