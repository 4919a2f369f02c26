"""Reader of the output of `perf stat`, in any of its three forms: counts of events, without call stacks.

A value is as perf prints it: scaled if the event was multiplexed, the mean if the command was run several times.
Intervals are kept; a summary after them is omitted, because it is their sum. perf computes the metrics from its counts.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.losses import EVENT_WITHOUT_VALUE
from ...domain.profile import Meta, Profile
from ...domain.units import NS_PER_S
from ...ingest.losses import MAX_LONG_EXAMPLE_CHARS, UNRECOGNIZED_LINE
from ...ingest.stat_counts import COUNTS_FORMAT
from .grammar import CountLine, detect_separator, parse_columns, parse_json, parse_text
from .metrics import Metric, MetricLines, is_metric_line, parse_count_metric
from .tables import add_counts, get_event_names, merge_repeated

FORMAT = COUNTS_FORMAT
MAX_LINE_BYTES = 1 << 13
SNIFFED_LINES = 200
TOO_LONG = "line of more than 8 KiB"
LOSSES = (EVENT_WITHOUT_VALUE, TOO_LONG, UNRECOGNIZED_LINE)
_TITLE = re.compile(r"^\s*Performance counter stats for (?P<what>.*?)(?: \((?P<runs>[0-9]+) runs\))?:$")
_COMMAND = re.compile(r"'(?P<command>.*)'$")
_ELAPSED = re.compile(r"^\s*(?P<seconds>[0-9][0-9,']*(?:\.[0-9]+)?)\s+(?:\+- [0-9.]+ )?seconds time elapsed\b")
_STARTED = re.compile(r"^# started on (?P<when>.{1,60})$")
# Other parts of the text, in addition to the counts.
_PEOPLE = re.compile(
    r"""^\s*(?:[0-9][0-9.,']*\s+(?:\+-\s[0-9.]+\s)?seconds\s(?:time|user|sys)\b|Some\sevents\sweren't\scounted
    |\s*echo\s[0-9]\s>\s/proc/sys/kernel/nmi_watchdog|perf\sstat\s\.\.\.)""",
    re.X,
)


@dataclass
class _StatText:
    """The state of reading. parse: the form of the lines, once one was recognized. starts: the first count of each run
    but the first."""

    parse: Callable[[str], CountLine | None] | None = None
    started: str | None = None
    command: str | None = None
    repeats: int | None = None
    elapsed_ns: int | None = None
    counted: list[CountLine] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    metric_lines: MetricLines = field(default_factory=MetricLines)


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is of perf stat; other output may come first, as on a terminal."""
    lines = head.decode("utf-8", "replace").splitlines()
    if len(lines) > 1 and not head.endswith(b"\n"):
        lines = lines[:-1]
    return any(
        _TITLE.match(line) or _STARTED.match(line) or _detect_form(line) is not None or is_metric_line(line)
        for line in lines[:SNIFFED_LINES]
    )


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in the output of perf stat. `source` names it in messages.

    A truncated stream has an attribute `defect`. Raises UnreadableInput if it has no counts.
    """
    builder = ProfileBuilder(FORMAT)
    text = _StatText()
    for number, line in _iterate_lines(stream, builder):
        _take(line, number, text, builder)
    if not (text.counted or text.metrics):
        if text.started is not None:
            # perf 6.1 with -I prints no counts if the command ends before perf begins to wait for the first interval.
            raise UnreadableInput(
                f"{source} has no counts of perf stat: it has only the time of its start. With an interval, perf "
                "writes no counts if the command ends at once. Count without an interval, or count a longer command."
            )
        raise UnreadableInput(
            f"{source} has no counts of perf stat. Check that the command was started, and that perf wrote its counts "
            "to this file (-o FILE)."
        )
    text.counted = merge_repeated(text.counted, text.starts)
    tables = add_counts(builder, text.counted, text.metrics, builder.add_run(command=text.command))
    ends = [one.end_ns for one in (*text.counted, *text.metrics) if one.end_ns is not None]
    events = [counted.event for counted in text.counted if counted.value is not None]
    facts = {"started": text.started, "repeats": text.repeats and str(text.repeats)}
    defect = getattr(stream, "defect", None)
    profile = builder.finish(
        Meta(
            FORMAT,
            duration_ns=max(ends) if ends else text.elapsed_ns or _rename_duration(text.counted),
            main_event=get_event_names(text.counted)[events[0]][0] if events else None,
            command=text.command,
            complete=not defect,
            reasons=(defect,) if defect else (),
            facts={name: value for name, value in facts.items() if value},
        )
    )
    return replace(profile, **vars(tables))


def _iterate_lines(stream: BinaryIO, builder: ProfileBuilder) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, from 1. A line that is too long is lost without being held in memory."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        length = len(line)
        if length == MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (rest := stream.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                length += len(rest)
            builder.add_loss(TOO_LONG, f"line {number}: {length + len(rest):,} bytes")
        else:
            yield number, line.decode("utf-8", "replace").rstrip("\r\n")


def _take(line: str, number: int, text: _StatText, builder: ProfileBuilder) -> None:
    if text.parse is None:
        text.parse = _detect_form(line, text.metric_lines)
    elif text.counted and (_TITLE.match(line) or _STARTED.match(line)):
        text.starts.append(len(text.counted))
    counted = text.parse(line) if text.parse is not None else None
    if counted is not None:
        text.counted.append(counted)
        text.metric_lines.event = counted.event
        if metric := parse_count_metric(counted):
            text.metrics.append(metric)
    elif title := _TITLE.match(line):
        command = _COMMAND.match(title["what"])
        text.command = command["command"] if command else None
        text.repeats = int(title["runs"][:9]) if title["runs"] else None
    elif match := _ELAPSED.match(line):
        text.elapsed_ns = int(float(re.sub("[,']", "", match["seconds"])[:30]) * NS_PER_S)
    elif started := _STARTED.match(line):
        text.started = started["when"]
    elif not line.strip() or _PEOPLE.match(line):
        pass
    elif (metrics := text.metric_lines.read(line)) is not None:
        text.metrics.extend(metrics)
    elif not line.startswith("#"):
        builder.add_loss(UNRECOGNIZED_LINE, f"line {number}: {line[:MAX_LONG_EXAMPLE_CHARS]}")


def _detect_form(line: str, metrics: MetricLines | None = None) -> Callable[[str], CountLine | None] | None:
    """The parser of the form that `line` is in, or None."""
    if parse_json(line) is not None:
        return parse_json
    separator = detect_separator(line)
    if separator is not None:
        if metrics is not None:
            metrics.separator = separator
        return lambda other: parse_columns(other, separator)
    # A single line of the human-readable form is ambiguous; the heading above it is not.
    if _TITLE.match(line) or re.match(r"^#\s+time\s.*\bcounts\b.*\bevents$", line):
        return parse_text
    return None


def _rename_duration(count_lines: list[CountLine]) -> int | None:
    """The event `duration_time` is the elapsed time."""
    times = [one.value for one in count_lines if one.event == "duration_time" and one.unit == "ns" and one.value]
    return int(times[0]) if times else None
