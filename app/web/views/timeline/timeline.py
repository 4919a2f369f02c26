"""/results/<id>/timeline: threads, streams and series over time; and its data as JSON."""

import re
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import orjson
from flask import Blueprint, jsonify, request
from werkzeug.wrappers import Response

from ....analysis.core.measurements import weight_unit
from ....analysis.core.sample_selection import event_id, match_places, samples_of
from ....analysis.core.windows import resolve_step, step_windows
from ....analysis.formulas.measures import selected_formula
from ....analysis.timeline.details import (
    find_slice,
    find_step,
    list_instants,
    slice_details,
    stack_names,
    summarize_cpu_samples,
    summarize_samples,
    summarize_slice,
)
from ....analysis.timeline.flows import list_flows
from ....analysis.timeline.formula_curves import compute_formula_curve
from ....analysis.timeline.minimap import Minimap, build_minimap
from ....analysis.timeline.model import KINDS, Timeline
from ....analysis.timeline.search import find_next_hit, search
from ....analysis.timeline.track import TimelineTrack
from ....analysis.timeline.tracks import lane_event, list_tracks, time_extent
from ....analysis.timeline.usage import MinimapSeries
from ....charts.timeline import TrackBand, build_viewport, format_clipped, parse_bands
from ....charts.timeline_svg import ALL_STACKED, draw_timeline
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ....domain.selection import parse_flag
from ....domain.tables import NO_ID
from ....domain.units import Quantity, format_quantity
from ...rendering import Page, current_shell, render
from ...services import current_services
from ..results.clock_notes import ClockNote, build_clock_note
from ..results.flame_controls import (
    PAGE_POLICY,
    STATIC_POLICY,
    current_url,
    parse_pattern,
    parse_width,
)
from ..results.missing_data import explain_no_timeline
from ..results.result_frame import (
    PageLink,
    ResultFrame,
    open_result_frame,
    request_selection,
    show_lead_event,
)
from ..results.tables import current_url_with, parse_search
from .selected_range import SHOW_PARAMETER, SelectedRange, build_selected_range

blueprint = Blueprint("timeline", __name__)
STATIC_TRACKS = 30
STATIC_WIDTH = 1200
MAX_TABLE_ROWS = 500
LINKED_PAGES = ("flamegraph", "operators", "kernels")
PREPARING_TEXT = "The timeline of this result is being prepared. This takes a few seconds, once."


NO_TRACKS_TEXT = "The recording has no tracks."
NO_MATCH_TEXT = "Nothing matches this selection. Press Reset, or × at one of the filters above."


@dataclass(frozen=True)
class TrackRow:
    """A track in the table. url: of its timeline, None without a thread. clipped: the weight that is not drawn, ""
    if negligible."""

    name: str
    group: str
    kind: str
    slices: Quantity
    samples: Quantity
    weight: Quantity
    clipped: str
    url: str | None


@dataclass(frozen=True)
class TimelinePage(Page):
    """source: the address of its data. preparing: that there is none yet, "" where there is. empty: whether there is
    nothing to be shown, because of `empty_text`. drawable: whether some selection has something to show. links: pages
    that tell more of a slice. static: the picture for a page without scripts. left_out: how many tracks are not in the
    table. stacks: switches the picture between lanes and call stacks, None without these. selected: what was sampled in
    the selected time, None without samples.
    """

    template: ClassVar[str] = "results/timeline.html"
    frame: ResultFrame
    source: str
    preparing: str
    empty: bool
    empty_text: str
    drawable: bool
    pattern: str
    links: dict[str, str]
    rows: tuple[TrackRow, ...]
    left_out: int
    static: str
    stacks: PageLink | None
    clock_note: ClockNote | None
    selected: SelectedRange | None


@blueprint.get("/results/<id>/timeline")
def show(id: str) -> Response:
    """The page."""
    frame, profile = open_result_frame(id, "timeline")
    timeline = current_services().store.timelines.get(id, profile)
    found, left_out = (
        ([], 0) if timeline is None else list_tracks(profile, timeline, show_lead_event(frame, profile).selection)
    )
    reason = explain_no_timeline(profile)
    response = render(
        TimelinePage(
            frame=frame,
            source=f"/api/v1/results/{id}/timeline",
            preparing=PREPARING_TEXT if timeline is None else "",
            empty=bool(reason) or (timeline is not None and not found),
            empty_text=reason
            or (NO_TRACKS_TEXT if timeline is not None and not found and not frame.is_filtered else NO_MATCH_TEXT),
            drawable=not reason,
            pattern=request.args.get("q", ""),
            links={tab.key: f"/results/{id}/{tab.key}" for tab in frame.tabs if tab.key in LINKED_PAGES},
            rows=tuple(
                _row(frame, track) for track in found[:MAX_TABLE_ROWS] if track.kind not in ("steps", "counter", "cpu")
            ),
            left_out=left_out + max(0, len(found) - MAX_TABLE_ROWS),
            static=current_url(f"/results/{id}/timeline.svg"),
            stacks=_stacks_link() if any(track.stacks > 1 for track in found) else None,
            clock_note=build_clock_note(frame, profile),
            selected=None
            if reason
            else build_selected_range(frame, profile, omit_large=SHOW_PARAMETER not in request.args),
        )
    )
    response.headers["Content-Security-Policy"] = PAGE_POLICY
    return response


@dataclass(frozen=True)
class SelectedRangePart(Page):
    """The part of the page with the samples of the selected time, for the script. selected: None without samples."""

    template: ClassVar[str] = "results/selected_range.html"
    selected: SelectedRange | None


@blueprint.get("/results/<id>/timeline/selected")
def get_selected_range(id: str) -> Response:
    """The samples of the selected time: the part of the page below the tracks, as HTML."""
    frame, profile = open_result_frame(id, "timeline")
    return render(SelectedRangePart(build_selected_range(frame, profile)))


@blueprint.get("/results/<id>/timeline.svg")
def get_svg(id: str) -> Response:
    """The selected window as a static picture: SVG without scripts, for the page."""
    profile, timeline = _open_timeline(id)
    if timeline is None:
        return _preparing()
    selection = request_selection(profile)
    found, _ = list_tracks(profile, timeline, selection)
    whole = time_extent(profile, timeline)
    start = whole.first_ns if selection.start_ns is None else selection.start_ns
    end = whole.last_ns if selection.end_ns is None else selection.end_ns
    # `draw_timeline` escapes every name and uses no script; tests hold it to that.
    document = draw_timeline(
        profile,
        timeline,
        selection,
        found[:STATIC_TRACKS],
        start,
        max(end, start + 1),
        STATIC_WIDTH,
        current_shell().theme,
        request.args.getlist("stacks"),
    )
    response = Response(document, content_type="image/svg+xml; charset=utf-8")
    response.headers["Content-Security-Policy"] = STATIC_POLICY
    response.headers["X-Frame-Options"] = "SAMEORIGIN"
    return response


def _stacks_link() -> PageLink:
    if "stacks" in request.args:
        return PageLink("", "One row for each thread", current_url_with(("stacks", None)), False)
    return PageLink("stacks", "Rows of call stacks", current_url_with(("stacks", ALL_STACKED)), False)


def _row(frame: ResultFrame, track: TimelineTrack) -> TrackRow:
    return TrackRow(
        name=track.name,
        group=track.group,
        kind=track.kind,
        slices=format_quantity(track.slices, "count"),
        samples=format_quantity(track.samples, "count"),
        weight=format_quantity(track.weight, track.unit or "ns"),
        clipped=format_clipped(track),
        url=frame.filtered_url(None, threads=(track.thread,)) if track.thread else None,
    )


@blueprint.get("/api/v1/results/<id>/timeline")
def get_json(id: str) -> Response:
    """`{"start_ns", "end_ns", "first_ns", "last_ns", "tracks", "left_out", "busy", "step", "kinds"}`; 202
    `{"preparing": sentence}` while it is being prepared. search: in the names of tracks. busy: see
    `analysis.timeline.minimap`."""
    profile, timeline = _open_timeline(id)
    if timeline is None:
        return _preparing()
    found, left_out = list_tracks(profile, timeline, request_selection(profile), parse_search())
    whole = time_extent(profile, timeline)
    return _json(
        {
            "start_ns": whole.start_ns,
            "end_ns": whole.end_ns,
            "first_ns": whole.first_ns,
            "last_ns": whole.last_ns,
            "tracks": [asdict(track) | {"not_drawn": format_clipped(track)} for track in found],
            "left_out": left_out,
            "busy": _busy(_strips(profile, timeline)),
            "step": _step_window(profile),
            "kinds": KINDS,
        }
    )


def _strips(profile: Profile, timeline: Timeline) -> Minimap:
    """The strips above the tracks: of the event, or the curve of the formula, at 0 where it has no value."""
    whole = time_extent(profile, timeline)
    minimap = build_minimap(profile, timeline, request_selection(profile), whole)
    formula = selected_formula(profile, request_selection())
    if formula is None:
        return minimap
    curve = compute_formula_curve(profile, timeline, request_selection(), formula, whole)
    return replace(minimap, host=MinimapSeries(np.nan_to_num(curve.values), curve.bin_ns, formula.title))


def _busy(minimap: Minimap) -> dict[str, Any]:
    """As plain data; `top`: the greatest of the values, as it is written at the axis."""

    def plain(strip: MinimapSeries) -> dict[str, Any]:
        most = float(strip.values.max(initial=0))
        values = [float(f"{value:.4g}") for value in strip.values.tolist()]
        return {
            "bin_ns": strip.bin_ns,
            "values": values,
            "unit": strip.unit,
            "most": most,
            "top": format_quantity(most, "count").text,
        }

    device = None if minimap.device is None else plain(minimap.device)
    return {"host": plain(minimap.host), "device": device}


def _step_window(profile: Profile) -> list[int] | None:
    """The time range of the selected step over the selected ranks; None without a step."""
    selection = request_selection(profile)
    if selection.step is None:
        return None
    windows = step_windows(profile, resolve_step(profile, selection.step))
    ranks = np.array([NO_ID if rank is None else rank for rank, _, _ in windows])
    shown = match_places(profile, selection, ranks)
    chosen = [window for window, inside in zip(windows, shown, strict=True) if inside]
    return [min(start for _, start, _ in chosen), max(end for _, _, end in chosen)] if chosen else None


@blueprint.get("/api/v1/results/<id>/timeline/view")
def get_viewport(id: str) -> Response:
    """The visible part of `bands` from `from` to `to` (ns) at `width` pixels: see `charts.timeline.viewport`."""
    profile, timeline = _open_timeline(id)
    if timeline is None:
        return _preparing()
    bands = parse_bands([text for text in request.args.get("bands", "").split(",") if text], profile, timeline)
    answer = build_viewport(profile, timeline, request_selection(profile), bands, *_window(), parse_width())
    if request.accept_encodings["gzip"] <= 0:
        return Response(answer.json, mimetype="application/json")
    # Compressed already, to limit its size.
    response = Response(answer.gzip, mimetype="application/json", headers={"Content-Encoding": "gzip"})
    response.vary.add("Accept-Encoding")
    return response


@blueprint.get("/api/v1/results/<id>/timeline/at")
def get_details_at(id: str) -> Response:
    """The content of a row of a band between `from` and `to` (ns): details of the longest slice or step, the samples,
    the instants. row: counted from the first of the thread."""
    profile, timeline = _open_timeline(id)
    if timeline is None:
        return _preparing()
    text = request.args.get("band", "")
    (band,) = parse_bands([text], profile, timeline)
    details = _find_details(profile, timeline, band, *_window())
    if details is None:
        raise NotFound("Nothing found at this position.")
    return _json(details)


def _find_details(profile: Profile, timeline: Timeline, band: TrackBand, start: int, end: int) -> dict[str, Any] | None:
    if band.kind == "rows":
        row = _parse_ns("row", 0)
        if not 0 <= row < int(timeline.depths[band.number]):
            raise InvalidRequest("This thread has no such row; its track has the number of rows.", "row")
        found = find_slice(timeline, band.number, row, start, end)
        return None if found is None else slice_details(profile, timeline, found)
    if band.kind in ("lane", "stacks", "ticks"):
        event = (
            band.event if band.kind == "ticks" else int(lane_event(profile, request_selection(profile))[band.number])
        )
        depth = _parse_ns("row", 0) if band.kind == "stacks" else None
        return summarize_samples(profile, timeline, event, band.number, start, end, depth)
    if band.kind == "cpu":
        event = event_id(profile, request_selection(profile).event)
        return summarize_cpu_samples(profile, timeline, event, band.number, start, end)
    if band.kind == "instants":
        return list_instants(profile, timeline, band.number, start, end)
    return find_step(profile, timeline, band.number, start, end) if band.kind == "steps" else None


@blueprint.get("/api/v1/results/<id>/timeline/slices/<int:number>")
def slice_by_number(id: str, number: int) -> Response:
    """The details of a slice: see `analysis.timeline.details`."""
    profile, timeline = _open_timeline(id)
    if timeline is None:
        return _preparing()
    if number >= profile.slices.num_rows:
        raise NotFound(f"This result has no slice {number}. Click one on the timeline.")
    return _json(slice_details(profile, timeline, number))


@blueprint.get("/api/v1/results/<id>/timeline/flows")
def flows(id: str) -> Response:
    """The flows with an end that begins between `from` and `to` (ns): see `analysis.timeline.flows`."""
    profile = current_services().store.results.open(id)
    return _json(list_flows(profile, request_selection(profile), *_window()))


@blueprint.get("/api/v1/results/<id>/timeline/search")
def matches(id: str) -> Response:
    """The matches of `q`: `{"functions", "hits", "total", "unit", "percent", "is_literal"}`."""
    profile = current_services().store.results.open(id)
    match = search(profile, request_selection(profile), parse_pattern())
    unit = "ns"
    if not profile.slices.num_rows:
        event = event_id(profile, request_selection(profile).event)
        unit = weight_unit(profile, event) if event >= 0 else "count"
    return jsonify(
        functions=match.functions,
        hits=match.hits,
        total=match.total,
        unit=unit,
        percent=match.percent,
        is_literal=match.is_literal,
    )


@blueprint.get("/api/v1/results/<id>/timeline/search/next")
def next_match(id: str) -> Response:
    """The hit of `q` after the one of `row`, else from `from` (ns) on; with `back=1` the one before. `{"number", "of",
    "row", "track", "depth", "start_ns", "duration_ns", "name"}`; depth null for a sample. 404 if nothing matches."""
    profile, timeline = _open_timeline(id)
    if timeline is None:
        return _preparing()
    row = _parse_ns("row", -1)
    hit = find_next_hit(
        profile,
        request_selection(profile),
        parse_pattern(),
        _parse_ns("from", 0),
        row if row >= 0 else None,
        parse_flag("back", request.args.get("back")),
    )
    if hit is None:
        raise NotFound("No match.")
    about: dict[str, Any]
    if profile.slices.num_rows:
        place = summarize_slice(profile, hit.row)
        about = {k: v for k, v in asdict(place).items() if k != "slice"}
    else:
        samples = samples_of(profile)
        names = stack_names(profile, int(samples.stack[hit.row]))
        about = {
            "name": names[-1] if names else "",
            "track": f"t{int(samples.thread[hit.row])}",
            "depth": None,
            "start_ns": int(samples.time_ns[hit.row]),
            "duration_ns": 0,
        }
    return _json({"number": hit.number, "of": hit.of, "row": hit.row, **about})


def _open_timeline(id: str) -> tuple[Profile, Timeline | None]:
    store = current_services().store
    profile = store.results.open(id)
    return profile, store.timelines.get(id, profile)


def _preparing() -> Response:
    response = jsonify(preparing=PREPARING_TEXT)
    response.status_code = 202
    return response


def _json(data: dict[str, Any]) -> Response:
    # Much faster than the standard library, which would take as long as everything else.
    return Response(orjson.dumps(data), mimetype="application/json")


def _window() -> tuple[int, int]:
    start, end = _parse_ns("from"), _parse_ns("to")
    if end <= start:
        raise InvalidRequest("to must be greater than from. Swap them.", "to")
    return start, end


def _parse_ns(word: str, default: int | None = None) -> int:
    text = request.args.get(word, "")
    if not text and default is not None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise InvalidRequest(f"{word} must be a whole number of ns, not {text[:40]!r}.", word)
    return int(text)
