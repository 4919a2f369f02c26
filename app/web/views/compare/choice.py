"""The choice of the two results of a comparison."""

from dataclasses import dataclass
from typing import ClassVar

from flask import request
from werkzeug.wrappers import Response

from ....domain.errors import InvalidRequest
from ....domain.units import format_utc, format_utc_iso
from ....store import Result
from ...rendering import Page, render
from ...services import current_services

PICK_LIMIT = 200


@dataclass(frozen=True)
class ResultChoice:
    """A result that can be chosen. recorded: time, "" if unknown; created: when it was stored."""

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
    choices: tuple[ResultChoice, ...]
    search: str
    base: str
    other: str
    total: int


def find_pair() -> tuple[str, str] | None:
    """(base, other) of the results ticked in the list, the older one first; None if none was."""
    ids = list(dict.fromkeys(request.args.getlist("result")))
    if not ids:
        return None
    if len(ids) > 2:
        raise InvalidRequest(
            f"Select two results to compare, not {len(ids)}. Further runs are added on the page Verdicts.", "result"
        )
    results = [current_services().store.results.get(id) for id in ids]
    # If the recording time of any is unknown, they are sorted by when they were stored.
    known = all(result.recorded is not None for result in results)
    found = sorted(results, key=lambda result: (result.recorded or 0.0 if known else 0.0, result.created))
    return ("" if len(found) == 1 else found[0].id), found[-1].id


def describe_choice(result: Result, *, is_base: bool = False, is_other: bool = False) -> ResultChoice:
    """What the page shows of a result that can be chosen."""
    return ResultChoice(
        id=result.id,
        name=result.name,
        about=" · ".join(part for part in (result.host, result.command) if part),
        recorded_text=format_utc(result.recorded) if result.recorded is not None else "",
        recorded_iso=format_utc_iso(result.recorded) if result.recorded is not None else "",
        created_text=format_utc(result.created),
        created_iso=format_utc_iso(result.created),
        is_base=is_base,
        is_other=is_other,
    )


def render_choice() -> Response:
    """The page `/compare` while one of the two is missing."""
    search = request.args.get("search", "")
    base, other = request.args.get("base", ""), request.args.get("other", "")
    found, total = current_services().store.results.search(search, limit=PICK_LIMIT)
    return render(
        PickPage(
            choices=tuple(
                describe_choice(result, is_base=result.id == base, is_other=result.id == other) for result in found
            ),
            search=search,
            base=base,
            other=other,
            total=total,
        )
    )
