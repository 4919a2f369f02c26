"""The list of results, and actions: rename, tag, note, delete, download the original files."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlencode

import zstandard
from flask import Blueprint, Response, flash, jsonify, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.errors import InvalidRequest, NotFound
from ....domain.event_names import SAMPLED_ONLY
from ....domain.text import shorten
from ....domain.units import Quantity, format_caveat, format_quantity, format_utc, format_utc_iso
from ....readers import format_title
from ....store import Job, Result
from ....store.event_total import EventTotal
from ...pages import result_url
from ...rendering import Page, render
from ...services import current_services
from .tables import (
    ColumnHeading,
    Pager,
    SortOrder,
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
FILTERS = {"search": "Search", "tag": "Tag", "format": "Format", "target": "Target", "host": "Host"}
"""What restricts the list, by its parameter."""
SELECTS = (
    ("format", "Format", "All formats"),
    ("target", "Target", "All targets"),
    ("host", "Host", "All hosts"),
)
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
class FilterSelect:
    """A list of values to filter by. name: its parameter. options: (value, label), without the one for any value."""

    name: str
    label: str
    any_label: str
    options: tuple[tuple[str, str], ...]
    value: str


@dataclass(frozen=True)
class ActiveFilter:
    """A restriction of a list without results. count: how many results there are without it, at `url`."""

    label: str
    value: str
    url: str
    count: int


@dataclass(frozen=True)
class ResultListPage(Page):
    """`/`. empty: whether there are no results. running: jobs that have not ended, newest first. filters: those with at
    least two values. is_filtered: by anything, the search included. active: why nothing is listed; empty if there are
    rows. query: the parameters of this list, for the way back. version: of the results, see `get_version`."""

    template: ClassVar[str] = "results/list.html"
    search: str
    tag: str
    sort: str
    headings: dict[str, ColumnHeading]
    rows: tuple[ResultListRow, ...]
    pager: Pager
    tags: tuple[TagLink, ...]
    filters: tuple[FilterSelect, ...]
    is_filtered: bool
    active: tuple[ActiveFilter, ...]
    reset_url: str
    first_page_url: str
    query: str
    running: tuple[Job, ...]
    empty: bool
    data: str
    version: str


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
    """All results, and the running jobs. search, tag, format, host, target: restrict them."""
    store = current_services().store
    words = {name: request.args.get(name, "").strip() for name in FILTERS}
    search, tag = words["search"], words["tag"]
    order, page = parse_order(SORTS, "-created"), parse_page()
    # Read before the results: if one is added meanwhile, the page updates once more than needed.
    version = store.results.version()
    found, total = _search(words, order, (page - 1) * PAGE_SIZE, PAGE_SIZE)
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
            filters=_filter_selects(words),
            is_filtered=any(words.values()),
            active=_active_filters(words) if total == 0 else (),
            reset_url=current_url_with(*((name, None) for name in FILTERS), ("page", None)),
            first_page_url=current_url_with(("page", None)),
            query=urlencode([(name, value) for name, value in request.args.items(multi=True) if value]),
            running=store.jobs.list(active=True, limit=20),
            empty=total == 0 and not any(words.values()),
            data=str(current_services().settings.data),
            version=version,
        )
    )


@blueprint.get("/results/version")
def get_version() -> AnyResponse:
    """`{"version"}`, a text that changes with the results: pages compare it before they load the list again."""
    return jsonify(version=current_services().store.results.version())


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


def _search(
    words: Mapping[str, str], order: SortOrder | None = None, offset: int = 0, limit: int = 0
) -> tuple[tuple[Result, ...], int]:
    """The results that `words` (by the names of `FILTERS`) leave, and how many there are in all."""
    column, descending = (order.column, order.descending) if order else ("created", True)
    return current_services().store.results.search(
        words["search"],
        words["tag"],
        column,
        descending,
        offset,
        limit,
        format=words["format"],
        host=words["host"],
        target=words["target"],
    )


def _filter_selects(words: Mapping[str, str]) -> tuple[FilterSelect, ...]:
    """Filters by format, target and host; one with a single value restricts nothing."""
    values = current_services().store.results.filter_values()
    found = []
    for name, label, any_label in SELECTS:
        chosen = words[name]
        listed = list(values[name])
        if chosen and chosen not in listed:
            listed.append(chosen)
        options = tuple(
            sorted(((value, format_filter(name, value)) for value in listed), key=lambda option: option[1].casefold())
        )
        if len(options) > 1 or chosen:
            found.append(FilterSelect(name, label, any_label, options, chosen))
    return tuple(found)


def _active_filters(words: Mapping[str, str]) -> tuple[ActiveFilter, ...]:
    """Each restriction, and what the list would have without it."""
    return tuple(
        ActiveFilter(
            FILTERS[name],
            format_filter(name, value),
            current_url_with((name, None), ("page", None)),
            _search({**words, name: ""})[1],
        )
        for name, value in words.items()
        if value
    )


def format_filter(name: str, value: str) -> str:
    """The value of a filter as text."""
    return format_title(value) if name == "format" else value


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
