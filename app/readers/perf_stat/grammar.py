"""The lines that `perf stat` prints: JSON (`-j`), separated columns (`-x`), and the human-readable text.

One line yields one `CountLine`, or None if it is none. Verified with perf 6.1; other versions differ in the text after
the percentage (metrics, see `metrics`) and in the number of aggregated CPUs.
"""

import json
import re
from dataclasses import asdict, dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from ...domain.event_names import NOT_OBSERVABLE, is_unobservable
from ...domain.units import NS_PER_MS, NS_PER_S, NS_PER_US

NOT_COUNTED = "not counted"
NOT_SUPPORTED = "not supported"
AGGREGATIONS = ("core", "die", "socket", "node", "cache", "cluster")
"""What a JSON row may be of, in addition to a CPU, a thread or a cgroup."""
SEPARATORS = (",", ";", "\t", "|", ":", "~", "@", "^", "!", " ")
# unit as printed -> (unit of the event, factor)
UNITS: dict[str, tuple[str, int]] = {
    "": ("count", 1),
    "ns": ("ns", 1),
    "nsec": ("ns", 1),
    "usec": ("ns", NS_PER_US),
    "msec": ("ns", NS_PER_MS),
    "sec": ("ns", NS_PER_S),
    "Bytes": ("bytes", 1),
    "KiB": ("bytes", 2**10),
    "MiB": ("bytes", 2**20),
    "GiB": ("bytes", 2**30),
}
_LARGEST = Decimal(2) ** 63
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_ABSENT = r"<not (?:counted|supported)>"
# A socket, die, core, cache, cluster or node as perf names it: S0-D0-C3, N1, S0-D0-L3-ID0.
_PLACE = r"(?:S[0-9]+(?:-[A-Z]+[0-9]+)*|N[0-9]+)"


@dataclass(frozen=True, kw_only=True)
class CountScope:
    """The scope of a value. end_ns: end of its interval, null for the whole run. summary: of a run that was also
    printed in intervals. cpu: null for all. group: the aggregate, if it is neither a CPU nor a thread ("S0-D0-C1",
    "cgroup /a")."""

    end_ns: int | None = None
    summary: bool = False
    cpu: int | None = None
    comm: str | None = None
    tid: int | None = None
    group: str | None = None


@dataclass(frozen=True, kw_only=True)
class CountLine(CountScope):
    """One value of one counter.

    value: in `unit`, null if `status` is not "ok". running_percent: share of the time in which the event had a counter.
    deviation_percent: of the mean over repeated runs. metric_value, metric: the metric on the same line, as printed
    ("1.25", "insn per cycle"), empty for none.
    """

    event: str
    unit: str
    value: int | float | None
    status: str
    running_ns: int | None = None
    running_percent: float | None = None
    deviation_percent: float | None = None
    metric_value: str = ""
    metric: str = ""


def parse_json(line: str) -> CountLine | None:
    """A line of `perf stat -j`. Lines with only a metric yield None, like other lines without a count."""
    if not line.startswith("{") or '"counter-value"' not in line:
        return None
    try:
        # printf of C writes numbers that are invalid in JSON.
        data = json.loads(re.sub(r"(:\s*)-?(?:nan|inf)\b", r"\1null", line))
    except (ValueError, RecursionError):
        return None
    event = data.get("event")
    if not isinstance(event, str) or not event:
        return None
    return _parse_count(
        event=event,
        unit=to_text(data.get("unit")),
        value=to_text(data.get("counter-value")),
        place=parse_json_scope(data),
        running=to_text(data.get("event-runtime")),
        percent=to_text(data.get("pcnt-running")),
        deviation=to_text(data.get("variance")),
        metric_value=to_text(data.get("metric-value")),
        metric=to_text(data.get("metric-unit")),
    )


def parse_columns(line: str, separator: str) -> CountLine | None:
    """A line of `perf stat -x SEPARATOR`."""
    match = _split_columns(separator).match(line)
    if match is None:
        return None
    return _parse_count(
        event=match["event"],
        unit=match["unit"],
        value=match["value"],
        place=parse_text_scope(match["time"] or "", match["aggregate"] or "", match["cgroup"] or ""),
        running=match["running"],
        percent=match["percent"],
        deviation=match["deviation"] or "",
        metric_value=match["metric_value"] or "",
        metric=match["metric"] or "",
    )


def parse_text(line: str) -> CountLine | None:
    """A line of the human-readable text of perf stat, in the C locale or with digits grouped."""
    match = _TEXT.match(line)
    if match is None:
        return None
    return _parse_count(
        event=match["event"],
        unit=match["unit"] or "",
        value=match["value"].replace(",", "").replace("'", ""),
        place=parse_text_scope(match["time"] or "", match["aggregate"] or ""),
        running="",
        percent=match["percent"] or "",
        deviation=match["deviation"] or "",
        metric_value=match["metric_value"] or "",
        metric=(match["metric"] or "").strip(),
    )


def detect_separator(line: str) -> str | None:
    """The separator with which `line` is one of `perf stat -x`, or None."""
    return next((s for s in SEPARATORS if s in line and parse_columns(line, s) is not None), None)


@lru_cache(maxsize=32)
def _split_columns(separator: str) -> re.Pattern[str]:
    s = re.escape(separator)
    # The parameters of an event are between slashes and may contain the separator: cpu/event=0x3c,umask=0x0/u
    event = rf"(?:[^{s}/\n]|/[^/\n]{{0,500}}/){{1,500}}?"
    return re.compile(
        rf"^(?:\s*(?P<time>[0-9]+\.[0-9]+|summary){s})?"
        rf"(?:(?P<aggregate>[^{s}\n]{{1,100}}){s}(?:[0-9]{{1,6}}{s})?)??"
        rf"\s*(?P<value>{_NUMBER}|{_ABSENT}){s}(?P<unit>[A-Za-z0-9^%/]{{0,20}}){s}(?P<event>{event}){s}"
        rf"(?:(?P<cgroup>[^{s}\n]{{1,500}}){s})??(?:(?P<deviation>[0-9.]+)%{s})?"
        rf"(?P<running>[0-9]+){s}(?P<percent>[0-9]+\.[0-9]+)"
        rf"(?:{s}(?P<metric_value>[^{s}\n]{{0,60}})(?:{s}(?P<metric>[^\n]*))?)?$"
    )


# In the text the percent sign follows the number without a space.
_METRIC_VALUE = r"-?(?:[0-9]+(?:\.[0-9]+)?|nan|inf)(?![\w.])"
_TEXT = re.compile(
    rf"^\s*(?:(?P<time>[0-9]+\.[0-9]{{9}})\s+)?"
    rf"(?:(?P<aggregate>CPU[0-9]+|{_PLACE}|\S.{{0,40}}?-[0-9]+)\s+(?:[0-9]{{1,6}}\s+(?=[-0-9<]))?)?"
    rf"(?P<value>-?[0-9][0-9,']*(?:\.[0-9]+)?|{_ABSENT})\s+"
    rf"(?:(?P<unit>{'|'.join(sorted(filter(None, UNITS), key=len, reverse=True))}|Joules)\s+)?"
    rf"(?P<event>[A-Za-z_][^\s#]{{0,500}})"
    rf"(?:\s+#\s*(?P<metric_value>{_METRIC_VALUE})?(?P<metric>(?:[^(]|\((?!\s*\+-|[0-9.]+%\)))*))?"
    rf"\s*(?:\(\s*\+-\s*(?P<deviation>[0-9.]+)%\s*\))?\s*(?:\((?P<percent>[0-9.]+)%\))?\s*$"
)


def _parse_scope(text: str) -> tuple[str, str | None, int | None, int | None]:
    """(group, comm, tid, cpu) of the text for the scope of a count."""
    text = text.strip()
    if not text:
        return "", None, None, None
    cpu = re.fullmatch(r"CPU([0-9]{1,6})", text)
    if cpu:
        return "", None, None, int(cpu[1])
    if re.fullmatch(_PLACE, text):
        return text, None, None, None
    comm, tid = _parse_thread(text)
    return ("", comm, tid, None) if tid is not None else (text, None, None, None)


def _parse_thread(text: str) -> tuple[str | None, int | None]:
    comm, dash, tid = text.rpartition("-")
    if dash and re.fullmatch(r"[0-9]{1,10}", tid):
        return comm, int(tid)
    return None, None


def _join_place(place: str, cgroup: str) -> str | None:
    return " ".join(part for part in (place, f"cgroup {cgroup}" if cgroup else "") if part) or None


def parse_json_scope(data: dict[str, Any]) -> CountScope:
    """The scope of a row of `perf stat -j`."""
    thread, interval = to_text(data.get("thread")), to_text(data.get("interval"))
    comm, tid = _parse_thread(thread) if thread else (None, None)
    place = next((to_text(data[name]) for name in AGGREGATIONS if name in data), "")
    cpu = re.fullmatch(r"(?:CPU)?([0-9]{1,6})", to_text(data.get("cpu")))
    # Without a number it is another kind of aggregate, and becomes the group's name.
    group = place or (to_text(data.get("cpu")) if cpu is None else "") or (thread if tid is None else "")
    return CountScope(
        end_ns=_end_ns(interval),
        summary=interval == "summary",
        cpu=int(cpu[1]) if cpu else None,
        comm=comm,
        tid=tid,
        group=_join_place(group, to_text(data.get("cgroup"))),
    )


def parse_text_scope(time: str, aggregate: str, cgroup: str = "") -> CountScope:
    """The scope of a line that begins with a time and an aggregate, both empty for none."""
    group, comm, tid, cpu = _parse_scope(aggregate)
    time = time.strip()
    return CountScope(
        end_ns=_end_ns(time), summary=time == "summary", cpu=cpu, comm=comm, tid=tid, group=_join_place(group, cgroup)
    )


def _end_ns(text: str) -> int | None:
    end_s = _parse_decimal(text)
    return None if end_s is None else int(end_s * NS_PER_S)


def _parse_count(
    *,
    event: str,
    unit: str,
    value: str,
    place: CountScope,
    running: str,
    percent: str,
    deviation: str,
    metric_value: str,
    metric: str,
) -> CountLine | None:
    own_unit, factor = UNITS.get(unit, (unit, 1))
    status = "ok"
    number: int | float | None = None
    if value.startswith("<"):
        status = NOT_SUPPORTED if "supported" in value else NOT_COUNTED
    else:
        exact = _parse_decimal(value)
        if exact is None:
            return None
        scaled = exact * factor
        number = int(scaled) if scaled == scaled.to_integral_value() else float(scaled)
    # Nor would a longer interval count it.
    if not number and status != NOT_SUPPORTED and is_unobservable(event):
        status, number, deviation, metric_value = NOT_OBSERVABLE, None, "", ""
    run = _parse_decimal(running)
    share = _parse_decimal(percent)
    spread = _parse_decimal(deviation)
    return CountLine(
        event=event,
        unit=own_unit,
        value=number,
        status=status,
        running_ns=None if run is None else int(run),
        running_percent=None if share is None else min(float(share), 100.0),
        deviation_percent=None if spread is None else float(spread),
        metric_value=metric_value,
        metric=metric,
        **asdict(place),
    )


def _parse_decimal(text: str) -> Decimal | None:
    """A number that int64 nanoseconds can hold, or None."""
    try:
        number = Decimal(text) if text and len(text) < 60 else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() and abs(number) < _LARGEST else None


def to_text(value: Any) -> str:
    """A text or number of JSON as text, anything else as the empty text."""
    if isinstance(value, str):
        return value
    return "" if value is None or isinstance(value, bool | list | dict) else str(value)
