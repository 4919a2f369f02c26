"""/results/<id>/export: export formats of a result, and tools to open it.

Perfetto's UI has a separate page, because sending a trace to its window requires an opener policy that allows it.
speedscope fetches the file, so it gets a URL that needs no token.
"""

import shlex
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote, urlsplit

from flask import Blueprint, redirect, request
from werkzeug.wrappers import Response

from ....analysis.core.schema import records
from ....analysis.ml.operator_parts import OPERATOR_PARTS, operator_parts_of
from ....analysis.tables import TABLES
from ....domain.profile import Profile
from ....domain.units import NS_PER_MS, Quantity, format_quantity
from ....exporters import EXPORTERS, Exporter
from ....exporters.table_formats import TABLE_FORMATS
from ....paths import data_directory
from ...pages import RESULT_PAGES, Pairs
from ...rendering import Page, render
from ...services import current_services
from .exports import SIGNED_URL_SECONDS, signed_url
from .result_frame import ResultFrame, open_result_frame

blueprint = Blueprint("opening", __name__)
MANY_ROWS = 2_000_000
"""Number of slices and samples that is large for tools in a browser."""
PAGE_TABLES = {
    "hotspots": ("hotspots",),
    "branches": ("branches", "loops"),
    "heatmap": ("heatmap",),
    "counts": ("counts", "count-shares"),
    "threads": ("threads", "ranks"),
    "matrix": ("matrix", "matrix-cells"),
    "operators": ("operators",),
    "kernels": ("kernels", "copies", "launches", "graphs", "sequences", "devices", "utilization", "idle"),
    "modules": ("modules",),
    "steps": ("steps",),
    "memory": (*("memory", "memory-operators", "memory-live", "memory-events", "memory-curves", "allocations"),),
    "communication": ("communication", "collectives", "stragglers", "clocks"),
    "critical-path": ("critical-path",),
    "advice": ("advice",),
    "nsight": ("nsight", "nsight-metrics", "nsight-hints", "nsight-source"),
    "losses": ("losses",),
}
"""Tables that belong to a page, and exist only with it. Others always exist."""


@dataclass(frozen=True)
class ExportFormat:
    """An export format. url: empty if it does not support this selection. options: with descriptions."""

    name: str
    title: str
    about: str
    suffix: str
    url: str
    action: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TableFiles:
    """A table. files: (form, address) of it."""

    title: str
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ExportPage(Page):
    """`/results/<id>/export`. openable_tools: tools with data for this result. selected_counts: size of the
    selection. is_large: whether that is large for a browser. selection_params: of the selection, for forms.
    speedscope_reachable: whether pages of speedscope can reach this server, as browsers allow it."""

    template: ClassVar[str] = "results/export.html"
    frame: ResultFrame
    selected_counts: tuple[tuple[str, Quantity], ...]
    is_large: bool
    selection_params: Pairs
    openable_tools: frozenset[str]
    formats: tuple[ExportFormat, ...]
    tables: tuple[TableFiles, ...]
    perfetto: str
    speedscope: str
    speedscope_site: str
    speedscope_file: str
    speedscope_command: str
    speedscope_reachable: bool
    pprof_command: str
    pprof_local: str
    convert: str
    link_minutes: int


@dataclass(frozen=True)
class PerfettoPage(Page):
    """`/results/<id>/open/perfetto`. source: the address of the trace, file: its name. site, origin: of Perfetto's UI.
    back: to the page of exports."""

    template: ClassVar[str] = "results/open_perfetto.html"
    frame: ResultFrame
    selected_counts: tuple[tuple[str, Quantity], ...]
    is_large: bool
    source: str
    file: str
    site: str
    origin: str
    back: str


@blueprint.get("/results/<id>/export")
def show(id: str) -> Response:
    """The page."""
    frame, profile = open_result_frame(id, "export")
    settings, words = current_services().settings, frame.selection.to_query()
    selected_counts = _list_amounts(frame, profile)
    return render(
        ExportPage(
            frame=frame,
            selected_counts=selected_counts,
            is_large=_many(selected_counts),
            selection_params=words,
            openable_tools=frozenset(
                tool for tool in ("perfetto", "speedscope", "pprof") if EXPORTERS[tool].has_data(profile)
            ),
            formats=tuple(_form(frame, exporter) for exporter in EXPORTERS.values() if exporter.has_data(profile)),
            tables=_tables(frame, profile),
            perfetto=frame.url("open/perfetto"),
            speedscope=frame.url("open/speedscope"),
            speedscope_site=settings.speedscope_url,
            speedscope_file=frame.url("export/speedscope"),
            speedscope_command=_convert(frame, "speedscope", "npx speedscope"),
            speedscope_reachable=_is_reachable(settings.speedscope_url),
            pprof_command=f"go tool pprof -http=localhost:0 {shlex.quote(signed_url(id, 'pprof', words))}",
            pprof_local=_convert(frame, "pprof", "go tool pprof -http=localhost:0"),
            convert=_command(frame, "FORMAT", "FILE"),
            link_minutes=SIGNED_URL_SECONDS // 60,
        )
    )


@blueprint.get("/results/<id>/open/perfetto")
def perfetto(id: str) -> Response:
    """The page that opens Perfetto's UI and sends it the trace."""
    frame, profile = open_result_frame(id, "export")
    site = current_services().settings.perfetto_url
    parts = urlsplit(site)
    selected_counts = _list_amounts(frame, profile)
    response = render(
        PerfettoPage(
            frame=frame,
            selected_counts=selected_counts,
            is_large=_many(selected_counts),
            source=frame.url("export/perfetto"),
            file=frame.name + EXPORTERS["perfetto"].suffix,
            site=site,
            origin=f"{parts.scheme}://{parts.netloc}",
            back=frame.url("export"),
        )
    )
    # The opened window must be able to answer. Other pages still cannot access this one.
    response.headers["Cross-Origin-Opener-Policy"] = "same-origin-allow-popups"
    return response


@blueprint.get("/results/<id>/open/speedscope")
def speedscope(id: str) -> Response:
    """Go to speedscope, which then fetches the selection."""
    frame, _ = open_result_frame(id, "export")
    address = signed_url(id, "speedscope", frame.selection.to_query())
    site = current_services().settings.speedscope_url
    # No title: it would replace the names of threads.
    return redirect(f"{site}/#profileURL={quote(address, safe='')}", 303)


def _list_amounts(frame: ResultFrame, profile: Profile) -> tuple[tuple[str, Quantity], ...]:
    """The size of the selection."""
    row = records(TABLES["summary"].rows(profile, frame.selection))[0]
    found = [
        (word[:-1] if row[word] == 1 else word, format_quantity(row[word], "count"))
        for word in ("slices", "samples", "counts", "threads")
        if row[word]
    ]
    selection = frame.selection
    if row["duration_ms"] is not None and selection.step is None:
        whole = row["duration_ms"] * NS_PER_MS
        end = whole if selection.end_ns is None else min(selection.end_ns, whole)
        found.append(("", format_quantity(max(0, end - (selection.start_ns or 0)), "ns")))
    return tuple(found)


def _many(held: tuple[tuple[str, Quantity], ...]) -> bool:
    return sum(int(count.value or 0) for word, count in held if word in ("slices", "samples")) > MANY_ROWS


def _form(frame: ResultFrame, exporter: Exporter) -> ExportFormat:
    requires_recorded_stacks = exporter.requires_recorded_stacks and frame.selection.reshapes_stacks
    return ExportFormat(
        name=exporter.name,
        title=exporter.title,
        about=exporter.description,
        suffix=exporter.suffix,
        url="" if requires_recorded_stacks else frame.url(f"export/{exporter.name}"),
        action=f"/results/{frame.id}/export/{exporter.name}",
        options=tuple(exporter.options.items()),
    )


def _tables(frame: ResultFrame, profile: Profile) -> tuple[TableFiles, ...]:
    """The tables that this result can have rows in; operators once for each grouping that the profile has."""
    keys = {page.key for page in RESULT_PAGES if page.has_data(profile)}
    missing = {table for key, tables in PAGE_TABLES.items() if key not in keys for table in tables}
    unavailable = {
        ("operators", part)
        for part in OPERATOR_PARTS
        if "operators" not in missing and part not in operator_parts_of(profile)
    }
    found = []
    for name, table in TABLES.items():
        if name in missing:
            continue
        for by in table.by or ("",):
            if (name, by) in unavailable:
                continue
            # The first grouping is the default.
            words = [("by", by)] if by and by != table.by[0] else []
            chosen = frame.asked if table.takes_formulas else frame.selection
            files = tuple((form, frame.url(f"tables/{name}.{form}", chosen, *words)) for form in TABLE_FORMATS)
            found.append(TableFiles(table.title + (f" by {by}" if words else ""), files))
    return tuple(found)


def _is_reachable(site: str) -> bool:
    """Whether a browser lets a page of that site fetch from here: not from https over http, unless from the browser's
    own machine."""
    host = urlsplit(request.host_url).hostname or ""
    own = host in ("localhost", "::1") or host.startswith("127.")
    return request.scheme == "https" or own or not site.startswith("https:")


def _command(frame: ResultFrame, form: str, file: str) -> str:
    """The command that writes the selection to a file."""
    words = ["perfloom", "convert", frame.id, "--to", form]
    for word, value in frame.selection.to_query():
        words += [f"--{word}"] if word in ("invert", "recursion") else [f"--{word}", value]
    data = current_services().settings.data
    if data != data_directory({}):
        words += ["--data", str(data)]
    return shlex.join([*words, "-o", file])


def _convert(frame: ResultFrame, form: str, opener: str) -> str:
    file = f"{frame.id}{EXPORTERS[form].suffix}"
    return f"{_command(frame, form, file)} && {opener} {file}"
