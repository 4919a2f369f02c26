"""speedscope files: profiles of time become slices, others samples."""

import io
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings

from perfloom.domain.errors import InvalidRequest, UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_strings
from perfloom.domain.validation import find_error
from perfloom.exporters import get_exporter
from perfloom.readers import detect_format, speedscope
from perfloom.readers.speedscope import profile as speedscope_assembly
from tests.exporters.test_speedscope import of_profile
from tests.support.profiles import profiles
from tests.support.samples import samples_of
from tests.support.traced import traces

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
FRAMES = [{"name": "main", "file": "a.py", "line": 3}, {"name": "work"}, {"name": "main", "file": "b.py"}]


def read(*of_file: dict[str, Any]) -> Profile:
    data = json.dumps(
        {"$schema": SCHEMA, "shared": {"frames": FRAMES}, "profiles": of_file, "exporter": "x@1"}
    ).encode()
    assert detect_format(data).name == speedscope.FORMAT
    found = speedscope.read(io.BytesIO(data))
    assert find_error(found) is None
    return found


def slices(profile: Profile) -> list[tuple[str, str | None, int, int, str]]:
    functions, threads = profile.functions.to_pylist(), get_strings(profile.threads, "name")
    rows = profile.slices.to_pylist()
    return sorted(
        (
            functions[r["function"]]["name"],
            functions[r["function"]]["file"],
            r["start_ns"],
            r["duration_ns"],
            threads[r["thread"]],
        )
        for r in rows
    )


def losses(profile: Profile) -> dict[str, int]:
    return {row["reason"]: row["count"] for row in profile.losses.to_pylist()}


def test_evented_profiles() -> None:
    events = [("O", 0, 1.5), ("O", 1, 2), ("C", 1, 3.25), ("C", 0, 4), ("O", 2, 6), ("C", 2, 6.5)]
    found = read(
        {
            "type": "evented",
            "name": "t",
            "unit": "microseconds",
            "startValue": 0,
            "endValue": 9,
            "events": [{"type": sort, "frame": frame, "at": at} for sort, frame, at in events],
        }
    )
    assert slices(found) == [
        ("main", "a.py", 0, 2500, "t"),
        ("main", "b.py", 4500, 500, "t"),
        ("work", None, 500, 1250, "t"),
    ]
    assert found.meta.facts["exporter"] == "x@1" and not found.losses.num_rows


def test_sampled_profiles_merge_common_frames() -> None:
    found = read(
        {
            "type": "sampled",
            "name": "t",
            "unit": "milliseconds",
            "samples": [[0, 1], [0], [], [0]],
            "weights": [1, 2, 3, 4],
        }
    )
    ms = 1_000_000
    assert slices(found) == [
        ("main", "a.py", 0, 3 * ms, "t"),
        ("main", "a.py", 6 * ms, 4 * ms, "t"),
        ("work", None, 0, ms, "t"),
    ]


def test_other_units_become_samples() -> None:
    counted = {"type": "sampled", "name": "heap", "unit": "bytes", "samples": [[0, 1], [2]], "weights": [10, 5]}
    found = read(counted)
    assert of_profile(found) == {("main", "work"): 10, ("main",): 5} and found.slices.num_rows == 0
    timed = {"type": "sampled", "name": "t", "unit": "seconds", "samples": [[1]], "weights": [2]}
    both = read(timed, counted)
    assert both.slices.num_rows == 1 and get_strings(both.threads, "name") == ["t", "heap"]
    weights = Counter[str]()
    for row in both.samples.to_pylist():
        weights[get_strings(both.events, "unit")[row["event"]]] += row["weight"]
    assert weights == {"ns": 2 * 10**9, "bytes": 15}


def evented(unit: str, *events: tuple[str, int, float], **more: float) -> dict[str, Any]:
    listed = [{"type": sort, "frame": frame, "at": at} for sort, frame, at in events]
    return {"type": "evented", "name": "heap", "unit": unit, "startValue": 0, "events": listed, **more}


@pytest.mark.parametrize(("unit", "shown"), [("bytes", "bytes"), ("none", "count")])
def test_evented_profiles_of_other_units(unit: str, shown: str) -> None:
    """Increments between two events belong to the frames that were open then."""
    events = [("O", 0, 0), ("O", 1, 100), ("C", 1, 150), ("C", 0, 170), ("O", 2, 1000), ("C", 2, 1003)]
    found = read(evented(unit, *events, endValue=1003))
    assert of_profile(found) == {("main",): 100 + 20 + 3, ("main", "work"): 50}
    assert get_strings(found.events, "unit") == [shown] and found.slices.num_rows == 0
    assert found.meta.duration_ns is None and not found.losses.num_rows


def test_unordered_values_of_other_units() -> None:
    events = [("O", 0, 5), ("C", 1, 6), ("O", 1, 4), ("C", 0, 9), ("O", 1, 10)]
    found = read(evented("bytes", *events, endValue=12))
    assert of_profile(found) == {("main",): 1, ("main", "work"): 3, ("work",): 2}
    assert losses(found) == {
        speedscope_assembly.UNMATCHED_END: 1,
        speedscope_assembly.BACKWARDS: 1,
        speedscope_assembly.NEVER_ENDED: 2,
    }


def test_losses() -> None:
    events = [("O", 9, 1), ("C", 9, 2), ("O", 0, 3), ("O", 1, 4), ("C", 0, 5), ("C", 0, 6), ("O", 1, 7), ("X", 0, 1)]
    found = read(
        {
            "type": "evented",
            "name": "t",
            "unit": "nanoseconds",
            "events": [{"type": s, "frame": f, "at": a} for s, f, a in events],
        },
        {"type": "sampled", "name": "s", "unit": "none", "samples": [[0], [0], [0, 77]], "weights": [1, -1]},
        {"type": "guessed"},
    )
    assert losses(found) == {
        speedscope_assembly.NO_FRAME: 1,
        speedscope_assembly.NEVER_ENDED: 2,
        speedscope_assembly.UNMATCHED_END: 1,
        speedscope_assembly.NO_TIME: 1,
        speedscope_assembly.NO_WEIGHT: 2,
        speedscope_assembly.NO_PROFILE: 1,
    }


@pytest.mark.parametrize(
    "text", ["", "[]", "null", '{"frames": 3}', '{"frames": []}, "profiles": [{"type": "sampled"}]']
)
def test_empty_files_are_refused(text: str) -> None:
    data = f'{{"$schema": "{SCHEMA}", "shared": {text or "{}"}'.encode()
    for whole in (data, data + b"}", data + b', "profiles": {}}'):
        with pytest.raises(UnreadableInput):
            speedscope.read(io.BytesIO(whole))


@pytest.mark.heavy
@settings(max_examples=60)
@given(traces() | profiles(max_weight=1 << 40))
def test_round_trip(profile: Profile) -> None:
    wanted = +of_profile(profile)
    try:
        data = b"".join(get_exporter("speedscope").write(profile, Selection(), {}))
    except InvalidRequest:
        assert not profile.samples.num_rows
        return
    try:
        found = speedscope.read(io.BytesIO(data))
    except UnreadableInput:
        assert not wanted
        return
    assert find_error(found) is None and +of_profile(found) == wanted
    assert not found.losses.num_rows


def values_of(file: dict[str, Any]) -> dict[tuple[str, str], dict[str, int]]:
    profile = speedscope.read(io.BytesIO(json.dumps(file).encode()))
    assert profile.meta.complete and not profile.losses.num_rows
    units = dict(zip(get_strings(profile.events, "name"), get_strings(profile.events, "unit"), strict=True))
    found: dict[tuple[str, str], dict[str, int]] = {}
    for one in samples_of(profile):
        of_event = found.setdefault((one.event, units[one.event]), {})
        stack = ";".join(frame.name for frame in one.stack)
        of_event[stack] = of_event.get(stack, 0) + one.weight
    return found


@pytest.mark.parametrize(
    ("weights", "unit", "expected"),
    [
        ([0.25, 0.5], "0.01 count", [25, 50]),
        ([1.0, 2.0], "count", [1, 2]),
        ([1, 0.1], "0.1 count", [10, 1]),
        ([1e-9, 3], "0.000000001 count", [1, 3 * 10**9]),
        # More decimals than are kept, and more than fit next to a large value.
        ([1 / 3, 1], "0.000000001 count", [333_333_333, 10**9]),
        ([1e15, 0.123456], "0.001 count", [10**18, 123]),
    ],
)
def test_decimals_are_kept(weights: list[float], unit: str, expected: list[int]) -> None:
    sampled = {"type": "sampled", "name": "p", "unit": "none", "samples": [[0], [0, 1]], "weights": weights}
    file = {
        "shared": {"frames": [{"name": "f"}, {"name": "g"}]},
        "profiles": [sampled | {"startValue": 0, "endValue": 1}],
    }
    assert values_of(file) == {("weight", unit): {"f": expected[0], "f;g": expected[1]}}


def test_decimals_of_begin_and_end_events_are_kept() -> None:
    """All profiles of one unit have the same scale."""
    events = [("O", 0, 0.0), ("O", 1, 0.25), ("C", 1, 0.5), ("C", 0, 0.75)]
    evented = {"type": "evented", "name": "p", "unit": "bytes", "startValue": 0, "endValue": 1.0}
    evented["events"] = [{"type": letter, "frame": frame, "at": at} for letter, frame, at in events]
    sampled = {
        "type": "sampled",
        "name": "q",
        "unit": "bytes",
        "startValue": 0,
        "endValue": 1,
        "samples": [[0]],
        "weights": [3],
    }
    file = {"shared": {"frames": [{"name": "f"}, {"name": "g"}]}, "profiles": [evented, sampled]}
    assert values_of(file) == {("weight", "0.01 bytes"): {"f": 350, "f;g": 25}}
