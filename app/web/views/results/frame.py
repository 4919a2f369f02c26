"""What all pages of a result have in common: its name, its tabs, and the bar of the selection."""

from collections.abc import Callable
from dataclasses import dataclass

from flask import request

from ....analysis.core.affected import affected
from ....analysis.core.measured import counted_events, guessed_events
from ....analysis.core.picking import with_event_name
from ....domain.event_names import SAMPLED_ONLY
from ....domain.profile import Profile
from ....domain.selection import WORDS, Selection
from ....domain.tables import texts
from ....domain.units import TIME_UNITS, UNIT_WORD, chosen_time_unit
from ....store import Result
from ...pages import RESULT_PAGES, Chip, Pairs, chips, result_url
from ...services import services
from .tables import here


@dataclass(frozen=True)
class Link:
    """A link that may be the present place."""

    key: str
    label: str
    url: str
    current: bool


@dataclass(frozen=True)
class Frame:
    """Around every page of a result.

    key: of the page shown. narrows: whether there is something that a selection picks. selection: as asked for. event,
    unit: those that hold (the main event, where none was asked for), event empty where the result has none. measure:
    what its numbers are, in words. own: the words of the present page alone. carried: everything of the query but the
    event, for the form that switches it. time_units: to write times in, empty where there are none. affected: what is
    to be said of all figures because something was not read, empty where there is nothing.
    """

    id: str
    name: str
    result: Result
    key: str
    narrows: bool
    selection: Selection
    event: str
    unit: str
    measure: str
    tabs: tuple[Link, ...]
    events: tuple[Link, ...]
    time_units: tuple[Link, ...]
    chips: tuple[Chip, ...]
    reset: str
    own: Pairs
    carried: Pairs
    affected: str

    def url(self, key: str | None = None, selection: Selection | None = None, *extra: tuple[str, str]) -> str:
        """A page of this result under a selection (by default the present one). key None: the page shown."""
        return result_url(
            self.id, self.key if key is None else key, self.selection if selection is None else selection, list(extra)
        )

    def narrowed(self, key: str | None, **changes: object) -> str:
        """A page of this result with the present selection changed."""
        return self.url(key, self.selection.only(**changes))


def _events(
    names: list[str], main: str | None, selection: Selection, here: Callable[[Selection], str]
) -> tuple[Link, ...]:
    """The events to switch between. main: the one that holds where none is asked for, None where all do."""
    now = selection.event or main or (names[0] if len(names) == 1 else None)
    links = [
        Link(name, name, here(selection.only(event=None if name == main else name)), name == now) for name in names
    ]
    if main is None and len(names) > 1:
        links.insert(0, Link("", "All events", here(selection.only(event=None)), now is None))
    return tuple(links)


def time_units(profile: Profile) -> tuple[Link, ...]:
    """The units to write times in, to switch between on the present page; none for a result without times."""
    if not profile.meta.duration_ns and "ns" not in texts(profile.events, "unit"):
        return ()
    now, units = chosen_time_unit(), {"": "Auto"} | {word: label for word, (label, _) in TIME_UNITS.items()}
    return tuple(Link(word, label, here((UNIT_WORD, word)), word == now) for word, label in units.items())


def measure(profile: Profile, event: str) -> str:
    """What the numbers of an event are, in words; empty for no event."""
    place = texts(profile.events, "name").index(event) if event else None
    if place is None:
        return ""
    if not profile.events.column("weighted")[place].as_py():
        return "samples, no period was recorded"
    if place in guessed_events(profile):
        return "shares of samples, total counted" if place in counted_events(profile) else SAMPLED_ONLY
    unit = profile.events.column("unit")[place].as_py()
    return {"ns": "time", "count": "events counted"}.get(unit, str(unit))


def own_words() -> Pairs:
    """The words of the present page alone, to be kept under another selection. A page of a table or a frame that was
    zoomed to would not be the same there."""
    passing = ("page", "zoom", "zoom-callers", "zoom-callees")
    return [(k, v) for k, v in request.args.items(multi=True) if k not in WORDS and k not in passing]


def selected() -> Selection:
    """The selection of the present request."""
    return Selection.from_query(request.args.to_dict(flat=False))


def open_frame(id: str, key: str) -> tuple[Frame, Profile]:
    """The frame of page `key` of a result and its profile. Raises NotFound, and InvalidRequest for a bad selection."""
    store = services().store
    result, profile = store.results.get(id), store.results.open(id)
    selection = with_event_name(profile, selected())
    names = texts(profile.events, "name")
    main = profile.meta.main_event if profile.meta.main_event in names else (names[0] if names else "")
    event = selection.event or main or ""
    place = names.index(event) if event else None
    page = next(page for page in RESULT_PAGES if page.key == key)
    own = own_words()

    def selecting(changed: Selection) -> str:
        return result_url(id, key, changed, own)

    frame = Frame(
        id=id,
        name=result.name,
        result=result,
        key=key,
        narrows=page.narrows and (bool(event) or profile.counters.num_rows > 0),
        selection=selection,
        event=event,
        unit=texts(profile.events, "unit")[place] if place is not None else "count",
        measure=""
        if not page.by_event or (page.all_events and selection.event is None and len(names) > 1)
        else measure(profile, event),
        tabs=tuple(
            Link(tab.key, tab.title, result_url(id, tab.key, selection), tab.key == key)
            for tab in RESULT_PAGES
            if tab.has_data(profile) or tab.key == key
        ),
        events=_events(names, None if page.all_events else main, selection, selecting) if page.by_event else (),
        time_units=time_units(profile),
        chips=chips(selection, selecting),
        reset=selecting(Selection(event=selection.event)),
        own=own,
        carried=selection.only(event=None).to_query() + own,
        affected=affected(profile).note,
    )
    return frame, profile
