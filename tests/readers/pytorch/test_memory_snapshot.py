"""Memory snapshots of PyTorch: blocks, segments, curves, call stacks, failures; of several versions, truncated,
invalid."""

import copy
import io
import json
import pickle
import random
from typing import Any

import numpy as np
import pytest

from perfloom.domain.arrays import MISSING
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.tables import FrameKind, get_column, get_strings
from perfloom.domain.validation import find_error
from perfloom.ingest.trace import allocator
from perfloom.ingest.trace.allocator import AllocatorHistory, AllocatorState, Segment, compute_segments
from perfloom.readers import memory_snapshot
from perfloom.readers.memory_snapshot import rows as snapshot_rows
from tests.support import paths

DATA = paths.DATA / "pytorch-memory"
MIB = 1 << 20


def profile_of(snapshot: Any) -> Profile:
    """The profile of a snapshot, or of a pickle of one."""
    data = snapshot if isinstance(snapshot, bytes) else pickle.dumps(snapshot)
    assert memory_snapshot.sniff(data[:100])
    profile = memory_snapshot.read(io.BytesIO(data), "snapshot.pickle")
    assert find_error(profile) is None
    return profile


def curve(profile: Profile, name: str, device: int = 0) -> list[float]:
    """The values of a series."""
    rows = [
        row
        for row, (of, at) in enumerate(
            zip(get_strings(profile.series, "name"), profile.series.column("device").to_pylist(), strict=True)
        )
        if of == name and at == device
    ]
    (row,) = rows
    inside = get_column(profile.counters, "series") == row
    found: list[float] = get_column(profile.counters, "value")[inside].tolist()
    return found


def stack_of(profile: Profile, stack: int) -> list[str]:
    """The functions of a stack, outermost first."""
    names, function = get_strings(profile.functions, "name"), get_column(profile.frames, "function")
    parent, frame = get_column(profile.stacks, "parent"), get_column(profile.stacks, "frame")
    found = []
    while stack > 0:
        found.append(names[function[frame[stack]]])
        stack = int(parent[stack])
    return found[::-1]


@pytest.fixture(scope="module")
def training() -> Any:
    """The recording as plain values."""
    return pickle.loads((DATA / "training.pickle").read_bytes())  # noqa: S301


def test_values_equal_memory_stats() -> None:
    """Peaks, present values, blocks, fragmentation equal torch.cuda.memory_stats."""
    profile = profile_of((DATA / "training.pickle").read_bytes())
    told = json.loads((DATA / "training.expected.json").read_text())
    allocated, reserved = curve(profile, "allocated"), curve(profile, "reserved")
    assert max(allocated) == told["requested_bytes.all.peak"]
    assert allocated[-1] == told["requested_bytes.all.current"]
    assert max(reserved) == told["reserved_bytes.all.peak"]
    assert reserved[-1] == told["reserved_bytes.all.current"]
    assert curve(profile, "active")[-1] == told["active_bytes.requested.current"]
    assert curve(profile, "largest free block") == [told["largest_free"]]
    assert curve(profile, "inactive split") == [told["inactive_split_bytes.all.current"]]
    assert curve(profile, "inactive split blocks") == [told["inactive_split.all.current"]]
    assert curve(profile, "rounding") == [told["allocated_bytes.all.current"] - told["requested_bytes.all.current"]]
    assert profile.allocations.num_rows == told["allocations"]
    assert profile.allocations.column("end_ns").drop_null().length() == told["frees"]
    assert not profile.losses.num_rows and profile.meta.complete
    moments = [get_strings(profile.functions, "name")[f] for f in get_column(profile.instants, "function")]
    assert moments.count("out of memory") == told["num_ooms"]
    assert moments.count("allocator retry") == told["num_alloc_retries"]
    (first,) = [text for text in get_strings(profile.argument_sets, "text") if "device_free_bytes" in text]
    assert json.loads(first) == {"device": 0, "bytes": 100 * MIB, "device_free_bytes": (160 - 72) * MIB}


def test_blocks_have_allocation_stacks_and_samples() -> None:
    """At the peak live all blocks that are allocated then; a Python frame has its file and line."""
    profile = profile_of((DATA / "training.pickle").read_bytes())
    assert get_strings(profile.events, "name") == ["GPU bytes live at peak", "GPU bytes allocated"]
    assert profile.meta.main_event == "GPU bytes live at peak"
    event, weight = get_column(profile.samples, "event"), get_column(profile.samples, "weight")
    assert weight[event == 0].sum() == max(curve(profile, "allocated"))
    assert weight[event == 1].sum() == get_column(profile.allocations, "bytes").sum()
    rows = profile.allocations.to_pylist()
    assert stack_of(profile, rows[0]["stack"]) == ["<module>", "build"]
    assert rows[0]["category"] == "parameters"
    (layer,) = [row for row in rows[:7] if row["bytes"] == 6 * MIB]
    assert stack_of(profile, layer["stack"]) == ["<module>", "train", "forward", "layer", "at::empty_cuda"]
    kinds = dict(
        zip(get_column(profile.frames, "function").tolist(), get_column(profile.frames, "kind").tolist(), strict=True)
    )
    functions = profile.functions.to_pylist()
    (forward,) = [n for n, one in enumerate(functions) if one["name"] == "forward"]
    assert (functions[forward]["file"], kinds[forward]) == ("/home/user/model.py", FrameKind.PYTHON)
    (native,) = [n for n, one in enumerate(functions) if one["name"] == "at::empty_cuda"]
    assert (functions[native]["file"], kinds[native]) == (None, FrameKind.USER)
    assert get_strings(profile.threads, "name") == ["GPU 0"]


def test_call_stacks_with_shared_frames() -> None:
    """Random stacks with common prefixes, with stacks that contain others, and empty ones."""
    draw = random.Random(5)
    frames = [{"filename": "a.py", "line": n, "name": f"f{n}"} for n in range(4)]
    stacks = [[draw.choice(frames) for _ in range(draw.randint(0, 6))] for _ in range(300)]
    events = [
        {"action": "alloc", "addr": 512 * n, "size": 10, "time_us": n, "frames": stack}
        for n, stack in enumerate(stacks)
    ]
    profile = profile_of({"device_traces": [events], "segments": []})
    found = [stack_of(profile, stack) for stack in get_column(profile.allocations, "stack").tolist()]
    assert found == [[frame["name"] for frame in reversed(stack)] for stack in stacks]


def test_older_snapshot_without_times() -> None:
    """PyTorch 1.13 and 2.0: the order of events replaces times, blocks' addresses follow from their sizes."""
    old, new = (profile_of((DATA / f"{name}.pickle").read_bytes()) for name in ("older", "training"))
    assert [row["reason"][:24] for row in old.losses.to_pylist()] == ["event without a time (Py"]
    assert old.meta.start_epoch_ns is None
    for name in ("allocated", "reserved", "active", "inactive split", "rounding"):
        assert max(curve(old, name)) == max(curve(new, name)), name
    assert get_column(old.allocations, "bytes").tolist() == get_column(new.allocations, "bytes").tolist()
    assert [stack_of(old, stack) for stack in get_column(old.allocations, "stack").tolist()] == [
        stack_of(new, stack) for stack in get_column(new.allocations, "stack").tolist()
    ]


def test_events_of_one_microsecond_keep_their_order(training: Any) -> None:
    """Each has a different time, so that a freed block and the next one at its address never overlap."""
    changed = copy.deepcopy(training)
    for event in changed["device_traces"][0]:
        event["time_us"] = 1_750_000_000_000_000
    profile = profile_of(changed)
    assert max(curve(profile, "allocated")) == max(curve(profile_of(training), "allocated"))
    starts = profile.allocations.column("start_ns").to_pylist()
    assert len(set(starts)) == len(starts) and starts == sorted(starts)


def test_blocks_without_recorded_events(training: Any) -> None:
    """The history begins late (its oldest events were overwritten): blocks of the state and the frees are kept."""
    changed = copy.deepcopy(training)
    changed["device_traces"][0] = changed["device_traces"][0][60:]
    profile = profile_of(changed)
    whole = profile_of(training)
    assert curve(profile, "allocated")[-1] == curve(whole, "allocated")[-1]
    assert curve(profile, "reserved")[-1] == curve(whole, "reserved")[-1]
    assert curve(profile, "active")[-1] == curve(whole, "active")[-1]
    before = [row for row in profile.allocations.to_pylist() if row["start_ns"] is None]
    assert before and {row["end_ns"] is None for row in before} == {True, False}
    # With only the state there are only blocks, and their stacks.
    changed["device_traces"] = [[]]
    state = profile_of(changed)
    assert curve(state, "allocated") == [curve(whole, "allocated")[-1]]
    assert all(row["start_ns"] is None and row["end_ns"] is None for row in state.allocations.to_pylist())
    assert state.meta.duration_ns is None
    assert profile_of(changed["segments"]).allocations.equals(state.allocations)


def test_history_without_state(training: Any) -> None:
    """And unrecorded frees are reported if the state shows them."""
    alone = profile_of({"device_traces": training["device_traces"]})
    assert max(curve(alone, "allocated")) == max(curve(profile_of(training), "allocated"))
    events = [e for e in training["device_traces"][0] if not e["action"].startswith("free")]
    skipped = profile_of(training | {"device_traces": [events]})
    reasons = get_strings(skipped.losses, "reason")
    assert allocator.UNRECORDED_FREE in reasons and allocator.LOST_FREE in reasons
    assert curve(skipped, "allocated")[-1] == curve(alone, "allocated")[-1]


def test_invalid_events_are_losses(training: Any) -> None:
    """Events without an address, with an impossible size, with an unknown action, and events that are no dicts."""
    changed = copy.deepcopy(training)
    bad: list[Any] = [
        {"action": "alloc", "size": 5, "stream": 0, "frames": []},
        {"action": "alloc", "addr": 5, "size": 1 << 60, "stream": 0, "frames": None},
        {"action": "alloc", "addr": 2**64 - 1, "size": -5, "stream": 0, "frames": [None, 7, {"name": 3}]},
        {"action": "dance", "addr": 1, "size": 1, "stream": 0, "frames": {}},
        None,
        "text",
    ]
    changed["device_traces"][0][3:3] = bad
    changed["device_traces"].append(changed["device_traces"][0])
    changed["segments"] += [None, {"device": -3, "address": 1, "total_size": 5}]
    profile = profile_of(changed)
    assert {row["reason"]: (row["count"], row["example"]) for row in profile.losses.to_pylist()} == {
        snapshot_rows.UNKNOWN_ACTION: (3, "device 0, event 6: 'dance'"),
        snapshot_rows.NO_ADDRESS: (3, "device 0, event 3: 'alloc'"),
        snapshot_rows.TWICE: (1, "the events of device 2"),
        snapshot_rows.BAD_BLOCK: (2, "segment 4"),
    }
    assert max(curve(profile, "allocated")) == max(curve(profile_of(training), "allocated"))


@pytest.mark.heavy
def test_truncated_snapshot(training: Any) -> None:
    """At many positions: a valid profile that is marked incomplete, or a message."""
    data = pickle.dumps(training, 4)
    kept = 0
    for length in range(10, len(data) - 1, 97):
        try:
            profile = profile_of(data[:length])
        except UnreadableInput as error:
            assert "snapshot.pickle" in error.message
            continue
        kept += 1
        assert not profile.meta.complete and "truncated" in profile.meta.reasons[0]
    assert kept > 50


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"epoch": 3, "weights": [1, 2]}, "not a memory snapshot"),
        ([1, 2, 3], "not a memory snapshot"),
        (None, "not a memory snapshot"),
        ({"segments": [], "device_traces": [[], []]}, "_record_memory_history"),
        ({"segments": 5, "device_traces": "x"}, "_record_memory_history"),
    ],
)
def test_other_pickles_are_refused(value: Any, told: str) -> None:
    with pytest.raises(UnreadableInput, match=told):
        profile_of(value)


def test_expandable_segments() -> None:
    """Mapped 0–4 at 10 and 4–8 at 20; 2–6 unmapped at 30; of the state's 0–2 and 6–10 the last existed before."""

    def history(rows: list[tuple[int, int, int, int]]) -> AllocatorHistory:
        action, time, address, size = (np.array(c) for c in zip(*rows, strict=True))
        return AllocatorHistory(action, time, address, size, np.zeros(len(rows), int), np.zeros(len(rows), int))

    none, yes = np.zeros(0, np.int64), np.zeros(0, bool)
    state = AllocatorState(
        none, none, none, yes, yes, none, none, [Segment(0, 2, 0, "large", 0), Segment(6, 4, 0, "large", 0)]
    )
    maps, unmaps = allocator.SEGMENT_MAP, allocator.SEGMENT_UNMAP
    found = compute_segments(history([(maps, 10, 0, 4), (maps, 20, 4, 4), (unmaps, 30, 2, 4)]), state)
    assert [(one.address, one.size, one.start_ns, one.end_ns) for one in found] == [
        (8, 2, None, None),
        (0, 2, 10, None),
        (2, 2, 10, 30),
        (4, 2, 20, 30),
        (6, 2, 20, None),
    ]
    assert allocator.compute_curve(np.array([MISSING, 10, 20]), np.array([30, MISSING, 30]), np.array([5, 4, 2]), 0)[
        1
    ].tolist() == [5, 9, 11, 4]
