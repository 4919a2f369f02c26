"""Long tables on a page: headings that sort by a link, pages of rows, and the same rows as a file.

Query parameters of a table: `sort` is the name of a column, with a minus for descending order; `page` counts from 1;
`search` filters the rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson
import pandas as pd
from flask import Response, g, json, jsonify, request

from ....analysis.core.loss_impact import LOSS_TABLES, loss_impact_of, mark_affected_rows
from ....analysis.core.schema import TableRows
from ....analysis.tables import TABLES, Column, records
from ....domain.errors import InvalidRequest
from ....domain.profile import Profile
from ....exporters.table_formats import TABLE_FORMATS, table_metadata
from ...pages import Pairs, join_query, with_query
from ...parameters import parse_choice

PAGE_SIZE = 100
FILE_RULE = f"<any({','.join(TABLE_FORMATS)}):file_format>"
"""The suffix of URLs of downloads."""
MAX_SEARCH = 1_000
BLOCK_ROWS = 20_000
_INFINITE = (math.inf, -math.inf)


@dataclass(frozen=True)
class ColumnHeading:
    """The heading of a column. url: to sort by it, None if it cannot be sorted. sorted: "ascending",
    "descending" or "". hidden: only for screen readers."""

    label: str
    url: str | None = None
    sorted: str = ""
    unit: str = ""
    css: str = ""
    description: str = ""
    hidden: bool = False


@dataclass(frozen=True)
class Pager:
    """The position of the page in a long table. previous, next: URLs, None at the ends. is_past_end: whether the page
    is after the last row."""

    text: str
    previous: str | None
    next: str | None
    is_past_end: bool = False


@dataclass(frozen=True)
class SortOrder:
    """The sort order of a table."""

    column: str
    descending: bool

    @property
    def param(self) -> str:
        """The value of the parameter `sort`."""
        return ("-" if self.descending else "") + self.column


AS_LISTED = SortOrder("as listed", False)
"""The order of the table itself, where no column has it."""


def parse_order(columns: Sequence[str], default: str) -> SortOrder:
    """The order requested by `sort`, else `default` ("-total"; "": AS_LISTED). Raises InvalidRequest for a column not
    offered."""
    word = request.args.get("sort") or default
    if not word:
        return AS_LISTED
    order = SortOrder(word.removeprefix("-"), word.startswith("-"))
    if order.column not in columns:
        raise InvalidRequest(
            f"This table cannot be sorted by {order.column[:40]!r}; use one of {', '.join(columns)}.", "sort"
        )
    return order


def parse_page(word: str = "page") -> int:
    """The requested page, from 1; `word`: the parameter. Raises InvalidRequest."""
    text = request.args.get(word, "1")
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise InvalidRequest(
            f"{word} {text[:40]!r} must be a whole number from 1. Leave it out for the first page.", word
        )
    return int(text)


def parse_search() -> str:
    """The requested search. Raises InvalidRequest if it is too long."""
    search = request.args.get("search", "").strip()
    if len(search) > MAX_SEARCH:
        raise InvalidRequest(f"The search is longer than {MAX_SEARCH} characters; shorten it.", "search")
    return search


def filter_rows(rows: pd.DataFrame, search: str, columns: Sequence[str]) -> pd.DataFrame:
    """The rows that contain every word of `search` in these columns, ignoring case."""
    for word in dict.fromkeys(search.casefold().split()):
        series = pd.Series(False, index=rows.index)
        for column in columns:
            series |= rows[column].str.casefold().str.contains(word, regex=False, na=False)
        rows = rows[series]
    return rows


def filter_table(table: TableRows, search: str, columns: Sequence[str]) -> TableRows:
    """The same of a table, without a DataFrame of its other columns."""
    if not search:
        return table
    return table.take(filter_rows(table.select(columns).to_frame(), search, columns).index.to_numpy())


def current_url_with(*changes: tuple[str, str | None]) -> str:
    """The URL of this page with some parameters changed; None or "" removes one."""
    rest = _rest_of_query(frozenset(name for name, _ in changes))
    changed = urlencode([(name, value) for name, value in changes if value])
    return join_query(request.path, rest, changed)


def _rest_of_query(names: frozenset[str]) -> str:
    """The query of the request without these parameters. Encoded once: a page has many links that differ in one."""
    encoded: dict[tuple[bytes, frozenset[str]], str] = g.setdefault("encoded_queries", {})
    key = request.query_string, names
    if key not in encoded:
        encoded[key] = urlencode([(k, v) for k, v in request.args.items(multi=True) if k not in names and v != ""])
    return encoded[key]


def table_file_url(name: str) -> str:
    """The address of all rows of this page's table as the file `name`, with all columns."""
    pairs: Pairs = [(k, v) for k, v in request.args.items(multi=True) if k not in ("page", "columns") and v != ""]
    return with_query(f"{request.path.rpartition('/')[0]}/{name}", pairs)


def build_heading(
    order: SortOrder,
    column: str,
    label: str,
    *,
    numeric: bool = False,
    unit: str = "",
    css: str = "",
    description: str = "",
) -> ColumnHeading:
    """A heading that sorts: numbers descending, texts ascending, and reversed when clicked again."""
    now = order.column == column
    descending = not order.descending if now else numeric
    return ColumnHeading(
        label=label,
        url=current_url_with(("sort", ("-" if descending else "") + column), ("page", None)),
        sorted=("descending" if order.descending else "ascending") if now else "",
        unit=unit,
        css=" ".join(part for part in ("num" if numeric else "", css) if part),
        description=description,
    )


def build_pager(
    page: int, total: int, size: int = PAGE_SIZE, *, noun: str = "row", nouns: str = "", word: str = "page"
) -> Pager:
    """The position of page `page` in `total` rows. nouns: the plural. word: the parameter."""
    first, last = (page - 1) * size + 1, min(page * size, total)
    nouns = noun if total == 1 else nouns or noun + ("es" if noun.endswith("ch") else "s")
    if total == 0:
        text = f"No {nouns}"
    elif first > total:
        text = f"No page {page}; {total:,} {nouns} in total"
    elif total <= size:
        text = f"{total:,} {nouns}"
    else:
        text = f"{first:,} – {last:,} of {total:,} {nouns}"
    back = min(page - 1, -(-total // size))
    return Pager(
        text=text,
        previous=current_url_with((word, str(back) if back > 1 else None)) if page > 1 else None,
        next=current_url_with((word, str(page + 1))) if page * size < total else None,
        is_past_end=0 < total < first,
    )


def figures_of(table: str, profile: Profile) -> tuple[Profile, ...]:
    """The profile whose losses affect the figures of a table: none for tables that report losses themselves."""
    return () if table in LOSS_TABLES else (profile,)


def table_file_response(
    name: str, file_format: str, data: pd.DataFrame, *profiles: Profile, columns: Sequence[Column] = ()
) -> Response:
    """The rows of a table as a download, as CSV, JSON or Parquet. profiles: those whose figures these are; the file
    says if something of them was not read. columns: their descriptions, not needed for tables of `TABLES`."""
    kind, names = TABLE_FORMATS[file_format], list(data)
    columns = columns or next((t.columns for t in TABLES.values() if [c.name for c in t.columns] == names), ())
    metadata = table_metadata(name, list(request.args.items(multi=True)), is_affected=_are_affected(profiles))
    content = kind.write_chunks(data, columns, metadata)
    return attachment(Response(content, content_type=kind.media_type), name + kind.suffix)


def table_response(
    name: str, data: TableRows | pd.DataFrame, *profiles: Profile, columns: Sequence[Column] = (), single: bool = False
) -> Response:
    """The rows as the word `format` asks for them: a list of objects (of a table that always has one row, one object),
    or a file. profiles: those whose figures these are; each object says if something of them was not read. Raises
    InvalidRequest."""
    file_format = parse_choice("format", TABLE_FORMATS, "json")
    if file_format != "json":
        frame = data.to_frame() if isinstance(data, TableRows) else data
        return table_file_response(name, file_format, frame, *profiles, columns=columns)
    is_affected = _are_affected(profiles)
    if single:
        return jsonify(mark_affected_rows(records(data), is_affected)[0])
    blocks = data.record_blocks(BLOCK_ROWS) if isinstance(data, TableRows) else [records(data)]
    rows = b",".join(_dump_rows(mark_affected_rows(block, is_affected)) for block in blocks if block)
    return Response(b"[%b]" % rows, mimetype="application/json")


def _dump_rows(rows: list[dict[str, Any]]) -> bytes:
    """JSON of the rows, without the brackets around them."""
    try:
        # Several times as fast as the standard library: tables may have a million rows.
        return orjson.dumps(rows)[1:-1]
    except TypeError:
        # It refuses integers of more than 64 bits, and text that is not valid Unicode. JSON has no infinity.
        finite = [{name: None if value in _INFINITE else value for name, value in row.items()} for row in rows]
        return json.dumps(finite).strip().encode()[1:-1]


def _are_affected(profiles: Sequence[Profile]) -> bool:
    return any(loss_impact_of(profile) for profile in profiles)


def attachment(response: Response, name: str) -> Response:
    """`response` as a download named `name`, with any characters."""
    response.headers.set("Content-Disposition", "attachment", filename=_file_name(name))
    return response


def _file_name(name: str) -> str:
    kept = "".join(c if c.isprintable() and c not in '/\\"' else "_" for c in name).strip(". ")
    return kept[-150:] or "perfloom"
