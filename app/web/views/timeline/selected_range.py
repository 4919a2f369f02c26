"""The flame graph and the top functions of the selected time, below the tracks of the timeline.

Of a large result, the page does not contain them: the script requests this part when it comes into view, so that it
does not delay the tracks. Without scripts, a link shows the page with it.
"""

from dataclasses import dataclass, replace

from ....analysis.core.sample_selection import event_id
from ....analysis.stacks.hotspots import list_top_functions
from ....domain.profile import Profile
from ..results.flame_controls import FlameGraphView
from ..results.functions import sandwich_urls
from ..results.missing_data import explain_no_samples
from ..results.result_frame import ResultFrame, show_lead_event
from ..results.sheets import SheetRow, build_headings, build_rows, column_scales
from ..results.tables import ColumnHeading, current_url_with
from ..stacks.flamegraph import build_whole_graph
from ..stacks.hotspots import hotspot_columns

MAX_FUNCTIONS = 12
SHOWN_COLUMNS = ("name", "self", "self_percent", "total_percent")
LABELS = {"self_percent": "Self", "total_percent": "Total"}
LARGE_SAMPLES = 1_000_000
"""Above this number of samples, sums over a selection take noticeable time."""
SHOW_PARAMETER = "samples"
"""The parameter of the page that shows them even of a large result."""


@dataclass(frozen=True)
class SelectedRange:
    """What was sampled in the selected time. time: its ends, empty if all is selected. event: what is summed. graph:
    the flame graph. url: of this part of the page, for the script; flamegraph_url, hotspots_url: of the complete pages.

    headings, rows: the functions with the largest self weight. functions: how many have any. empty_text: why there are
    none, else empty. show_url: if this part is omitted, of the page that has it, else empty.
    """

    time: str
    event: str
    graph: FlameGraphView
    url: str
    flamegraph_url: str
    hotspots_url: str
    headings: tuple[ColumnHeading, ...] = ()
    rows: tuple[SheetRow, ...] = ()
    functions: int = 0
    empty_text: str = ""
    show_url: str = ""


def build_selected_range(frame: ResultFrame, profile: Profile, *, omit_large: bool = False) -> SelectedRange | None:
    """The flame graph and the top functions of the selection; None for a result without samples. omit_large: without
    the functions and the picture of the graph if the result is large."""
    if not profile.samples.num_rows:
        return None
    frame = show_lead_event(frame, profile)
    graph = build_whole_graph(frame, profile)
    part = SelectedRange(
        time=frame.time_text,
        event=frame.event,
        graph=replace(graph, static_url=""),
        url=f"/results/{frame.id}/timeline/selected",
        flamegraph_url=frame.url("flamegraph"),
        hotspots_url=frame.url("hotspots"),
    )
    if omit_large and profile.samples.num_rows > LARGE_SAMPLES:
        return replace(part, show_url=current_url_with((SHOW_PARAMETER, "show")))
    event = event_id(profile, frame.event or None)
    found, functions = list_top_functions(profile, frame.selection, event, MAX_FUNCTIONS)
    if not functions:
        return replace(part, empty_text=_explain(frame, profile))
    table, url = found.to_frame(), sandwich_urls(frame)
    columns = tuple(
        replace(column, label=LABELS.get(column.column, column.label))
        for column in hotspot_columns("function", frame)
        if column.column in SHOWN_COLUMNS
    )
    scales = column_scales(table, columns)
    return replace(
        part,
        graph=graph,
        headings=build_headings(columns, scales, None),
        rows=build_rows(table, columns, scales, url=lambda row: url(row["name"] or ""), mark="kind"),
        functions=functions,
    )


def _explain(frame: ResultFrame, profile: Profile) -> str:
    if frame.chips:
        time = " in the selected time" if frame.time_text else " in this selection"
        return f"There are no samples of {frame.event}{time}. Select more time, or remove a filter above."
    return explain_no_samples(profile, frame.event)
