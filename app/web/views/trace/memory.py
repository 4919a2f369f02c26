"""/results/<id>/memory: curves of a device's memory, and its blocks by operator, by live blocks at a time, and
individually."""

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
    has_memory,
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
from ....analysis.tables import TABLES
from ....domain.errors import InvalidRequest
from ....domain.memory import get_peak_event
from ....domain.profile import Profile
from ....domain.selection import Selection
from ....domain.tables import get_strings
from ....domain.units import MISSING, NS_PER_US, format_duration, format_quantity
from ...parameters import parse_choice
from ...rendering import Page, render
from ..results.result_frame import PageLink, ResultFrame, open_result_frame
from ..results.sheets import (
    ColumnView,
    Sheet,
    build_headings,
    build_rows,
    build_sheet,
    choose_columns,
    column_scales,
    filter_and_sort,
    inherit_descriptions,
)
from ..results.tables import (
    FILE_RULE,
    PAGE_SIZE,
    build_pager,
    current_url_with,
    parse_order,
    parse_page,
    parse_search,
    table_file_response,
    table_file_url,
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
OPERATOR_COLUMNS = inherit_descriptions(
    TABLES["memory-operators"].columns,
    (
        ColumnView("name", "Operator", "name"),
        ColumnView("calls", "Calls"),
        ColumnView("self_growth_bytes", "Self growth", "bytes", scale="growth"),
        ColumnView("growth_bytes", "Growth", "bytes", scale="growth"),
        ColumnView("self_allocated_bytes", "Self allocated", "bytes", scale="size"),
        ColumnView("allocated_bytes", "Allocated", "bytes", scale="size"),
        ColumnView("self_allocations", "Self blocks"),
        ColumnView("allocations", "Blocks"),
    ),
)
LIVE_COLUMNS = inherit_descriptions(
    TABLES["memory-live"].columns,
    (
        ColumnView("name", "Allocated by", "name"),
        ColumnView("bytes", "Size", "bytes"),
        ColumnView("percent", "%", "percent", "Share of all memory allocated at this time"),
        ColumnView("blocks", "Blocks", "count", "Number of live blocks at this time"),
    ),
)
NEVER_TEXT = "never"
"""Shown for blocks that were not freed."""
BLOCK_COLUMNS = inherit_descriptions(
    TABLES["allocations"].columns,
    (
        ColumnView("operator", "Operator", "name"),
        ColumnView("source", "Function", "code"),
        ColumnView("category", "Category", "word"),
        ColumnView("bytes", "Size", "bytes"),
        ColumnView("start_us", "Allocated", "time", scale="at"),
        ColumnView("end_us", "Freed", "time", scale="at", missing=NEVER_TEXT),
        ColumnView("duration_us", "Lifetime", "time"),
        ColumnView("address", "Address", "word"),
        ColumnView("live_at_peak", "At the peak", "flag"),
    ),
)
SEARCH_COLUMNS = ("name",)


@dataclass(frozen=True)
class MemoryTile:
    """A prominent number. caveat: the text below it."""

    label: str
    text: str
    exact: str
    description: str = ""
    caveat: str = ""


@dataclass(frozen=True)
class MemoryPage(Page):
    """devices: to switch between, empty if there is only one. events: failures as sentences. flamegraph: URL of that of
    live blocks at the peak, empty if there is none. picture: the same as SVG. note: limitations of the table.
    recorded: whether memory was recorded at all."""

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
    recorded: bool
    flamegraph: str
    csv: str


@dataclass(frozen=True)
class _Table:
    """The requested table: a page of it, and a function for all rows."""

    sheet: Sheet
    load_all: Callable[[], pd.DataFrame]


@blueprint.get("/results/<id>/memory")
def show(id: str) -> Response:
    """The page, of the memory `device`, with a table of blocks or operators."""
    frame, profile = open_result_frame(id, "memory")
    place = _selected_memory(frame, profile)
    kind = _show(profile, place)
    table = _table(frame, profile, place, kind)
    events = records(compute_memory_events(profile, frame.selection))
    mine = [event for event in events if place and (event["device"], event["rank"]) == (place.label, place.rank)]
    return render(
        MemoryPage(
            frame=frame,
            devices=_devices(frame, profile, place),
            tiles=_tiles(frame, profile, place) if place else (),
            chart=build_memory_chart(frame, profile, place, _at_ns()) if place else None,
            events=tuple(_event(event) for event in mine[:5]),
            more_events=max(0, len(mine) - 5),
            table=kind,
            choices=tuple(
                PageLink(word, label, current_url_with(("table", word), ("page", None), ("sort", None)), word == kind)
                for word, label in _labels(profile).items()
            ),
            groupings=_grouping_links(profile, place, kind),
            title=_labels(profile)[kind],
            sheet=table.sheet,
            note=_note(profile, place, kind),
            recorded=has_memory(profile),
            flamegraph=_flamegraph(frame, profile, place),
            csv=table_file_url("memory.csv"),
        )
    )


@blueprint.get(f"/results/<id>/memory.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All rows of the table, in the order of the page; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "memory")
    place = _selected_memory(frame, profile)
    kind = _show(profile, place)
    table = _table(frame, profile, place, kind)
    return table_file_response(f"{frame.name} {_labels(profile)[kind].lower()}", file_format, table.load_all(), profile)


def _selected_memory(frame: ResultFrame, profile: Profile) -> DeviceMemory | None:
    return find_device_memory(profile, frame.selection, request.args.get("device", ""))


def _labels(profile: Profile) -> dict[str, str]:
    """The available tables; without operators, not the one by operator."""
    at_ns = _at_ns()
    labels = TABLE_LABELS if at_ns is None else TABLE_LABELS | {"live": f"Live at {format_duration(at_ns)}"}
    return labels if has_operators(profile) else {word: label for word, label in labels.items() if word != "operators"}


def _show(profile: Profile, place: DeviceMemory | None) -> str:
    labels = _labels(profile)
    by_operator = place is None or has_operator_allocations(profile, place)
    return parse_choice("table", labels, next(iter(labels)) if by_operator and _at_ns() is None else "live")


def _at_ns() -> int | None:
    """The time requested by `at-ms`. Raises InvalidRequest."""
    text = request.args.get("at-ms", "")
    if not text:
        return None
    try:
        return Selection.from_query({"start-ms": [text]}).start_ns
    except InvalidRequest:
        raise InvalidRequest(f"at-ms must be a time in milliseconds from 0, not {text[:40]!r}.", "at-ms") from None


def _grouping(profile: Profile, place: DeviceMemory | None) -> str:
    """How live blocks are grouped."""
    return parse_choice("by", GROUPING_LABELS, _available_groupings(profile, place)[0])


def _available_groupings(profile: Profile, place: DeviceMemory | None) -> list[str]:
    known = {
        "operator": has_operators(profile),
        "source": bool(block_sources(profile).names),
        "category": bool(block_categories(profile).names or (place is not None and categories_of(profile, place))),
        "block": True,
    }
    return [way for way, there in known.items() if there]


def _grouping_links(profile: Profile, place: DeviceMemory | None, kind: str) -> tuple[PageLink, ...]:
    if kind != "live":
        return ()
    now, ways = _grouping(profile, place), _available_groupings(profile, place)
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
        sheet = build_sheet(
            "Operators", found, OPERATOR_COLUMNS, order, noun="operator", mark="kind", total_rows=len(rows)
        )
        return _Table(sheet, lambda: found)
    at_ns = _at_ns() if kind == "live" else None
    if kind == "live" and place is not None:
        most = find_block_peak(profile, selection, place)
        at_ns = at_ns if at_ns is not None else most.time_ns if most else None
        if _grouping(profile, place) != "block":
            rows = (
                group_live_blocks(profile, selection, place, at_ns, _grouping(profile, place))
                if at_ns is not None
                else group_live_blocks(profile, selection, place, 0, "category").iloc[:0]
            )
            found, order = filter_and_sort(rows, LIVE_COLUMNS, "-bytes", SEARCH_COLUMNS)
            sheet = build_sheet(
                "Live blocks", found, LIVE_COLUMNS, order, noun="row", bar=("percent", "percent"), total_rows=len(rows)
            )
            return _Table(sheet, lambda: found)
    return _blocks(frame, profile, place, kind, at_ns)


def _blocks(frame: ResultFrame, profile: Profile, place: DeviceMemory | None, kind: str, at_ns: int | None) -> _Table:
    """The table of blocks: of blocks on other pages only the sort column is read."""
    selection = frame.selection
    rows = np.zeros(0, np.int64)
    if place is not None and kind == "unfreed":
        rows = unfreed_blocks(profile, selection, place)
    elif place is not None and kind == "live":
        rows = live_blocks(profile, selection, place, at_ns) if at_ns is not None else rows
    elif place is not None:
        rows = select_blocks(profile, selection, place)
    order, page = parse_order([column.column for column in BLOCK_COLUMNS], "-bytes"), parse_page()
    blocks = search_blocks(profile, rows, parse_search())
    first = sort_blocks(profile, selection, blocks, order.column, order.descending, page * PAGE_SIZE)
    part = build_allocation_rows(profile, selection, first[(page - 1) * PAGE_SIZE :])
    shown = tuple(column for column in BLOCK_COLUMNS if column.column not in _unknown(profile))
    if place is None or not has_paired_frees(profile, place):
        shown = tuple(replace(column, missing=MISSING) if column.missing == NEVER_TEXT else column for column in shown)
    scales = column_scales(part, shown)
    shown, choice = choose_columns(shown, order)
    table = Sheet(
        label="Blocks",
        noun="block",
        columns=choice,
        headings=build_headings(shown, scales, order),
        rows=build_rows(part, shown, scales),
        pager=build_pager(page, len(blocks), PAGE_SIZE, noun="block"),
        search=request.args.get("search", ""),
        hidden_fields=tuple((k, v) for k, v in request.args.items(multi=True) if k not in ("search", "page")),
        has_bars="",
        total_rows=len(rows),
    )

    def whole() -> pd.DataFrame:
        every = sort_blocks(profile, selection, blocks, order.column, order.descending)
        return build_allocation_rows(profile, selection, every)

    return _Table(table, whole)


def _unknown(profile: Profile) -> set[str]:
    """The columns of blocks without values."""
    missing = {"source"} if not block_sources(profile).names else set()
    missing |= {"category"} if not block_categories(profile).names else set()
    if not has_operators(profile):
        missing.add("operator")
    if profile.allocations.column("address").null_count == profile.allocations.num_rows:
        missing |= {"address", "duration_us", "live_at_peak"}
    return missing


def _devices(frame: ResultFrame, profile: Profile, now: DeviceMemory | None) -> tuple[PageLink, ...]:
    device_memories = select_device_memories(profile, frame.selection)
    if len(device_memories) < 2:
        return ()
    return tuple(
        PageLink(
            one.key,
            one.label if one.rank is None else f"rank {one.rank} {one.label}",
            current_url_with(("device", one.key), ("page", None)),
            one == now,
        )
        for one in device_memories
    )


def _tiles(frame: ResultFrame, profile: Profile, place: DeviceMemory) -> tuple[MemoryTile, ...]:
    row = next(
        record
        for record in records(compute_memory(profile, frame.selection))
        if (record["device"], record["rank"]) == (place.label, place.rank)
    )

    def size(label: str, column: str, description: str, caveat: str = "") -> MemoryTile | None:
        if row[column] is None:
            return None
        quantity = format_quantity(row[column], "bytes")
        return MemoryTile(label, quantity.text, quantity.exact, description, caveat)

    peak_at = "" if row["peak_us"] is None else f"at {format_duration(row['peak_us'] * NS_PER_US)}"
    capacity = row["memory_bytes"]
    if capacity and row["peak_bytes"] is not None:
        peak_at += f", {100 * row['peak_bytes'] / capacity:.1f} % of the device"
    blocks = format_quantity(row["allocations"], "count")
    tiles = [
        size("Peak allocated", "peak_bytes", "Maximum of the allocated memory", peak_at),
        size(
            "Peak reserved",
            "peak_reserved_bytes",
            "Maximum of the memory that the allocator had reserved from the device",
        ),
        size(
            "Max unused",
            "unused_bytes",
            "Maximum of the memory that was reserved and not allocated",
            f"{format_quantity(row['unused_at_peak_bytes'], 'bytes').text} at the peak"
            if row["unused_at_peak_bytes"] is not None
            else "",
        ),
        MemoryTile(
            "Blocks allocated",
            blocks.text,
            blocks.exact,
            "Number of allocated blocks",
            f"{format_quantity(row['allocated_bytes'], 'bytes').text} in total, {row['frees'] or 0:,} freed",
        )
        if row["allocations"] is not None
        else None,
        size("Never freed", "unfreed_bytes", "Allocated and not freed by the end", _blocks_text(row["unfreed"])),
        size("Largest free block", "largest_free_bytes", "At the end: larger allocations need a new segment"),
        size(
            "Inactive split",
            "inactive_split_bytes",
            "At the end: free blocks that cannot be released to the device, because a part of their segment is in use",
            _blocks_text(row["inactive_split_blocks"]),
        ),
        size("Rounding", "rounding_bytes", "At the end: memory that the allocator added to requested sizes"),
    ]
    return tuple(tile for tile in tiles if tile is not None)


def _blocks_text(number: int | None) -> str:
    return "1 block" if number == 1 else f"{number or 0:,} blocks"


def _event(one: dict[str, Any]) -> str:
    """A failure as a sentence."""
    at = format_duration(one["time_us"] * NS_PER_US)
    size = format_quantity(one["bytes"], "bytes").text if one["bytes"] is not None else "memory"
    if one["event"] == "out of memory":
        free = one["device_free_bytes"]
        left = f"; the device had {format_quantity(free, 'bytes').text} free" if free is not None else ""
        return f"Out of memory at {at}: {size} requested{left}."
    return f"At {at} the allocator released its cache to get {size} for an allocation."


def _note(profile: Profile, place: DeviceMemory | None, kind: str) -> str:
    """The limitations of the table."""
    if place is None or kind == "operators" or has_paired_frees(profile, place):
        return ""
    if kind == "live" and _grouping(profile, place) == "category" and categories_of(profile, place):
        return ""
    if not has_blocks(profile, place):
        return "This recording contains how much was allocated, but not by what. A memory snapshot contains both."
    return (
        "This recording has no addresses, so allocations and frees cannot be matched. Record with PyTorch 1.10 or "
        "later, or take a memory snapshot."
    )


def _flamegraph(frame: ResultFrame, profile: Profile, place: DeviceMemory | None) -> str:
    """The flame graph of live blocks at the peak of the recording, by allocating call stack."""
    if place is None or get_peak_event(place.kind_label) not in get_strings(profile.events, "name"):
        return ""
    ranks = {} if place.rank is None else {"ranks": ((place.rank, place.rank),)}
    return frame.filtered_url(
        "flamegraph", event=get_peak_event(place.kind_label), start_ns=None, end_ns=None, step=None, **ranks
    )
