"""/results/<id>/memory: curves of a device's memory, and its blocks by operator, by what lives when, and one by one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.core.schema import records
from ....analysis.core.slice_selection import has_operators
from ....analysis.memory.allocations import (
    compute_memory,
    compute_memory_events,
    compute_memory_operators,
    group_live_blocks,
    has_operator_allocations,
)
from ....analysis.memory.blocks import (
    block_categories,
    block_sources,
    build_allocation_rows,
    find_block_peak,
    has_blocks,
    has_paired_frees,
    live_blocks,
    search_blocks,
    select_blocks,
    sort_blocks,
    unfreed_blocks,
)
from ....analysis.memory.curves import DeviceMemory, categories_of, find_device_memory, select_device_memories
from ....domain.errors import InvalidRequest
from ....domain.memory import get_peak_event
from ....domain.profile import Profile
from ....domain.selection import Selection
from ....domain.tables import get_strings
from ....domain.units import MISSING, NS_PER_US, format_duration, format_quantity
from ...rendering import Page, render
from ..results.result_frame import PageLink, ResultFrame, open_result_frame
from ..results.sheets import ColumnView, Sheet, build_headings, build_rows, build_sheet, column_scales, filter_and_sort
from ..results.tables import (
    FILE_RULE,
    PAGE_SIZE,
    build_pager,
    current_url_with,
    parse_order,
    parse_page,
    parse_search,
    table_file_response,
)
from .memory_chart import MemoryChart, build_memory_chart

blueprint = Blueprint("memory", __name__)
TABLE_LABELS = {
    "operators": "By operator",
    "live": "Live at the peak",
    "unfreed": "Never freed",
    "allocations": "Allocations",
}
GROUPING_LABELS = {"operator": "By operator", "source": "By function", "category": "By category", "block": "Each block"}
OPERATOR_COLUMNS = (
    ColumnView("name", "Operator", "name"),
    ColumnView("calls", "Calls", "count", "How often it was called"),
    ColumnView(
        "self_growth_bytes", "Self growth", "bytes", "Allocated less freed in it, and in no operator inside", "growth"
    ),
    ColumnView("growth_bytes", "Growth", "bytes", "Allocated less freed while it ran", "growth"),
    ColumnView("self_allocated_bytes", "Self allocated", "bytes", "Allocated by it, and by no operator inside", "size"),
    ColumnView("allocated_bytes", "Allocated", "bytes", "Allocated while it ran", "size"),
    ColumnView("self_allocations", "Self blocks", "count", "How many blocks it allocated itself"),
    ColumnView("allocations", "Blocks", "count", "How many blocks were allocated while it ran"),
)
LIVE_COLUMNS = (
    ColumnView("name", "Allocated by", "name"),
    ColumnView("bytes", "Size", "bytes", "How large its blocks are together"),
    ColumnView("percent", "%", "percent", "Of all that is allocated at this time"),
    ColumnView("blocks", "Blocks", "count", "How many blocks live at this time"),
)
NEVER_TEXT = "never"
"""In place of the time at which a block was freed."""
BLOCK_COLUMNS = (
    ColumnView("operator", "Operator", "name"),
    ColumnView("source", "Function", "code", "The innermost function of Python on its call stack"),
    ColumnView("category", "Category", "word", "What the file says of it"),
    ColumnView("bytes", "Size", "bytes", "As the program asked for it"),
    ColumnView("start_us", "Allocated", "time", "When it was allocated", "at"),
    ColumnView("end_us", "Freed", "time", "When it was freed", "at", missing=NEVER_TEXT),
    ColumnView("duration_us", "Lived", "time", "From its allocation until it was freed"),
    ColumnView("address", "Address", "word"),
    ColumnView("live_at_peak", "At the peak", "flag", "Whether it lived when most was allocated"),
)
SEARCH_COLUMNS = ("name",)


@dataclass(frozen=True)
class MemoryTile:
    """A number that stands out. caveat: what is said below it."""

    label: str
    text: str
    exact: str
    description: str = ""
    caveat: str = ""


@dataclass(frozen=True)
class MemoryPage(Page):
    """devices: to switch between, empty where there is one. events: what went wrong, in words. table: the table below.
    flamegraph: of what lives at the peak, empty where there is none. picture: the same as a drawing. note: what the
    table cannot tell."""

    template: ClassVar[str] = "results/memory.html"
    frame: ResultFrame
    devices: tuple[PageLink, ...]
    tiles: tuple[MemoryTile, ...]
    chart: MemoryChart | None
    events: tuple[str, ...]
    more_events: int
    table: str
    choices: tuple[PageLink, ...]
    groupings: tuple[PageLink, ...]
    title: str
    sheet: Sheet
    note: str
    flamegraph: str
    csv: str


@dataclass(frozen=True)
class _Table:
    """The table that is asked for: a page of it, and what makes all of it."""

    sheet: Sheet
    load_all: Callable[[], pd.DataFrame]


@blueprint.get("/results/<id>/memory")
def show(id: str) -> Response:
    """The page, of the memory `device`, with the table `show`."""
    frame, profile = open_result_frame(id, "memory")
    place = _place(frame, profile)
    kind = _show(profile, place)
    table = _table(frame, profile, place, kind)
    events = records(compute_memory_events(profile, frame.selection))
    mine = [one for one in events if place and (one["device"], one["rank"]) == (place.label, place.rank)]
    return render(
        MemoryPage(
            frame=frame,
            devices=_devices(frame, profile, place),
            tiles=_tiles(frame, profile, place) if place else (),
            chart=build_memory_chart(frame, profile, place, _at_ns()) if place else None,
            events=tuple(_event(one) for one in mine[:5]),
            more_events=max(0, len(mine) - 5),
            table=kind,
            choices=tuple(
                PageLink(word, label, current_url_with(("show", word), ("page", None), ("sort", None)), word == kind)
                for word, label in _labels(profile).items()
            ),
            groupings=_ways(profile, place, kind),
            title=_labels(profile)[kind],
            sheet=table.sheet,
            note=_note(profile, place, kind),
            flamegraph=_flamegraph(frame, profile, place),
            csv=current_url_with(("page", None)).replace(
                f"/results/{frame.id}/memory", f"/results/{frame.id}/memory.csv", 1
            ),
        )
    )


@blueprint.get(f"/results/<id>/memory.{FILE_RULE}")
def as_file(id: str, form: str) -> Response:
    """All rows of the table, in the order of the page; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "memory")
    place = _place(frame, profile)
    kind = _show(profile, place)
    table = _table(frame, profile, place, kind)
    return table_file_response(f"{frame.name} {_labels(profile)[kind].lower()}", form, table.load_all())


def _place(frame: ResultFrame, profile: Profile) -> DeviceMemory | None:
    return find_device_memory(profile, frame.selection, request.args.get("device", ""))


def _labels(profile: Profile) -> dict[str, str]:
    """The tables that there are. Without operators nothing is told by them."""
    at_ns = _at_ns()
    labels = TABLE_LABELS if at_ns is None else TABLE_LABELS | {"live": f"Live at {format_duration(at_ns)}"}
    told = has_operators(profile)
    return labels if told else {word: label for word, label in labels.items() if word != "operators"}


def _show(profile: Profile, place: DeviceMemory | None) -> str:
    labels = _labels(profile)
    told = place is None or has_operator_allocations(profile, place)
    word = request.args.get("show") or (next(iter(labels)) if told and _at_ns() is None else "live")
    if word not in labels:
        raise InvalidRequest(f"show is one of {', '.join(labels)}, not {word[:40]!r}.", "show")
    return word


def _at_ns() -> int | None:
    """The time asked for by `at-ms`. Raises InvalidRequest."""
    text = request.args.get("at-ms", "")
    if not text:
        return None
    try:
        return Selection.from_query({"start-ms": [text]}).start_ns
    except InvalidRequest:
        raise InvalidRequest(f"at-ms is a time in milliseconds from 0, not {text[:40]!r}.", "at-ms") from None


def _way(profile: Profile, place: DeviceMemory | None) -> str:
    """How what lives is told."""
    ways = _ways_known(profile, place)
    word = request.args.get("by") or ways[0]
    if word not in GROUPING_LABELS:
        raise InvalidRequest(f"by is one of {', '.join(GROUPING_LABELS)}, not {word[:40]!r}.", "by")
    return word


def _ways_known(profile: Profile, place: DeviceMemory | None) -> list[str]:
    known = {
        "operator": has_operators(profile),
        "source": bool(block_sources(profile).names),
        "category": bool(block_categories(profile).names or (place is not None and categories_of(profile, place))),
        "block": True,
    }
    return [way for way, there in known.items() if there]


def _ways(profile: Profile, place: DeviceMemory | None, kind: str) -> tuple[PageLink, ...]:
    if kind != "live":
        return ()
    now, ways = _way(profile, place), _ways_known(profile, place)
    if len(ways) == 1:
        return ()
    return tuple(
        PageLink(way, GROUPING_LABELS[way], current_url_with(("by", way), ("page", None), ("sort", None)), way == now)
        for way in ways
    )


def _table(frame: ResultFrame, profile: Profile, place: DeviceMemory | None, kind: str) -> _Table:
    selection = frame.selection
    if kind == "operators":
        rows = compute_memory_operators(profile, selection)
        if place is not None:
            mine = rows["rank"].isna() if place.rank is None else rows["rank"] == place.rank
            rows = rows[(rows["device"] == place.label) & mine]
        found, order = filter_and_sort(rows, OPERATOR_COLUMNS, "-self_growth_bytes", SEARCH_COLUMNS)
        shown = build_sheet(
            "Operators", found, OPERATOR_COLUMNS, order, noun="operator", mark="kind", total_rows=len(rows)
        )
        return _Table(shown, lambda: found)
    at_ns = _at_ns() if kind == "live" else None
    if kind == "live" and place is not None:
        most = find_block_peak(profile, selection, place)
        at_ns = at_ns if at_ns is not None else most.time_ns if most else None
        if _way(profile, place) != "block":
            rows = (
                group_live_blocks(profile, selection, place, at_ns, _way(profile, place))
                if at_ns is not None
                else group_live_blocks(profile, selection, place, 0, "category").iloc[:0]
            )
            found, order = filter_and_sort(rows, LIVE_COLUMNS, "-bytes", SEARCH_COLUMNS)
            shown = build_sheet(
                "What lives", found, LIVE_COLUMNS, order, noun="row", bar=("percent", "percent"), total_rows=len(rows)
            )
            return _Table(shown, lambda: found)
    return _blocks(frame, profile, place, kind, at_ns)


def _blocks(frame: ResultFrame, profile: Profile, place: DeviceMemory | None, kind: str, at_ns: int | None) -> _Table:
    """The table of single blocks: of those that are not shown only what sorts them is looked at."""
    selection = frame.selection
    rows = np.zeros(0, np.int64)
    if place is not None and kind == "unfreed":
        rows = unfreed_blocks(profile, selection, place)
    elif place is not None and kind == "live":
        rows = live_blocks(profile, selection, place, at_ns) if at_ns is not None else rows
    elif place is not None:
        rows = select_blocks(profile, selection, place)
    order, page = parse_order([column.column for column in BLOCK_COLUMNS], "-bytes"), parse_page()
    found = search_blocks(profile, rows, parse_search())
    first = sort_blocks(profile, selection, found, order.column, order.descending, page * PAGE_SIZE)
    part = build_allocation_rows(profile, selection, first[(page - 1) * PAGE_SIZE :])
    shown = tuple(column for column in BLOCK_COLUMNS if column.column not in _unknown(profile))
    if place is None or not has_paired_frees(profile, place):
        shown = tuple(replace(column, missing=MISSING) if column.missing == NEVER_TEXT else column for column in shown)
    scales = column_scales(part, shown)
    table = Sheet(
        label="Blocks",
        noun="block",
        headings=build_headings(shown, scales, order),
        rows=build_rows(part, shown, scales),
        pager=build_pager(page, len(found), PAGE_SIZE, noun="block"),
        search=request.args.get("search", ""),
        hidden_fields=tuple((k, v) for k, v in request.args.items(multi=True) if k not in ("search", "page")),
        has_bars="",
        total_rows=len(rows),
    )

    def whole() -> pd.DataFrame:
        every = sort_blocks(profile, selection, found, order.column, order.descending)
        return build_allocation_rows(profile, selection, every)

    return _Table(table, whole)


def _unknown(profile: Profile) -> set[str]:
    """The columns of blocks of which nothing is known."""
    missing = {"source"} if not block_sources(profile).names else set()
    missing |= {"category"} if not block_categories(profile).names else set()
    if not has_operators(profile):
        missing.add("operator")
    if profile.allocations.column("address").null_count == profile.allocations.num_rows:
        missing |= {"address", "duration_us", "live_at_peak"}
    return missing


def _devices(frame: ResultFrame, profile: Profile, now: DeviceMemory | None) -> tuple[PageLink, ...]:
    found = select_device_memories(profile, frame.selection)
    if len(found) < 2:
        return ()
    return tuple(
        PageLink(
            one.key,
            one.label if one.rank is None else f"rank {one.rank} {one.label}",
            current_url_with(("device", one.key), ("page", None)),
            one == now,
        )
        for one in found
    )


def _tiles(frame: ResultFrame, profile: Profile, place: DeviceMemory) -> tuple[MemoryTile, ...]:
    told = next(
        one
        for one in records(compute_memory(profile, frame.selection))
        if (one["device"], one["rank"]) == (place.label, place.rank)
    )

    def size(label: str, column: str, description: str, caveat: str = "") -> MemoryTile | None:
        if told[column] is None:
            return None
        shown = format_quantity(told[column], "bytes")
        return MemoryTile(label, shown.text, shown.exact, description, caveat)

    peak_at = "" if told["peak_us"] is None else f"at {format_duration(told['peak_us'] * NS_PER_US)}"
    capacity = told["memory_bytes"]
    if capacity and told["peak_bytes"] is not None:
        peak_at += f", {100 * told['peak_bytes'] / capacity:.1f} % of the device"
    blocks = format_quantity(told["allocations"], "count")
    tiles = [
        size("Peak allocated", "peak_bytes", "The most that was allocated at any time", peak_at),
        size("Peak reserved", "peak_reserved_bytes", "The most that the allocator had taken from the system"),
        size(
            "Most unused",
            "unused_bytes",
            "The most that was reserved and not allocated at any time",
            f"{format_quantity(told['unused_at_peak_bytes'], 'bytes').text} at the peak"
            if told["unused_at_peak_bytes"] is not None
            else "",
        ),
        MemoryTile(
            "Blocks allocated",
            blocks.text,
            blocks.exact,
            "How many blocks were allocated",
            f"{format_quantity(told['allocated_bytes'], 'bytes').text} in all, {told['frees'] or 0:,} freed",
        )
        if told["allocations"] is not None
        else None,
        size("Never freed", "unfreed_bytes", "Allocated, and not freed by the end", _blocks_text(told["unfreed"])),
        size(
            "Largest free block", "largest_free_bytes", "At the end: an allocation larger than that needs a new segment"
        ),
        size(
            "Inactive split",
            "inactive_split_bytes",
            "At the end: free blocks that cannot go back to the system, because a part of their segment is in use",
            _blocks_text(told["inactive_split_blocks"]),
        ),
        size("Rounding", "rounding_bytes", "At the end: what the allocator gave more than it was asked for"),
    ]
    return tuple(tile for tile in tiles if tile is not None)


def _blocks_text(number: int | None) -> str:
    return "1 block" if number == 1 else f"{number or 0:,} blocks"


def _event(one: dict[str, Any]) -> str:
    """What went wrong, as a sentence."""
    at = format_duration(one["time_us"] * NS_PER_US)
    asked_for = format_quantity(one["bytes"], "bytes").text if one["bytes"] is not None else "memory"
    if one["event"] == "out of memory":
        free = one["device_free_bytes"]
        left = f"; the device had {format_quantity(free, 'bytes').text} free" if free is not None else ""
        return f"Out of memory at {at}: {asked_for} asked for{left}."
    return f"At {at} the allocator gave back what it had cached, to have {asked_for} for one allocation."


def _note(profile: Profile, place: DeviceMemory | None, kind: str) -> str:
    """What the table cannot tell."""
    if place is None or kind == "operators" or has_paired_frees(profile, place):
        return ""
    if kind == "live" and _way(profile, place) == "category" and categories_of(profile, place):
        return ""
    if not has_blocks(profile, place):
        return "This recording tells how much was allocated, and not by what. A memory snapshot tells both."
    return (
        "This recording has no addresses, so nothing tells which free belongs to which allocation. Record with PyTorch "
        "1.10 or later, or take a memory snapshot: that tells it."
    )


def _flamegraph(frame: ResultFrame, profile: Profile, place: DeviceMemory | None) -> str:
    """The flame graph of what lives at the peak of the whole recording, by the call stacks that made it."""
    if place is None or get_peak_event(place.kind_label) not in get_strings(profile.events, "name"):
        return ""
    ranks = {} if place.rank is None else {"ranks": ((place.rank, place.rank),)}
    return frame.filtered_url(
        "flamegraph", event=get_peak_event(place.kind_label), start_ns=None, end_ns=None, step=None, **ranks
    )
