"""Builds a Profile from the content of a speedscope file.

A profile of time becomes slices: begin and end events as they are, samples consecutively, each as long as its weight,
and frames common to two samples continue. A profile of another unit becomes samples; if it contains begin and end
events, its values count up, and each sample is the increment since the previous event. Weights are whole numbers: if
values have decimals, the unit is a fraction of the unit of the file, such as "0.01 count".
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.profile import Meta, Profile
from ...domain.tables import FrameKind
from ...domain.units import NS_PER_MS, NS_PER_S, NS_PER_US
from ...ingest.losses import MAX_EXAMPLE_CHARS
from ...ingest.trace.event_builder import NONE, TraceEventBuilder
from ...ingest.trace.profile import Dialect
from ...ingest.trace.profile import build_profile as of_events
from ...ingest.trace.slices import SliceClassifier, SliceType
from .format import BACKWARDS, FORMAT, NEVER_ENDED, NO_FRAME, NO_PROFILE, NO_TIME, NO_WEIGHT, UNMATCHED_END

TIME_UNIT_NS = {"nanoseconds": 1, "microseconds": NS_PER_US, "milliseconds": NS_PER_MS, "seconds": NS_PER_S}
UNITS = {"bytes": "bytes", "none": "count"}
MAX_VALUE = 1 << 61
MAX_DECIMALS = 9
"""More decimals are rounded."""


SAMPLERS = ("py-spy@", "memray@", "rbspy")
"""Exporters whose lines are those that ran, not those at which functions start."""
_THREAD_FRAME = re.compile(r"thread \((\d{1,18})\): (.+)", re.DOTALL)
_PYTHON = re.compile(r".*\.pyx?|<.*>", re.DOTALL)
_OF_PY_SPY = re.compile(r'(?:Process (\d{1,18}) )?Thread (\d{1,18}) "(.*)"', re.DOTALL)


@dataclass(frozen=True)
class _FileFrame:
    name: str
    file: str | None
    line: int | None


class _FileLosses:
    def __init__(self) -> None:
        self.found: dict[str, tuple[int, str]] = {}

    def note(self, reason: str, example: object) -> None:
        count, first = self.found.get(reason, (0, str(example)[:MAX_EXAMPLE_CHARS]))
        self.found[reason] = (count + 1, first)

    def tell(self, builder: ProfileBuilder) -> None:
        for reason, (count, first) in self.found.items():
            builder.add_loss(reason, first, count)


def build_profile(file: Any, source: str, defect: str | None) -> Profile:
    """The profile. Raises UnreadableInput if it is empty."""
    lost = _FileLosses()
    profiles = file.get("profiles") if isinstance(file, dict) else None
    shared = file.get("shared") if isinstance(file, dict) else None
    frames = _read_frames(shared.get("frames") if isinstance(shared, dict) else None, lost)
    times, counts = [], []
    for place, profile in enumerate(profiles if isinstance(profiles, list) else []):
        if not isinstance(profile, dict) or profile.get("type") not in ("sampled", "evented"):
            lost.note(NO_PROFILE, profile.get("type") if isinstance(profile, dict) else profile)
            continue
        name = str(profile.get("name") or f"profile {place + 1}")
        if profile.get("unit") in TIME_UNIT_NS:
            times.append((name, profile, TIME_UNIT_NS[profile["unit"]]))
        else:
            counts.append((name, profile))
    events = TraceEventBuilder()
    exporter = str(file.get("exporter") or "") if isinstance(file, dict) else ""
    matches = (_THREAD_FRAME.fullmatch(frame.name) for frame in frames.values())
    names = {match[1]: match[2] for match in matches if match}
    for name, profile, factor in times:
        spans = (
            _read_spans(profile, factor, lost)
            if profile["type"] == "evented"
            else _merge_samples(profile, factor, lost)
        )
        thread, process = name, NONE
        if exporter.startswith("py-spy@") and (matched := _OF_PY_SPY.fullmatch(name)):
            thread, process = matched[2], events.intern_text(matched[1] or "")
            # A thread has no name yet while it starts; that of its outermost frame comes later.
            named = matched[3] or names.get(matched[2]) or f"thread {thread}"
            events.add_metadata("thread_name", thread, matched[1] or "", name=named)
        _add_slices(events, thread, spans, frames, lost, process)
    about = {"exporter": exporter} if exporter else {}
    if not times:
        builder = ProfileBuilder(FORMAT)
        sample_count = _add_counted(builder, counts, frames, lost, exporter.startswith("memray"))
        if not sample_count:
            raise UnreadableInput(f"{source} has no samples: its profiles are empty. Record again.")
        lost.tell(builder)
        builder.add_run()
        return builder.finish(Meta(FORMAT, complete=defect is None, reasons=(defect,) if defect else (), facts=about))
    starts = () if exporter.startswith(SAMPLERS) else reversed(frames.values())
    lines = {(frame.file or "", frame.name): frame.line for frame in starts}

    def what(category: str, name: str) -> SliceType:
        kind = FrameKind.PYTHON if _PYTHON.fullmatch(category) else FrameKind.USER
        return SliceType("other", kind, file=category or None, line=lines.get((category, name)))

    def more(builder: ProfileBuilder, zero: int) -> None:
        also = _FileLosses()
        _add_counted(builder, counts, frames, also, exporter.startswith("memray"))
        also.tell(builder)

    nothing = "its profiles are empty. Record again."
    dialect = Dialect(FORMAT, SliceClassifier(what), nothing, about, more)
    trace_events = events.finish([(reason, count, first) for reason, (count, first) in lost.found.items()])
    return of_events(trace_events, source, defect, dialect)


def _read_frames(given: Any, lost: _FileLosses) -> dict[int, _FileFrame]:
    frames = {}
    for index, one in enumerate(given if isinstance(given, list) else []):
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            lost.note(NO_FRAME, one)
            continue
        file, line = one.get("file"), one.get("line")
        frames[index] = _FileFrame(
            one["name"],
            file if isinstance(file, str) and file else None,
            line if isinstance(line, int) and 0 < line < 1 << 31 else None,
        )
    return frames


def _parse_number(value: Any, factor: int) -> int | None:
    """A time or weight as a whole number; exact if it is one in the file."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    found = value * factor if isinstance(value, int) else round(value * factor)
    return found if abs(found) < MAX_VALUE else None


def _read_spans(one: dict[str, Any], factor: int, lost: _FileLosses) -> Iterator[tuple[str, int, int]]:
    """(O or C, time, frame) of begin and end events."""
    events = one.get("events")
    for event in events if isinstance(events, list) else []:
        sort, at, frame = (
            (event.get(key) for key in ("type", "at", "frame")) if isinstance(event, dict) else (None,) * 3
        )
        time = _parse_number(at, factor)
        if sort not in ("O", "C") or time is None or not isinstance(frame, int):
            lost.note(NO_TIME, event)
            continue
        yield sort, time, frame


def _merge_samples(one: dict[str, Any], factor: int, lost: _FileLosses) -> Iterator[tuple[str, int, int]]:
    """The same for samples: consecutive samples in the same frames are merged."""
    opened: list[int] = []
    at = 0
    for stack, weight in _read_samples(one, factor, lost):
        same = 0
        while same < len(stack) and same < len(opened) and stack[same] == opened[same]:
            same += 1
        for frame in reversed(opened[same:]):
            yield "C", at, frame
        for frame in stack[same:]:
            yield "O", at, frame
        opened, at = stack, at + weight
    for frame in reversed(opened):
        yield "C", at, frame


def _read_samples(one: dict[str, Any], factor: int, lost: _FileLosses) -> Iterator[tuple[list[int], int]]:
    """(frames from the outermost, weight) of each sample."""
    stacks, weights = one.get("samples"), one.get("weights")
    stacks = stacks if isinstance(stacks, list) else []
    weights = weights if isinstance(weights, list) else []
    for place, stack in enumerate(stacks):
        weight = _parse_number(weights[place], factor) if place < len(weights) else None
        if weight is None or weight < 0 or not isinstance(stack, list) or not all(type(f) is int for f in stack):
            lost.note(NO_WEIGHT, f"sample {place + 1}")
            continue
        yield stack, weight


def _count_decimals(profiles: list[dict[str, Any]]) -> int:
    """The number of decimals of the values of some profiles that are not of time, as far as they can be kept."""
    decimals, largest = 0, 1.0
    for one in profiles:
        events = one.get("events") if one["type"] == "evented" else one.get("weights")
        given = [one.get("startValue"), one.get("endValue")] if one["type"] == "evented" else []
        values = given + [
            each.get("at") if isinstance(each, dict) else each for each in (events if isinstance(events, list) else [])
        ]
        numbers = [abs(value) for value in values if isinstance(value, int | float) and abs(value) < MAX_VALUE]
        largest = max(largest, max(numbers, default=0) if one["type"] == "evented" else sum(numbers))
        for value in numbers:
            if decimals < MAX_DECIMALS and value != int(value):
                exponent = Decimal(repr(value)).as_tuple().exponent
                decimals = max(decimals, -int(exponent))
    decimals = min(decimals, MAX_DECIMALS)
    while decimals and largest * 10**decimals >= MAX_VALUE:
        decimals -= 1
    return decimals


def _read_steps(one: dict[str, Any], factor: int, lost: _FileLosses) -> Iterator[tuple[list[int], int]]:
    """The same for begin and end events at values: the increments from one event to the next."""
    frames: list[int] = []
    last = _parse_number(one.get("startValue"), factor)
    for sort, at, frame in _read_spans(one, factor, lost):
        last = at if last is None else last
        if at < last:
            lost.note(BACKWARDS, f"{at} behind {last}")
        elif at > last:
            if frames:
                yield list(frames), at - last
            last = at
        if sort == "O":
            frames.append(frame)
        elif frame not in frames:
            lost.note(UNMATCHED_END, f"frame {frame} at {at}")
        else:
            while (ended := frames.pop()) != frame:
                lost.note(NEVER_ENDED, f"frame {ended} before {at}")
    end = _parse_number(one.get("endValue"), factor)
    for frame in frames:
        lost.note(NEVER_ENDED, f"frame {frame}")
    if frames and last is not None and end is not None and end > last:
        yield frames, end - last


def _add_slices(
    events: TraceEventBuilder,
    thread: str,
    spans: Iterator[tuple[str, int, int]],
    frames: dict[int, _FileFrame],
    lost: _FileLosses,
    process: int,
) -> None:
    """Slices of begin and end events, on a thread with that name."""
    opened: list[tuple[int, int, int | None]] = []
    last = 0
    for sort, at, frame in spans:
        last = max(last, at)
        if sort == "O":
            opened.append((frame, at, _begin_slice(events, thread, frames, frame, at, lost, process)))
            continue
        if not any(frame == one for one, _, _ in opened):
            lost.note(UNMATCHED_END, f"frame {frame} at {at}")
            continue
        while True:
            ended, start, slice = opened.pop()
            if slice is not None:
                events.end_slice(slice, max(start, at))
            if ended == frame:
                break
            lost.note(NEVER_ENDED, f"frame {ended} at {start}")
    for frame, start, slice in opened:
        lost.note(NEVER_ENDED, f"frame {frame} at {start}")
        if slice is not None:
            events.end_slice(slice, last)


def _begin_slice(
    events: TraceEventBuilder,
    thread: str,
    frames: dict[int, _FileFrame],
    frame: int,
    at: int,
    lost: _FileLosses,
    process: int,
) -> int | None:
    """Begin the slice of a frame; None if no such frame is known."""
    if frame not in frames:
        lost.note(NO_FRAME, f"frame {frame}")
        return None
    # The category distinguishes functions with equal names in several files.
    return events.begin_slice(frames[frame].name, thread, at, category=frames[frame].file or "", process=process)


def _add_counted(
    builder: ProfileBuilder,
    counts: list[tuple[str, dict[str, Any]]],
    frames: dict[int, _FileFrame],
    lost: _FileLosses,
    of_memray: bool,
) -> int:
    """Add the profiles that are not of time; returns the number of samples."""
    count = 0
    units = [str(one.get("unit") or "none") for _, one in counts]
    alike = len(set(units)) == 1
    # Profiles of one unit are one event.
    decimals = {
        unit: _count_decimals([one for (_, one), its in zip(counts, units, strict=True) if its == unit])
        for unit in set(units)
    }
    for index, ((name, one), unit) in enumerate(zip(counts, units, strict=True)):
        unit_name = UNITS.get(unit, unit)
        # memray counts each time for one thread.
        shown = name.lower() if of_memray else "weight" if alike and unit in UNITS else unit_name
        factor = 10 ** decimals[unit]
        # A fraction of the unit, so that weights are whole numbers.
        scaled = unit_name if factor == 1 else f"{Decimal(1).scaleb(-decimals[unit]):f} {unit_name}"
        event = builder.intern_event(shown, scaled)
        thread = builder.intern_thread(incarnation=-1 if of_memray else -1 - index)
        if not of_memray:
            builder.set_thread_name(thread, 0, name)
        rows = []
        for stack, weight in (
            _read_samples(one, factor, lost) if one["type"] == "sampled" else _read_steps(one, factor, lost)
        ):
            known = [frames[frame] for frame in stack if frame in frames]
            if len(known) < len(stack):
                lost.note(NO_FRAME, stack)
            places = [
                builder.intern_frame(
                    builder.intern_function(f.name, "", f.file),
                    kind=FrameKind.PYTHON if _PYTHON.fullmatch(f.file or "") else FrameKind.USER,
                    line=f.line,
                )
                for f in known
            ]
            rows.append((0, thread, -1, event, builder.intern_stack(places), weight))
        if rows:
            builder.add_samples(*(list(values) for values in zip(*rows, strict=True)))
        count += len(rows)
    return count
