"""Out and in again, of a real result of each sort: the same totals, call stacks and times, as far as a form holds them."""

import functools
import gzip
import io
import json
from collections import Counter
from pathlib import Path

import pytest

from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import HOST_TIME, get_column, get_strings
from perfloom.exporters import EXPORTERS
from perfloom.readers import detect_format
from tests.exporters.test_perfetto import told
from tests.exporters.test_pprof import go
from tests.support import paths

DATA = paths.DATA
LLAMA = """start_time: 1000.0
thr: 0, name: decode_0, time: 1001.5
thr: 0, name: matmul_ffn_up-1_1, time: 1002.0
thr: 1, name: matmul_ffn_up-1_2, time: 1002.5
thr: 0, name: end_matmul_ffn_up-1_1, time: 1004.0
thr: 1, name: end_matmul_ffn_up-1_2, time: 1005.0
thr: 0, name: end_decode_0, time: 1007.25
end_time: 1008.0
"""
CHROME = [
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "main"}},
    {"ph": "X", "name": "outer", "cat": "app", "pid": 1, "tid": 2, "ts": 10, "dur": 9.5, "args": {"n": 1}},
    {"ph": "B", "name": "inner", "cat": "app", "pid": 1, "tid": 2, "ts": 11},
    {"ph": "E", "pid": 1, "tid": 2, "ts": 13.001},
    {"ph": "i", "name": "here", "pid": 1, "tid": 2, "ts": 12, "s": "t"},
    {"ph": "C", "name": "heap", "pid": 1, "ts": 12, "args": {"value": 5}},
]
FILES = {
    "perf": lambda: (DATA / "perf/events.script.txt").read_bytes(),
    "pytorch": lambda: gzip.decompress((DATA / "pytorch/training.pt.trace.json.gz").read_bytes()),
    "mllm": lambda: (DATA / "mllm/perf.json").read_bytes(),
    "llama": lambda: LLAMA.encode(),
    "chrome": lambda: json.dumps({"traceEvents": CHROME}).encode(),
}
by_source = pytest.mark.parametrize("name", FILES)
Weights = Counter[tuple[str, tuple[str, ...]]]


def read(data: bytes) -> Profile:
    found: Profile = detect_format(data[: 1 << 18], "file").read(io.BytesIO(data), "file")
    return found


@functools.cache
def source(name: str) -> Profile:
    return read(FILES[name]())


def there_and_back(name: str, form: str, **selection: object) -> Profile:
    data = b"".join(EXPORTERS[form].write(source(name), Selection(**selection), {}))  # type: ignore[arg-type]
    return read(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)


def weights(profile: Profile, names: str = "display") -> Weights:
    """What call stacks weigh, by event."""
    functions, events = get_strings(profile.functions, names), get_strings(profile.events, "name")
    frame, parent = (get_column(profile.stacks, word).tolist() for word in ("frame", "parent"))
    of = get_column(profile.frames, "function").tolist()
    paths: list[tuple[str, ...]] = [()]
    for node in range(1, len(frame)):
        paths.append((*paths[parent[node]], functions[of[frame[node]]]))
    found: Weights = Counter()
    for row in profile.samples.to_pylist():
        found[events[row["event"]], paths[row["stack"]]] += row["weight"]
    return +found


@pytest.mark.heavy
@by_source
def test_pprof_keeps_every_weight_of_every_stack(name: str) -> None:
    found = weights(there_and_back(name, "pprof"))
    assert {key: weight for key, weight in found.items() if key[0] != "samples"} == weights(source(name))


@by_source
def test_speedscope_keeps_weights_by_unit(name: str) -> None:
    """It has no names of events, only units."""
    profile = source(name)
    units = dict(zip(get_strings(profile.events, "name"), get_strings(profile.events, "unit"), strict=True))
    wanted: Weights = Counter()
    for (event, stack), weight in weights(profile).items():
        wanted[HOST_TIME if units[event] == "ns" else "weight", stack] += weight
    assert weights(there_and_back(name, "speedscope")) == wanted


@by_source
def test_collapsed_keeps_the_main_event(name: str) -> None:
    """Below the name of the thread or command; functions by the names that they had."""
    profile = source(name)
    wanted: Counter[tuple[str, ...]] = Counter()
    for (event, stack), weight in weights(profile, "display" if name == "perf" else "name").items():
        if event == profile.meta.main_event:
            wanted[tuple(word.replace(";", ":") for word in stack)] += weight
    found: Counter[tuple[str, ...]] = Counter()
    for (_, stack), weight in weights(there_and_back(name, "collapsed")).items():
        found[stack[1:]] += weight
    assert found == wanted


@by_source
def test_perfetto_keeps_slices_with_their_times(name: str) -> None:
    profile, again = source(name), there_and_back(name, "perfetto")
    assert told(again) == told(profile)
    for table in ("instants", "counters"):
        if profile.slices.num_rows:
            assert getattr(again, table).num_rows == getattr(profile, table).num_rows
    assert (again.meta.format == "pytorch") == (name == "pytorch")
    assert again.meta.start_epoch_ns == profile.meta.start_epoch_ns


@by_source
def test_a_profile_keeps_all(name: str) -> None:
    again = there_and_back(name, "profile")
    assert again.meta == source(name).meta
    for table, rows in source(name).tables().items():
        assert again.tables()[table].equals(rows), table


@by_source
@pytest.mark.parametrize("form", ["pprof", "speedscope", "profile"])
def test_a_window_keeps_what_is_in_it(name: str, form: str) -> None:
    """All forms agree on how much that is."""
    profile = source(name)
    end = (profile.meta.duration_ns or 0) * 2 // 3
    event = profile.meta.main_event or ""
    window = {"start_ns": end // 4, "end_ns": end, "event": event}
    wanted = sum(weights(there_and_back(name, "profile", **window)).values())
    found = weights(there_and_back(name, form, **window))
    assert 0 < wanted < sum(weight for (of, _), weight in weights(profile).items() if of == event)
    assert sum(weight for (of, _), weight in found.items() if of != "samples") == wanted


@by_source
def test_pprof_itself_counts_the_same(name: str, tmp_path: Path) -> None:
    """It checks the file first: every number in it must lead somewhere."""
    profile = source(name)
    wanted = sum(weight for (event, _), weight in weights(profile).items() if event == profile.meta.main_event)
    top = go(b"".join(EXPORTERS["pprof"].write(profile, Selection(), {})), tmp_path, "-top", "-unit=ns")
    assert f"Total samples = {wanted}ns" in top, top[:300]
