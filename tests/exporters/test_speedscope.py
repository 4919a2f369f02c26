"""speedscope's files: what they hold, by the rules of its format."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import ROOT, get_column, get_strings
from perfloom.exporters import get_exporter
from tests.support.profiles import profile_of, profiles
from tests.support.speedscope_app import speedscope_app
from tests.support.traced import Trace, traces

Weights = Counter[tuple[str, ...]]
SAMPLED = (traces() | profiles(max_weight=1 << 40)).filter(lambda profile: bool(profile.samples.num_rows))


def written(profile: Profile, **selection: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(b"".join(get_exporter("speedscope").write(profile, Selection(**selection), {})))
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    return found


def weights(file: dict[str, Any]) -> Weights:
    """What each stack weighs itself, of all profiles of a file together; each is checked on the way."""
    names = [frame["name"] for frame in file["shared"]["frames"]]
    found: Weights = Counter()
    for one in file["profiles"]:
        if one["type"] == "sampled":
            assert len(one["samples"]) == len(one["weights"]) and one["endValue"] == sum(one["weights"])
            for stack, weight in zip(one["samples"], one["weights"], strict=True):
                found[tuple(names[frame] for frame in stack)] += weight
            continue
        opened, at = [], one["startValue"]
        for event in one["events"]:
            assert at <= event["at"] <= one["endValue"], "in order of time"
            found[tuple(names[frame] for frame in opened)] += event["at"] - at
            at = event["at"]
            if event["type"] == "O":
                opened.append(event["frame"])
            else:
                assert opened.pop() == event["frame"], "what was opened last is closed first"
        assert not opened
    del found[()]
    return found


def of_profile(profile: Profile) -> Weights:
    names = get_strings(profile.functions, "display")
    frame, parent = (get_column(profile.stacks, name).tolist() for name in ("frame", "parent"))
    function = get_column(profile.frames, "function").tolist()
    paths: list[tuple[str, ...]] = [()]
    for node in range(1, len(frame)):
        paths.append((*paths[parent[node]], names[function[frame[node]]]))
    found: Weights = Counter()
    for row in profile.samples.to_pylist():
        if row["stack"] != ROOT:
            found[paths[row["stack"]]] += row["weight"]
    return found


@pytest.mark.heavy
@settings(max_examples=80)
@given(SAMPLED)
def test_it_holds_what_the_profile_does(profile: Profile) -> None:
    found = written(profile)
    assert +weights(found) == +of_profile(profile)
    assert 0 <= found["activeProfileIndex"] < len(found["profiles"])


def test_a_file_without_profiles_is_refused() -> None:
    """speedscope does not open one."""
    profile = profile_of([("a;b", 3, 0, 10, 0)])
    with pytest.raises(InvalidRequest, match="Nothing is selected"):
        written(profile, focus="nosuch")
    with pytest.raises(InvalidRequest, match="has no samples"):
        written(replace(profile, samples=profile.samples.slice(0, 0)))


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft7Validator:
    """What speedscope says itself that its files are."""
    return jsonschema.Draft7Validator(json.loads((speedscope_app() / "file-format-schema.json").read_text()))


@settings(max_examples=15)
@given(profile=SAMPLED)
def test_its_own_schema_holds(schema: jsonschema.Draft7Validator, profile: Profile) -> None:
    schema.validate(written(profile))


def test_calls_have_their_times() -> None:
    trace = Trace()
    host = trace.thread(11, "main", rank=2)
    trace.slice(host, 1_000, 5_000, "outer")
    trace.slice(host, 2_000, 3_000, "inner")
    trace.slice(host, 7_000, 8_000, "outer")
    (one,) = written(trace.finish())["profiles"]
    assert (one["name"], one["type"], one["unit"]) == ("rank 2 · main 11 · host time", "evented", "nanoseconds")
    assert [(event["type"], event["frame"], event["at"]) for event in one["events"]] == [
        *(("O", 0, 1_000), ("O", 1, 2_000), ("C", 1, 3_000), ("C", 0, 5_000), ("O", 0, 7_000), ("C", 0, 8_000)),
    ]


def test_samples_of_each_thread_and_event_are_a_profile() -> None:
    profile = profile_of(
        [("a;b", 3, 0, 10, 0), ("a", 5, 1, 20, 1), ("a;c", 70, 1, 30, 0)],
        events=(("cycles", "count"), ("heap", "bytes")),
    )
    found = written(profile)
    assert [(one["name"], one["unit"], one["weights"]) for one in found["profiles"]] == [
        ("thread 0 100 · cycles", "none", [3]),
        ("thread 1 101 · cycles", "none", [70]),
        ("thread 1 101 · heap", "bytes", [5]),
    ]
    assert found["activeProfileIndex"] == 1, "the thread in which most happened"
    assert weights(written(profile, event="cycles", hide="^a$")) == {("b",): 3, ("c",): 70}
