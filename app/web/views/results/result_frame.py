"""The frame of all pages of a result: its name, tabs and selection bar."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from flask import request

from ....analysis.core.loss_impact import loss_impact_of
from ....analysis.core.measurements import find_counted_events, find_share_only_events
from ....analysis.core.sample_selection import resolve_event_name
from ....domain.event_names import SAMPLED_ONLY
from ....domain.profile import Profile
from ....domain.selection import QUERY_PARAMETERS, Selection
from ....domain.tables import get_strings
from ....domain.units import TIME_UNIT_PARAMETER, TIME_UNITS, format_duration, get_time_unit
from ....store import Result
from ...pages import RESULT_PAGES, Chip, Pairs, result_url, selection_chips
from ...services import current_services
from .missing_data import explain_backward_times
from .tables import current_url_with

TIME_PAGES = ("timeline", "heatmap", "matrix")
"""The pages that depend on the times of samples."""


@dataclass(frozen=True)
class PageLink:
    """A link that can be the current page."""

    key: str
    label: str
    url: str
    current: bool


@dataclass(frozen=True)
class ResultFrame:
    """The frame of a page of a result.

    key: of the page. uses_selection: whether the selection applies. selection: as requested. event, unit: the effective
    ones (the main event by default), event empty if the result has none. measure: a description of its numbers.
    page_params: parameters of only this page. kept_params: all parameters except the event, for the form that switches
    it. time_units: to select, empty without times. loss_note: a note on all figures because of losses, else empty.
    time_note: on the times of samples, empty on pages without times.
    has_data: whether the result has data for the page, without the selection. saved: this page with each selection that
    is saved under a name.
    """

    id: str
    name: str
    result: Result
    key: str
    uses_selection: bool
    selection: Selection
    event: str
    unit: str
    measure: str
    tabs: tuple[PageLink, ...]
    events: tuple[PageLink, ...]
    time_units: tuple[PageLink, ...]
    chips: tuple[Chip, ...]
    reset: str
    page_params: Pairs
    kept_params: Pairs
    loss_note: str
    time_note: str
    has_data: bool
    saved: tuple[PageLink, ...]

    @property
    def query(self) -> str:
        """The selection as a query string."""
        return urlencode(self.selection.to_query())

    @property
    def rest(self) -> str:
        """The parameters of only this page as a query string."""
        return urlencode(self.page_params, errors="replace")

    @property
    def is_filtered(self) -> bool:
        """Whether the page can be empty because of a filter: one is set, and without it there are data."""
        return bool(self.chips) and self.has_data

    @property
    def time_text(self) -> str:
        """The ends and the length of the selected time; empty without one."""
        start, end = self.selection.start_ns, self.selection.end_ns
        if start is None and end is None:
            return ""
        first = "the start" if start is None else format_duration(start)
        last = "the end" if end is None else format_duration(end)
        length = "" if start is None or end is None else f" ({format_duration(end - start)})"
        return f"{first} to {last}{length}"

    def url(self, key: str | None = None, selection: Selection | None = None, *extra: tuple[str, str]) -> str:
        """A page of this result under a selection (by default the present one). key None: the page shown."""
        return result_url(
            self.id, self.key if key is None else key, self.selection if selection is None else selection, list(extra)
        )

    def filtered_url(self, key: str | None, **changes: object) -> str:
        """A page of this result with the present selection changed."""
        return self.url(key, self.selection.replace(**changes))


def _events(
    names: list[str], main: str | None, selection: Selection, here: Callable[[Selection], str]
) -> tuple[PageLink, ...]:
    """The events to switch between. main: the default, None where all events are shown by default."""
    now = selection.event or main or (names[0] if len(names) == 1 else None)
    links = [
        PageLink(name, name, here(selection.replace(event=None if name == main else name)), name == now)
        for name in names
    ]
    if main is None and len(names) > 1:
        links.insert(0, PageLink("", "All events", here(selection.replace(event=None)), now is None))
    return tuple(links)


def time_unit_links(profile: Profile) -> tuple[PageLink, ...]:
    """The units to write times in, to switch between on the present page; none for a result without times."""
    if not profile.meta.duration_ns and "ns" not in get_strings(profile.events, "unit"):
        return ()
    now, units = get_time_unit(), {"": "Auto"} | {word: label for word, (label, _) in TIME_UNITS.items()}
    return tuple(
        PageLink(word, label, current_url_with((TIME_UNIT_PARAMETER, word)), word == now)
        for word, label in units.items()
    )


def measure_text(profile: Profile, event: str) -> str:
    """A description of the numbers of an event; empty for no event."""
    place = get_strings(profile.events, "name").index(event) if event else None
    if place is None:
        return ""
    if not profile.events.column("weighted")[place].as_py():
        return "samples, no recorded period"
    if place in find_share_only_events(profile):
        return "shares of samples, counted total" if place in find_counted_events(profile) else SAMPLED_ONLY
    unit = profile.events.column("unit")[place].as_py()
    return {"ns": "time", "count": "events counted"}.get(unit, str(unit))


def page_params() -> Pairs:
    """The parameters of only this page, kept when the selection changes. The page numbers of tables and charts, and
    the zoomed frame, are not kept."""
    passing = ("page", "group-page", "bars-page", "functions-page", "zoom", "zoom-callers", "zoom-callees")
    return [(k, v) for k, v in request.args.items(multi=True) if k not in QUERY_PARAMETERS and k not in passing]


def request_selection() -> Selection:
    """The selection of the present request."""
    return Selection.from_query(request.args.to_dict(flat=False))


def open_result_frame(id: str, key: str) -> tuple[ResultFrame, Profile]:
    """The frame of page `key` of a result and its profile. Raises NotFound, and InvalidRequest for a bad selection."""
    store = current_services().store
    result, profile = store.results.get(id), store.results.open(id)
    selection = resolve_event_name(profile, request_selection())
    names = get_strings(profile.events, "name")
    main = profile.meta.main_event if profile.meta.main_event in names else (names[0] if names else "")
    event = selection.event or main or ""
    place = names.index(event) if event else None
    page = next(page for page in RESULT_PAGES if page.key == key)
    own = page_params()

    def selecting(selection: Selection) -> str:
        return result_url(id, key, selection, own)

    frame = ResultFrame(
        id=id,
        name=result.name,
        result=result,
        key=key,
        uses_selection=page.uses_selection and (bool(event) or profile.counters.num_rows > 0),
        selection=selection,
        event=event,
        unit=get_strings(profile.events, "unit")[place] if place is not None else "count",
        measure=""
        if not page.shows_event or (page.shows_all_events and selection.event is None and len(names) > 1)
        else measure_text(profile, event),
        tabs=tuple(
            PageLink(tab.key, tab.title, result_url(id, tab.key, selection), tab.key == key)
            for tab in RESULT_PAGES
            if tab.has_data(profile) or tab.key == key
        ),
        events=_events(names, None if page.shows_all_events else main, selection, selecting)
        if page.shows_event
        else (),
        time_units=time_unit_links(profile),
        chips=selection_chips(selection, selecting),
        reset=selecting(Selection(event=selection.event)),
        page_params=own,
        kept_params=selection.replace(event=None).to_query() + own,
        loss_note=loss_impact_of(profile).note,
        time_note=explain_backward_times(profile) if key in TIME_PAGES else "",
        has_data=page.has_data(profile),
        saved=tuple(
            PageLink(saved.name, saved.name, selecting(saved.selection), saved.selection == selection)
            for saved in store.selections.list(id)
        ),
    )
    return frame, profile
