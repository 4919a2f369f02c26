"""What perf prints about itself, as the versions of the last years print it."""

import json
import subprocess

import pytest

from perfloom.recording.probe.perf_list import (
    build_options,
    counts_hardware_events,
    events_from_json,
    events_from_text,
    offered_options,
    version,
)
from tests.support.parts import require

TEXT_61 = """
List of pre-defined events (to be used in -e or -M):

  branch-instructions OR branches                    [Hardware event]
  cpu-cycles OR cycles                               [Hardware event]
  context-switches OR cs                             [Software event]
  duration_time                                      [Tool event]
  L1-dcache-load-misses                              [Hardware cache event]
  msr/tsc/                                           [Kernel PMU event]

cache:
  l1d.replacement
       [L1D data line replacements. Unit: cpu_core]
  longest_lat_cache.miss
       [Core-originated cacheable demand requests
        missed L3]
  rNNN                                               [Raw hardware event descriptor]
  cpu/t1=v1[,t2=v2,t3 ...]/modifier                  [Raw hardware event descriptor]
  mem:<addr>[/len][:access]                          [Hardware breakpoint]
  sched:sched_switch                                 [Tracepoint event]

Metric Groups:

Backend:
  tma_core_bound
       [This metric]
"""


def test_text() -> None:
    found = {event.name: event for event in events_from_text(TEXT_61)}
    assert {name: event.group for name, event in found.items()} == {
        "branch-instructions": "hardware",
        "branches": "hardware",
        "cpu-cycles": "hardware",
        "cycles": "hardware",
        "context-switches": "software",
        "cs": "software",
        "duration_time": "tool",
        "L1-dcache-load-misses": "cache",
        "msr/tsc/": "pmu",
        "l1d.replacement": "cache",
        "longest_lat_cache.miss": "cache",
        "rNNN": "raw",
        "cpu/t1=v1[,t2=v2,t3 ...]/modifier": "raw",
        "mem:<addr>[/len][:access]": "breakpoint",
        "sched:sched_switch": "tracepoint",
    }
    assert found["cycles"].description == "alias of cpu-cycles"
    assert found["l1d.replacement"].description == "L1D data line replacements. Unit: cpu_core"
    assert found["longest_lat_cache.miss"].description.endswith("requests missed L3")


def test_json_of_later_versions() -> None:
    data = [
        {"EventName": "cpu-cycles", "EventAlias": "cycles", "EventType": "Hardware event"},
        {"Unit": "cpu", "Topic": "cache", "EventName": "l1d.replacement", "BriefDescription": "Lines <in>"},
        {"EventName": "sched:sched_switch", "EventType": "Tracepoint event"},
        {"MetricGroup": "Backend", "MetricName": "tma_core_bound", "MetricExpr": "a / b"},
        "nonsense",
    ]
    # What perf says of what an ordinary user may not see comes first.
    refusal = "Error: failed to open tracing events directory\n/sys/kernel/tracing/events: Permission denied\n"
    found = events_from_json(refusal + json.dumps(data))
    assert found == events_from_json(json.dumps(data))
    assert [(event.name, event.group) for event in found] == [
        ("cpu-cycles", "hardware"),
        ("cycles", "hardware"),
        ("l1d.replacement", "cache"),
        ("sched:sched_switch", "tracepoint"),
    ]
    assert found[2].description == "Lines <in>"


@pytest.mark.parametrize("text", ["", "{}", "  Error: unknown switch `j'\n", "[", '"x"'])
def test_invalid_list_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        events_from_json(text)


@pytest.mark.parametrize("text", ["", "\0\n", "]" * 100, "  [\n  ]\n", "x" * 10_000, "  OR OR OR [a]\n"])
def test_text_that_means_nothing_harms_nothing(text: str) -> None:
    assert all(event.name for event in events_from_text(text))


def test_options() -> None:
    text = "  -z, --compression-level[=<n>]\n  -N, --no-buildid-cache\n --no-buildid\n"
    options = (("-z", "--compression-level"), ("-N", "--no-buildid-cache"), ("-q", "--quiet"))
    assert offered_options(text, options) == ("-z", "-N")


def test_build_options() -> None:
    text = "perf version 6.1\n   zstd: [ on  ]  # HAVE_ZSTD_SUPPORT\n libbfd: [ OFF ]  # HAVE_LIBBFD_SUPPORT\n"
    assert build_options(text) == {"zstd": True, "libbfd": False}


def test_versions() -> None:
    assert version("perf version 6.1.187\n") == "6.1.187"
    assert version("WARNING: perf not found for kernel 5.15.0-91\n") is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<not supported>;;cycles;0;100.00;;\n<not supported>;;instructions;0;100.00;;\n", False),
        ("1234567;;cycles;100;100.00;;\n<not supported>;;instructions;0;100.00;;\n", True),
        ("<not counted>;;cycles;0;100.00;;\n", None),
        ("Error:\nAccess to performance monitoring is limited.\n", None),
        ("", None),
    ],
)
def test_whether_anything_was_counted(text: str, answer: bool | None) -> None:
    assert counts_hardware_events(text) is answer


def test_this_machines_perf() -> None:
    listed = subprocess.run([require("perf"), "list"], capture_output=True, text=True, check=True).stdout
    found = {event.name: event.group for event in events_from_text(listed)}
    assert found["cpu-clock"] == "software" and found["cs"] == "software"


def test_a_pattern_of_events_is_no_event() -> None:
    """perf 6.12 lists these among its events."""
    text = "  software//modifier                                 [Raw event descriptor]\n  faults  [Software event]\n"
    assert [event.name for event in events_from_text(text)] == ["faults"]
