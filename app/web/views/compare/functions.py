"""/compare: what grew, shrank, appeared and vanished between two results, as a table and as a differential graph."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint, redirect, request
from werkzeug.wrappers import Response

from ....analysis.compare.counts import has_counts, only_counted
from ....analysis.compare.functions import BY, COLUMNS, FEW_SAMPLES, STATUSES, differences, unknown_values
from ....analysis.compare.matching import main_pair, paired_events
from ....analysis.compare.tables import COMPARED, has
from ....analysis.core.functions import last_part
from ....analysis.core.picking import event_names
from ....analysis.nsight.matching import sides_of
from ....domain.errors import InvalidRequest
from ....domain.profile import Profile
from ....domain.selection import Selection, flag
from ....domain.tables import texts
from ....domain.units import UNIT_WORD, Quantity, percent, quantity, utc_iso, utc_text
from ....store import Result
from ...pages import Chip, Pairs, chips, result_url, with_query
from ...rendering import Page, render
from ...services import services
from ..results.flame_words import PAGE_POLICY
from ..results.frame import Link, measure, own_words, selected, time_units
from ..results.sheets import Bar as RowBar
from ..results.sheets import Sheet, Shown, sheet, words
from ..results.tables import FILE, Order, asked_order, asked_search, here, keep_matching, rows_asked, table_file
from .flamegraph import Difference, difference

blueprint = Blueprint("compare", __name__)
MEASURES = ("self", "total")
SCALES = (("", "Normalized"), ("0", "Absolute"))
STATUS_WORDS = {FEW_SAMPLES: "few samples"}
PICK_LIMIT = 200
FRAMES_OF_A_STACK = 8


@dataclass(frozen=True)
class Choice:
    """A result that can be chosen. recorded: when, "" where that is not known; created: when it was stored."""

    id: str
    name: str
    about: str
    recorded_text: str
    recorded_iso: str
    created_text: str
    created_iso: str
    is_base: bool
    is_other: bool


@dataclass(frozen=True)
class PickPage(Page):
    """`/compare` while one of the two is missing."""

    template: ClassVar[str] = "compare/pick.html"
    choices: tuple[Choice, ...]
    search: str
    base: str
    other: str
    total: int


@dataclass(frozen=True)
class Side:
    """One of the two."""

    title: str
    id: str
    name: str
    url: str
    change: str
    total: Quantity
    complete: bool


@dataclass(frozen=True)
class Bar:
    """The bar of the selection, which holds for both: see results/_selection.html."""

    selection: Selection
    event: str
    unit: str
    measure: str
    events: tuple[Link, ...]
    time_units: tuple[Link, ...]
    chips: tuple[Chip, ...]
    reset: str
    own: Pairs
    carried: Pairs


@dataclass(frozen=True)
class ComparePage(Page):
    """`/compare?base=&other=`."""

    template: ClassVar[str] = "compare/compare.html"
    base: Side
    other: Side
    swap: str
    bar: Bar
    difference: Difference
    normalise: bool
    by: str
    summary: str
    tabs: tuple[Link, ...]
    scales: tuple[Link, ...]
    measures: tuple[Link, ...]
    kinds: tuple[Link, ...]
    statuses: tuple[Link, ...]
    sheet: Sheet
    csv: str


@dataclass(frozen=True)
class _Asked:
    """What is compared, and how. Raises in `_asked` for words that cannot be used."""

    base: Result
    other: Result
    base_profile: Profile
    other_profile: Profile
    selection: Selection
    event: int
    base_event: int
    by: str
    measure: str
    normalise: bool
    status: str
    guessed: bool

    @property
    def delta(self) -> str:
        return f"delta_{self.measure}_percent" if self.guessed else f"delta_{self.measure}"


@blueprint.get("/compare")
def show() -> Response:
    """The comparison, or the choice of what to compare."""
    pair = _pair()
    if pair is not None:
        rest = [(k, v) for k, v in request.args.items(multi=True) if k not in ("result", "base", "other")]
        return redirect(with_query("/compare", [("base", pair[0]), ("other", pair[1]), *rest]), 303)
    if not (request.args.get("base") and request.args.get("other")):
        return _pick()
    profiles = [services().store.results.open(request.args[word]) for word in ("base", "other")]
    if any(only_counted(profile) for profile in profiles):
        # What was counted has no functions.
        words = [(k, v) for k, v in request.args.items(multi=True) if k in _kept_words()]
        return redirect(with_query("/compare/counts", words), 303)
    asked = _asked()
    everything = _rows(asked)
    order = _order(asked)
    rows = _sorted(asked, _narrowed(asked, everything), order)
    unit = texts(asked.other_profile.events, "unit")[asked.event] if asked.event >= 0 else "count"
    totals = [
        _total(profile, result, event)
        for profile, result, event in (
            (asked.base_profile, asked.base, asked.base_event),
            (asked.other_profile, asked.other, asked.event),
        )
    ]
    response = render(
        ComparePage(
            base=sided("Base", "base", asked.base, quantity(totals[0], unit)),
            other=sided("Other", "other", asked.other, quantity(totals[1], unit)),
            swap=here(("base", asked.other.id), ("other", asked.base.id), ("page", None)),
            bar=_bar(asked, unit),
            difference=difference(),
            normalise=asked.normalise,
            by=asked.by,
            summary=_summary(asked, totals),
            tabs=tabs((asked.base_profile, asked.other_profile), ""),
            scales=_links("normalise", SCALES[: 1 if asked.guessed else 2], "" if asked.normalise else "0"),
            measures=_links("of", (("", "Self"), ("total", "Total")), asked.measure if asked.measure != "self" else ""),
            kinds=_links(
                "by", (("", "By function"), ("stack", "By stack")), asked.by if asked.by != "function" else ""
            ),
            statuses=statuses(everything, asked.status),
            sheet=sheet(
                "Differences",
                rows,
                _columns(asked, unit),
                order,
                noun=asked.by,
                bar=change_bar(rows, asked.delta),
                bar_label="Of the greatest change",
                wide=False,
            ),
            csv=here(("page", None)).replace("/compare", "/compare.csv", 1),
        )
    )
    response.headers["Content-Security-Policy"] = PAGE_POLICY
    return response


@blueprint.get(f"/compare.{FILE}")
def as_file(form: str) -> Response:
    """All rows that status and search leave, in the order of the page; columns as `perfloom diff` names them, the
    status that of the measure shown."""
    asked = _asked()
    rows = _sorted(asked, _narrowed(asked, _rows(asked)), _order(asked))
    return table_file(f"{asked.base.name} to {asked.other.name}", form, rows, COLUMNS)


@blueprint.get("/api/v1/compare")
def as_json() -> Response:
    """The table as a list of objects. base, other: ids; by=function|stack; normalise=1|0; words of a selection.
    format=csv|parquet: as a file."""
    asked = _asked()
    return rows_asked(f"{asked.base.name} to {asked.other.name}", _narrowed(asked, _rows(asked)), COLUMNS)


def _pair() -> tuple[str, str] | None:
    """(base, other) of the results ticked in the list, the older one first; None where none was."""
    ids = list(dict.fromkeys(request.args.getlist("result")))
    if not ids:
        return None
    if len(ids) > 2:
        raise InvalidRequest(f"Two results can be compared, and {len(ids)} were ticked; tick two.", "result")
    ticked = [services().store.results.get(id) for id in ids]
    # Those of which it is not known when they were recorded go by when they were stored.
    known = all(result.recorded is not None for result in ticked)
    found = sorted(ticked, key=lambda result: (result.recorded or 0.0 if known else 0.0, result.created))
    return ("" if len(found) == 1 else found[0].id), found[-1].id


def _pick() -> Response:
    search = request.args.get("search", "")
    base, other = request.args.get("base", ""), request.args.get("other", "")
    found, total = services().store.results.search(search, limit=PICK_LIMIT)
    return render(
        PickPage(
            choices=tuple(
                Choice(
                    id=result.id,
                    name=result.name,
                    about=" · ".join(part for part in (result.host, result.command) if part),
                    recorded_text=utc_text(result.recorded) if result.recorded is not None else "",
                    recorded_iso=utc_iso(result.recorded) if result.recorded is not None else "",
                    created_text=utc_text(result.created),
                    created_iso=utc_iso(result.created),
                    is_base=result.id == base,
                    is_other=result.id == other,
                )
                for result in found
            ),
            search=search,
            base=base,
            other=other,
            total=total,
        )
    )


def _asked() -> _Asked:
    results = services().store.results
    base, other = (results.get(request.args.get(word, "")) for word in ("base", "other"))
    base_profile, other_profile = results.open(base.id), results.open(other.id)
    selection = selected()
    by, measure = request.args.get("by") or "function", request.args.get("of") or "self"
    status = request.args.get("status", "")
    for word, value, known in (("by", by, BY), ("of", measure, MEASURES), ("status", status or "same", STATUSES)):
        if value not in known:
            raise InvalidRequest(f"{word} is one of {', '.join(known)}, not {value[:40]!r}.", word)
    before, after = main_pair(base_profile, other_profile, selection, selection)
    guessed = bool(unknown_values(base_profile, other_profile, before, after))
    return _Asked(
        base=base,
        other=other,
        base_profile=base_profile,
        other_profile=other_profile,
        selection=selection,
        event=after,
        base_event=before,
        by=by,
        measure=measure,
        normalise=flag("normalise", request.args.get("normalise") or "1") or guessed,
        status=status,
        guessed=guessed,
    )


def _rows(asked: _Asked) -> pd.DataFrame:
    chosen = asked.selection
    if asked.event >= 0:
        chosen = chosen.only(event=event_names(asked.other_profile)[asked.event])
    return differences(
        asked.base_profile, asked.other_profile, chosen, chosen, asked.by, asked.normalise, asked.measure
    )


def _narrowed(asked: _Asked, rows: pd.DataFrame) -> pd.DataFrame:
    if asked.status:
        rows = rows[rows["status"] == asked.status]
    return keep_matching(rows, asked_search(), ("name", "module"))


def _sorted(asked: _Asked, rows: pd.DataFrame, order: Order) -> pd.DataFrame:
    sides = {"change": "delta", "base": "base", "other": "other"}
    column = asked.delta.replace("delta", sides[order.column], 1) if order.column in sides else order.column
    return rows.sort_values(
        column,
        ascending=not order.descending,
        kind="stable",
        key=(lambda values: values.abs()) if order.column == "change" else None,
    )


def _order(asked: _Asked) -> Order:
    return asked_order(words(_columns(asked, "")), "-change")


def _columns(asked: _Asked, unit: str) -> tuple[Shown, ...]:
    suffix = f"{asked.measure}_percent" if asked.normalise else asked.measure
    what = "share of the whole" if asked.normalise else "weight"
    unit = "percent" if asked.normalise else unit
    return (
        Shown("name", "Function", "name")
        if asked.by == "function"
        else Shown("name", "Stack", "name", short=_innermost, unit_label="innermost first"),
        Shown("module", "Module", "text", short=last_part),
        status_column(),
        Shown(f"base_{suffix}", "Base", "value", f"Its {what} in the base", "weight", unit=unit, sort="base"),
        Shown(f"other_{suffix}", "Other", "value", f"Its {what} in the other", "weight", unit=unit, sort="other"),
        Shown(
            f"delta_{suffix}",
            "Change",
            "value",
            "Other less base; sorted by size, whichever way it went",
            "weight",
            unit=unit,
            unit_label="points" if asked.normalise else None,
            sort="change",
            signed=True,
            tone=change_tone(asked.delta),
        ),
    )


def _innermost(stack: str) -> str:
    """The innermost functions of a stack, the innermost first: by them stacks are told apart, and a name too long for
    its column is cut at its end."""
    frames = stack.split(";")[::-1]
    return " ← ".join([*frames[:FRAMES_OF_A_STACK], *["…"][: len(frames) > FRAMES_OF_A_STACK]])


def status_column() -> Shown:
    """What became of a row."""
    few = "Fewer than 30 samples on both sides do not tell a difference"
    return Shown(
        "status",
        "What",
        "status",
        short=lambda status: STATUS_WORDS.get(status, status),
        title=lambda row: few if row["status"] == FEW_SAMPLES else "",
    )


def change_tone(column: str) -> Callable[[dict[str, Any]], str]:
    """Makes the CSS class of a change from the column that tells which way it went."""

    def tone(row: dict[str, Any]) -> str:
        change = row[column] or 0
        return "faint" if row["status"] == FEW_SAMPLES else "more" if change > 0 else "less" if change < 0 else ""

    return tone


def change_bar(rows: pd.DataFrame, column: str) -> Callable[[dict[str, Any]], RowBar]:
    """Makes the bars of a column of changes, the greatest of which is the longest."""
    values = rows[column].abs()
    greatest = float(values.max()) if values.notna().any() else 0.0

    def bar(row: dict[str, Any]) -> RowBar:
        share = 100.0 * (row[column] or 0) / greatest if greatest else 0.0
        return RowBar(share, change=True, faint=row["status"] == FEW_SAMPLES)

    return bar


def _kept_words() -> set[str]:
    """The words of the address that every page of a comparison takes."""
    return {"base", "other", UNIT_WORD, *(word for word, _ in selected().only(event=None).to_query())}


def tabs(profiles: tuple[Profile, Profile], now: str) -> tuple[Link, ...]:
    """The pages of a comparison that both profiles have rows for; `now` "" is that of functions."""
    keep = [(k, v) for k, v in request.args.items(multi=True) if k in _kept_words()]
    found = (
        [] if any(only_counted(p) for p in profiles) else [Link("", "Functions", with_query("/compare", keep), not now)]
    )
    if any(has_counts(profile) for profile in profiles):
        found.append(Link("counts", "Counts", with_query("/compare/counts", keep), now == "counts"))
    for name, compared in COMPARED.items():
        if name == now or all(has(profile, name) for profile in profiles):
            found.append(Link(name, compared.title, with_query(f"/compare/{name}", keep), name == now))
    if sides_of(*profiles) is not None:
        found.append(Link("nsight", "Nsight Compute", with_query("/compare/nsight", keep), now == "nsight"))
    return tuple(found) if len(found) > 1 else ()


def sided(title: str, word: str, result: Result, total: Quantity) -> Side:
    """One of the two. word: base or other, as in the address."""
    return Side(
        title=title,
        id=result.id,
        name=result.name,
        url=result_url(result.id, selection=selected()),
        change=here((word, None), ("page", None)),
        total=total,
        complete=result.complete,
    )


def _total(profile: Profile, result: Result, event: int) -> int | float | None:
    """What a result has of the event in all, whatever is selected."""
    if event < 0:
        return None
    name = event_names(profile)[event]
    return next((total.total for total in result.events if total.name == name), None)


def _summary(asked: _Asked, totals: list[int | float | None]) -> str:
    before, after = totals
    if not before or after is None:
        return ""
    change = 100.0 * (after - before) / before
    name = event_names(asked.other_profile)[asked.event]
    if not change:
        return f"Both have the same {name} in all."
    # Right of what is counted, and of what is measured.
    return f"In all, {name} of the other: {percent(abs(change))} {'more' if change > 0 else 'less'} than of the base."


def _links(word: str, choices: tuple[tuple[str, str], ...], now: str) -> tuple[Link, ...]:
    return tuple(
        Link(value, label, here((word, value or None), ("page", None)), value == now) for value, label in choices
    )


def statuses(rows: pd.DataFrame, now: str) -> tuple[Link, ...]:
    """What became of rows, each with how many there are; `now`: the one shown alone."""
    counts = rows["status"].value_counts()
    return tuple(
        Link(
            status,
            f"{STATUS_WORDS.get(status, status)} {int(counts[status]):,}",
            here(("status", None if status == now else status), ("page", None)),
            status == now,
        )
        for status in STATUSES
        if status in counts
    )


def _bar(asked: _Asked, unit: str) -> Bar:
    own = own_words()
    names = event_names(asked.other_profile)

    def url(selection: Selection) -> str:
        return with_query("/compare", selection.to_query() + own)

    common = paired_events(
        asked.base_profile, asked.other_profile, asked.selection.only(event=None), asked.selection.only(event=None)
    )
    return Bar(
        selection=asked.selection,
        event=names[asked.event] if asked.event >= 0 else "",
        unit=unit,
        measure=measure(asked.other_profile, names[asked.event] if asked.event >= 0 else ""),
        events=tuple(
            Link(names[after], names[after], url(asked.selection.only(event=names[after])), after == asked.event)
            for _, after in common
        ),
        time_units=time_units(asked.other_profile),
        chips=chips(asked.selection, url),
        reset=url(Selection(event=asked.selection.event)),
        own=own,
        carried=asked.selection.only(event=None).to_query() + own,
    )
