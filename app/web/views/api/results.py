"""/api/v1: results and their tables as JSON. Field names are those of `perfloom report --format json`.

Every address takes the same parameters as the pages (`event`, `thread`, `start-ms`, …). A program sends
`Authorization: Bearer TOKEN`. An error is `{"error": sentence, "field": name or null, "id": error id or null}`.
"""

from typing import Any

from flask import Blueprint, Response, jsonify, request
from werkzeug.wrappers import Response as AnyResponse

from ....analysis.tables import TABLES, table_rows
from ....domain.errors import InvalidRequest, NotFound
from ....domain.units import NS_PER_MS, format_utc_iso
from ....store import Result
from ...services import current_services
from ..results.result_frame import request_selection
from ..results.tables import figures_of, table_response

blueprint = Blueprint("api", __name__, url_prefix="/api/v1")
MAX_LIMIT = 1000


@blueprint.get("/results")
def results() -> AnyResponse:
    """`{"total": n, "results": […]}`: results as the list shows them.

    search, tag, format, host, target (where it was recorded), sort (a name, with a minus for descending), offset,
    limit (100; at most 1000).
    """
    sort = request.args.get("sort") or "-created"
    found, total = current_services().store.results.search(
        request.args.get("search", ""),
        request.args.getlist("tag"),
        sort.removeprefix("-"),
        sort.startswith("-"),
        _parse_int("offset", 0),
        min(_parse_int("limit", 100), MAX_LIMIT),
        format=request.args.get("format", ""),
        host=request.args.get("host", ""),
        target=request.args.get("target", ""),
    )
    return jsonify(total=total, results=[result_json(result) for result in found])


@blueprint.get("/results/<id>")
def result(id: str) -> AnyResponse:
    """A result: the object of the list, with complete `meta`."""
    found = current_services().store.results.get(id)
    return jsonify(result_json(found) | {"meta": found.meta.to_json()})


@blueprint.delete("/results/<id>")
def delete(id: str) -> AnyResponse:
    """Delete a result and its files. Answers 204."""
    current_services().store.results.delete(id)
    return Response(status=204)


@blueprint.get("/results/<id>/<table>")
def table(id: str, table: str) -> AnyResponse:
    """A table of a result: a list of objects; `summary`: one object. by: the grouping, if the table offers it.
    format: `csv` or `parquet` for a file instead."""
    found = TABLES.get(table)
    if found is None:
        raise NotFound(f"No table {table[:40]!r}; choose one of {', '.join(TABLES)}.")
    profile, selection = current_services().store.results.open(id), request_selection()
    data = table_rows(found, profile, selection, request.args.get("by"))
    return table_response(
        f"{current_services().store.results.get(id).name} {table}",
        data,
        *figures_of(table, profile),
        columns=found.columns,
        single=found.single_row,
    )


@blueprint.get("/tables")
def tables() -> AnyResponse:
    """The tables: `[{"name", "title", "by": [names], "columns": [{"name", "unit", "description"}]}]`."""
    return jsonify(
        [
            {
                "name": name,
                "title": table.title,
                "by": list(table.by),
                "columns": [{"name": c.name, "unit": c.unit, "description": c.description} for c in table.columns],
            }
            for name, table in TABLES.items()
        ]
    )


def result_json(result: Result) -> dict[str, Any]:
    """A result in JSON. Times: ISO 8601 in UTC."""
    return {
        "id": result.id,
        "name": result.name,
        "job": result.job_id,
        "format": result.format,
        "created": format_utc_iso(result.created),
        "recorded": None if result.recorded is None else format_utc_iso(result.recorded),
        "bytes": result.bytes,
        "duration_ms": None if result.duration_ns is None else result.duration_ns / NS_PER_MS,
        "samples": result.samples,
        "threads": result.threads,
        "host": result.host,
        "command": result.command,
        "complete": result.complete,
        "reasons": list(result.reasons),
        "missing": result.missing,
        "tags": list(result.tags),
        "notes": result.notes,
        "events": [
            {"event": total.name, "unit": total.unit, "value": total.total, "samples": total.samples}
            for total in result.events
        ],
        "originals": [{"name": file.name, "bytes": file.bytes} for file in result.originals],
    }


def _parse_int(parameter: str, default: int) -> int:
    text = request.args.get(parameter) or str(default)
    if not text.isdecimal() or len(text) > 9:
        raise InvalidRequest(f"{parameter} must be a whole number, not {text[:40]!r}.", parameter)
    return int(text)
