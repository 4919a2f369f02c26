"""Reader of what `perf stat` prints, in any of its three forms: counts of events, without call stacks.

A value is what perf prints: scaled up where the event had no counter all the time, the mean where the command was
run several times. Intervals are kept; a summary after them is left out, as it is their sum.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.event_names import plain, unit_of
from ...domain.profile import Meta, Profile
from .grammar import NS_PER_S, Counted, parse_columns, parse_json, parse_text, separator_of

FORMAT = "perf-stat"
LONGEST_LINE = 1 << 13
SNIFFED_LINES = 200
EXAMPLE = 200
_TITLE = re.compile(r"^\s*Performance counter stats for (?P<what>.*?)(?: \((?P<runs>[0-9]+) runs\))?:$")
_COMMAND = re.compile(r"'(?P<command>.*)'$")
_ELAPSED = re.compile(r"^\s*(?P<seconds>[0-9][0-9,']*(?:\.[0-9]+)?)\s+(?:\+- [0-9.]+ )?seconds time elapsed\b")
_STARTED = re.compile(r"^# started on (?P<when>.{1,60})$")
# What stands in the text for people beside the counts.
_IGNORED = re.compile(
    r"""^\s*(?:$|\#|[0-9][0-9.,']*\s+(?:\+-\s[0-9.]+\s)?seconds\s(?:time|user|sys)\b|Some\sevents\sweren't\scounted
    |\s*echo\s[0-9]\s>\s/proc/sys/kernel/nmi_watchdog|perf\sstat\s\.\.\.|\s*(?:[0-9.]+|nan|inf)\s+\#)""",
    re.X,
)


# A metric that has no count of its own, in columns: the count's are empty.
_METRIC_COLUMNS = re.compile(r"^.{0,60}?([^\w\s.]|\t)\1{3,}(?:-?[0-9.]+|-?nan|-?inf)\1.{0,200}$")


@dataclass
class _Text:
    """What is being read. parse: the form of the lines, once one was understood."""

    parse: Callable[[str], Counted | None] | None = None
    started: str | None = None
    command: str | None = None
    repeats: int | None = None
    elapsed_ns: int | None = None
    counted: list[Counted] = field(default_factory=list)


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is of perf stat; other output may come first, as on a terminal."""
    lines = head.decode("utf-8", "replace").splitlines()
    if len(lines) > 1 and not head.endswith(b"\n"):
        lines = lines[:-1]
    return any(_TITLE.match(line) or _form(line) is not None for line in lines[:SNIFFED_LINES])


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in the output of perf stat. `source` names it in messages.

    A stream that knows that it ends too early says so in an attribute `defect`. Raises UnreadableInput where there
    is no count in it.
    """
    builder = ProfileBuilder(FORMAT)
    text = _Text()
    for number, line in _lines(stream, builder):
        _take(line, number, text, builder)
    if not text.counted:
        raise UnreadableInput(
            f"{source}: there is no count of perf stat in it. Was the command started, and did perf print its "
            f"counts (-o FILE) here?"
        )
    _fill(builder, text.counted, builder.run(command=text.command))
    ends = [counted.end_ns for counted in text.counted if counted.end_ns is not None]
    known = [counted.event for counted in text.counted if counted.value is not None]
    facts = {"started": text.started, "repeats": text.repeats and str(text.repeats)}
    defect = getattr(stream, "defect", None)
    return builder.finish(
        Meta(
            FORMAT,
            duration_ns=max(ends) if ends else text.elapsed_ns or _duration_time(text.counted),
            main_event=plain(known[0])[0] if known else None,
            command=text.command,
            complete=not defect,
            reasons=(defect,) if defect else (),
            facts={name: value for name, value in facts.items() if value},
        )
    )


def _lines(stream: BinaryIO, builder: ProfileBuilder) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, from 1. One that is too long is lost without being held in memory."""
    number = 0
    while line := stream.readline(LONGEST_LINE):
        number += 1
        length = len(line)
        if length == LONGEST_LINE and not line.endswith(b"\n"):
            while (rest := stream.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                length += len(rest)
            builder.lost("line of more than 8 KiB", f"line {number}: {length + len(rest):,} bytes")
        else:
            yield number, line.decode("utf-8", "replace").rstrip("\r\n")


def _take(line: str, number: int, text: _Text, builder: ProfileBuilder) -> None:
    if text.parse is None:
        text.parse = _form(line)
    counted = text.parse(line) if text.parse is not None else None
    if counted is not None:
        text.counted.append(counted)
    elif title := _TITLE.match(line):
        command = _COMMAND.match(title["what"])
        text.command = command["command"] if command else None
        text.repeats = int(title["runs"][:9]) if title["runs"] else None
    elif elapsed := _ELAPSED.match(line):
        text.elapsed_ns = int(float(re.sub("[,']", "", elapsed["seconds"])[:30]) * NS_PER_S)
    elif started := _STARTED.match(line):
        text.started = started["when"]
    elif not (_IGNORED.match(line) or _METRIC_COLUMNS.match(line) or line.startswith('{"metric-value"')):
        builder.lost("line that is none of perf stat's", f"line {number}: {line[:EXAMPLE]}")


def _form(line: str) -> Callable[[str], Counted | None] | None:
    """The parser of the form that `line` is in, or None."""
    if parse_json(line) is not None:
        return parse_json
    separator = separator_of(line)
    if separator is not None:
        return lambda other: parse_columns(other, separator)
    # A line of text for people is too easily something else; the heading above it is not.
    if _TITLE.match(line) or re.match(r"^#\s+time\s.*\bcounts\b.*\bevents$", line):
        return parse_text
    return None


def _fill(builder: ProfileBuilder, counted: list[Counted], run: int) -> None:
    in_intervals = {one.event for one in counted if one.end_ns is not None}
    kept = [one for one in counted if one.end_ns is not None or one.event not in in_intervals]
    ends = sorted({one.end_ns for one in kept if one.end_ns is not None})
    start_of = dict(zip(ends, [0, *ends], strict=False))
    scaling = _scaling(kept)
    groups: dict[str, int] = {}
    for one in kept:
        thread = -1
        if one.tid is not None:
            thread = builder.thread(tid=one.tid, run=run)
            builder.named(thread, 0, one.comm or f":{one.tid}")
        elif one.group is not None:
            thread = builder.thread(kind="cpu", run=run, incarnation=groups.setdefault(one.group, len(groups)))
            builder.named(thread, 0, one.group)
        builder.count(
            run=run,
            thread=thread,
            cpu=-1 if one.cpu is None else one.cpu,
            event=_event(builder, one, scaling.get(one.event)),
            start_ns=None if one.end_ns is None else start_of[one.end_ns],
            end_ns=one.end_ns,
            value=None if one.value is None else float(one.value),
            enabled_ns=_enabled_ns(one),
            running_ns=one.running_ns,
            status=one.status,
            deviation_percent=one.deviation_percent,
        )


def _event(builder: ProfileBuilder, one: Counted, scaling: float | None) -> int:
    name, attributes = plain(one.event)
    unit = unit_of(name) if one.unit == "count" else one.unit
    return builder.event(name, unit, scaling=scaling, attributes=attributes or None)


def _scaling(counted: list[Counted]) -> dict[str, float]:
    """Time enabled ÷ time running of each event that had to share its counter."""
    times: dict[str, tuple[float, float]] = {}
    for one in counted:
        if one.running_percent:
            # The text for people has the share alone.
            running = float(one.running_ns or 1)
            before = times.get(one.event, (0.0, 0.0))
            times[one.event] = (before[0] + running * 100 / one.running_percent, before[1] + running)
    return {event: enabled / running for event, (enabled, running) in times.items() if enabled > running * 1.00005}


def _enabled_ns(one: Counted) -> int | None:
    """perf prints the time running and its share of the time enabled, the latter to two decimals."""
    if one.running_ns is None or not one.running_percent:
        return None
    return round(one.running_ns * 100 / one.running_percent)


def _duration_time(counted: list[Counted]) -> int | None:
    """The event `duration_time` is the time that passed."""
    times = [one.value for one in counted if one.event == "duration_time" and one.unit == "ns" and one.value]
    return int(times[0]) if times else None
