"""Curves of the rates of events on the timeline."""

from __future__ import annotations

import io

import numpy as np
import pytest

from perfloom.analysis.core.sample_selection import event_names
from perfloom.analysis.timeline.series import load_event_rate
from perfloom.analysis.timeline.tracks import list_tracks, time_extent
from perfloom.analysis.timeline.usage import CPUS_UNIT, compute_event_rate, list_rated_events
from perfloom.charts.timeline import build_viewport, parse_bands
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_column
from perfloom.domain.units import NS_PER_S
from perfloom.readers import perfanalyzer
from tests.analysis.timeline.test_timeline import timeline_of
from tests.support.formats import profile_of


@pytest.fixture
def profile() -> Profile:
    """Page faults and a clock, on two threads."""
    return profile_of("perf-script")


def weights(profile: Profile, name: str, thread: int | None = None) -> int:
    chosen = get_column(profile.samples, "event") == event_names(profile).index(name)
    if thread is not None:
        chosen &= get_column(profile.samples, "thread") == thread
    return int(get_column(profile.samples, "weight")[chosen].sum())


def integral(profile: Profile, name: str, selection: Selection | None = None) -> float:
    """The area below a curve: of a rate per second, or of CPUs in use in ns."""
    timeline = timeline_of(profile)
    whole = time_extent(profile, timeline)
    event = event_names(profile).index(name)
    rate = compute_event_rate(profile, timeline, selection or Selection(), event, whole.first_ns, whole.last_ns)
    return float(rate.values.sum()) * rate.bin_ns / (1 if rate.unit == CPUS_UNIT else NS_PER_S)


def test_area_of_a_curve_is_the_sum_of_the_weights(profile: Profile) -> None:
    assert integral(profile, "page-faults") == pytest.approx(weights(profile, "page-faults"))
    # A weight before the first sample of a thread is not drawn.
    assert integral(profile, "cpu-clock") == pytest.approx(weights(profile, "cpu-clock"), rel=0.05)


def test_curves_of_threads_add_up(profile: Profile) -> None:
    keys = ["6674/6676", "6674/6677"]
    parts = [integral(profile, "page-faults", Selection(threads=(f"-/{key}",))) for key in keys]
    assert parts == [pytest.approx(weights(profile, "page-faults", thread)) for thread in range(2)]
    assert sum(parts) == pytest.approx(integral(profile, "page-faults"))


def test_tracks_of_curves(profile: Profile) -> None:
    tracks = [track for track in list_tracks(profile, timeline_of(profile), Selection())[0] if track.id[0] == "r"]
    assert [(track.kind, track.name, track.low) for track in tracks] == [
        ("counter", "cpu-clock, CPUs in use", 0.0),
        ("counter", "page-faults per second", 0.0),
    ]
    assert all(track.high and track.high > 0 for track in tracks)


def test_one_event_and_slices_have_no_curves() -> None:
    assert list_rated_events(profile_of("perf-data")) == []
    assert list_rated_events(profile_of("pytorch")) == []
    assert list_rated_events(profile_of("perf-stat")) == []


def test_values_of_a_window(profile: Profile) -> None:
    timeline = timeline_of(profile)
    whole = time_extent(profile, timeline)
    rated = load_event_rate(profile, timeline, Selection(), 1, whole.first_ns, whole.last_ns)
    middle = (whole.first_ns + whole.last_ns) // 2
    part = load_event_rate(profile, timeline, Selection(), 1, middle, whole.last_ns)
    assert part.at[0] <= middle < part.at[1]
    assert np.array_equal(part.last, rated.last[-len(part.last) :])
    (band,) = parse_bands(["r1"], profile, timeline)
    answer = build_viewport(profile, timeline, Selection(), [band], middle, whole.last_ns, 800)
    assert len(answer.data["bands"]["r1"]["last"]) == len(part.last)


@pytest.mark.parametrize("band", ["r2", "r-1", "r0.l", "r1.0-1"])
def test_unknown_curves(profile: Profile, band: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_bands([band], profile, timeline_of(profile))


def test_time_slices_are_the_parts_of_a_rate() -> None:
    """Samples at 0, 0.5, 1 … s: their rate is not 0 in between."""
    rows = [f"t={number / 2:.2f}\n" + f"a-0/0;f {number + 1}\na-0/1;g 1\n" * 4 for number in range(4)]
    profile = perfanalyzer.read(io.BytesIO(("".join(rows) + "t=2.00\n").encode()), "D_proc0_cycles")
    timeline = timeline_of(profile)
    whole = time_extent(profile, timeline)
    rate = compute_event_rate(profile, timeline, Selection(), 0, whole.first_ns, whole.last_ns)
    assert rate.bin_ns == NS_PER_S // 2
    assert rate.values.tolist() == [16.0, 24.0, 32.0, 40.0]
