"""perf stat's output: all three forms yield the same values, to the nanosecond if perf prints it."""

from __future__ import annotations

import contextlib
import io
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.tables import SCHEMAS
from perfloom.domain.validation import find_error
from perfloom.readers import detect_format, perf_stat
from perfloom.readers.perf_stat.grammar import detect_separator, parse_columns, parse_json, parse_text
from tests.support import paths
from tests.support.cpu import limit_cpu_s
from tests.support.parts import require

DATA = paths.DATA / "perf-stat"
FORMS = ("json", "csv", "txt")
Row = dict[str, Any]


def read(data: bytes) -> Profile:
    """The profile of some bytes, whose format must be detected."""
    assert detect_format(data[:4096]).name == "perf-stat"
    return perf_stat.read(io.BytesIO(data), "here")


def rows(profile: Profile) -> list[Row]:
    """The table counts with names instead of ids."""
    events, threads = profile.events.to_pylist(), profile.threads.to_pylist()
    found = []
    for row in profile.counts.to_pylist():
        event = events[row["event"]]
        name = threads[row["thread"]]["name"] if row["thread"] >= 0 else None
        found.append(row | {"event": event["name"], "unit": event["unit"], "thread": name})
    return found


def values(name: str) -> dict[str, float | None]:
    """Value of each event of a file that has each once."""
    return {row["event"]: row["value"] for row in rows(read((DATA / name).read_bytes()))}


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir() if path.suffix[1:] in FORMS))
def test_every_line_is_recognized(name: str) -> None:
    profile = read((DATA / name).read_bytes())
    without = [row for row in rows(profile) if row["status"] != "ok"]
    lost = profile.losses.to_pylist()
    assert sum(row["count"] for row in lost) == len(without) and find_error(profile) is None
    assert {row["reason"] for row in lost} == {f"event without a value: {row['status']}" for row in without}
    assert (
        profile.counts.num_rows + profile.count_metrics.num_rows >= 1
        and profile.meta.format == "perf-stat"
        and profile.meta.complete
    )
    assert profile.counts.schema == SCHEMAS["counts"] and profile.samples.num_rows == 0
    assert profile.count_metrics.schema == SCHEMAS["count_metrics"]
    by_hand = sum(
        not line.startswith("#") and any(c.isalpha() for c in line) for line in (DATA / name).read_text().splitlines()
    )
    if name.endswith((".json", ".csv")) and not name.startswith(("by-hand", "interval")):
        assert profile.counts.num_rows == by_hand


def test_event_counted_twice_is_not_summed() -> None:
    text = b"50,,page-faults,748169,100.00,,\n50,,page-faults/period=10/,748169,100.00,,\n"
    assert [(row["event"], row["value"]) for row in rows(read(text))] == [
        ("page-faults", 50.0),
        ("page-faults/period=10/", 50.0),
    ]
    (row,) = rows(read(b"50,,page-faults/percore/,748169,100.00,,\n"))
    assert row["event"] == "page-faults"


def test_single_run(subtests: pytest.Subtests) -> None:
    exact = rows(read((DATA / "run.json").read_bytes()))
    assert [row["event"] for row in exact] == [
        "task-clock",
        "page-faults",
        "context-switches",
        "cycles",
        "instructions",
    ]
    assert [row["unit"] for row in exact] == ["ns", "count", "count", "count", "count"]
    # On this machine a task clock runs exactly as long as it counts.
    assert exact[0]["value"] == exact[0]["running_ns"] == exact[0]["enabled_ns"] > 10**7
    assert [row["status"] for row in exact] == ["ok"] * 3 + ["not supported"] * 2
    assert [row["value"] for row in exact[3:]] == [None, None]
    assert all(row["start_ns"] is row["end_ns"] is row["deviation_percent"] is None for row in exact)
    assert all((row["thread"], row["cpu"], row["run"]) == (None, -1, 0) for row in exact)
    for form in FORMS:
        with subtests.test(form):
            found = rows(read((DATA / f"run.{form}").read_bytes()))
            assert [(row["event"], row["unit"], row["status"]) for row in found] == [
                (row["event"], row["unit"], row["status"]) for row in exact
            ]
            assert found[0]["value"] == pytest.approx(exact[0]["value"], rel=0.6)


def test_human_readable_text_has_run_facts() -> None:
    meta = read((DATA / "run.txt").read_bytes()).meta
    assert meta.command == "python3 -c sum(range(10**6))" and meta.duration_ns == 155_847_294
    assert meta.facts == {"started": "Sat Nov 21 10:17:10 2026"} and meta.main_event == "task-clock"
    assert read((DATA / "repeat.txt").read_bytes()).meta.facts["repeats"] == "3"
    assert read((DATA / "thread.txt").read_bytes()).meta.command is None


@pytest.mark.parametrize("form", FORMS)
def test_repeated_runs_have_a_deviation(form: str) -> None:
    found = rows(read((DATA / f"repeat.{form}").read_bytes()))
    assert [row["event"] for row in found] == ["task-clock", "page-faults", "cycles"]
    assert found[0]["deviation_percent"] > 0 and found[1]["deviation_percent"] >= 0
    assert 9000 < found[1]["value"] < 10_000


@pytest.mark.parametrize("form", FORMS)
def test_intervals_are_consecutive(form: str) -> None:
    profile = read((DATA / f"interval.{form}").read_bytes())
    found = rows(profile)
    # The summary after them is their sum, so it is omitted.
    assert [row["event"] for row in found] == ["task-clock", "page-faults"] * 3
    ends = [row["end_ns"] for row in found]
    assert ends == sorted(ends) and 50_000_000 < ends[0] < 51_000_000
    assert [row["start_ns"] for row in found] == [0, 0, ends[0], ends[0], ends[2], ends[2]]
    assert profile.meta.duration_ns == ends[-1]
    assert [row["status"] for row in found] == ["ok"] * 2 + ["not counted"] * 2 + ["ok"] * 2
    assert found[2]["value"] is None and found[5]["value"] == 0


@pytest.mark.parametrize("form", FORMS)
def test_cpus_cores_and_threads(form: str) -> None:
    cpus = rows(read((DATA / f"cpu.{form}").read_bytes()))
    assert {(row["event"], row["cpu"], row["thread"]) for row in cpus} == {
        (event, cpu, None) for event in ("cpu-clock", "page-faults") for cpu in (0, 1)
    }
    cores = read((DATA / f"core.{form}").read_bytes())
    assert {(row["thread"], row["cpu"]) for row in rows(cores)} == {("S0-D0-C0", -1), ("S0-D0-C1", -1)}
    assert set(cores.threads.column("kind").to_pylist()) == {"cpu"}
    threads = read((DATA / f"thread.{form}").read_bytes())
    assert threads.threads.column("name").to_pylist() == ["python3"] * 3
    assert len(set(threads.threads.column("tid").to_pylist())) == 3
    by_thread = [(row["thread"], row["status"]) for row in rows(threads)]
    assert by_thread == [("python3", "ok")] * 2 + [("python3", "not counted")] * 2 + [("python3", "ok")] * 2


def metrics(profile: Profile) -> list[tuple[Any, ...]]:
    """(name, unit, value, event, scope, start, end) of the table count_metrics."""
    events, threads = (table.column("name").to_pylist() for table in (profile.events, profile.threads))
    return [
        (
            row["name"],
            row["unit"],
            row["value"],
            events[row["event"]] if row["event"] >= 0 else None,
            threads[row["thread"]] if row["thread"] >= 0 else row["cpu"] if row["cpu"] >= 0 else None,
            row["start_ns"],
            row["end_ns"],
        )
        for row in profile.count_metrics.to_pylist()
    ]


def of_file(name: str) -> Profile:
    return read((DATA / name).read_bytes())


@pytest.mark.parametrize("form", FORMS)
def test_metrics_are_read(form: str) -> None:
    assert metrics(of_file(f"by-hand-hardware.{form}")) == [
        ("GHz", "", 3.1, "cycles", None, None, None),
        ("insn per cycle", "", 2.0, "instructions", None, None, None),
        ("stalled cycles per insn", "", 0.5, "instructions", None, None, None),
    ]
    repeats = [row[:3] for row in metrics(of_file(f"by-hand-repeat-base.{form}"))]
    assert repeats == [("GHz", "", 3.0), ("insn per cycle", "", 2.0)]
    names = [row[:2] for row in metrics(of_file(f"run.{form}"))]
    assert names[:2] == [("CPUs utilized", ""), ("page-faults per second of CPU time", "")]
    assert metrics(of_file(f"run.{form}"))[1][2] > 1000, "K/sec is a thousand a second"


def test_metrics_have_a_scope() -> None:
    assert [row[:5] for row in metrics(of_file("by-hand-per-core.json"))] == [
        ("GHz", "", 1.0, "cycles", "S0-D0-C0"),
        ("insn per cycle", "", 2.0, "instructions", "S0-D0-C0"),
        ("GHz", "", 2.0, "cycles", "S0-D0-C1"),
        ("insn per cycle", "", 0.5, "instructions", "S0-D0-C1"),
    ]
    expected = [("GHz", 1.0), ("GHz", 2.0), ("insn per cycle", 2.0), ("stalled cycles per insn", 0.25)]
    for name, places in (("by-hand-per-cpu.txt", [0, 1, 0, 0]), ("by-hand-per-thread.csv", ["a.out", "my comm"])):
        found = metrics(of_file(name))
        assert [(row[0], row[2]) for row in found[:4]] == expected
        assert [row[4] for row in found[: len(places)]] == places
    assert [row[:4] for row in metrics(of_file("by-hand-topdown.json"))] == [
        ("tma_backend_bound", "percent", 43.226002, "TOPDOWN.SLOTS"),
        ("tma_frontend_bound", "percent", 29.212267, "TOPDOWN.SLOTS"),
    ]


def test_metric_only_rows_are_read() -> None:
    share = "branch-misses of all branches"
    assert [row[:3] for row in metrics(of_file("by-hand-metric-only.json"))] == [
        ("GHz", "", 0.99),
        ("insn per cycle", "", 2.06),
        (share, "percent", 0.59),
        ("stalled cycles per insn", "", None),
    ]
    assert [(*row[:3], row[4]) for row in metrics(of_file("by-hand-metric-only-6.1.json"))] == [
        ("GHz", "", 0.295, "S0"),
        ("insn per cycle", "", 1.88, "S0"),
        (share, "percent", 0.64, "S0"),
    ]
    text = metrics(of_file("by-hand-metric-only.txt"))
    assert [(row[0], row[2], row[4]) for row in text[1:4]] == [
        ("insn per cycle", 0.61, "system.slice"),
        (share, 3.24, "system.slice"),
        ("GHz", 3.661, "user.slice"),
    ]
    columns = metrics(of_file("by-hand-metric-only.csv"))
    first, second = 1_000_100_000, 2_000_200_000
    assert columns[1] == ("insn per cycle", "", 1.88, None, "S0", 0, first)
    assert columns[5] == (share, "percent", None, None, "S0", first, second)


@pytest.mark.parametrize("form", FORMS)
def test_intervals_become_counters(form: str) -> None:
    """Counts per second, so that intervals of different length are comparable; no series without counts."""
    profile = of_file(f"by-hand-interval.{form}")
    names = profile.series.column("name").to_pylist()
    found: dict[str, list[tuple[int, float | None]]] = {name: [] for name in names}
    for row in profile.counters.to_pylist():
        value = None if row["value"] != row["value"] else row["value"]
        found[names[row["series"]]].append((row["time_ns"] // 10**6, value))
    assert names == [
        "cycles per second",
        "instructions per second",
        "cache-misses per second",
        "GHz",
        "insn per cycle",
        "stalled cycles per insn",
        "cache-misses of all cache refs",
    ]
    assert found["cycles per second"] == [(0, 3e9), (100, 2e9), (200, 1e9), (300, None)]
    assert found["cache-misses per second"] == [(0, 40_000), (100, None), (200, 20_000), (300, None)]
    assert found["insn per cycle"] == [(0, 2.0), (100, 0.5), (200, 1.0), (300, None)]
    assert found["cache-misses of all cache refs"] == [(0, 8.0), (100, None), (200, 4.0), (300, None)]
    clocks = of_file(f"interval.{form}").series.column("name").to_pylist()
    assert clocks == ["task-clock (CPUs)", "page-faults per second"]


def test_nodes_and_cgroups() -> None:
    assert [row["thread"] for row in rows(read((DATA / "node.csv").read_bytes()))] == ["N0"]
    for form in ("json", "csv"):
        (row,) = rows(read((DATA / f"cgroup.{form}").read_bytes()))
        assert (row["event"], row["thread"], row["status"]) == ("task-clock", "cgroup /", "not counted")


def test_duration_time_event() -> None:
    profile = read((DATA / "times.json").read_bytes())
    assert profile.meta.duration_ns == 139_256_354
    assert values("times.json") == {"duration_time": 139256354, "user_time": 71544000, "sched:sched_switch": 94}


@pytest.mark.parametrize("form", FORMS)
def test_multiplexed_counters_have_a_scaling_factor(form: str) -> None:
    profile = read((DATA / f"by-hand-hardware.{form}").read_bytes())
    found = {row["event"]: row for row in rows(profile)}
    scaling = dict(zip(*(profile.events.column(name).to_pylist() for name in ("name", "scaling")), strict=True))
    assert found["cycles"]["value"] == 1_234_567_890 and scaling["cycles"] == 2.0
    if form != "txt":
        # The text has this share on the line of the metric.
        assert scaling["instructions"] == pytest.approx(1.25)
        assert (found["cycles"]["enabled_ns"], found["cycles"]["running_ns"]) == (500_000_000, 250_000_000)
    assert scaling["LLC-loads"] is scaling["cpu/event=0x3c,umask=0x0/u"] is None
    assert found["instructions"]["value"] == 2_469_135_780
    assert found["power/energy-pkg/"]["value"] == 12.5 and found["power/energy-pkg/"]["unit"] == "Joules"
    assert found["uncore_imc/cas_count_read/"]["value"] == 1.5 * 2**20
    assert found["uncore_imc/cas_count_read/"]["unit"] == "bytes"
    assert (found["cache-misses"]["status"], found["LLC-loads"]["status"]) == ("not counted", "not supported")
    assert len(found) == 7


def test_large_machines_and_newer_versions() -> None:
    profile = read((DATA / "by-hand-places.csv").read_bytes())
    found = [(row["thread"], row["cpu"], row["value"], row["start_ns"], row["end_ns"]) for row in rows(profile)]
    first, second = 1_000_100_000, 2_000_200_000
    assert found == [
        ("S0-D0-C0", -1, 5, 0, first),
        ("S1", -1, 6, 0, first),
        ("S0-D0-L3-ID0", -1, 7, 0, first),
        ("my comm-with-dash", -1, 8, first, second),
        ("cgroup /kube/pod", 127, 9, first, second),
    ]
    assert rows(profile)[4]["deviation_percent"] == 1.25
    assert profile.threads.column("tid").to_pylist() == [None, None, None, 77, None]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", ":", "~", "@", " "])
def test_any_separator_is_detected(separator: str) -> None:
    line = separator.join(["12", "", "page-faults", "1000", "100.00", "", ""])
    assert detect_separator(line) == separator
    (row,) = rows(read(line.encode()))
    assert row["event"] == "page-faults" and row["value"] == 12


def test_other_output_is_a_loss() -> None:
    """As on a terminal, where the program's errors and perf's counts share one stream."""
    noise = b"solver: step 1\n\x1b[31mwarning\x1b[0m <script>alert(1)</script>\n"
    for form in FORMS:
        data = noise + (DATA / f"run.{form}").read_bytes() + b"\xff\xfe" + b"x" * 30_000 + b"\n"
        profile = read(data)
        assert rows(profile) == rows(read((DATA / f"run.{form}").read_bytes()))
        lost = profile.losses.to_pylist()
        assert [row["count"] for row in lost] == [2, 1, 2]
        assert lost[0]["example"] == "line 1: solver: step 1" and "30,003 bytes" in lost[1]["example"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n\n",
        b"main;work 12\nmain;rest 3\n",
        b"a.out 1234 12.345678: 1 cycles:\n\t  401136 main+0x10 (/a.out)\n\n",
        b'{"traceEvents": []}',
        b'{"counter-value" : "12", "unit" : ""}\n',
        b'{"insn per cycle" : "a lot"}\n',
        b"GHz, the unit of frequencies\n",
        b"1,2,3,4,5\n",
        b"name,value\nx,1\n",
        bytes(range(256)) * 20,
        b"\0" * 4096,
    ],
)
def test_other_texts_are_not_recognized(text: bytes) -> None:
    assert not perf_stat.sniff(text)
    with pytest.raises(UnreadableInput, match="no counts of perf stat"):
        perf_stat.read(io.BytesIO(text), "x.txt")


def test_text_with_only_its_start_is_refused_with_the_cause() -> None:
    """perf 6.1 with an interval writes this for a command that ends at once."""
    text = b"# started on Sat Nov 21 10:17:12 2026\n\n"
    assert detect_format(text).name == perf_stat.FORMAT
    with pytest.raises(UnreadableInput, match=r"^x\.txt has no counts of perf stat: .* Count without an interval"):
        perf_stat.read(io.BytesIO(text), "x.txt")


@pytest.mark.parametrize("form", FORMS)
def test_truncated_anywhere(form: str) -> None:
    """Everything before the end of a truncated text is read, or the text is refused."""
    whole = (DATA / f"by-hand-hardware.{form}").read_bytes()
    expected = rows(read(whole))
    for cut in range(0, len(whole), 7):
        try:
            found = rows(perf_stat.read(io.BytesIO(whole[:cut])))
        except UnreadableInput:
            continue
        assert [row["event"] for row in found[:-1]] == [row["event"] for row in expected[: len(found) - 1]]


def test_truncated_stream_is_reported() -> None:
    stream = io.BytesIO((DATA / "run.csv").read_bytes())
    stream.defect = "The file ends in the middle."  # type: ignore[attr-defined]
    meta = perf_stat.read(stream).meta
    assert not meta.complete and meta.reasons == ("The file ends in the middle.",)


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    perf_stat.sniff(data)
    try:
        perf_stat.read(io.BytesIO(data))
    except UnreadableInput as error:
        assert error.message


HOSTILE = st.lists(
    st.sampled_from(
        ["1", "1.5", ",", ",,", "<not counted>", "msec", "a/", "/", "%", "100.00", "-", "CPU1", " ", "#", "("]
    )
    | st.text(max_size=3),
    max_size=200,
).map("".join)


@given(HOSTILE)
def test_hostile_lines_are_parsed_quickly(line: str) -> None:
    with limit_cpu_s(2):
        parse_text(line)
        parse_json("{" + line)
        for separator in ",;":
            parse_columns(line, separator)


@pytest.mark.parametrize(
    "line",
    [
        "," * 8000,
        "1," * 4000,
        "a/" * 4000,
        "1,,a" + "/a/" * 2600,
        "  1 a" + " #(" * 2600,
        "1,,x," * 1600,
        "a-1 " * 2000,
    ],
)
def test_random_lines_are_parsed_quickly(line: str) -> None:
    with limit_cpu_s(2):
        parse_text(line)
        assert detect_separator(line) is None


@pytest.mark.heavy
def test_output_of_installed_perf(tmp_path: Path) -> None:
    perf = str(require("perf"))
    for options in (["-j"], ["-x;"], []):
        out = tmp_path / "out"
        command = [perf, "stat", *options, "-o", str(out), "-e", "task-clock:u,page-faults:u", "--", "sleep", "0.01"]
        subprocess.run(command, check=True, capture_output=True)
        profile = read(out.read_bytes())
        assert profile.losses.num_rows == 0
        assert [(row["event"], row["unit"], row["status"]) for row in rows(profile)] == [
            ("task-clock:u", "ns", "ok"),
            ("page-faults:u", "count", "ok"),
        ]
        assert rows(profile)[1]["value"] > 10
        assert [row[:2] for row in metrics(profile)][:1] == [("CPUs utilized", "")]


@pytest.mark.heavy
def test_intervals_and_repeats_of_installed_perf(tmp_path: Path) -> None:
    perf = str(require("perf"))
    events = ["-e", "task-clock:u,page-faults:u,cycles:u"]
    for options in (["-j"], ["-x,"], []):
        out = tmp_path / "out"
        for more in (["-I", "50"], ["-r", "3"], ["--metric-only"]):
            command = [perf, "stat", *options, *more, "-o", str(out), *events, "--", "sleep", "0.12"]
            subprocess.run(command, check=True, capture_output=True)
            if more == ["--metric-only"]:
                # Metrics depend on the counters of the machine.
                with contextlib.suppress(UnreadableInput):
                    perf_stat.read(io.BytesIO(out.read_bytes()))
                continue
            profile = read(out.read_bytes())
            assert all("without a value" in row["reason"] for row in profile.losses.to_pylist())
            assert bool(profile.counters.num_rows) is (more[0] == "-I")


def test_repeated_counts_of_one_run_are_averaged_and_those_of_appended_runs_added() -> None:
    title = "\n Performance counter stats for 'true':\n\n"
    run = title + "  100  cycles  (50.00%)\n  300  cycles  (30.00%)\n  <not counted>  cycles\n  7  faults\n"
    profile = read(run.encode())
    (cycles, faults) = profile.counts.to_pylist()
    assert (cycles["value"], faults["value"], profile.losses.num_rows) == (200, 7, 0)
    appended = read((run + run).encode())
    names = appended.events.column("name").to_pylist()
    rows = appended.counts.to_pylist()
    values = {name: [row["value"] for row in rows if names[row["event"]] == name] for name in names}
    assert values == {"cycles": [200, 200], "faults": [7, 7]}
