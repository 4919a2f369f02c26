"""/results/merge: results that were imported one by one, but are ranks of one run, become one result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from flask import Blueprint, flash, redirect, request
from werkzeug.wrappers import Response

from ....domain.errors import Conflict, PerfloomError
from ....domain.units import Quantity, format_quantity
from ....ingest.rank_names import RankSet, rank_family, recognize_ranks
from ....readers import format_title
from ....store import Result
from ....store.files.originals import Original
from ...pages import result_url, with_query
from ...rendering import Page, render
from ...services import current_services
from ..imports import import_stored

blueprint = Blueprint("merge", __name__)
MAX_RESULTS = 1000
SEARCHED_RESULTS = 200
"""So many of the newest results are searched for other ranks."""


@dataclass(frozen=True)
class MergeOffer:
    """Results that look like ranks of one run. count: of all, this one included. url: where they are merged."""

    text: str
    count: int
    url: str


@dataclass(frozen=True)
class MergeRow:
    """A result to be merged. rank: as recorded, empty if it is not known."""

    id: str
    name: str
    url: str
    rank: str
    files: tuple[str, ...]
    format: str
    host: str
    size: Quantity


@dataclass(frozen=True)
class MergePage(Page):
    """`/results/merge`. rows: in the order of the ranks. order: where that is from, a sentence. warnings: why they may
    not be one run. error: why they cannot be merged, empty if they can."""

    template: ClassVar[str] = "results/merge.html"
    rows: tuple[MergeRow, ...]
    name: str
    order: str
    warnings: tuple[str, ...]
    error: str


@blueprint.get("/results/merge")
def confirm() -> Response:
    """List the results with what speaks for and against one run. result: an id, at least two."""
    results = [current_services().store.results.get(id) for id in _ids(request.args.getlist("result"))]
    if len(results) < 2:
        flash("Select at least two results in the list to merge them.", "warn")
        return redirect("/", 303)
    ranks = {result.id: _recorded_ranks(result) for result in results}
    results, order, known = _sort(results, ranks)
    page = MergePage(
        rows=tuple(
            MergeRow(
                id=result.id,
                name=result.name,
                url=result_url(result.id),
                rank=_format_ranks(ranks[result.id]),
                files=tuple(file.name for file in result.originals),
                format=format_title(result.format),
                host=result.host,
                size=format_quantity(sum(file.bytes for file in result.originals), "bytes"),
            )
            for result in results
        ),
        name=known.name if known else f"{results[0].name} and {len(results) - 1} more",
        order=order,
        warnings=_warnings(results, ranks),
        error=_missing_files(results),
    )
    return render(page)


@blueprint.post("/results/merge")
def merge() -> Response:
    """Read the files of these results again, as the ranks of one run in this order, into a new result. name: of it."""
    store = current_services().store
    results = [store.results.get(id) for id in _ids(request.form.getlist("result"))]
    if len(results) < 2:
        raise Conflict("Select at least two results to merge them.")
    error = _missing_files(results)
    if error:
        raise Conflict(error)
    files: list[Original] = [file for result in results for file in store.results.original(result.id)]
    name = " ".join(request.form.get("name", "").split()) or f"{results[0].name} and {len(results) - 1} more"
    return redirect(f"/jobs/{import_stored(files, name).id}", 303)


def find_merge_offer(result: Result) -> MergeOffer | None:
    """Other results whose files look like further ranks of the run that `result` is a rank of; None without any."""
    names = [file.name for file in result.originals]
    family = rank_family(names[0]) if len(names) == 1 else ""
    if not family:
        return None
    found, _ = current_services().store.results.search(limit=SEARCHED_RESULTS, format=result.format)
    by_name = {names[0]: result}
    # The newest of several imports of one file comes first.
    for other in found:
        if len(other.originals) != 1 or other.id == result.id or other.command != result.command:
            continue
        name = other.originals[0].name
        if name not in by_name and rank_family(name) == family and recognize_ranks((names[0], name)) is not None:
            by_name[name] = other
    ranks = recognize_ranks(list(by_name))
    if ranks is None:
        return None
    ordered = [list(by_name.values())[at] for at in ranks.order]
    count = len(ordered) - 1
    others = "Another result looks like a rank" if count == 1 else f"{count} other results look like ranks"
    return MergeOffer(
        f"{others} of the same run. {ranks.reason}",
        len(ordered),
        with_query("/results/merge", [("result", one.id) for one in ordered]),
    )


def _ids(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))[:MAX_RESULTS]


def _sort(results: list[Result], ranks: dict[str, tuple[int, ...]]) -> tuple[list[Result], str, RankSet | None]:
    """(the results by rank, where the order is from, the ranks in their names)."""
    known = recognize_ranks([" ".join(file.name for file in result.originals) for result in results])
    single = [ranks[result.id][0] for result in results if len(ranks[result.id]) == 1]
    if len(set(single)) == len(results):
        return sorted(results, key=lambda result: ranks[result.id]), "The files contain their ranks.", known
    if known is not None:
        return [results[at] for at in known.order], known.reason, known
    return results, "Not every file or name contains a different rank, so ranks are numbered in this order.", None


def _warnings(results: Sequence[Result], ranks: dict[str, tuple[int, ...]]) -> tuple[str, ...]:
    found = []
    for word, values in (
        ("formats", {format_title(result.format) for result in results}),
        ("commands", {result.command for result in results}),
    ):
        if len(values) > 1:
            found.append(f"They have different {word}, so they are probably not of one run.")
    every = [rank for result in results for rank in ranks[result.id]]
    twice = sorted({rank for rank in every if every.count(rank) > 1})
    if twice:
        shown = ", ".join(map(str, twice[:5])) + (" …" if len(twice) > 5 else "")
        found.append(f"More than one of them contains rank {shown}, so they are probably of different runs.")
    return tuple(found)


def _missing_files(results: Sequence[Result]) -> str:
    """Why they cannot be read again."""
    store = current_services().store.results
    gone = [
        result.name
        for result in results
        if not result.originals or len(store.original(result.id)) < len(result.originals)
    ]
    if not gone:
        return ""
    more = f" and of {len(gone) - 1} more" if len(gone) > 1 else ""
    return f"The files of “{gone[0]}”{more} are no longer stored. Import all files together instead."


def _recorded_ranks(result: Result) -> tuple[int, ...]:
    """The ranks of its threads, sorted; empty if none are recorded, or if it cannot be read."""
    try:
        threads = current_services().store.results.open(result.id).threads
    except PerfloomError:
        return ()
    return tuple(sorted(threads.column("rank").unique().drop_null().to_pylist()))


def _format_ranks(ranks: Sequence[int]) -> str:
    if len(ranks) <= 1:
        return str(ranks[0]) if ranks else ""
    return f"{len(ranks)} ranks, {ranks[0]} to {ranks[-1]}"
