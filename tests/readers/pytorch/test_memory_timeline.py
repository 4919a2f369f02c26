"""The output of export_memory_timeline: both forms of JSON of one real run, truncated, invalid, and the image."""

import gzip
import io

import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.tables import get_column, get_strings
from perfloom.domain.validation import find_error
from perfloom.readers import memory_timeline
from tests.support import paths

DATA = paths.DATA / "pytorch"
CURVES = (DATA / "timeline.memory.json").read_bytes()
EVENTS = gzip.decompress((DATA / "timeline.memory.raw.json.gz").read_bytes())


class Pieces:
    """A stream that may return fewer bytes than requested, as for readers."""

    def __init__(self, text: bytes) -> None:
        self._file = io.BytesIO(text)

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, 1000))


def profile_of(text: bytes) -> Profile:
    """The profile of a timeline."""
    profile = memory_timeline.read(Pieces(text), "memory.json")  # type: ignore[arg-type]
    assert find_error(profile) is None
    return profile


def curves(profile: Profile) -> dict[str, list[tuple[int, float]]]:
    """(time, bytes) of each series."""
    found: dict[str, list[tuple[int, float]]] = {name: [] for name in get_strings(profile.series, "name")}
    names = list(found)
    columns = (get_column(profile.counters, name).tolist() for name in ("series", "time_ns", "value"))
    for series, time_ns, value in zip(*columns, strict=True):
        found[names[series]].append((time_ns, value))
    return found


def test_both_forms_of_a_real_run_agree() -> None:
    """The maximum and the last size of each category, in total and since the start of the recording; times in µs and
    ns."""
    of_curves, of_events = (profile_of(text) for text in (CURVES, EVENTS))
    first, second = curves(of_curves), curves(of_events)
    assert list(first) == list(second) == ["allocated", *sorted(first.keys() - {"allocated"}, key=list(first).index)]
    for name in first:
        assert max(value for _, value in first[name]) == max(value for _, value in second[name]), name
        assert first[name][-1][1] == second[name][-1][1], name
    assert first["allocated"][-1][1] == sum(values[-1][1] for name, values in first.items() if name != "allocated")
    for profile in (of_curves, of_events):
        assert profile.meta.start_epoch_ns is not None and profile.meta.duration_ns is not None
        assert profile.meta.start_epoch_ns // 1000 == 1_795_305_641_851_004
        assert not profile.losses.num_rows and profile.meta.complete
    # Blocks that existed before, allocations and frees; no address links them.
    rows = of_events.allocations.to_pylist()
    assert len([row for row in rows if row["start_ns"] is None and row["end_ns"] is None]) == EVENTS.count(b"[-1, 1,")
    assert {row["category"] for row in rows if row["start_ns"] is not None} >= {"ACTIVATION", "GRADIENT"}
    assert not any(row["start_ns"] is not None and row["end_ns"] is not None for row in rows)


def test_handwritten_events() -> None:
    """8 existed before, 5 are allocated at 1000 and change their category at 2000, 8 are freed at 3000."""
    profile = profile_of(
        b"[[-1, 1, 8, 0], [1000, 2, 5, 3], [2000, 3, -5, 3], [2000, 3, 5, 4], [3000, 4, -8, 0], [1500, 9, 1, 0]]"
    )
    found = curves(profile)
    assert found["allocated"] == [(0, 8), (0, 13), (1000, 8), (1000, 13), (2000, 5)]
    assert found["PARAMETER"] == [(0, 0), (0, 8), (2000, 0)]
    assert found["TEMPORARY"] == [(0, 0), (0, 5), (1000, 0)]
    assert profile.losses.to_pylist()[0]["example"] == "event 5: [1500, 9, 1, 0]"


@pytest.mark.parametrize("text", [CURVES, EVENTS])
def test_truncated_timeline(text: bytes) -> None:
    """At many positions; if only times are left, the file is refused."""
    kept = 0
    for length in range(30, len(text), len(text) // 40):
        try:
            profile = profile_of(text[:length])
        except UnreadableInput as error:
            assert "memory.json" in error.message
            continue
        kept += 1
        assert not profile.meta.complete and "truncated" in profile.meta.reasons[0]
    assert kept > 10


def test_image_is_refused_with_advice() -> None:
    page = b"<html>\n<head><title>GPU Memory Timeline HTML</title></head><body><img src='data:image/png;base64,iVBO'>"
    viewer = b'<script type="module">import {add_local_files} from "https://cdn/torch/utils/viz/MemoryViz.js"'
    for text, told in ((page, r"memory\.raw\.json\.gz"), (viewer, r"\.pickle")):
        assert memory_timeline.sniff(text)
        with pytest.raises(UnreadableInput, match=told):
            profile_of(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"[[], []]", "without data"),
        (b"[]", "without data"),
        (b"[[-1, 1, 8, 0]]", "without data"),
        (b"[[1, 2], [[0, 1, 2], [0, 1, 2]]]", "9 sizes"),
        (b"[[1, 2], [[0, 1, 2, 3, 4, 5, 6, 7, 8]]]", "9 sizes"),
        (b"[[5, 1, 8, 0], [5, 1, 8]]", "four numbers"),
        (b"[[5, 1, 8, 0], [5, 1, --8, 0]]", "four numbers"),
        (b'[[5, 1, 8, 0], ["x", 1, 8, 0]]', "more than lists of numbers"),
    ],
)
def test_malformed_timelines_are_refused(text: bytes, told: str) -> None:
    with pytest.raises(UnreadableInput, match=told):
        profile_of(text)


def test_numbers_out_of_range_are_losses() -> None:
    """Beyond 64 bits, and beyond what any machine has."""
    many = b"9" * 40
    profile = profile_of(b"[[1, 2], [[0, 1, 2, 3, 4, 5, 6, 7, 8], [0, " + many + b", 2, 3, 4, 5, 6, 7, 8]]]")
    assert [row["count"] for row in profile.losses.to_pylist()] == [1]
    assert curves(profile)["allocated"] == [(0, 36)]
