"""/results/<id>/heatmap: samples of one event by second and offset within the second."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from flask import Blueprint
from markupsafe import Markup
from werkzeug.wrappers import Response

from ....analysis.core.measurements import find_share_only_events
from ....analysis.core.sample_selection import event_id
from ....analysis.tables import TABLES
from ....analysis.timeline.heat_map import (
    DEFAULT_ROWS,
    ROW_COUNTS,
    HeatMapGrid,
    build_grid,
    build_heat_map,
    has_heat_map,
    heat_map_rows,
    list_widths,
)
from ....charts.heat_map import (
    draw_color_scale,
    draw_column_axis,
    draw_heat_map,
    draw_range,
    draw_row_axis,
    format_width,
)
from ....domain.arrays import Array
from ....domain.profile import Profile
from ....domain.selection import Selection, format_ms
from ....domain.units import NS_PER_MS, format_axis_labels, format_duration, format_quantity
from ...parameters import parse_choice
from ...rendering import Page, render
from .missing_data import explain_no_heat_map
from .result_frame import PageLink, ResultFrame, open_result_frame
from .sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions, largest_bar
from .tables import FILE_RULE, SortOrder, current_url_with, table_file_response, table_file_url

blueprint = Blueprint("heatmap", __name__)
WEIGHT, SAMPLES = "weight", "samples"
MAX_TIME_NS = (1 << 63) - 1


@dataclass(frozen=True)
class HeatMapChart:
    """The map. svg, frame, column_axis, row_axis, scale: SVG without scripts; frame is empty without a selected time.
    grid, cells, values: the same for the script, as numbers separated by commas. measure: what a cell shows, unit: in
    what unit; levels: labels of the scale. summary: the whole map in a sentence."""

    svg: Markup
    frame: Markup
    column_axis: Markup
    row_axis: Markup
    scale: Markup
    grid: HeatMapGrid
    cells: str
    values: str
    measure: str
    unit: str
    levels: tuple[str, ...]
    cell: str
    column: str
    summary: str


@dataclass(frozen=True)
class SelectedTime:
    """A selected time range. text: its ends. links: pages that show it. clear: the page without it."""

    text: str
    links: tuple[PageLink, ...]
    clear: str


@dataclass(frozen=True)
class HeatMapPage(Page):
    """`/results/<id>/heatmap`. chart: None if there is nothing to draw. switches: (label, links) of its parameters."""

    template: ClassVar[str] = "results/heatmap.html"
    frame: ResultFrame
    chart: HeatMapChart | None
    switches: tuple[tuple[str, tuple[PageLink, ...]], ...]
    selected: SelectedTime | None
    sheet: Sheet
    empty_text: str
    csv: str


@blueprint.get("/results/<id>/heatmap")
def show(id: str) -> Response:
    """The map of all time, and the busiest cells of the selected time."""
    frame, profile = open_result_frame(id, "heatmap")
    grid, measure = _parse_grid(profile), _parse_measure(profile, frame)
    every = _rows(frame, profile, grid)
    rows, order = _sort(frame, grid, every, measure)
    return render(
        HeatMapPage(
            frame=frame,
            chart=_draw(frame, profile, grid, measure),
            switches=_switches(profile, frame, grid, measure),
            selected=_selected_time(frame),
            sheet=build_sheet(
                "Busiest cells",
                rows,
                _columns(frame, grid),
                order,
                noun="cell",
                total_rows=len(every),
                bar=largest_bar(rows, "samples" if measure == SAMPLES else "percent"),
                bar_label="Relative to the largest",
                wide=False,
            ),
            empty_text=explain_no_heat_map(profile, frame.event),
            csv=table_file_url("heatmap.csv"),
        )
    )


@blueprint.get(f"/results/<id>/heatmap.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All cells with samples in the selected time, in the order of the page; columns as in `perfloom report`."""
    frame, profile = open_result_frame(id, "heatmap")
    grid, measure = _parse_grid(profile), _parse_measure(profile, frame)
    rows, _ = _sort(frame, grid, _rows(frame, profile, grid), measure)
    return table_file_response(f"{frame.name} heat map", file_format, rows, profile)


def _parse_grid(profile: Profile) -> HeatMapGrid:
    rows = int(parse_choice("rows", [str(count) for count in ROW_COUNTS], str(DEFAULT_ROWS)))
    widths = {format_ms(width): width for width in list_widths(profile)}
    return build_grid(profile, rows, widths.get(parse_choice("column-ms", widths)))


def _parse_measure(profile: Profile, frame: ResultFrame) -> str:
    """What the color shows. Events that were sampled, not counted, have only samples."""
    measure = parse_choice("color", (WEIGHT, SAMPLES), WEIGHT)
    return SAMPLES if _event(profile, frame) in find_share_only_events(profile) else measure


def _event(profile: Profile, frame: ResultFrame) -> int:
    return event_id(profile, frame.event or None)


def _rows(frame: ResultFrame, profile: Profile, grid: HeatMapGrid) -> pd.DataFrame:
    events = [_event(profile, frame)] if frame.event and has_heat_map(profile) else []
    return heat_map_rows(profile, frame.selection, events, grid).to_frame()


def _sort(frame: ResultFrame, grid: HeatMapGrid, rows: pd.DataFrame, measure: str) -> tuple[pd.DataFrame, SortOrder]:
    # Events that were sampled, not counted, have only shares to sort by.
    unknown = {"value": "percent"} if rows["value"].isna().all() else {}
    default = "-samples" if measure == SAMPLES else "-value"
    return filter_and_sort(rows, _columns(frame, grid), default, ("event",), sort_columns=unknown)


def _columns(frame: ResultFrame, grid: HeatMapGrid) -> tuple[ColumnView, ...]:
    def start_of(row: dict[str, Any]) -> int:
        # The number of the cell is exact even where milliseconds are rounded.
        return grid.start_of(round(((row["column_ms"] + row["offset_ms"]) * NS_PER_MS - grid.first_ns) / grid.cell_ns))

    def select(key: str | None) -> Any:
        def url(row: dict[str, Any]) -> str:
            start = start_of(row)
            words = {"start_ns": start, "end_ns": start + grid.cell_ns}
            # This page keeps its parameters.
            return frame.url(key, frame.selection.replace(**words), *(frame.page_params if key is None else ()))

        return url

    found = (
        ColumnView("column_ms", "Column", "time", scale="time", fixed=True),
        ColumnView("offset_ms", "Offset", "time", fixed=True),
        ColumnView("value", frame.event or "Value", "value", unit=frame.unit),
        ColumnView("percent", "%", "percent", sort=""),
        ColumnView("samples", "Samples"),
        ColumnView("cell_ms", "Select", "link", sort="", link=select(None)),
        ColumnView("event", "Flame graph", "link", sort="", link=select("flamegraph")),
    )
    return inherit_descriptions(TABLES["heatmap"].columns, found)


def _draw(frame: ResultFrame, profile: Profile, grid: HeatMapGrid, measure: str) -> HeatMapChart | None:
    """The map of all time, whatever time is selected; None without samples."""
    if not has_heat_map(profile):
        return None
    whole = frame.selection.replace(start_ns=None, end_ns=None)
    found = build_heat_map(profile, whole, _event(profile, frame), grid)
    if not len(found.cell):
        return None
    # Slices have weight also in cells in which none begins.
    shown = found.samples > 0 if measure == SAMPLES else np.ones(len(found.cell), bool)
    cell, value = found.cell[shown], (found.samples if measure == SAMPLES else found.weight)[shown]
    unit = "count" if measure == SAMPLES else frame.unit
    most = int(value.max(initial=0))
    name = "Samples" if measure == SAMPLES else frame.event
    svg = draw_heat_map(f"Heat map of {frame.event}", grid, cell, value)
    start, end = frame.selection.start_ns, frame.selection.end_ns
    edge = "" if start is None and end is None else draw_range(grid, *_ends(frame.selection))
    return HeatMapChart(
        # `charts.heat_map` escapes every text and uses neither script nor style; tests check this.
        svg=Markup(svg),
        frame=Markup(edge),
        column_axis=Markup(draw_column_axis(grid)),
        row_axis=Markup(draw_row_axis(grid)),
        scale=Markup(draw_color_scale()),
        grid=grid,
        cells=",".join(map(str, np.diff(cell, prepend=0).tolist())),
        values=",".join(map(str, value.tolist())),
        measure=name,
        unit=unit,
        levels=format_axis_labels((0, most / 2, most), unit),
        cell=format_width(grid.cell_ns),
        column=format_width(grid.column_ns),
        summary=_summarize(cell, grid, value, unit),
    )


def _summarize(cell: Array, grid: HeatMapGrid, value: Array, unit: str) -> str:
    busiest = grid.start_of(int(cell[int(value.argmax())]))
    cells = grid.columns * grid.rows
    return (
        f"{len(cell):,} of {cells:,} cells have samples; the busiest, at {format_duration(busiest)}, has "
        f"{format_quantity(int(value.max()), unit).text}."
    )


def _ends(selection: Selection) -> tuple[int, int]:
    start, end = selection.start_ns, selection.end_ns
    return -MAX_TIME_NS if start is None else start, MAX_TIME_NS if end is None else end


def _selected_time(frame: ResultFrame) -> SelectedTime | None:
    text = frame.time_text
    if not text:
        return None
    return SelectedTime(
        text=text,
        links=tuple(
            PageLink(key, label, frame.url(key), False)
            for key, label in (("flamegraph", "Flame graph of the range"), ("timeline", "Timeline of the range"))
        ),
        clear=current_url_with(("start-ms", None), ("end-ms", None), ("page", None)),
    )


def _switches(
    profile: Profile, frame: ResultFrame, grid: HeatMapGrid, measure: str
) -> tuple[tuple[str, tuple[PageLink, ...]], ...]:
    default = format_ms(build_grid(profile).column_ns)

    def links(word: str, choices: dict[str, str], now: str, usual: str) -> tuple[PageLink, ...]:
        return tuple(
            PageLink(
                value, label, current_url_with((word, None if value == usual else value), ("page", None)), value == now
            )
            for value, label in choices.items()
        )

    colors = {WEIGHT: "Weight", SAMPLES: "Samples"}
    only_samples = _event(profile, frame) in find_share_only_events(profile)
    widths = {format_ms(width): format_width(width) for width in list_widths(profile)}
    rows = {str(count): str(count) for count in ROW_COUNTS}
    return (
        *((("Color", links("color", colors, measure, WEIGHT)),) if not only_samples else ()),
        ("Rows", links("rows", rows, str(grid.rows), str(DEFAULT_ROWS))),
        *((("Column", links("column-ms", widths, format_ms(grid.column_ns), default)),) if len(widths) > 1 else ()),
    )
