"""A timeline encoded for the browser: the visible part of some tracks in a window, as columns of numbers.

A band is a part of a track: some rows of slices (`t12.0-15`), the lane of samples (`t12.l`), rows of their stacks
(`t12.k0-15`), samples of event 2 (`t12.e2`), instants (`t12.i`), steps (`s0`), a CPU (`x4`), a counter (`c3`), the rate
of an event (`r1`), a formula (`f0`), the CPUs in use by a thread, process or host (`w12`, `g3`, `h0`), the utilization
of a device (`u0`; `e0`: of its multiprocessors). A row has at most as many boxes as the window has pixels. While there
are more than `MAX_BOXES` boxes, or more than `WIRE_BYTES` compressed, cells of twice the length are used.
"""

import gzip
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from ..analysis.core.flame_groups import FlameGroup, groups_of
from ..analysis.core.functions import functions_of
from ..analysis.core.memo import memoize
from ..analysis.core.sample_selection import event_id, filter_calls, samples_of, select_threads
from ..analysis.ml.devices import devices_of
from ..analysis.timeline.cpu_tracks import USE_LETTERS
from ..analysis.timeline.formula_curves import list_curve_formulas
from ..analysis.timeline.mipmap import LevelRange, MipmapItems, MipmapLevel, concat_items, single_items
from ..analysis.timeline.model import KINDS, NO_CODE, Timeline, code_names
from ..analysis.timeline.series import (
    SeriesValues,
    load_busy_share,
    load_cpu_use,
    load_event_rate,
    load_formula_curve,
    load_series_values,
)
from ..analysis.timeline.stack_rows import build_stack_rows
from ..analysis.timeline.track import TimelineTrack
from ..analysis.timeline.tracks import lane_event
from ..analysis.timeline.usage import find_cpu_event, list_rated_events
from ..domain.arrays import Array
from ..domain.errors import InvalidRequest
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.symbols.short_names import list_short_names
from ..domain.tables import NO_ID, get_column
from ..domain.text import shorten_middle
from ..domain.units import format_duration, format_percent
from .palette import SHADE_COUNT, fnv1a

WIRE_BYTES = 96_000
MAX_BOXES = 12_000
MAX_EXACT_BOXES = 3_000
"""Up to this number, times are sent in ns; else in sixteenths of a cell."""
MAX_ROWS = 500
MAX_NAME_CHARACTERS = 120
WIDTH_RANGE = (16, 16_000)
MAX_CELL = 60
SAMPLED = ("lane", "stacks", "ticks", "cpu")
"""The kinds of bands of samples."""
SHARES = {"u": "utilization", "e": "efficiency"}
GZIP_LEVEL = 1
"""A higher level takes four times as long and saves a tenth."""
MIN_LABEL_PX = 12
MIN_NAMES = 100
MIN_CLIPPED_PERCENT = 1
EMPTY_RANGE = LevelRange(
    MipmapLevel(
        0,
        np.zeros(0, np.int32),
        np.zeros(1, np.int64),
        np.zeros(0, np.int64),
        single_items(*[np.zeros(0, np.int64)] * 5).take,
    ),
    slice(0, 0),
)
_BAND = re.compile(r"([tscuerxwghf])(-1|\d{1,9})(?:\.(l|i|e(\d{1,6})|(k?)(\d{1,6})-(\d{1,6})))?", re.ASCII)


@dataclass(frozen=True)
class TrackBand:
    """A part of a track. kind: rows, stacks, lane, ticks, cpu, instants, steps, counter, rate, formula or use. number:
    of the thread, the series, the event, the formula or the group, or the index of the rank or CPU. first, last: the
    rows of slices or stacks, the last included. event: of ticks. group: of use."""

    text: str
    kind: str
    number: int
    first: int = 0
    last: int = 0
    event: int = NO_ID
    group: FlameGroup = FlameGroup.NONE

    @property
    def rows(self) -> range:
        return range(self.first, self.last + 1)


def parse_bands(texts: Sequence[str], profile: Profile, timeline: Timeline) -> list[TrackBand]:
    """The bands of a request. Raises InvalidRequest for invalid bands, or too many rows."""
    bands = []
    for text in texts:
        match = _BAND.fullmatch(text)
        band = match and _band(text, match, profile, timeline)
        if not band:
            raise InvalidRequest(
                f"bands: {text[:40]!r} is not a part of a track of this result; request its tracks first.", "bands"
            )
        bands.append(band)
    if sum(len(band.rows) for band in bands) > MAX_ROWS:
        raise InvalidRequest(f"bands have more than {MAX_ROWS} rows in total; request fewer at a time.", "bands")
    return bands


def _band(text: str, found: re.Match[str], profile: Profile, timeline: Timeline) -> TrackBand | None:
    letter, number, part = found[1], int(found[2]), found[3]
    if letter in SHARES:
        known = part is None and 0 <= number < len(devices_of(profile))
        return TrackBand(text, SHARES[letter], number) if known else None
    if letter == "c":
        return TrackBand(text, "counter", number) if part is None and 0 <= number < profile.series.num_rows else None
    if letter == "r":
        return TrackBand(text, "rate", number) if part is None and number in list_rated_events(profile) else None
    if letter == "f":
        known = part is None and 0 <= number < len(list_curve_formulas(profile))
        return TrackBand(text, "formula", number) if known else None
    if letter == "x":
        return TrackBand(text, "cpu", number) if part is None and 0 <= number < len(timeline.cpu_rows) else None
    if letter in USE_LETTERS:
        group = USE_LETTERS[letter]
        known = part is None and 0 <= number < len(groups_of(profile, group).labels)
        return TrackBand(text, "use", number, group=group) if known and find_cpu_event(profile) is not None else None
    if letter == "s":
        return TrackBand(text, "steps", number) if part is None and 0 <= number < len(timeline.ranks) else None
    if part == "i":
        return TrackBand(text, "instants", number) if number < timeline.threads else None
    if part is None or not 0 <= number < timeline.threads:
        return None
    if part == "l":
        return TrackBand(text, "lane", number)
    if found[4]:
        return TrackBand(text, "ticks", number, event=int(found[4])) if int(found[4]) < len(timeline.spans) else None
    deep = int(timeline.stack_depths[:, number].max(initial=0)) if found[5] else int(timeline.depths[number])
    first, last = int(found[6]), min(int(found[7]), deep - 1)
    return TrackBand(text, "stacks" if found[5] else "rows", number, first, last) if first <= last else None


def format_clipped(track: TimelineTrack) -> str:
    """The weight of a track that is not drawn, as "3.2 % (45 ms)"; "" for up to `MIN_CLIPPED_PERCENT`."""
    share = 100 * track.clipped / track.weight if track.weight > 0 else 0.0
    return f"{format_percent(share)} ({format_duration(track.clipped)})" if share > MIN_CLIPPED_PERCENT else ""


@dataclass(frozen=True, eq=False)
class TimelineResponse:
    """A response: as plain data, JSON and compressed JSON."""

    data: dict[str, Any]
    json: bytes
    gzip: bytes


def build_viewport(
    profile: Profile,
    timeline: Timeline,
    selection: Selection,
    bands: Sequence[TrackBand],
    start_ns: int,
    end_ns: int,
    width_px: int,
) -> TimelineResponse:
    """The visible part of the bands in [start_ns, end_ns) at a width in pixels.

    `names`: columns; a `function` below 0 is none; the name is "" where only narrow boxes have it; `short` is "" where
    the name is short, and empty if all are. `bands`: by their text. Of boxes: `rows` (how many each row has), `gap`
    (from the end of the one before in the row, the first from start_ns), `length`, both in `unit_ns`; `name` (a place
    in `names`), `count` (of slices, samples … in it), `fill` (0–255, of its time in which there are any); under focus,
    ignore or hide `out` (1: not selected; of several, the
    first). Of counters: `gap`, `low`, `high`, `last`.
    """
    width_px = min(max(width_px, WIDTH_RANGE[0]), WIDTH_RANGE[1])
    view = _View(profile, timeline, selection, bands, start_ns, end_ns, width_px)
    cell = max(0, ((end_ns - start_ns) // width_px).bit_length() - 1)
    while True:
        boxes = view.boxes(cell)
        total = sum(len(stretch) for _, rows in boxes for stretch in rows)
        if total <= MAX_BOXES or cell >= MAX_CELL:
            data = view.data(boxes, cell, 1 if total <= MAX_EXACT_BOXES else 1 << max(0, cell - 4))
            text = orjson.dumps(data)
            packed = gzip.compress(text, GZIP_LEVEL, mtime=0)
            if len(packed) <= WIRE_BYTES or cell >= MAX_CELL:
                return TimelineResponse(data, text, packed)
            cell += (len(packed) // WIRE_BYTES).bit_length()
        else:
            cell += (total // MAX_BOXES).bit_length()


@dataclass(frozen=True, eq=False)
class _View:
    profile: Profile
    timeline: Timeline
    selection: Selection
    bands: Sequence[TrackBand]
    start: int
    end: int
    width: int

    def boxes(self, cell: int) -> list[tuple[TrackBand, list[LevelRange]]]:
        window = (self.start, self.end, cell, self.width)
        timeline = self.timeline
        # Each of them is an event of a thread.
        event = lane_event(self.profile, self.selection)
        on_cpu = event_id(self.profile, self.selection.event)
        found: list[tuple[TrackBand, list[LevelRange | None]]] = []
        for band in self.bands:
            at = band.number
            if band.kind == "rows":
                found.append((band, [timeline.find_slices(at, row, *window) for row in band.rows]))
            elif band.kind == "lane":
                found.append((band, [timeline.find_samples(int(event[at]), at, *window)]))
            elif band.kind == "ticks":
                found.append((band, [timeline.find_samples(band.event, at, *window)]))
            elif band.kind == "cpu":
                found.append((band, [timeline.find_cpu_samples(on_cpu, at, *window)]))
            elif band.kind == "stacks":
                lane = timeline.find_samples(int(event[at]), at, *window) or EMPTY_RANGE
                found.append((band, list(_stack_rows(self.profile, lane, band.rows, 1 << cell))))
            elif band.kind == "instants":
                found.append((band, [timeline.find_instants(at, *window)]))
            elif band.kind == "steps":
                found.append((band, [timeline.find_steps(at, *window)]))
        return [(band, [stretch or EMPTY_RANGE for stretch in rows]) for band, rows in found]

    def data(self, boxes: list[tuple[TrackBand, list[LevelRange]]], cell: int, unit: int) -> dict[str, Any]:
        names = _NameTable(self.profile, max(1, MIN_LABEL_PX << cell))
        data = {}
        for band, rows in boxes:
            counts = [len(stretch) for stretch in rows]
            data[band.text] = self._columns(
                band, counts, concat_items([stretch.read() for stretch in rows]), names, unit
            )
        for band in self.bands:
            if band.kind == "counter":
                busy_share = load_series_values(self.profile, band.number, self.start, self.end, cell, self.width)
                data[band.text] = self._values(busy_share, unit)
            elif band.kind in SHARES.values():
                of_efficiency = band.kind == SHARES["e"]
                busy_share = load_busy_share(self.profile, band.number, of_efficiency, self.start, self.end, cell)
                data[band.text] = self._values(busy_share, unit)
            elif band.kind == "rate":
                window = self.start, self.end
                event_rate = load_event_rate(self.profile, self.timeline, self.selection, band.number, *window)
                data[band.text] = self._values(event_rate, unit)
            elif band.kind == "formula":
                formula = list_curve_formulas(self.profile)[band.number]
                of_formula = (self.profile, self.timeline, self.selection, formula)
                data[band.text] = self._values(load_formula_curve(*of_formula, self.start, self.end), unit)
            elif band.kind == "use":
                of = (self.profile, self.timeline, self.selection, band.group, band.number)
                data[band.text] = self._values(load_cpu_use(*of, self.start, self.end), unit)
        return {
            "start_ns": self.start,
            "end_ns": self.end,
            "unit_ns": unit,
            "cell_ns": 1 << cell,
            "kinds": KINDS,
            "names": names.columns(),
            "bands": data,
        }

    def _columns(
        self, band: TrackBand, counts: list[int], items: MipmapItems, names: "_NameTable", unit: int
    ) -> dict[str, Any]:
        low, high = ((at - self.start + unit // 2) // unit for at in (items.start, items.end))
        before = np.zeros(len(low), np.int64)
        before[1:] = high[:-1]
        ends = np.cumsum(counts)
        before[ends[:-1][ends[:-1] < len(low)]] = 0
        found: dict[str, Any] = {
            "rows": counts,
            "gap": (low - before).tolist(),
            "length": (high - low).tolist(),
            "name": names.places(items, band.kind == "steps"),
            "count": items.count.tolist(),
            "fill": items.fill.tolist(),
        }
        out = self._find_excluded(band, items)
        if out is not None:
            found["out"] = out.astype(np.int8).tolist()
        return found

    def _find_excluded(self, band: TrackBand, items: MipmapItems) -> Array | None:
        """Which items focus, ignore and hide exclude, and on a CPU also those of other threads; None without these."""
        if band.kind not in ("rows", *SAMPLED):
            return None
        kept, out = filter_calls(self.profile, self.selection), None
        if kept is not None:
            table = self.profile.slices if band.kind == "rows" else self.profile.samples
            out = ~kept[samples_of(self.profile).call[get_column(table, "stack")[items.event_row]]]
        chosen = select_threads(self.profile, self.selection) if band.kind == "cpu" else None
        if chosen is not None:
            others = ~chosen[samples_of(self.profile).thread[items.event_row]]
            out = others if out is None else out | others
        return out

    def _values(self, series_values: SeriesValues, unit: int) -> dict[str, Any]:
        at = (series_values.at - self.start + unit // 2) // unit
        columns = {"low": series_values.low, "high": series_values.high, "last": series_values.last}
        return {"gap": np.diff(at, prepend=0).tolist()} | {
            name: [None if np.isnan(v) else _to_int_if_whole(v) for v in column.tolist()]
            for name, column in columns.items()
        }


def _stack_rows(profile: Profile, lane: LevelRange, rows: range, cell_ns: int) -> Iterator[LevelRange]:
    """The rows of stacks of the items of a lane, as ranges."""
    for items in build_stack_rows(profile, lane.read(), rows, cell_ns):
        nothing = np.zeros(0, np.int64)
        yield LevelRange(MipmapLevel(0, nothing, nothing, items.start, items.take), slice(0, len(items)))


def _to_int_if_whole(value: float) -> float | int:
    return int(value) if value.is_integer() else value


class _NameTable:
    """The names of functions and steps in a response. least: the shortest box (ns) with a label."""

    def __init__(self, profile: Profile, least: int) -> None:
        self.profile = profile
        self.least = least
        self.codes: dict[int, int] = {}
        self.needed: set[int] = set()
        self.functions = functions_of(profile)
        self.shades: dict[int, int] = memoize(profile, "timeline shades", dict, pin=True)

    def places(self, items: MipmapItems, steps: bool) -> list[int]:
        """The indexes of these names."""
        distinct, which = np.unique(items.code, return_inverse=True)
        # Steps have their own numbers, below those of functions.
        keys = [-2 - code if steps else code for code in distinct.tolist()]
        place = np.array([self.codes.setdefault(key, len(self.codes)) for key in keys], np.int64)
        wide = np.unique(which[items.end - items.start >= self.least])
        self.needed.update(place[wide].tolist())
        found: list[int] = place[which].tolist()
        return found

    def columns(self) -> dict[str, list[Any]]:
        codes = np.array(list(self.codes), np.int64)
        function, kind = code_names(codes)
        real = codes >= 0
        unknown, step = KINDS.index("unknown"), KINDS.index("annotation")
        few = len(codes) <= MIN_NAMES
        names = [
            self._name(code, f) if few or place in self.needed else ""
            for place, (code, f) in enumerate(zip(codes.tolist(), function.tolist(), strict=True))
        ]
        return {
            "function": np.where(real, function, -1).tolist(),
            "kind": np.where(real, kind, np.where(codes == NO_CODE, unknown, step)).tolist(),
            "shade": [self._shade(code, f) for code, f in zip(codes.tolist(), function.tolist(), strict=True)],
            "name": [shorten_middle(name, MAX_NAME_CHARACTERS) for name in names],
            "short": list_short_names(names, MAX_NAME_CHARACTERS),
        }

    def _shade(self, code: int, function: int) -> int:
        shade = self.shades.get(function) if code >= 0 else 0
        if shade is None:
            shade = self.shades[function] = fnv1a(self._name(code, function)) % SHADE_COUNT
        return shade

    def _name(self, code: int, function: int) -> str:
        if code >= 0:
            return self.functions.name_of(function)
        return "no stack" if code == NO_CODE else str(self.profile.steps.column("name")[-2 - code].as_py())
