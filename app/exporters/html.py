"""A result as one HTML file without external resources: metadata, flame graphs, tables.

All text of the result is untrusted: it is only used, escaped, as text between tags or in attribute values. The graphs
are in frames, as data.
"""

import base64
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from ..analysis.core.sample_selection import check_selection, resolve_event_name
from ..analysis.core.schema import Column, Table, records
from ..analysis.distributed.collectives import has_communication
from ..analysis.tables import TABLES
from ..charts.flamegraph_svg import escape
from ..domain.errors import PerfloomError
from ..domain.list_text import abbreviate_names
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import DEVICE_TIME, get_strings
from ..domain.units import NS_PER_S, format_exact, format_quantity, format_utc
from ..readers import format_title
from . import svg

OPTIONS: Mapping[str, str] = {}
MAX_ROWS = 200
REPORT_TABLES = (
    *("devices", "steps", "operators", "kernels", "modules", "copies", "communication", "memory", "hotspots", "counts"),
    *("threads", "ranks", "runs", "nsight", "losses"),
)
"""The tables of a report, in their order; those without rows are omitted."""
NON_EMPTY_CHECKS: Mapping[str, Callable[[Profile], bool]] = {
    "devices": lambda profile: profile.device_work.num_rows > 0,
    "steps": lambda profile: profile.steps.num_rows > 0,
    "communication": has_communication,
    "ranks": lambda profile: profile.ranks.num_rows > 1 or profile.runs.num_rows > 1,
    "runs": lambda profile: profile.runs.num_rows > 1,
}
"""Conditions for tables that have a row, but no information for most results."""
BORDER_PX = 4
_VIEW = re.compile(rb'viewBox="0 0 [\d.]+ ([\d.]+)"')


def write(profile: Profile, selection: Selection, options: Mapping[str, bool]) -> Iterator[bytes]:
    """The file. Raises InvalidRequest for a selection that the profile does not have."""
    check_selection(profile, selection)
    title = profile.meta.command or _format(profile)
    graphs = list(_graphs(profile, selection))
    names = [name for name in REPORT_TABLES if name not in NON_EMPTY_CHECKS or NON_EMPTY_CHECKS[name](profile)]
    tables = [(table, rows) for name in names if (rows := _rows(table := TABLES[name], profile, selection))]
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_file('report.css')}</style></head><body>\n"
        f'<h1>{escape(title)}</h1>\n{_format_metadata(profile, selection)}<nav aria-label="Parts"><ul>'
    ).encode()
    parts = [(f"graph-{place}", name) for place, (name, _) in enumerate(graphs)]
    parts += [(table.name, table.title) for table, _ in tables]
    yield "".join(f'<li><a href="#{id}">{escape(name)}</a></li>' for id, name in parts).encode()
    yield b"</ul></nav>\n"
    for place, (name, picture) in enumerate(graphs):
        data = base64.b64encode(picture).decode()
        yield (
            f'<h2 id="graph-{place}">{escape(name)}</h2>\n<iframe title="{escape(name)}" height="{_height(picture)}" '
            f'sandbox="allow-scripts" src="data:image/svg+xml;base64,{data}"></iframe>\n'
        ).encode()
    for table, rows in tables:
        yield from _table(table, rows)
    yield f"<script>{_file('report.js')}</script>\n</body></html>\n".encode()


def _format(profile: Profile) -> str:
    """The name of the format."""
    label = format_title(profile.meta.format)
    return label[:1].upper() + label[1:]


def _format_metadata(profile: Profile, selection: Selection) -> str:
    meta = profile.meta
    facts: list[tuple[str, str]] = [("Format", _format(profile))]
    if meta.start_epoch_ns is not None:
        facts.append(("Recorded", format_utc(meta.start_epoch_ns / NS_PER_S)))
    if meta.duration_ns is not None:
        facts.append(("Duration", format_quantity(meta.duration_ns, "ns").text))
    hosts = sorted({host for host in profile.threads.column("host").to_pylist() if host})
    facts += [("Hosts", abbreviate_names(hosts, 8))] if hosts else []
    facts += [("Not complete", reason) for reason in meta.reasons]
    facts += [(f"Selected: {word}", value) for word, value in selection.to_query()]
    facts.append(("Written by", "Perfloom"))
    return "<dl>" + "".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in facts) + "</dl>\n"


def _graphs(profile: Profile, selection: Selection) -> Iterator[tuple[str, bytes]]:
    """The flame graphs: of the main event, and of devices if they have work."""
    if not profile.samples.num_rows:
        return
    selection = resolve_event_name(profile, selection)
    main = selection.event or profile.meta.main_event
    events = [main] if selection.event else list(dict.fromkeys([main, DEVICE_TIME]))
    for event in events:
        if event in get_strings(profile.events, "name"):
            yield f"Flame graph: {event}", b"".join(svg.write(profile, selection.replace(event=event), {}, event))


def _rows(table: Table, profile: Profile, selection: Selection) -> list[dict[str, Any]]:
    chosen = selection if table.uses_selection else Selection()
    try:
        rows: list[dict[str, Any]] = records(table.rows(profile, chosen))
    except PerfloomError:
        # Not in this result.
        return []
    return rows


def _table(table: Table, rows: list[dict[str, Any]]) -> Iterator[bytes]:
    columns = [column for column in table.columns if any(row[column.name] not in (None, "") for row in rows)]
    yield f'<h2 id="{table.name}">{escape(table.title)}</h2>\n'.encode()
    if len(rows) > MAX_ROWS:
        all_of = f"perfloom report ID {table.name} --format csv"
        yield f"<p>The first {MAX_ROWS} of {len(rows):,} rows; <code>{all_of}</code> prints all.</p>\n".encode()
    yield b'<div class="scroll" tabindex="0"><table><thead><tr>'
    yield "".join(_heading(column) for column in columns).encode()
    yield b"</tr></thead><tbody>\n"
    for row in rows[:MAX_ROWS]:
        yield ("<tr>" + "".join(_cell(column, row[column.name], row) for column in columns) + "</tr>\n").encode()
    yield b"</tbody></table></div>\n"


def _heading(column: Column) -> str:
    unit = f" <small>{escape(column.unit)}</small>" if column.unit not in ("", "event") else ""
    kind = ' class="number"' if column.dtype not in ("str", "boolean", "bool") else ""
    return f'<th scope="col"{kind} title="{escape(column.description)}">{escape(column.name)}{unit}</th>'


def _cell(column: Column, value: Any, row: dict[str, Any]) -> str:
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return '<td data-value=""></td>'
    if isinstance(value, (int, float)):
        shown = (
            format_quantity(value, row["unit"]).text
            if column.unit == "event" and row.get("unit")
            else _format_number(value)
        )
        exact = format_exact(value, row["unit"]) if column.unit == "event" and row.get("unit") else str(value)
        return f'<td class="number" data-value="{value}" title="{escape(exact)}">{escape(shown)}</td>'
    text = str(value)
    return f'<td title="{escape(text)}">{escape(text)}</td>'


def _format_number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _height(picture: bytes) -> int:
    """The height of a graph, in pixels."""
    match = _VIEW.search(picture[:2000])
    return math.ceil(float(match[1])) + BORDER_PX if match else 600


@cache
def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
