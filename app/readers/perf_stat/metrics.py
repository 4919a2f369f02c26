"""Metrics that `perf stat` computes from its counts: after a count, in a separate row, or alone (`--metric-only`).

perf prints a metric's value and one text for name and unit ("insn per cycle", "K/sec", "%  tma_retiring"). Layouts as
in perf's own source, tools/perf/util/stat-display.c of 5.x, 6.1 and later.
"""

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from .grammar import AGGREGATIONS, CountLine, CountScope, parse_json_scope, parse_text_scope, to_text

_SI = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
_NUMBER = r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[-+]?[0-9]{1,3})?|-?nan|-?inf|none"
# perf omits these from rows with only metrics, though some versions list them in the heading.
_NEVER_ALONE = re.compile(r"/sec|CPUs utilized")
# Enough to distinguish a heading or row of metrics from other text: metrics of every CPU, and top-down analysis.
_KNOWN = re.compile(
    r"insn per cycle|\bGHz\b|stalled cycles per insn|(?:frontend|backend) cycles idle|of all |CPUs utilized"
    r"|\b(?:retiring|bad speculation|frontend bound|backend bound)\b|\btma_[a-z]|\b(?:CPI|IPC)\b"
)
_HEADING_WORDS = r"(?:\s*#)?(?:\s*time\b)?(?:\s*(?:CPU|cpu|core|die|socket|node|comm-pid)\b)?(?:\s*cpus\b)?"
_JSON_OTHER = {*AGGREGATIONS, "interval", "cpu", "thread", "cgroup", "aggregate-number", "counters", "cpu-count"}
_TEXT_ROW = re.compile(
    rf"^\s*(?:(?P<time>[0-9]+\.[0-9]{{9}})\s+)?(?:(?P<aggregate>[A-Za-z]\S{{0,60}})\s+(?:[0-9]{{1,6}}\s{{2,}})?)?"
    rf"(?P<values>(?:(?:{_NUMBER})%?\s+)*(?:{_NUMBER})%?)\s*$"
)


@dataclass(frozen=True, kw_only=True)
class Metric(CountScope):
    """One value of one metric. event: after which it was printed, empty for none. value: null if perf had none.

    rate: whether it is a count divided by time.
    """

    name: str
    unit: str
    value: float | None
    event: str = ""
    rate: bool = False


def parse_count_metric(count_line: CountLine) -> Metric | None:
    """The metric on the line of a count, or None."""
    place = {name: getattr(count_line, name) for name in CountScope.__dataclass_fields__}
    return _parse_metric(count_line.metric_value, count_line.metric, count_line.event, CountScope(**place))


@dataclass
class MetricLines:
    """Reads lines with metrics and no count. separator: of columns, once known. event: of the last count before.
    heading: the names above rows of values, empty before there was one."""

    separator: str = ","
    event: str = ""
    heading: tuple[str, ...] = field(default=())

    def read(self, line: str) -> list[Metric] | None:
        """The metrics of a line; empty for a heading, None if it is neither."""
        if line.startswith("{"):
            return self._parse_json(line)
        return self._parse_continuation(line) or self._parse_row(line)

    def _parse_json(self, line: str) -> list[Metric] | None:
        if "metric-value" not in line:
            units = re.findall(r'"unit"\s*:\s*"([^"]*)"', line)
            rest = re.sub(r'"unit"\s*:\s*"[^"]*"|[{},\s]', "", line)
            if not rest:
                self.heading = tuple(units)
                return []
        data = _parse_object(line)
        if data is None:
            return self._parse_joined_objects(line)
        place = parse_json_scope(data)
        if "metric-value" in data:
            if "metric-unit" not in data:
                return self._parse_named([to_text(data["metric-value"])], place)
            metric = _parse_metric(to_text(data["metric-value"]), to_text(data["metric-unit"]), self.event, place)
            return [metric] if metric else []
        if "metricgroup" in data:
            return []
        if not data or not data.keys().isdisjoint({"counter-value", "unit", "event"}):
            return None
        if not all(isinstance(value, str | int | float) for value in data.values()):
            return None
        texts = {name: to_text(value) for name, value in data.items() if name not in _JSON_OTHER}
        if not all(re.fullmatch(_NUMBER, value) for value in texts.values() if value):
            return None
        found = [_parse_metric(value, name, "", place) for name, value in texts.items()]
        return [metric for metric in found if metric]

    def _parse_joined_objects(self, line: str) -> list[Metric] | None:
        """perf 6.1 writes an object for each value, one after the other and after that of the scope."""
        values = re.findall(r'\{"metric-value"\s*:\s*"([^"]*)"\}', line)
        head = line.split('{"metric-value"', 1)[0].strip().rstrip(",{} ").lstrip("{")
        data = _parse_object("{" + head + "}")
        # With --metric-only it begins an object that it never ends, even without a value.
        if data is None or not (values or (data and data.keys() <= _JSON_OTHER)):
            return None
        return self._parse_named(values, parse_json_scope(data))

    def _parse_continuation(self, line: str) -> list[Metric] | None:
        """The second and further metrics of a count: the columns of the count are empty, or the text is indented."""
        s = re.escape(self.separator)
        columns = re.match(
            rf"^(?:\s*(?P<time>[0-9]+\.[0-9]+|summary){s})?(?:(?P<aggregate>[^{s}\n]{{1,100}}){s}(?:[0-9]{{1,6}}{s})?)?"
            rf"{s}{{2,12}}(?P<value>{_NUMBER}){s}(?P<name>[^\n]{{1,200}})$",
            line,
        )
        text = re.match(
            rf"^\s*(?:(?P<time>[0-9]+\.[0-9]{{9}})\s+)?(?:(?P<aggregate>[A-Za-z]\S{{0,60}})\s+(?:[0-9]{{1,6}}\s+)?)?"
            rf"#\s+(?P<value>{_NUMBER})(?P<name>(?:%|\s)[^(\n]{{1,200}}?)\s*(?:\(.*)?$",
            line,
        )
        found = columns or text
        if found is None:
            return None
        place = parse_text_scope(found["time"] or "", found["aggregate"] or "")
        metric = _parse_metric(found["value"], found["name"], self.event, place)
        return [metric] if metric else []

    def _parse_row(self, line: str) -> list[Metric] | None:
        """A heading of `--metric-only`, or a row of values below it."""
        s = self.separator
        if names := _parse_heading(line, s):
            self.heading = names
            return []
        if not self.heading:
            return None
        if s in line and not line.lstrip().startswith("#"):
            cells = line.removesuffix(s).split(s)
            before = len(cells) - len(self._parse_metric_row(len(cells)))
            time, *_ = [cell for cell in cells[:before] if re.fullmatch(r"\s*[0-9]+\.[0-9]{9}", cell)] or [""]
            words = [cell for cell in cells[:before] if re.match(r"\s*[A-Za-z]", cell)]
            return self._parse_named(cells[before:], parse_text_scope(time, words[0] if words else ""))
        match = _TEXT_ROW.match(line)
        if match is None:
            return None
        values = [value.rstrip("%") for value in match["values"].split()]
        return self._parse_named(values, parse_text_scope(match["time"] or "", match["aggregate"] or ""))

    def _parse_metric_row(self, most: int) -> tuple[str, ...]:
        """The names of the header that have values in rows of at most this many cells."""
        if len(self.heading) <= most and not any(_NEVER_ALONE.search(name) for name in self.heading):
            return self.heading
        return tuple(name for name in self.heading if not _NEVER_ALONE.search(name))

    def _parse_named(self, values: list[str], place: CountScope) -> list[Metric] | None:
        names = self.heading if len(self.heading) == len(values) else self._parse_metric_row(len(values))
        if len(names) != len(values):
            return None
        found = [_parse_metric(value, name, "", place) for value, name in zip(values, names, strict=True)]
        return [metric for metric in found if metric]


def is_metric_line(line: str) -> bool:
    """Whether a line is certainly of perf stat because of the metrics in it."""
    if line.startswith("{"):
        data = _parse_object(line)
        if data is None:
            return bool(re.match(r'\{"unit" : "[^"]*"\}', line) and _KNOWN.search(line))
        if "metric-value" in data:
            return True
        names = [name for name in data if _KNOWN.search(name)]
        return bool(names) and all(re.fullmatch(_NUMBER, to_text(data[name]) or "0") for name in names)
    return any(_parse_heading(line, s) for s in (",", ";", "\t", "|"))


def _parse_heading(line: str, separator: str) -> tuple[str, ...]:
    """The names of metrics in a heading of columns or text; empty if it is none."""
    if not _KNOWN.search(line) or re.search(r"\s#\s", line) or line.startswith("{"):
        return ()
    if line.rstrip().endswith(separator):
        cells = [cell.strip() for cell in line.rstrip().removesuffix(separator).split(separator)]
        while cells and re.fullmatch(_HEADING_WORDS, cells[0]):
            cells = cells[1:]
    else:
        text = re.sub(rf"^{_HEADING_WORDS}", "", line).strip()
        # A name longer than its column is followed by one space: such names are those of shares ("… of all branches").
        cells = [cell for cell in re.split(r"\s{2,}|\s(?=\S+ of all )", text) if cell]
    known = all(re.fullmatch(r"[A-Za-z%][\w %./()+:-]{0,120}", cell) for cell in cells)
    return tuple(cells) if cells and known else ()


def _parse_metric(value: str, text: str, event: str, place: CountScope) -> Metric | None:
    """A metric of perf's text for name and unit. None if there is none: perf then prints no text."""
    text = " ".join(text.split()).strip(" ,;|")
    if not text or text == "(null)":
        return None
    number = float(value) if re.fullmatch(_NUMBER, value) and value != "none" and len(value) < 60 else None
    if number is not None and not abs(number) < 2.0**63:
        number = None
    unit, name = "", text
    if text.startswith("%"):
        unit, name = "percent", text.removeprefix("%").strip() or event
    rate = re.fullmatch(r"([KMG]?)/sec", text)
    if rate:
        # perf divides by the time that its clock event counted.
        name = f"{event} per second of CPU time".strip()
        number = None if number is None else number * _SI[rate[1]]
    elif name.startswith("of all "):
        unit, name = "percent", f"{event} {name}".strip()
    elif " of all " in name or name.endswith("cycles idle"):
        unit = "percent"
    is_rate = bool(rate) or text == "CPUs utilized"
    return Metric(name=name, unit=unit, value=number, event=event, rate=is_rate, **asdict(place))


def _parse_object(line: str) -> dict[str, Any] | None:
    try:
        # printf of C writes numbers that are invalid in JSON.
        data = json.loads(re.sub(r"(:\s*)-?(?:nan|inf)\b", r"\1null", line))
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
