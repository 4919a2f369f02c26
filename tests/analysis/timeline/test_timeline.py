"""A timeline shows the data of the tables that it is computed from, on random traces."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import random
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.timeline.details import find_slice, slice_details, summarize_samples
from perfloom.analysis.timeline.flows import list_flows
from perfloom.analysis.timeline.model import Timeline, open_timeline, prepare_timeline
from perfloom.analysis.timeline.search import find_next_hit, search
from perfloom.analysis.timeline.series import BLOCK, load_series_values
from perfloom.analysis.timeline.tracks import list_tracks, time_extent
from perfloom.charts.timeline import MAX_BOXES, WIRE_BYTES, build_viewport, parse_bands
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.validation import find_error
from perfloom.readers import pytorch
from tests.support.profiles import profile_of, profiles
from tests.support.traced import Trace, traces

ALL = Selection()


def timeline_of(profile: Profile) -> Timeline:
    return open_timeline(profile, prepare_timeline(profile))


def boxes(data: dict[str, Any], band: str) -> list[list[tuple[int, int, str, int]]]:
    """(start, end, name, count) of each box of each row of an answer."""
    columns, unit, found, at = data["bands"][band], data["unit_ns"], [], 0
    for count in columns["rows"]:
        time, row = data["start_ns"], []
        for n in range(at, at + count):
            start = time + columns["gap"][n] * unit
            time = start + columns["length"][n] * unit
            row.append((start, time, data["names"]["name"][columns["name"][n]], columns["count"][n]))
        found.append(row)
        at += count
    return found


@settings(max_examples=60)
@given(traces(), st.integers(-5, 80), st.integers(1, 90))
def test_near_by_every_slice_and_sample_is_shown_as_it_is(profile: Profile, start: int, length: int) -> None:
    assert find_error(profile) is None
    timeline, end = timeline_of(profile), start + length
    slices, names = profile.slices.to_pylist(), profile.functions["display"].to_pylist()
    for track in list_tracks(profile, timeline, ALL)[0]:
        if not track.rows or track.kind == "steps":
            continue
        thread, band = int(track.id[1:]), f"{track.id}.0-{track.rows - 1}"
        data = build_viewport(profile, timeline, ALL, parse_bands([band], profile, timeline), start, end, 16_000).data
        expected: list[list[tuple[int, int, str, int]]] = [[] for _ in range(track.rows)]
        for row in slices:
            begin, over = row["start_ns"], row["start_ns"] + row["duration_ns"]
            if row["thread"] == thread and ((begin < end and over > start) or start <= begin < end):
                expected[row["depth"]].append((begin, over, names[row["function"]], 1))
        assert [sorted(row) for row in boxes(data, band)] == [sorted(row) for row in expected]


@pytest.mark.heavy
@settings(max_examples=60)
@given(traces() | profiles(), st.integers(16, 40), st.data())
def test_far_away_nothing_is_lost_and_there_are_no_more_boxes_than_pixels(
    profile: Profile, width: int, data: st.DataObject
) -> None:
    timeline = timeline_of(profile)
    whole = time_extent(profile, timeline)
    event = data.draw(st.sampled_from([None, *profile.events["name"].to_pylist()]))
    selection = Selection(event=event)
    shown, left_out = list_tracks(profile, timeline, selection)
    assert not left_out
    # Ranges of a power of two, so that each cell is a whole number of ns.
    length = 1 << max(5, (whole.end_ns - whole.start_ns).bit_length())
    for track in shown:
        if track.kind != "steps" and track.rows:
            band = f"{track.id}.0-{track.rows - 1}"
            answer = build_viewport(
                profile,
                timeline,
                selection,
                parse_bands([band], profile, timeline),
                whole.start_ns,
                whole.start_ns + length,
                width,
            ).data
            rows = boxes(answer, band)
            assert max(map(len, rows)) <= width
            assert sum(count for row in rows for *_, count in row) == track.slices
        if track.lane:
            band = f"{track.id}.l"
            answer = build_viewport(
                profile,
                timeline,
                selection,
                parse_bands([band], profile, timeline),
                whole.start_ns,
                whole.start_ns + length,
                width,
            ).data
            (row,) = boxes(answer, band)
            assert len(row) <= width
            assert sum(count for *_, count in row) == track.samples
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(row))


@settings(max_examples=60)
@given(traces())
def test_every_thread_and_series_has_a_track_in_a_group(profile: Profile) -> None:
    timeline = timeline_of(profile)
    shown, _ = list_tracks(profile, timeline, ALL)
    assert len({track.id for track in shown}) == len({track.key for track in shown}) == len(shown)
    threads = {row["thread"] for row in profile.slices.to_pylist()}
    assert {int(t.id[1:]) for t in shown if t.id[0] == "t"} == threads
    assert sum(track.slices for track in shown) == profile.slices.num_rows
    assert sum(t.kind == "steps" for t in shown) == len({row["rank"] for row in profile.steps.to_pylist()})
    groups = [track.group for track in shown]
    assert all(
        group == before or group not in groups[:n]
        for n, (before, group) in enumerate(zip(["", *groups], groups, strict=False))
    )
    ranks = [row["rank"] for row in profile.threads.to_pylist()]
    if 1 in ranks:
        of_one = list_tracks(profile, timeline, Selection(ranks=((1, 1),)))[0]
        assert {ranks[int(track.id[1:])] for track in of_one if track.id[0] == "t"} <= {1}


@settings(max_examples=40)
@given(traces())
def test_details_of_a_slice(profile: Profile) -> None:
    timeline, slices = timeline_of(profile), profile.slices.to_pylist()
    works = {row["slice"]: row for row in profile.device_work.to_pylist()}
    for number, row in enumerate(slices):
        told = slice_details(profile, timeline, number)
        assert (told["start_ns"], told["duration_ns"], told["depth"]) == (
            row["start_ns"],
            row["duration_ns"],
            row["depth"],
        )
        assert told["parent"] == (row["parent"] if row["parent"] >= 0 else None)
        assert told["stack"][-1:] == [told["name"]]
        same = [n for n, s in enumerate(slices) if (s["thread"], s["depth"]) == (row["thread"], row["depth"])]
        at = same.index(number)
        assert told["previous"] == (same[at - 1] if at else None)
        assert told["next"] == (same[at + 1] if at + 1 < len(same) else None)
        launched = [n for n, work in works.items() if number <= work["launch"] < row["end"]]
        assert (told["launched"] or {"count": 0})["count"] == len(launched)
        assert (told["work"] is not None) == (number in works)
        if number in works and works[number]["launch"] >= 0:
            assert told["work"]["launch"]["slice"] == works[number]["launch"]
        if row["duration_ns"]:
            found = find_slice(
                timeline, row["thread"], row["depth"], row["start_ns"], row["start_ns"] + row["duration_ns"]
            )
            assert found == number


@settings(max_examples=40)
@given(traces() | profiles(), st.sampled_from(["aten", "mm|add", "^a$", "main", "nothing"]))
def test_a_search_counts_and_visits_all_matches(profile: Profile, pattern: str) -> None:
    found = search(profile, ALL, pattern)
    hits, row, seen = found.hits, None, []
    for number in range(hits):
        hit = find_next_hit(profile, ALL, pattern, -1, row, backward=False)
        assert hit is not None and (hit.number, hit.of) == (number, hits)
        row = hit.row
        seen.append(row)
    assert len(set(seen)) == hits
    if hits:
        back = find_next_hit(profile, ALL, pattern, 0, seen[0], backward=True)
        assert back is not None and back.row == seen[-1]
    if profile.slices.num_rows:
        slices, texts = profile.slices.to_pylist(), profile.functions["display"].to_pylist()
        match = [re.search(pattern, texts[s["function"]]) is not None for s in slices]
        assert sorted(seen) == [n for n, matches in enumerate(match) if matches]

        def inside(n: int) -> bool:
            above = slices[n]["parent"]
            return above >= 0 and (match[above] or inside(above))

        outer = [slices[n]["duration_ns"] for n in seen if not inside(n)]
        assert found.total == sum(outer)


@pytest.mark.parametrize(
    ("selection", "hits", "percent"),
    [
        (Selection(), 3, 60.0),
        (Selection(focus="other"), 1, 50.0),
        (Selection(ignore="other"), 2, 200 / 3),
        (Selection(hide="work"), 0, 0.0),
        (Selection(show="main"), 0, 0.0),
        (Selection(show_from="other"), 1, 50.0),
        (Selection(start_ns=2, end_ns=4), 1, 50.0),
    ],
)
def test_a_search_of_samples_obeys_the_selection(selection: Selection, hits: int, percent: float) -> None:
    stacks = ("main;work", "main;idle", "main;other", "main;other;work", "main;work;inner")
    profile = profile_of([(stack, 1, 0, time, 0) for time, stack in enumerate(stacks)])
    found = search(profile, selection, "work")
    assert (found.hits, found.percent) == (hits, pytest.approx(percent))
    hit = find_next_hit(profile, selection, "work", 0, None, backward=False)
    assert (0 if hit is None else hit.of) == hits


def test_values_of_a_series_keep_their_extremes() -> None:
    chance = random.Random(1)
    trace = Trace()
    thread = trace.thread(1)
    trace.slice(thread, 0, 100_000, "all")
    points = [(at, float(chance.randrange(1000))) for at in sorted(chance.sample(range(90_000), 9 * BLOCK))]
    trace.values("memory", "bytes", [(5, 1.0)])
    trace.values("other", "bytes", points)
    profile = trace.finish()
    exact = load_series_values(profile, 1, points[7][0], points[12][0], 0, 100)
    assert list(zip(exact.at.tolist(), exact.last.tolist(), strict=True)) == points[7:12]
    between = load_series_values(profile, 1, points[7][0] + 1, points[12][0], 0, 100)
    assert between.at[0] == points[7][0], "the value that holds at the start"
    for cell in (8, 12, 16):
        found = load_series_values(profile, 1, 1000, 80_000, cell, 10)
        assert len(found.at) <= (79_000 >> cell) + 2
        ends = [*found.at.tolist()[1:], 80_000]
        for n, (begin, end) in enumerate(zip(found.at.tolist(), ends, strict=True)):
            inside = [value for at, value in points if begin <= at < end]
            assert (found.low[n], found.high[n], found.last[n]) == (min(inside), max(inside), inside[-1])


def test_the_rank_is_shown_for_a_program_with_rank_in_its_name() -> None:
    builder = ProfileBuilder("test")
    event = builder.intern_event("cpu-clock", "ns")
    for rank in range(2):
        thread = builder.intern_thread(pid=1, tid=1, rank=rank)
        builder.set_thread_name(thread, 0, "pagerank")
        builder.add_sample(rank, thread, event, 0, 1)
    alone = builder.intern_thread(pid=7, tid=7, rank=3)
    builder.set_thread_name(alone, 0, "rank 33")
    builder.add_sample(9, alone, event, 0, 1)
    profile = builder.finish()
    tracks = list_tracks(profile, timeline_of(profile), ALL)[0]
    groups = [track.group for track in tracks if track.kind == "thread"]
    assert groups == [
        "pagerank 1 · rank 0 · unknown host",
        "pagerank 1 · rank 1 · unknown host",
        "rank 3 · rank 33 7",
    ]


def test_samples_in_a_box_are_listed_by_function() -> None:
    profile = profile_of([("main;a", 5, 0, 10), ("main;b", 3, 0, 20), ("main;a", 2, 0, 30), ("main;c", 9, 1, 20)])
    told = summarize_samples(profile, timeline_of(profile), 0, 0, 0, 21)
    assert told["samples"] == 3 and told["weight"] == 10
    assert [(f["name"], f["samples"], f["weight"]) for f in told["functions"]] == [("a", 2, 7), ("b", 1, 3)]
    assert told["stack"] == ["main", "a"]
    nothing = summarize_samples(profile, timeline_of(profile), 0, 0, 500, 600)
    assert nothing["samples"] == 0 and nothing["functions"] == [] and nothing["stack"] == []


def test_time_on_a_lane_is_the_part_inside_of_the_window() -> None:
    trace = Trace()
    thread = trace.thread(1)
    trace.slice(thread, 0, 100, "outer")
    trace.slice(thread, 20, 60, "inner")
    profile = trace.finish()
    told = summarize_samples(profile, timeline_of(profile), 0, thread, 10, 50)
    assert {f["name"]: f["weight"] for f in told["functions"]} == {"inner": 30, "outer": 10}


def test_flows_are_returned_if_there_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace()
    host, stream = trace.thread(1), trace.thread(7, stream=True)
    calls = [trace.slice(host, 10 * n, 10 * n + 5, "launch", "runtime") for n in range(5)]
    for n, call in enumerate(calls):
        trace.slice(stream, 100 + 10 * n, 105 + 10 * n, "kernel", "kernel", call)
    trace.flows.append((calls[0], calls[4]))
    profile = trace.finish()
    found = list_flows(profile, ALL, 0, 12)
    assert [(flow["kind"], flow["source"][2], flow["target"][2]) for flow in found["flows"]] == [
        ("launch", 0, 100),
        ("launch", 10, 110),
        ("forward_backward", 0, 40),
    ]
    assert list_flows(profile, ALL, 500, 600) == {"count": 0, "flows": []}
    monkeypatch.setattr("perfloom.analysis.timeline.flows.MAX_FLOWS", 2)
    assert list_flows(profile, ALL, 0, 1000) == {"count": 6, "flows": None}


def dense(threads: int = 12, slices: int = 2_000) -> Profile:
    """More than any window can show: short slices with long names, side by side and one in the other."""
    chance = random.Random(3)
    trace = Trace()
    for tid in range(threads):
        thread, at = trace.thread(tid), 0
        for n in range(slices // 2):
            length = chance.randrange(40, 4_000)
            name = f"some::namespace_{n % 700}::operator_{chance.randrange(9999)}<{'x' * 60}>"
            trace.slice(thread, at, at + length, name)
            trace.slice(thread, at + 5, at + length - 5, name + "::inner")
            at += length + chance.randrange(900)
    return trace.finish()


@pytest.mark.heavy
def test_no_window_asks_for_more_than_the_wire_takes() -> None:
    profile = dense()
    timeline, whole = timeline_of(profile), 10_000_000
    bands = parse_bands([f"t{n}.{part}" for n in range(12) for part in ("0-1", "l")], profile, timeline)
    for width in (100, 1400, 4000):
        for zoom in (1, 3, 30, 300, 30_000):
            answer = build_viewport(profile, timeline, ALL, bands, 1_000_000, 1_000_000 + whole // zoom, width)
            data = answer.data
            assert len(answer.gzip) <= WIRE_BYTES and json.loads(gzip.decompress(answer.gzip))["bands"] == data["bands"]
            counts = [count for band in data["bands"].values() for count in band["rows"]]
            assert sum(counts) <= MAX_BOXES and max(counts) <= width
    narrow = build_viewport(profile, timeline, Selection(focus="inner"), bands[:1], 0, 10_000, 1000).data
    assert set(narrow["bands"]["t0.0-1"]["out"]) == {0, 1}


def test_invalid_bands_are_reported() -> None:
    profile = dense(1, 10)
    timeline = timeline_of(profile)
    for text in ("", "t0", "t1.l", "t0.5-9", "c0", "s0", "t0.3-", "x", "t0.0-1,", "t-1.l", "t0.l.l", "t99999999999.l"):
        with pytest.raises(InvalidRequest):
            parse_bands([text], profile, timeline)
    with pytest.raises(InvalidRequest, match="more than"):
        parse_bands(["t0.0-1"] * 300, profile, timeline)
    assert np.array_equal(list(parse_bands(["t0.0-15"], profile, timeline)[0].rows), [0, 1])


def test_short_names_are_sent_where_they_differ() -> None:
    def names_of(*names: str) -> dict[str, Any]:
        trace = Trace()
        thread = trace.thread(1)
        for n, name in enumerate(names):
            trace.slice(thread, 10 * n, 10 * n + 5, name)
        profile = trace.finish()
        timeline = timeline_of(profile)
        bands = parse_bands([f"t{thread}.0-0"], profile, timeline)
        found: dict[str, Any] = build_viewport(profile, timeline, ALL, bands, 0, 100, 1_000).data["names"]
        return found

    found = names_of("a::b::C::f(int)", "aten::mm")
    assert dict(zip(found["name"], found["short"], strict=True)) == {"a::b::C::f(int)": "C::f", "aten::mm": ""}
    assert names_of("aten::mm")["short"] == []


def test_instants_on_no_thread_are_not_in_the_first_view() -> None:
    def read_extent(*events: dict[str, Any]) -> tuple[int, int, int]:
        text = json.dumps({"schemaVersion": 1, "traceEvents": events})
        profile = pytorch.read(io.BytesIO(text.encode()))
        whole = time_extent(profile, timeline_of(profile))
        return whole.first_ns, whole.last_ns, whole.end_ns

    end = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 90}
    operator = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 10, "dur": 5}
    assert read_extent(operator, end) == (0, 5_000, 80_000)
    mark = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "mark", "pid": 1, "tid": 1, "ts": 40}
    assert read_extent(operator, mark, end) == (0, 30_000, 80_000)
    assert read_extent(end, end | {"ts": 100})[:2] == (0, 10_000)
