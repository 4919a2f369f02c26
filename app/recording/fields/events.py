"""Events as users write them for `perf -e`, and the search in the events of a host."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...domain.errors import InvalidRequest
from ...domain.host_facts import PerfEvent
from ..recorders.events import split_event_list

OWN_GROUP = "own"
"""The group of events with own names."""
GROUPS = (OWN_GROUP, "hardware", "cache", "software", "tracepoint", "raw")
"""The groups that a page shows first, in this order; perf's other groups follow by name."""
_PLACEHOLDER = re.compile(r"rN+|.*(<\w+>|t1=v1|\[,|\[/).*")
"""Placeholders in `perf list` for a number or a term: rNNN, cpu/t1=v1[,t2=v2]/, mem:<addr>[/len]."""
_UNPAIRED = {
    "}": "“{}” closes a group that was not opened. Add a {{.",
    "/": "“{}” has one / too few or too many. Write an event of a PMU as pmu/terms/.",
    "{": "“{}” opens a group of events that is not closed. Add a }}.",
}
PAGE_ROWS = 60
"""Rows of one page of search results."""


def split_events(text: str) -> tuple[str, ...]:
    """The events of a text: one per line, or several separated by commas as for `perf -e`.

    A comma inside `pmu/…/` or `{…}` is a part of the event. Raises InvalidRequest if such a pair is not closed, and for
    a line of commas.
    """
    return tuple(event for line in text.splitlines() for event in _split_line(line))


def split_event_lists(events: Iterable[str]) -> tuple[str, ...]:
    """The single events of a list in which an element may have several, separated by commas, as for perf's `-e`.
    Invalid elements are unchanged; see `event_problem`."""
    found: list[str] = []
    for event in events:
        try:
            found += split_event_list(event) or [event]
        except ValueError:
            found.append(event)
    return tuple(found)


def _split_line(line: str) -> list[str]:
    try:
        events = split_event_list(line)
    except ValueError as error:
        sign, text = error.args
        raise InvalidRequest(_UNPAIRED[sign].format(text)) from None
    if line.strip() and not events:
        raise InvalidRequest(f"“{line.strip()[:40]}” has no event. Enter names of events, or leave the list empty.")
    return events


def event_problem(event: str) -> str | None:
    """The error in the text of one event, or None. The preflight checks whether a host supports it."""
    if not event.strip():
        return "An event has no name. Enter its name, or remove it from the list."
    if event.startswith("-"):
        return f"“{event}” starts with a hyphen, like an option. Write only the name of the event."
    if _PLACEHOLDER.fullmatch(event):
        return f"“{event}” is a pattern. Insert numbers, as in r01c4, cpu/event=0x3c,umask=1/ or mem:0x1000:rw."
    if not event.isprintable() or any(character.isspace() for character in event):
        return f"“{event}” contains a space or a control character. Write one event per line, without spaces."
    try:
        parts = split_events(event)
    except InvalidRequest as error:
        return error.message
    return None if parts == (event,) else f"“{event}” is more than one event. List each one separately."


@dataclass(frozen=True)
class EventMatches:
    """One page of search results. total: of this group or of all; groups: (name, matches) of all groups."""

    rows: tuple[PerfEvent, ...]
    total: int
    groups: tuple[tuple[str, int], ...]
    offset: int = 0

    @property
    def next_offset(self) -> int | None:
        """Where the next page starts."""
        after = self.offset + len(self.rows)
        return after if after < self.total else None


@dataclass(frozen=True)
class EventIndex:
    """A search index of a host's events: lower-case names and texts, in display order."""

    events: tuple[PerfEvent, ...]
    names: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, events: Iterable[PerfEvent]) -> "EventIndex":
        """Groups in the order of GROUPS, and within a group as perf lists them."""
        place = {group: number for number, group in enumerate(GROUPS)}
        ordered = sorted(events, key=lambda event: (place.get(event.group, len(place)), event.group))
        names = tuple(event.name.lower() for event in ordered)
        texts = tuple(f"{event.name} {event.description}".lower() for event in ordered)
        return cls(tuple(ordered), names, texts)

    def search(self, query: str = "", group: str = "", offset: int = 0, limit: int = PAGE_ROWS) -> EventMatches:
        """Events that contain every word of the query in name or description: those whose name starts with the query
        first, then those with all words in the name, then the others; without a query all of them.
        """
        words = query.lower().split()
        rows = [row for row, text in enumerate(self.texts) if all(word in text for word in words)]
        groups = Counter(self.events[row].group for row in rows)
        if group:
            rows = [row for row in rows if self.events[row].group == group]
        if words:
            rows.sort(key=lambda row: self._rank(row, words))
        events = tuple(self.events[row] for row in rows[offset : offset + limit])
        return EventMatches(events, len(rows), tuple(groups.items()), offset)

    def _rank(self, row: int, words: Sequence[str]) -> int:
        name = self.names[row]
        if name == words[0]:
            return 0
        if name.startswith(words[0]):
            return 1
        return 2 if all(word in name for word in words) else 3
