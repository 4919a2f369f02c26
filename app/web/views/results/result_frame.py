"""The frame of all pages of a result: its name, tabs and selection bar."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from flask import request

from ....analysis.core.loss_impact import loss_impact_of
from ....analysis.core.measurements import find_counted_events, find_share_only_events
from ....analysis.core.sample_selection import event_names, resolve_event_name
from ....analysis.formulas.measures import (
    describe_formula,
    display_unit,
    explain_no_weights,
    list_sampled_formulas,
    measure_parts,
    selected_formula,
    use_lead_event,
)
from ....analysis.formulas.resolution import ResolvedFormula, resolve_formulas
from ....domain.event_names import SAMPLED_ONLY
from ....domain.profile import Profile
from ....domain.selection import QUERY_PARAMETERS, Selection
from ....domain.tables import get_strings
from ....domain.units import TIME_UNIT_PARAMETER, TIME_UNITS, format_duration, get_time_unit
from ....store import Result
from ...pages import RESULT_PAGES, Chip, Pairs, ResultPage, result_url, selection_chips
from ...services import current_services
from .missing_data import explain_backward_times
from .tables import current_url_with

TIME_PAGES = ("timeline", "heatmap", "matrix")
"""The pages that depend on the times of samples."""
COUNT_PAGES = ("counts", "threads")
"""The pages that show counts and samples."""


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

    key: of the page. uses_selection: whether the selection applies. selection: as requested, on a page that cannot show
    the selected formula with its first event. asked: as requested. event, unit: the effective ones (the main event by
    default), event empty if the result has none; of a formula, its name and how its values are written. formula: the
    one that the page shows instead of an event; lead: its first event. formulas: to switch to, in addition to `events`.
    formula_note: what to know of the formula. measure: a description of its numbers. page_params: parameters of only
    this page. kept_params: all parameters except the event, for the form that switches it. time_units: to select, empty
    without times. loss_note: a note on all figures because of losses, else empty. time_note: on the times of samples,
    empty on pages without times. has_data: whether the result has data for the page, without the selection. saved: this
    page with each selection that is saved under a name.
    """

    id: str
    name: str
    result: Result
    key: str
    uses_selection: bool
    selection: Selection
    asked: Selection
    event: str
    unit: str
    formula: ResolvedFormula | None
    formula_note: str
    lead: str
    measure: str
    tabs: tuple[PageLink, ...]
    events: tuple[PageLink, ...]
    formulas: tuple[PageLink, ...]
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
    def lead_event(self) -> str:
        """The event, or the first event of the formula; empty if the result has none."""
        return self.event if self.formula is None else self.lead

    @property
    def query(self) -> str:
        """The selection as a query string."""
        return urlencode(self.asked.to_query())

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


def list_page_formulas(profile: Profile, key: str, shown: ResolvedFormula | None) -> tuple[ResolvedFormula, ...]:
    """The formulas that a page offers: where counts count, all; elsewhere those of samples, and the one shown."""
    if key in COUNT_PAGES:
        return resolve_formulas(profile)
    found = list_sampled_formulas(profile)
    return found if shown is None or any(one.name == shown.name for one in found) else (*found, shown)


def formula_links(
    formulas: Iterable[ResolvedFormula], selection: Selection, here: Callable[[Selection], str]
) -> tuple[PageLink, ...]:
    """The formulas to switch to; the one that the selection names is the current one."""
    return tuple(
        PageLink(one.name, one.name, here(selection.replace(event=one.name)), one.name == selection.event)
        for one in formulas
    )


def _explain_formula(profile: Profile, formula: ResolvedFormula, page: ResultPage, asked: Selection, event: str) -> str:
    """What the reader of a page must know of the selected formula."""
    if page.takes_formulas:
        if page.key in COUNT_PAGES:
            why = describe_formula(profile, formula, measure_parts(profile, asked, formula))
        else:
            why = "; ".join(filter(None, (formula.note, explain_no_weights(profile, formula))))
        return f"{formula.name}: {why}." if why else ""
    if not (page.shows_event and page.uses_selection):
        return ""
    return f"{formula.name} is a formula, and this page shows only events. It shows {event}, the first event of it."


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
    names = event_names(profile)
    if event not in names:
        return ""
    place = names.index(event)
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


def request_selection(profile: Profile | None = None) -> Selection:
    """The selection of the present request. profile: a formula is replaced by its first event, for what cannot show a
    formula."""
    selection = Selection.from_query(request.args.to_dict(flat=False))
    return selection if profile is None else use_lead_event(profile, selection)


def show_lead_event(frame: ResultFrame, profile: Profile) -> ResultFrame:
    """The frame for a part of a page that shows the first event instead of the formula."""
    if frame.formula is None:
        return frame
    return replace(
        frame,
        selection=frame.selection.replace(event=frame.lead),
        event=frame.lead,
        unit=get_strings(profile.events, "unit")[frame.formula.lead],
        formula=None,
        measure=measure_text(profile, frame.lead),
    )


def open_result_frame(id: str, key: str) -> tuple[ResultFrame, Profile]:
    """The frame of page `key` of a result and its profile. Raises NotFound, and InvalidRequest for a bad selection."""
    store = current_services().store
    result, profile = store.results.get(id), store.results.open(id)
    page = next(page for page in RESULT_PAGES if page.key == key)
    asked = request_selection()
    formula = selected_formula(profile, asked)
    if formula is None:
        asked = resolve_event_name(profile, asked)
    shown = formula if page.takes_formulas else None
    selection = asked if shown else use_lead_event(profile, asked)
    names = get_strings(profile.events, "name")
    main = profile.meta.main_event if profile.meta.main_event in names else (names[0] if names else "")
    event = selection.event or main or ""
    place = names.index(event) if event and shown is None else None
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
        asked=asked,
        event=event,
        unit=display_unit(shown)
        if shown
        else get_strings(profile.events, "unit")[place]
        if place is not None
        else "count",
        formula=shown,
        lead=names[shown.lead] if shown else "",
        formula_note=_explain_formula(profile, formula, page, asked, event) if formula else "",
        measure=shown.formula.expression
        if shown
        else ""
        if not page.shows_event or (page.shows_all_events and selection.event is None and len(names) > 1)
        else measure_text(profile, event),
        tabs=tuple(
            PageLink(tab.key, tab.title, result_url(id, tab.key, asked), tab.key == key)
            for tab in RESULT_PAGES
            if tab.has_data(profile) or tab.key == key
        ),
        events=_events(names, None if page.shows_all_events else main, selection, selecting)
        if page.shows_event
        else (),
        formulas=formula_links(list_page_formulas(profile, key, shown), selection, selecting)
        if page.takes_formulas
        else (),
        time_units=time_unit_links(profile),
        chips=selection_chips(asked, selecting),
        reset=selecting(Selection(event=asked.event)),
        page_params=own,
        kept_params=selection.replace(event=None).to_query() + own,
        loss_note=loss_impact_of(profile).note,
        time_note=explain_backward_times(profile) if key in TIME_PAGES else "",
        has_data=page.has_data(profile),
        saved=tuple(
            PageLink(saved.name, saved.name, selecting(saved.selection), saved.selection == asked)
            for saved in store.selections.list(id)
        ),
    )
    return frame, profile
