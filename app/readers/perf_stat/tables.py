"""Converts the lines of `perf stat` to rows of `counts` and `count_metrics`, and counters of intervals."""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from ...domain.builder import ProfileBuilder
from ...domain.event_names import NOT_OBSERVABLE, explain_unobservable, get_unit, name_events
from ...domain.losses import EVENT_WITHOUT_VALUE
from ...domain.tables import NO_ID, SCHEMAS, empty_table
from ...domain.units import NS_PER_S
from .grammar import CountLine, CountScope
from .metrics import Metric

AnyScope = TypeVar("AnyScope", bound=CountScope)


@dataclass(frozen=True)
class StatTables:
    """The tables other than `counts`, which the builder has."""

    count_metrics: pa.Table
    series: pa.Table
    counters: pa.Table


class _IntervalSeries:
    """Values at intervals, by their scope."""

    def __init__(self, starts: dict[int, int]) -> None:
        self._starts = starts
        self._values: dict[tuple[str, str], dict[int, float]] = {}

    def add(self, name: str, unit: str, place: CountScope, value: float | None) -> None:
        """Add a value of the interval that ends at `place.end_ns`; None if there is none."""
        if place.end_ns is not None:
            label = _label(place)
            values = self._values.setdefault((f"{name}, {label}" if label else name, unit), {})
            values[place.end_ns] = np.nan if value is None else value

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """`series` and `counters`: each value holds from the start of its interval; without a next one, it ends."""
        if not self._values:
            return empty_table("series"), empty_table("counters")
        names, units = zip(*self._values, strict=True)
        rows = len(names)
        series = _build_table(
            "series",
            name=list(names),
            unit=list(units),
            rank=[None] * rows,
            pid=[None] * rows,
            process=[None] * rows,
            device=[NO_ID] * rows,
        )
        points = [self._make_points(values) for values in self._values.values()]
        number = np.repeat(np.arange(rows), [len(of) for of in points])
        time_ns, value = zip(*[point for of in points for point in of], strict=True)
        return series, _build_table("counters", series=number, time_ns=time_ns, value=np.array(value, np.float64))

    def _make_points(self, values: dict[int, float]) -> list[tuple[int, float]]:
        ends = sorted(values)
        points = []
        for end, following in zip(ends, [*ends[1:], None], strict=True):
            points.append((self._starts[end], values[end]))
            if following is None or self._starts[following] > end:
                points.append((end, np.nan))
        return points


def add_counts(
    builder: ProfileBuilder, count_lines: Sequence[CountLine], metrics: Sequence[Metric], run: int
) -> StatTables:
    """Add counts to the builder. Returns the other tables.

    A summary after intervals is omitted, because it is their sum. A counter of an interval is its count per second,
    that of a clock the CPUs in use, so that intervals of different length are comparable.
    """
    kept = _remove_summary(count_lines, lambda one: one.event)
    kept_metrics = _remove_summary(metrics, lambda one: (one.event, one.name))
    ends = sorted({one.end_ns for one in (*kept, *kept_metrics) if one.end_ns is not None})
    starts = dict(zip(ends, [0, *ends], strict=False))
    series = _IntervalSeries(starts)
    scaling = _compute_scaling(kept)
    threads = _CountThreads(builder, run)
    events: dict[str, int] = {}
    event_names = get_event_names(kept)
    for one in kept:
        name, attributes = event_names[one.event]
        events[one.event] = _intern_event(builder, one, name, attributes, scaling.get(one.event))
        start_ns = None if one.end_ns is None else starts[one.end_ns]
        builder.add_count(
            run=run,
            thread=threads.of(one),
            cpu=-1 if one.cpu is None else one.cpu,
            event=events[one.event],
            start_ns=start_ns,
            end_ns=one.end_ns,
            value=None if one.value is None else float(one.value),
            enabled_ns=_compute_enabled_ns(one),
            running_ns=one.running_ns,
            status=one.status,
            deviation_percent=one.deviation_percent,
        )
        if start_ns is not None and one.end_ns is not None:
            label, unit, factor = _get_rate(one, name)
            length_ns = max(1, one.end_ns - start_ns)
            series.add(label, unit, one, None if one.value is None else float(one.value) * factor / length_ns)
        if one.status != "ok":
            builder.add_loss(f"{EVENT_WITHOUT_VALUE}{one.status}", _format_example(one))
    for metric in kept_metrics:
        if metric.rate:
            # The counter of its event already has this.
            continue
        series.add(metric.name, metric.unit, metric, metric.value)
    table = _build_table(
        "count_metrics",
        run=[run] * len(kept_metrics),
        host=[None] * len(kept_metrics),
        rank=[None] * len(kept_metrics),
        thread=[threads.of(one) for one in kept_metrics],
        cpu=[-1 if one.cpu is None else one.cpu for one in kept_metrics],
        event=[events.get(one.event, NO_ID) for one in kept_metrics],
        name=[one.name for one in kept_metrics],
        unit=[one.unit for one in kept_metrics],
        start_ns=[None if one.end_ns is None else starts[one.end_ns] for one in kept_metrics],
        end_ns=[one.end_ns for one in kept_metrics],
        value=[one.value for one in kept_metrics],
    )
    return StatTables(table, *series.tables())


class _CountThreads:
    """The builder's threads of the scopes of counts."""

    def __init__(self, builder: ProfileBuilder, run: int) -> None:
        self._builder, self._run = builder, run
        self._groups: dict[str, int] = {}

    def of(self, place: CountScope) -> int:
        """The thread, NO_ID for all of them."""
        builder = self._builder
        if place.tid is not None:
            thread = builder.intern_thread(tid=place.tid, run=self._run)
            builder.set_thread_name(thread, 0, place.comm or f":{place.tid}")
            return thread
        if place.group is None:
            return NO_ID
        number = self._groups.setdefault(place.group, len(self._groups))
        thread = builder.intern_thread(kind="cpu", run=self._run, incarnation=number)
        builder.set_thread_name(thread, 0, place.group)
        return thread


def _remove_summary(rows: Iterable[AnyScope], key: Callable[[AnyScope], Hashable]) -> list[AnyScope]:
    rows = list(rows)
    in_intervals = {key(row) for row in rows if row.end_ns is not None}
    return [row for row in rows if row.end_ns is not None or key(row) not in in_intervals]


def merge_repeated(count_lines: Sequence[CountLine], starts: Sequence[int]) -> list[CountLine]:
    """One line for each event, place and interval of a run: the mean of lines that repeat it. starts: the first line of
    each run but the first, in a file to which perf appended.

    perf counts an event once for each group that contains it, as metric groups such as `-M TopdownL1` do, and scales
    each of them to the time in which the event was enabled: their sum would count everything several times.
    """
    by_key: dict[tuple[object, ...], list[CountLine]] = {}
    for number, one in enumerate(count_lines):
        place = (getattr(one, each.name) for each in fields(CountScope))
        by_key.setdefault((bisect_right(starts, number), one.event, one.unit, *place), []).append(one)
    return [_average(lines) if len(lines) > 1 else lines[0] for lines in by_key.values()]


def _average(count_lines: list[CountLine]) -> CountLine:
    """The mean of lines of one event. Those that were not counted say nothing about the others."""
    known = [one for one in count_lines if one.value is not None]
    if len(known) < 2:
        return known[0] if known else count_lines[0]
    # Lines without a share were counted all the time.
    percents = [100.0 if one.running_percent is None else one.running_percent for one in known]
    running = [one.running_ns for one in known if one.running_ns is not None]
    return replace(
        known[0],
        value=sum(one.value for one in known if one.value is not None) / len(known),
        running_ns=round(sum(running) / len(running)) if running else None,
        running_percent=sum(percents) / len(percents) if any(p != 100 for p in percents) else known[0].running_percent,
    )


def get_event_names(count_lines: Sequence[CountLine]) -> dict[str, tuple[str, str]]:
    """The names of the events, and their attributes, by how they were typed: two with one name would be added."""
    typed = dict.fromkeys(one.event for one in count_lines)
    return dict(zip(typed, name_events((each, "") for each in typed), strict=True))


def _intern_event(
    builder: ProfileBuilder, count_line: CountLine, name: str, attributes: str, scaling: float | None
) -> int:
    unit = get_unit(name) if count_line.unit == "count" else count_line.unit
    return builder.intern_event(name, unit, scaling=scaling, attributes=attributes or None)


def _get_rate(count_line: CountLine, name: str) -> tuple[str, str, int]:
    """Name and unit of the counter of an event, and the factor of its count per nanosecond."""
    if count_line.unit == "ns":
        return f"{name} (CPUs)", "", 1
    if count_line.unit in ("count", "bytes"):
        return f"{name} per second", count_line.unit, NS_PER_S
    return f"{name} ({count_line.unit} per second)", "", NS_PER_S


def _label(place: CountScope) -> str:
    """The scope of a value, as part of a name."""
    if place.cpu is not None:
        return f"CPU {place.cpu}" + (f" {place.group}" if place.group else "")
    if place.tid is not None:
        return f"{place.comm or ''} {place.tid}".strip()
    return place.group or ""


def _format_example(count_line: CountLine) -> str:
    if count_line.status == NOT_OBSERVABLE:
        return explain_unobservable(count_line.event)
    at = "" if count_line.end_ns is None else f" at {count_line.end_ns / NS_PER_S:.3f} s"
    of = _label(count_line)
    return f"{count_line.event}{f' of {of}' if of else ''}{at}: <{count_line.status}>"


def _build_table(table: str, **columns: Any) -> pa.Table:
    schema = SCHEMAS[table]
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _compute_scaling(count_lines: list[CountLine]) -> dict[str, float]:
    """Time enabled ÷ time running of each multiplexed event."""
    times: dict[str, tuple[float, float]] = {}
    for one in count_lines:
        if one.running_percent:
            # The human-readable text has only the share.
            running = float(one.running_ns or 1)
            before = times.get(one.event, (0.0, 0.0))
            times[one.event] = (before[0] + running * 100 / one.running_percent, before[1] + running)
    return {event: enabled / running for event, (enabled, running) in times.items() if enabled > running * 1.00005}


def _compute_enabled_ns(count_line: CountLine) -> int | None:
    """perf prints the time running and its share of the time enabled, the latter to two decimals."""
    if count_line.running_ns is None or not count_line.running_percent:
        return None
    return round(count_line.running_ns * 100 / count_line.running_percent)
