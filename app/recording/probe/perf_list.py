"""Parsers of the output of `perf list`, `perf version` and others. `workers.base.facts_probe` and the probe run
perf."""

import json
import re
from typing import Any

from ...domain.host_facts import PerfEvent

RECORD_OPTIONS = (
    ("-z", "--compression-level"),
    ("-N", "--no-buildid-cache"),
    ("--no-bpf-event", "--no-bpf-event"),
    ("--max-size", "--max-size"),
    ("--buildid-mmap", "--buildid-mmap"),
)
"""Options of `perf record` that Perfloom may use: as used, and the long form in perf's help."""
STAT_OPTIONS = (("-j", "--json-output"),)
UNWINDERS = ("libunwind", "libdw", "libdw-dwarf-unwind", "dwarf-unwind-support")
"""Lines of `perf version --build-options`, whose names changed between versions."""

_GROUPS = {
    "hardware event": "hardware",
    "hardware cache event": "cache",
    "software event": "software",
    "tracepoint event": "tracepoint",
    "raw hardware event descriptor": "raw",
    "raw event descriptor": "raw",
    "hardware breakpoint": "breakpoint",
    "tool event": "tool",
    "kernel pmu event": "pmu",
}
_EVENT = re.compile(r"  (\S.*?)(?:\s+\[([^\[\]]+)\])?\s*")
_TOPIC = re.compile(r"(\S[^\[\]]*):")
_MAX_TEXT = 300


def events_from_json(text: str) -> tuple[PerfEvent, ...]:
    """From `perf list --json` (perf 6.2 and later). Raises ValueError if `text` is something else."""
    data = _list_of_objects(text)
    found: dict[str, PerfEvent] = {}
    for item in data:
        if isinstance(item, dict) and isinstance(item.get("EventName"), str):
            kind = str(item.get("EventType") or item.get("Topic") or item.get("Unit") or "")
            description = str(item.get("BriefDescription") or item.get("PublicDescription") or "")
            _add(found, item["EventName"], kind, description)
            if isinstance(item.get("EventAlias"), str):
                _add(found, item["EventAlias"], kind, description or f"alias of {item['EventName']}")
    return tuple(found.values())


def _list_of_objects(text: str) -> list[Any]:
    # Without privileges, perf may print before it what it is not permitted to access.
    start = re.search(r"^\[", text, re.M)
    if start is None:
        raise ValueError("not a list")
    text = text[start.start() :]
    try:
        found: list[Any] = json.loads(text)
        return found
    except ValueError:
        # Some versions do not escape descriptions; only the events concerned are skipped.
        pieces = re.findall(r"^\{\n.*?^\}", text, re.M | re.S)
        found = [each for each in map(_load_json, pieces) if each is not None]
        if not found:
            raise
        return found


def _load_json(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except ValueError:
        return None


def events_from_text(text: str) -> tuple[PerfEvent, ...]:
    """From plain `perf list`: one event per line with its type in brackets, or below the heading of a topic."""
    found: dict[str, PerfEvent] = {}
    topic, last = "", ""
    description: list[str] = []

    def close() -> None:
        if last and description:
            text_of_description = " ".join(description).strip("[] ")
            found[last] = PerfEvent(last, found[last].group, text_of_description[:_MAX_TEXT])
        description.clear()

    for line in text.splitlines():
        if line.startswith(("Metric Groups:", "Metrics:")):
            break
        if line.startswith("      "):
            description.append(line.strip())
        elif heading := _TOPIC.fullmatch(line):
            topic = heading[1]
        elif event := _EVENT.fullmatch(line):
            close()
            names = event[1].split(" OR ")
            last = names[0].strip()
            _add(found, last, event[2] or topic, "")
            for name in names[1:]:
                _add(found, name.strip(), event[2] or topic, f"alias of {last}")
    close()
    return tuple(found.values())


def _add(found: dict[str, PerfEvent], name: str, kind: str, description: str) -> None:
    group = _GROUPS.get(kind.lower(), kind.lower() or "pmu")
    # "software//modifier" is syntax, not an event.
    if name and name not in found and not name.endswith("//modifier"):
        found[name] = PerfEvent(name, group, description[:_MAX_TEXT])


def offered_options(help_text: str, options: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Which options are in the output of `perf … -h`. options: (as used, the long form in the help)."""
    words = set(re.findall(r"--[a-z][a-z0-9-]+", help_text))
    return tuple(short for short, long in options if long in words)


def record_options(help_text: str, build_text: str) -> tuple[str, ...]:
    """The options of a perf for HostFacts, from the output of `record -h` and `version --build-options`."""
    built = build_options(build_text)
    without = {"-z"} if built.get("zstd") is False else set()
    found = [
        offered_option for offered_option in offered_options(help_text, RECORD_OPTIONS) if offered_option not in without
    ]
    # If the build options are unknown, assume that the libraries are built in.
    unwinders = [built[name] for name in UNWINDERS if name in built]
    if any(unwinders) or not unwinders:
        found.append("--call-graph dwarf")
    return tuple(found)


def stat_options(help_text: str) -> tuple[str, ...]:
    """The same for `perf stat`."""
    return offered_options(help_text, STAT_OPTIONS)


def build_options(text: str) -> dict[str, bool]:
    """From `perf version --build-options`: the name of each library → whether it is built in."""
    lines = re.findall(r"^\s*([\w-]+):\s*\[\s*(on|OFF)\s*\]", text, re.M | re.I)
    return {name: state.lower() == "on" for name, state in lines}


def version(text: str) -> str | None:
    """From `perf --version`: `perf version 6.1.187` → 6.1.187."""
    match = re.search(r"perf version (\S+)", text)
    return match[1] if match else None


def counts_hardware_events(text: str) -> bool | None:
    """From `perf stat -x; -e cycles,instructions`: whether anything was counted. None if the output has neither."""
    states = [line.split(";")[0] for line in text.splitlines() if line.count(";") >= 4]
    if any(re.fullmatch(r"[0-9][0-9.,]*", state) for state in states):
        return True
    return False if states and all("not supported" in state for state in states) else None
