"""The list of results, and actions: rename, tag, note, delete, download the original files."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import zstandard
from flask import Blueprint, Response, flash, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.errors import InvalidRequest, NotFound
from ....domain.event_names import SAMPLED_ONLY
from ....domain.text import shorten
from ....domain.units import Quantity, format_quantity, format_utc, format_utc_iso
from ....store import Job, Result
from ....store.result import EventTotal
from ...pages import result_url
from ...rendering import Page, render
from ...services import current_services
from .caveats import format_caveat
from .tables import (
    ColumnHeading,
    Pager,
    attachment,
    build_heading,
    build_pager,
    current_url_with,
    parse_order,
    parse_page,
)

blueprint = Blueprint("results", __name__)
PAGE_SIZE = 50
SORTS = ("name", "recorded", "created", "duration", "samples", "bytes")
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class ResultListRow:
    """A result in the list. flamegraph: URL of its picture, None without samples. recorded: time, "" if unknown;
    created: when it was stored."""

    id: str
    name: str
    url: str
    flamegraph: str | None
    command: str
    host: str
    complete: bool
    missing: bool
    tags: tuple[str, ...]
    notes: str
    event: str
    total: Quantity
    caveat: str
    duration: Quantity
    samples: Quantity
    size: Quantity
    recorded_text: str
    recorded_iso: str
    created_text: str
    created_iso: str


@dataclass(frozen=True)
class TagLink:
    """A tag in use. url: the list with the tag switched on or off."""

    name: str
    count: int
    url: str
    current: bool


@dataclass(frozen=True)
class ResultListPage(Page):
    """`/`. empty: whether there are no results. running: jobs that have not ended, newest first."""

    template: ClassVar[str] = "results/list.html"
    search: str
    tag: str
    sort: str
    headings: dict[str, ColumnHeading]
    rows: tuple[ResultListRow, ...]
    pager: Pager
    tags: tuple[TagLink, ...]
    running: tuple[Job, ...]
    empty: bool
    data: str


@dataclass(frozen=True)
class EditResultPage(Page):
    """`/results/<id>/edit`. error: a sentence about the field named `field`."""

    template: ClassVar[str] = "results/edit.html"
    id: str
    title: str
    name: str
    tags: str
    notes: str
    error: str | None
    field: str | None
    known_tags: tuple[str, ...]


@dataclass(frozen=True)
class DeleteResultPage(Page):
    """`/results/<id>/delete`: the confirmation."""

    template: ClassVar[str] = "results/delete.html"
    id: str
    name: str
    size: Quantity
    created_text: str
    originals: tuple[str, ...]


@blueprint.get("/results")
def redirect_to_list() -> AnyResponse:
    """Redirect to the list of results."""
    return redirect(f"/?{request.query_string.decode()}".rstrip("?"), 303)


@blueprint.get("/")
def show_list() -> AnyResponse:
    """All results, and the running jobs."""
    store = current_services().store
    search, tag = request.args.get("search", "").strip(), request.args.get("tag", "")
    order, page = parse_order(SORTS, "-created"), parse_page()
    found, total = store.results.search(search, tag, order.column, order.descending, (page - 1) * PAGE_SIZE, PAGE_SIZE)
    columns = (
        ("name", "Name", False, "name"),
        ("recorded", "Recorded", False, "fit"),
        ("created", "Stored", False, "fit"),
        ("duration", "Duration", True, "fit"),
        ("samples", "Samples", True, "fit"),
        ("bytes", "On disk", True, "fit"),
    )
    return render(
        ResultListPage(
            search=search,
            tag=tag,
            sort=request.args.get("sort", ""),
            headings={
                name: build_heading(order, name, label, numeric=numeric, css=css)
                for name, label, numeric, css in columns
            },
            rows=tuple(_row(result) for result in found),
            pager=build_pager(page, total, PAGE_SIZE, noun="result"),
            tags=tuple(
                TagLink(
                    name, count, current_url_with(("tag", None if name == tag else name), ("page", None)), name == tag
                )
                for name, count in store.results.tags()
            ),
            running=store.jobs.list(active=True, limit=20),
            empty=total == 0 and not search and not tag,
            data=str(current_services().settings.data),
        )
    )


@blueprint.route("/results/<id>/edit", methods=["GET", "POST"])
def edit(id: str) -> AnyResponse:
    """Name, tags and notes."""
    results = current_services().store.results
    result = results.get(id)
    if request.method == "GET":
        return _edit_page(result, result.name, ", ".join(result.tags), result.notes)
    name, tags, notes = (request.form.get(word, "") for word in ("name", "tags", "notes"))
    try:
        results.rename(id, name)
        results.set_tags(id, re.split(r"[,\n]", tags))
        results.set_notes(id, notes)
    except InvalidRequest as error:
        return _edit_page(result, name, tags, notes, error)
    flash("Saved.", "good")
    return redirect(result_url(id), 303)


@blueprint.route("/results/<id>/delete", methods=["GET", "POST"])
def delete(id: str) -> AnyResponse:
    """Ask for confirmation, then delete."""
    results = current_services().store.results
    result = results.get(id)
    if request.method == "GET":
        return render(
            DeleteResultPage(
                id=id,
                name=result.name,
                size=format_quantity(result.bytes, "bytes"),
                created_text=format_utc(result.created),
                originals=tuple(original.name for original in result.originals),
            )
        )
    results.delete(id)
    flash(f"Deleted “{shorten(result.name)}”.", "good")
    return redirect("/", 303)


@blueprint.get("/results/<id>/original/<int:number>")
def original(id: str, number: int) -> AnyResponse:
    """A file that the result was read from, unchanged; counted from 1."""
    files = current_services().store.results.original(id)
    if not 1 <= number <= len(files):
        raise NotFound("This file is no longer stored. The result itself is complete.")
    file = files[number - 1]
    packed = file.path.name != file.name
    response = Response(
        _decompress(file.path) if packed else _read_chunks(file.path), mimetype="application/octet-stream"
    )
    if not packed:
        response.content_length = file.bytes
    return attachment(response, file.name)


def _total(main: EventTotal | None) -> Quantity:
    """The number in the list; a note for an event that was sampled and whose samples give no total."""
    quantity = format_quantity(main.total if main else None, main.unit if main else "count")
    return (
        quantity._replace(text=SAMPLED_ONLY, exact=SAMPLED_ONLY)
        if main and main.total is None and main.samples
        else quantity
    )


def _row(result: Result) -> ResultListRow:
    main = next((e for e in result.events if e.name == result.meta.main_event), None)
    main = main or (result.events[0] if result.events else None)
    return ResultListRow(
        id=result.id,
        name=result.name,
        url=result_url(result.id),
        flamegraph=result_url(result.id, "flamegraph") if result.samples and not result.missing else None,
        command=result.command,
        host=result.host,
        complete=result.complete,
        missing=result.missing,
        tags=result.tags,
        notes=result.notes,
        event=main.name if main else "",
        total=_total(main),
        caveat=format_caveat(100.0 / main.scaling if main and main.scaling else None),
        duration=format_quantity(result.duration_ns, "ns"),
        samples=format_quantity(result.samples, "count"),
        size=format_quantity(result.bytes, "bytes"),
        recorded_text=format_utc(result.recorded) if result.recorded is not None else "",
        recorded_iso=format_utc_iso(result.recorded) if result.recorded is not None else "",
        created_text=format_utc(result.created),
        created_iso=format_utc_iso(result.created),
    )


def _edit_page(result: Result, name: str, tags: str, notes: str, error: InvalidRequest | None = None) -> AnyResponse:
    page = EditResultPage(
        id=result.id,
        title=result.name,
        name=name,
        tags=tags,
        notes=notes,
        error=error.message if error else None,
        field=error.field if error else None,
        known_tags=tuple(tag for tag, _ in current_services().store.results.tags()),
    )
    return render(page, error.http_status if error else 200)


def _read_chunks(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _decompress(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        yield from zstandard.ZstdDecompressor().read_to_iter(file, write_size=CHUNK_BYTES)
