"""Results as the database stores them."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..domain.errors import InvalidRequest
from ..domain.event_names import is_unobservable
from ..domain.meta import Meta
from ..ingest.profile_upgrade import has_perf_events, normalize_event_names, set_main_event
from .event_total import EventTotal
from .models.base import storable
from .models.results import ResultRow

MAX_NAME = 300
MAX_NOTES = 100_000
MAX_TAG = 60
MAX_TAGS = 50


@dataclass(frozen=True)
class OriginalFile:
    """A file that a result was read from. bytes: of the original. settled: compressed, or not compressible."""

    name: str
    bytes: int
    settled: bool = False


@dataclass(frozen=True)
class Result:
    """A row of the list of results. created, recorded: when it was stored and when its recording started (None:
    unknown), seconds since the epoch. bytes: on disk, with the originals.

    complete: false if the recording is incomplete; `reasons` has the reasons. missing: whether its files are missing.
    """

    id: str
    job_id: str | None
    name: str
    format: str
    created: float
    recorded: float | None
    bytes: int
    meta: Meta
    events: tuple[EventTotal, ...]
    samples: int
    threads: int
    duration_ns: int | None
    host: str
    command: str
    complete: bool
    reasons: tuple[str, ...]
    originals: tuple[OriginalFile, ...]
    tags: tuple[str, ...]
    notes: str
    missing: bool


def normalize_name(text: str) -> str:
    """A normalized name of a result or preset. Raises InvalidRequest if it is empty."""
    name = " ".join(_printable(text).split())
    if not name:
        raise InvalidRequest("The name is empty; enter at least one letter.", "name")
    if len(name) > MAX_NAME:
        raise InvalidRequest(f"The name is longer than {MAX_NAME} characters; shorten it.", "name")
    return name


def normalize_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Normalized tags: trimmed, without duplicates (ignoring case), in the given order. Raises InvalidRequest."""
    by_key: dict[str, str] = {}
    for text in tags:
        tag = " ".join(_printable(text).replace(",", " ").split())
        if len(tag) > MAX_TAG:
            raise InvalidRequest(f"The tag {tag[:20]!r}… is longer than {MAX_TAG} characters; shorten it.", "tags")
        if tag:
            by_key.setdefault(casefold_text(tag), tag)
    if len(by_key) > MAX_TAGS:
        raise InvalidRequest(f"A result can have at most {MAX_TAGS} tags; leave some out.", "tags")
    return tuple(by_key.values())


def normalize_notes(text: str) -> str:
    """Normalized notes. Raises InvalidRequest if they are too long."""
    notes = storable(text.replace("\r\n", "\n")).strip()
    if len(notes) > MAX_NOTES:
        raise InvalidRequest(f"The notes are longer than {MAX_NOTES} characters; shorten them.", "notes")
    return notes


def casefold_text(text: str) -> str:
    """`text` for a case-insensitive comparison."""
    return unicodedata.normalize("NFKC", storable(text).casefold())


def search_text(row: ResultRow, tags: Iterable[str]) -> str:
    """All searchable text, case folded; in separate lines, so that no match spans two fields."""
    return casefold_text("\n".join((row.name, row.command, row.host, row.notes, *tags, row.id)))


def result_from_row(row: ResultRow, tags: Iterable[str]) -> Result:
    """The Result of a row."""
    meta, events = Meta.from_json(row.meta), tuple(EventTotal(**total) for total in row.events)
    if has_perf_events(meta):
        # An earlier version may have written it.
        names = [name for name, _ in normalize_event_names(meta, [event.name for event in events])]
        events = tuple(
            replace(each, name=name, total=None if not each.total and is_unobservable(name) else each.total)
            for each, name in zip(events, names, strict=True)
        )
        meta = set_main_event(meta, names)
    return Result(
        id=row.id,
        job_id=row.job_id,
        name=row.name,
        format=row.format,
        created=row.created,
        recorded=row.recorded,
        bytes=row.bytes,
        meta=meta,
        events=events,
        samples=row.samples,
        threads=row.threads,
        duration_ns=row.duration_ns,
        host=row.host,
        command=row.command,
        complete=row.complete,
        reasons=tuple(row.reasons),
        originals=tuple(OriginalFile(**original) for original in row.originals),
        tags=tuple(tags),
        notes=row.notes,
        missing=row.missing,
    )


def _printable(text: str) -> str:
    return storable(re.sub(r"[\x00-\x1f\x7f\u2028\u2029\u202a-\u202e\u2066-\u2069]", " ", text))
