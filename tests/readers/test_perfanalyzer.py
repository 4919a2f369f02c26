"""Result sets of PerfAnalyzer: figures of the example that it ships, and damaged or hostile sets."""

from __future__ import annotations

import gzip
import io
from collections import defaultdict

import numpy as np
import pytest

from perfloom.analysis.tables import TABLES, records
from perfloom.domain.builder import IMPOSSIBLE_STACK_WEIGHT
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.losses import SUMS_OF_FILES, affects_values
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_column
from perfloom.domain.units import NS_PER_S
from perfloom.readers import detect_format, perfanalyzer
from perfloom.readers.perfanalyzer import format as names
from perfloom.readers.perfanalyzer.index import parse_name
from tests.support import paths
from tests.support.samples import losses_of

DATA = paths.DATA / "perfanalyzer"
EMPTY = ["dTLB-load-misses", "r1010", "r0211", "r8010"]


def content(name: str) -> bytes:
    packed = DATA / f"{name}.gz"
    return gzip.decompress(packed.read_bytes()) if packed.exists() else (DATA / name).read_bytes()


def read(index: bytes | str, files: dict[str, bytes | str], settings: bytes | None = None) -> Profile:
    """The profile of a set with these data files."""
    raw = index.encode() if isinstance(index, str) else index
    reader = perfanalyzer.ResultSetReader(io.BytesIO(raw), "DD.results")
    for name in reader.names:
        if name in files:
            text = files[name]
            reader.add_file(name, io.BytesIO(text.encode() if isinstance(text, str) else text))
    if settings is not None:
        reader.add_settings(io.BytesIO(settings), "DD.settings")
    return reader.finish()


@pytest.fixture(scope="module")
def example() -> Profile:
    index = content("DD.results")
    listed = [line for line in index.decode().split() if line.startswith("DD_proc0_")]
    return read(index, {name: content(name) for name in listed}, content("DD.settings"))


def values(profile: Profile) -> dict[str, int | None]:
    return {row["event"]: row["value"] for row in records(TABLES["events"].rows(profile, Selection()))}


def test_totals_of_the_example(example: Profile) -> None:
    found = values(example)
    assert (found["cycles"], found["instructions"]) == (23_815_680_000, 23_189_760_000)
    assert (found["LLC-loads"], found["r0151"]) == (2 * 40_000, 3 * 80_000)
    assert [event for event, value in found.items() if value is None] == EMPTY
    assert example.meta.facts["events without samples"] == ", ".join(EMPTY)
    assert example.meta.main_event == "cycles"
    assert example.meta.complete and losses_of(example) == {}
    assert example.meta.command == "dd if=/dev/zero of=/dev/null bs=512 count=10000k"


def test_every_event_equals_its_file(example: Profile) -> None:
    """A sum over the lines of a file, with nothing of the reader."""
    counters = dict(
        line.removeprefix("event_counter-").rsplit(":run-", 1)
        for line in content("DD.results").decode().split()
        if line.startswith("event_counter-")
    )
    for event, value in values(example).items():
        if value is not None:
            lines = [line for line in content(f"DD_proc0_{event}").decode().splitlines() if " " in line]
            counter = int(counters[event].rpartition(":")[2])
            assert value == counter * sum(int(line.rpartition(" ")[2]) for line in lines), event


def test_times_are_kept(example: Profile) -> None:
    sums: dict[int, int] = defaultdict(int)
    time_ns = 0
    for line in content("DD_proc0_cycles").decode().splitlines():
        if line.startswith("t="):
            time_ns = round(float(line[2:]) * NS_PER_S)
        else:
            sums[time_ns] += int(line.rpartition(" ")[2]) * 1_280_000
    event = example.events.column("name").to_pylist().index("cycles")
    mine = get_column(example.samples, "event") == event
    times, weights = get_column(example.samples, "time_ns")[mine], get_column(example.samples, "weight")[mine]
    assert {int(at): int(weights[times == at].sum()) for at in np.unique(times)} == sums
    assert example.meta.duration_ns == 7_550_000_000
    assert example.runs.column("duration_ns").to_pylist() == [
        *(2_750_000_000, 5_170_000_000, 7_550_000_000, 7_420_000_000, 7_360_000_000),
    ]
    half = Selection(end_ns=3_500_000_000), Selection(start_ns=3_500_000_000)
    parts = [records(TABLES["events"].rows(example, one)) for one in half]
    assert sum(rows[event]["value"] for rows in parts) == 23_815_680_000


def test_threads_and_stacks(example: Profile) -> None:
    assert {(row["process"], row["name"]) for row in example.threads.to_pylist()} == {("dd", "dd")}
    assert set(example.threads.column("rank").to_pylist()) == {None}
    functions = example.functions.column("name").to_pylist()
    assert "__GI___libc_write" in functions and not any("dd-0/0" in name for name in functions)


INDEX = "event_counter-cycles:run-1:10\ntime_interval:0.5\ncpu_id:General\nDD_proc0_cycles\nDD_proc1_cycles\n"
FILE = "t=0.00\na-0/0;main;f 2\na-0/1;main;g 1\nt=0.5\na-0/0;main 4\nt=0.75"


def test_processes_are_ranks() -> None:
    profile = read(INDEX, {"DD_proc0_cycles": FILE, "DD_proc1_cycles": FILE.replace("a-0", "a-1")})
    rows = records(TABLES["counts"].rows(profile, Selection()))
    assert {(row["rank"], row["tid"]): row["value"] for row in rows} == {(0, 0): 60, (0, 1): 10, (1, 0): 60, (1, 1): 10}
    assert profile.meta.complete, "the newest version writes no line end after the last time"


def test_missing_file() -> None:
    profile = read(INDEX, {"DD_proc0_cycles": FILE})
    assert losses_of(profile) == {names.MISSING_FILE: (1, "DD_proc1_cycles")}
    assert not profile.meta.complete
    assert profile.meta.reasons == (
        "1 of 2 data files were not given: DD_proc1_cycles. Import all files of the set together.",
    )
    assert values(profile) == {"cycles": 70}
    assert "events without samples" not in profile.meta.facts


def test_missing_file_is_no_empty_event() -> None:
    index = "event_counter-a:run-1:2\nevent_counter-b:run-1:2\nevent_counter-c:run-1:2\nD_proc0_a\nD_proc0_b\n"
    assert read(index, {"D_proc0_a": FILE}).meta.facts == {"events without samples": "c"}


def test_index_alone() -> None:
    with pytest.raises(UnreadableInput, match=r"lists 2 data files, and none of them was given: DD_proc0_cycles, DD_"):
        read(INDEX, {})
    with pytest.raises(UnreadableInput, match="x lists 9 data files, and none"):
        perfanalyzer.read(io.BytesIO(content("DD.results")), "x")
    with pytest.raises(UnreadableInput, match=r"lists no data files\. Check"):
        read("event_counter-cycles:run-1:10\n", {})


def test_data_file_alone() -> None:
    profile = perfanalyzer.read(io.BytesIO(content("DD_proc0_cycles")), "DD_proc0_cycles")
    assert values(profile) == {"cycles": 18_606}
    assert profile.events.column("weighted").to_pylist() == [False]
    assert losses_of(profile) == {names.NO_COUNTER: (1, "DD_proc0_cycles")}
    assert profile.meta.duration_ns == 7_360_000_000
    other = perfanalyzer.read(io.BytesIO(FILE.encode()), "renamed")
    assert values(other) == {"samples": 7}


@pytest.mark.parametrize(
    "line", ["../DD_proc0_cycles", "/etc/x_proc0_cycles", "a/b_proc0_cycles", "..\\x_proc0_cycles", "etc_proc0_/passwd"]
)
def test_names_with_directories_are_not_read(line: str) -> None:
    profile = read(INDEX + line + "\n", {"DD_proc0_cycles": FILE, "DD_proc1_cycles": FILE, line: FILE})
    assert losses_of(profile) == {names.UNSAFE_NAME: (1, f"line 6: {line}")}
    assert values(profile) == {"cycles": 140}


@pytest.mark.parametrize("cut", [3, 6, 12, 30, len(FILE) - 6, len(FILE) - 7])
def test_truncated_data_file(cut: int) -> None:
    profile = read(INDEX, {"DD_proc0_cycles": FILE, "DD_proc1_cycles": FILE[:cut]})
    value = values(profile)["cycles"]
    assert value is not None and 70 <= value <= 140
    if FILE[:cut].rpartition("\n")[2].startswith("t="):
        return
    assert not profile.meta.complete
    assert any(reason.startswith("DD_proc1_cycles") for reason in profile.meta.reasons), profile.meta.reasons
    assert any(example.startswith("DD_proc1_cycles") for _, example in losses_of(profile).values())


def test_other_content() -> None:
    profile = read(INDEX, {"DD_proc0_cycles": FILE, "DD_proc1_cycles": b"\x7fELF\x00\nx\n"})
    assert names.UNREADABLE_FILE in losses_of(profile) and not profile.meta.complete
    assert values(profile) == {"cycles": 70}


def test_few_unrecognized_lines() -> None:
    profile = read(INDEX, {"DD_proc0_cycles": "t=0.00\nnonsense\n" + FILE, "DD_proc1_cycles": FILE})
    assert losses_of(profile)["unrecognized line"] == (1, "DD_proc0_cycles, line 2: nonsense")
    assert not profile.meta.complete and values(profile) == {"cycles": 140}


def test_time_that_goes_back() -> None:
    profile = read(INDEX, {"DD_proc0_cycles": "t=5\na-0/0;f 1\n" + FILE, "DD_proc1_cycles": FILE})
    assert losses_of(profile) == {names.TIME_BACK: (1, "DD_proc0_cycles, line 3: t=0.00")}
    assert values(profile) == {"cycles": 150} and profile.meta.duration_ns == 5 * NS_PER_S


def test_sums_and_traces_are_not_read() -> None:
    """They would be counted twice."""
    others = ["DD_procall_cycles", "DD_proc0_cycles-divide-instructions", "DD_proc0_a-plus-b", "DD_proc0_trace-cycles"]
    given: dict[str, bytes | str] = dict.fromkeys(("DD_proc0_cycles", "DD_proc1_cycles", *others), FILE)
    profile = read(INDEX + "event_counter-trace-cycles:run-2:99\n" + "\n".join(others), given)
    assert values(profile) == {"cycles": 140}
    assert {reason: count for reason, (count, _) in losses_of(profile).items()} == {
        SUMS_OF_FILES: 3,
        names.TRACE_FILE: 1,
    }
    assert not affects_values(SUMS_OF_FILES) and affects_values(names.TRACE_FILE)


def test_sums_over_threads_are_not_read() -> None:
    text = "t=0.00\na-0/0;f 2\na-0/all;f 2\na-all/all;f 2\nt=1\n"
    assert values(read(INDEX, {"DD_proc0_cycles": text, "DD_proc1_cycles": text})) == {"cycles": 40}


def test_hosts_and_cpus() -> None:
    index = "event_counter-cycles:run-1:1\nsystem_wide\nS_host0_proc3_cycles\nS_host1_proc3_cycles\n"
    text = "start-time;12.5\nt=0.00\nbash-3/0;f 7\nt=1.00\n"
    profile = read(index, {"S_host0_proc3_cycles": text, "S_host1_proc3_cycles": text})
    assert profile.threads.column("host").to_pylist() == ["host 0", "host 1"]
    assert profile.threads.column("rank").to_pylist() == [None, None]
    assert set(get_column(profile.samples, "cpu").tolist()) == {3}
    assert values(profile) == {"cycles": 14} and profile.meta.facts["system-wide"] == "yes"


@pytest.mark.parametrize(
    ("counter", "unit", "sampling", "value"),
    [(200, "ns", "frequency", 35_000_000), (1, "ns", None, 7), (500_000, "ns", "period", 3_500_000)],
)
def test_clocks(counter: int, unit: str, sampling: str | None, value: int) -> None:
    """Old versions write a frequency, newer ones nanoseconds."""
    profile = read(f"event_counter-cpu-clock:run-1:{counter}\nD_proc0_cpu-clock\n", {"D_proc0_cpu-clock": FILE})
    (event,) = profile.events.to_pylist()
    assert (event["unit"], event["sampling"], values(profile)["cpu-clock"]) == (unit, sampling, value)


def test_event_without_counter() -> None:
    profile = read(
        "time_interval:0.5\ncpu_id:x\nD_proc0_odd:name_u/\nD_proc0_odd:name_u\n", {"D_proc0_odd:name_u": FILE}
    )
    assert values(profile) == {"odd:name_u": 7}
    assert losses_of(profile)[names.NO_COUNTER] == (1, "D_proc0_odd:name_u")


def test_impossible_weights() -> None:
    text = "t=0.00\na-0/0;f 999999999999999999\na-0/0;f 3\nt=1\n"
    profile = read(INDEX.replace(":10\n", ":1000\n"), {"DD_proc0_cycles": text, "DD_proc1_cycles": text})
    assert values(profile) == {"cycles": 6000}
    assert losses_of(profile)[IMPOSSIBLE_STACK_WEIGHT][0] == 2


@pytest.mark.parametrize(
    ("name", "process", "event", "host"),
    [
        ("a_proc0_cycles", 0, "cycles", None),
        ("a_proc1_b_proc12_L1-dcache-loads", 12, "L1-dcache-loads", None),
        ("a_host2_proc3_raw_event:u", 3, "raw_event:u", 2),
        ("a_procall_x", None, "x", None),
    ],
)
def test_names(name: str, process: int | None, event: str, host: int | None) -> None:
    found = parse_name(name)
    assert found is not None and (found.process, found.event, found.host) == (process, event, host)


@pytest.mark.parametrize("name", ["", "cycles", "_proc0_", "a_proc_x", "a_procx_y"])
def test_other_names(name: str) -> None:
    assert parse_name(name) is None


def test_detection() -> None:
    for path in DATA.iterdir():
        name = path.name.removesuffix(".gz")
        if path.suffix not in (".md", ".settings"):
            assert detect_format(content(name)).name == "perfanalyzer", name
    with pytest.raises(UnreadableInput, match="has the settings of a PerfAnalyzer job, and no measurements"):
        detect_format(content("DD.settings"))
    assert detect_format(b"t=1;main;f 3\nt=2;main 4\n").name == "collapsed"
