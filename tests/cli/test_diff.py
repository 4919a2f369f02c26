"""Differences of files and results on the command line."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from perfloom.config import Settings
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.selection import Selection
from perfloom.exporters import archive
from perfloom.store import open_store
from perfloom.store.files import columns
from tests.cli.conftest import Run, collapsed
from tests.support import paths
from tests.support.parts import require
from tests.support.perf.counted_runs import CPI, record_cycles
from tests.support.traced import Trace

DATA = paths.DATA
SPIN = str(DATA / "perf" / "spin.script.txt")


def test_diff(run: Run, tmp_path: Path) -> None:
    a = collapsed(tmp_path, "a", "main;f 50\nmain;g 50\n")
    b = collapsed(tmp_path, "b", "main;f 50\nmain;g 40\nmain;h 110\n")
    status, out, err = run("diff", a, b, "--format", "json")
    assert status == 0 and err.startswith("perfloom: Shares of `samples`, 1 run against 1 run: `h` is new")
    rows = {row["name"]: row for row in json.loads(out)}
    assert (rows["h"]["status"], rows["h"]["base_self"], rows["h"]["other_self"]) == ("appeared", 0, 110)
    stacks = json.loads(run("diff", a, b, "--by", "stack", "--format", "json")[1])
    assert {row["name"] for row in stacks} == {"main;f", "main;g", "main;h"}
    assert run("diff", a, b)[1].startswith("name")


def write_runs(folder: Path, name: str, stacks: Mapping[str, int], runs: int, seed: int) -> list[str]:
    """Collapsed stacks of several runs, which differ by chance."""
    chance = np.random.default_rng(seed)
    return [
        collapsed(
            folder, f"{name}{run}", "".join(f"{stack} {chance.poisson(mean)}\n" for stack, mean in stacks.items())
        )
        for run in range(runs)
    ]


BASE = {"main;f": 2000, "main;g": 3000, "main;h": 1000, "main;i": 1500, "main;j": 500}


def test_gate_with_one_run_on_each_side_cannot_tell(run: Run, tmp_path: Path) -> None:
    a = collapsed(tmp_path, "a", "main;f 500\nmain;g 500\n")
    b = collapsed(tmp_path, "b", "main;f 600\nmain;g 400\n")
    assert run("diff", a, a, "--fail-above", "50")[0] == 0
    assert run("diff", a, b, "--fail-above", "30")[0] == 0
    status, out, err = run("diff", a, b, "--fail-above", "9.5")
    assert status == 3 and "'f' grew by 10.00 %, above 9.5 %" in err and "noise between runs is unknown" in err
    assert "name" in out
    # Known from earlier runs, the noise between them makes it evidence, or explains it.
    status, _, err = run("diff", a, b, "--fail-above", "9.5", "--variation", "1")
    assert status == 1 and "'f' grew by 10.00 %, above 9.5 %." in err
    assert run("diff", a, b, "--fail-above", "9.5", "--variation", "30")[0] == 3
    # The same twice says nothing about a growth of 1 %.
    status, _, err = run("diff", a, a, "--fail-above", "1")
    assert status == 3 and "the smallest that these runs could show is" in err


def test_gate_ignores_few_samples(run: Run, tmp_path: Path) -> None:
    a = collapsed(tmp_path, "a", "main;f 9985\nmain;g 15\n")
    b = collapsed(tmp_path, "b", "main;f 9980\nmain;h 20\n")
    assert run("diff", a, b, "--fail-above", "10")[0] == 0
    one, two = (collapsed(tmp_path, name, f"main;{name} 20\n") for name in ("d", "e"))
    assert run("diff", one, two, "--fail-above", "2")[0] == 3


@pytest.mark.slow
def test_groups_of_runs_have_verdicts(run: Run, tmp_path: Path) -> None:
    base = write_runs(tmp_path, "a", BASE, 5, 1)
    same = write_runs(tmp_path, "b", BASE, 5, 2)
    slower = write_runs(tmp_path, "c", BASE | {"main;f": 3000, "main;new": 400}, 5, 3)
    status, out, err = run("diff", *base, "--with", *same, "--fail-above", "5", "--format", "json")
    assert status == 0 and "No function changed by more than chance" in err
    assert {row["self_verdict"] for row in json.loads(out)} <= {"no evidence", "not tested"}
    status, out, err = run("diff", "--fail-above", "5", *base, "--with", *slower, "--format", "json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert status == 1 and "'f' grew by" in err and "`new` is new" in err and "5 runs against 5 runs" in err
    assert rows["f"]["self_verdict"] == "slower" and rows["f"]["q_self"] < 0.05
    assert rows["f"]["low_self_percent"] < rows["f"]["change_self_percent"] < rows["f"]["high_self_percent"]
    assert rows["g"]["self_verdict"] == "faster"
    assert rows["new"]["base_self"] == 0 and rows["new"]["change_self_percent"] is None
    # As weights, only what grew differs, and the whole has grown.
    status, out, err = run("diff", *base, "--with", *slower, "--absolute", "--format", "json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert status == 0 and "more `samples` (" in err
    assert (rows["f"]["self_verdict"], rows["g"]["self_verdict"]) == ("slower", "no evidence")
    # In a terminal, fewer columns.
    assert "q_self" not in run("diff", *base, "--with", *slower)[1].splitlines()[0]


def test_recording_of_several_runs_is_a_group(run: Run, tmp_path: Path) -> None:
    """The repeats of a job are one result, whose runs are compared."""
    sides = []
    for seed, factor in ((1, 1.0), (2, 1.4)):
        chance, builder = np.random.default_rng(seed), ProfileBuilder("perf script text")
        event = builder.intern_event("cpu-clock", "ns", sampling="frequency", rate=999.0)
        for number in range(4):
            builder.add_run("prog", "node")
            thread = builder.intern_thread(pid=1, tid=1, run=number)
            for name, mean in (("f", 200 * factor), ("g", 600), ("h", 300)):
                frames = [builder.intern_frame(builder.intern_function(one, "prog")) for one in ("main", name)]
                stack = builder.intern_stack(frames)
                for _ in range(chance.poisson(mean)):
                    builder.add_sample(10**6, thread, event, stack, 10**6)
        path = tmp_path / f"{seed}.perfloom.tar"
        profile = builder.finish(Meta("perf script text", command="prog"))
        path.write_bytes(b"".join(archive.write(profile, Selection(), {})))
        sides.append(str(path))
    status, out, err = run("diff", *sides, "--format", "json", "--fail-above", "3")
    rows = {row["name"]: row for row in json.loads(out)}
    assert status == 1 and "4 runs against 4 runs" in err and "slower (" in err
    assert rows["f"]["self_verdict"] == "slower" and rows["g"]["self_verdict"] == "no evidence"
    # The same command: times are compared, and shares on request.
    assert json.loads(run("diff", *sides, "--shares", "--format", "json")[1])[0][
        "growth_self_percent"
    ] != pytest.approx(rows["f"]["growth_self_percent"])


def write_profile(
    path: Path, events: Sequence[tuple[str, str]], *, rate: float = 99.0, complete: bool = True, **facts: str
) -> str:
    """A recording of `main`, one sample of each event (name, unit)."""
    builder = ProfileBuilder("perf script text")
    stack = builder.intern_stack([builder.intern_frame(builder.intern_function("main", "prog"))])
    for name, unit in events:
        event = builder.intern_event(name, unit, sampling="frequency", rate=rate)
        builder.add_sample(10**6, builder.intern_thread(pid=1, tid=1), event, stack, 10**6)
    meta = Meta("perf script text", complete=complete, facts=facts)
    path.write_bytes(b"".join(archive.write(builder.finish(meta), Selection(), {})))
    return str(path)


CLOCK = ("cpu-clock", "ns")


def test_sentence_names_what_else_differs(run: Run, tmp_path: Path) -> None:
    one = write_profile(tmp_path / "a.tar", [CLOCK], hostname="node-a", cpudesc="EPYC")
    two = write_profile(tmp_path / "b.tar", [CLOCK], rate=999.0, complete=False, hostname="node-b", cpudesc="EPYC")
    err = run("diff", one, two)[2]
    assert "1 of 2 recordings is incomplete." in err
    assert "from different hosts: `node-a`, `node-b`." in err and "CPUs" not in err
    assert "sampled at different frequencies or periods" in err
    assert "different" not in run("diff", one, one)[2]


def test_names_of_events_and_hosts_are_no_markup(run: Run, tmp_path: Path) -> None:
    event = ("**x** <img src=http://e>\x1b[31m", "count")
    files = [
        write_profile(tmp_path / f"{n}.tar", [event], hostname=f"<img src=//{n}>\n# Title", cpudesc=f"@all{n}")
        for n in range(2)
    ]
    out = run("diff", *files, "--format", "markdown")[1]
    assert "\x1b" not in out and "\n# Title" not in out and out.count("\n") < 10
    assert not re.search(r"<img|@all|\*\*x", re.sub(r"`[^`]*`", "", out))
    assert "\x1b" not in run("diff", *files)[2]


@pytest.mark.slow
def test_event_does_not_depend_on_the_side(run: Run, tmp_path: Path) -> None:
    instructions = ("instructions", "count")
    one = write_profile(tmp_path / "a.tar", [CLOCK, instructions])
    two = write_profile(tmp_path / "b.tar", [instructions, CLOCK])
    sentences = [run("diff", *pair, "--format", "markdown")[1].splitlines()[0] for pair in ((one, two), (two, one))]
    assert sentences[0] == sentences[1]
    # Collapsed stacks of both are of one event, too.
    alone = write_profile(tmp_path / "c.tar", [instructions])
    assert run("diff", one, alone, "--format", "folded")[1] == "main 1000000 1000000\n"
    assert run("diff", write_profile(tmp_path / "d.tar", [CLOCK]), alone, "--format", "folded")[0] == 2


def test_units_must_be_equal(run: Run, tmp_path: Path) -> None:
    files = [write_profile(tmp_path / f"{unit}.tar", [("mem", unit)]) for unit in ("bytes", "count")]
    status, _, err = run("diff", *files, "--fail-above", "5")
    assert status == 2 and "different units in these recordings: bytes, count" in err
    # Without a gate, there is still a table.
    status, out, err = run("diff", *files)
    assert status == 0 and "main" in out and "No verdict: " in err


def test_command_line_of_perf_without_its_output_is_the_same_command(run: Run, tmp_path: Path) -> None:
    files = []
    for name in ("a", "b"):
        builder = ProfileBuilder("perf script text")
        stack = builder.intern_stack([builder.intern_frame(builder.intern_function("main", "prog"))])
        builder.add_sample(10**6, builder.intern_thread(pid=1, tid=1), builder.intern_event(*CLOCK), stack, 10**6)
        path = tmp_path / f"{name}.tar"
        meta = Meta("perf script text", command=f"/usr/bin/perf record -o {name}.data -- ./prog -o x")
        path.write_bytes(b"".join(archive.write(builder.finish(meta), Selection(), {})))
        files.append(str(path))
    assert "Shares" not in run("diff", *files)[2]


def test_gate_needs_runs_that_could_show_the_growth(run: Run, tmp_path: Path) -> None:
    """The whole is known exactly, but a function of 20 % varies by half."""
    sides = []
    for side, parts in (("a", (600, 1900, 1500)), ("b", (2500, 700, 1400))):
        sides.append(
            [collapsed(tmp_path, f"{side}{n}", f"f {part}\ng {7000 - part}\nh 3000\n") for n, part in enumerate(parts)]
        )
    status, _, err = run("diff", *sides[0], "--with", *sides[1], "--absolute", "--fail-above", "5")
    assert status == 3 and "the smallest that these runs could show is" in err


@pytest.mark.parametrize(
    "words",
    [
        ("--fail-above", "nan"),
        ("--variation", "nan"),
        ("--format", "folded", "--fail-above", "5"),
        ("--with",),
    ],
)
def test_options_without_meaning_are_refused(run: Run, tmp_path: Path, words: Sequence[str]) -> None:
    files = write_runs(tmp_path, "a", BASE, 2, 1)
    assert run("diff", *files, *words)[0] == 2


def test_runs_of_a_side_are_different(run: Run, tmp_path: Path) -> None:
    files = write_runs(tmp_path, "a", BASE, 5, 1)
    status, _, err = run("diff", files[0], files[0], "--with", *files[1:])
    assert status == 2 and "named twice" in err
    status, _, err = run("diff", *files[:2], "--with", *files[2:], "--paired")
    assert status == 2 and "Pairs need as many runs on both sides, not 2 and 3" in err


def test_sides_are_separated(run: Run, tmp_path: Path) -> None:
    files = write_runs(tmp_path, "a", BASE, 4, 1)
    for words in ((files[0],), files, ("--with", *files), (*files, "--with"), (files[0], "--with", "--with", files[1])):
        status, _, err = run("diff", *words)
        assert status == 2 and "--with in between" in err, words
    assert run("diff", files[0], "--with", files[1])[1] == run("diff", files[0], files[1])[1]
    assert run("diff", *files[:2], "--with", *files[2:], "--by", "stack")[0] == 2
    assert run("diff", *files[:2], "--absolute", "--shares")[0] == 2


@pytest.mark.slow
def test_markdown_has_the_evidence_and_no_markup_of_names(run: Run, tmp_path: Path) -> None:
    hostile = "x`|<img src=x>](http://evil)"
    base = write_runs(tmp_path, "a", BASE | {f"main;{hostile}": 500}, 3, 1)
    other = write_runs(tmp_path, "b", BASE | {f"main;{hostile}": 1500}, 3, 2)
    status, out, _ = run("diff", *base, "--with", *other, "--format", "markdown")
    assert status == 0 and out.startswith("**") and "| function |" in out
    row = next(line for line in out.splitlines() if line.startswith("| `x"))
    assert "`x'\\|<img src=x>](http://evil)`" in row and " self | slower |" in row
    sentence = out.splitlines()[0]
    assert "<img" not in sentence.replace("`x'|<img src=x>](http://evil)`", "")
    path = tmp_path / "out.md"
    assert run("diff", *base, "--with", *other, "--format", "markdown", "-o", str(path))[1] == ""
    assert path.read_text() == out


@pytest.mark.parametrize(("words", "expected"), [((), "difference"), (("--shares",), "difference-normalized")])
def test_folded_difference_equals_that_of_difffolded(run: Run, words: Sequence[str], expected: str) -> None:
    folder = DATA / "folded"
    files = [str(folder / f"{side}.folded") for side in ("base", "other")]
    status, out, err = run("diff", *files, "--format", "folded", *words)
    assert (status, err) == (0, "") and out == (folder / f"{expected}.folded").read_text()


@pytest.mark.slow
def test_diff_of_counts(run: Run) -> None:
    folder = paths.DATA / "perf-stat"
    base, other = str(folder / "by-hand-repeat-base.json"), str(folder / "by-hand-repeat-other.json")
    status, out, err = run("diff", base, other, "--format", "json")
    rows = {row["event"]: row for row in json.loads(out)}
    assert status == 0 and rows["cycles"]["delta"] == 200_000_000 and rows["cycles"]["ratio"] == 1.2
    assert "LLC-loads: not supported in the base" in err
    assert json.loads(run("diff", base, other, "counts", "--format", "json")[1]) == list(rows.values())
    assert run("diff", base, other, "--fail-above", "19")[0] == 1
    # What grew by less than its spread fails no gate.
    assert run("diff", base, other, "--event", "instructions", "--fail-above", "0")[0] == 0
    status, _, err = run("diff", base, SPIN)
    assert status != 0 and ("in common" in err or "not compared" in err)
    assert run("diff", base, other, "counts", "--by", "stack")[0] == 2
    out = run("diff", base, other, "--format", "markdown")[1]
    assert out.startswith("**Counts: 3 of 4 changed, 1 within the spread of repeated runs.**\n")
    assert "| `cycles` | `count` | 1,000,000,000 ± 1.5 % | 1,200,000,000 ± 2 % | 200,000,000 | +20.00 | grew |" in out
    assert re.search(r"^\| `instructions` .* \| within spread \|$", out, re.M) and "Not compared: `LLC-loads`" in out
    assert run("diff", SPIN, SPIN, "counts")[0] != 0


def test_diff_of_tables(run: Run) -> None:
    """Operators by what they are a part of, for each step or as they are; a gate for parts of a step."""
    llama = run("import", str(DATA / "llama" / "trace.txt"))[1].strip()

    def rows(*words: str) -> dict[str, float]:
        return {
            row["name"]: row["base"] for row in json.loads(run("diff", llama, llama, *words, "--format", "json")[1])
        }

    assert (
        rows("--by", "kind", "--of", "calls", "--absolute")["matmul"]
        == 7 * rows("--by", "kind", "--of", "calls")["matmul"]
    )
    assert rows("--by", "layer").keys() > {"0", "1"}
    assert "Whole step" in rows("steps") and run("diff", llama, llama, "steps", "--fail-above", "0")[0] == 0
    for words, message in (
        (("--by", "device"), "by must be one of name, kind, tensor, layer, not 'device'"),
        (("kernels",), "Neither of them has kernels"),
        (("operators", "--event", "x"), "--event does not apply to operators"),
        (("--of", "x"), "--of does not apply to functions"),
        (("--by", "x"), "--by must be one of function, stack, kind"),
        (("x",), "No comparison of 'x'"),
    ):
        status, out, err = run("diff", llama, llama, *words)
        assert (status, out) == (2, "") and message in err


def test_diff_of_threads(run: Run) -> None:
    rows = json.loads(run("diff", SPIN, SPIN, "threads", "--format", "json")[1])
    assert rows and all((row["delta"], row["status"], row["match"]) == (0, "same", "name") for row in rows)
    assert all(row["base_threads"] == row["other_threads"] == row["name"] for row in rows)
    assert sum(row["base_percent"] for row in rows) == pytest.approx(100)
    # Samples vary by chance: two recordings say nothing.
    status, _, err = run("diff", SPIN, SPIN, "threads", "--fail-above", "5")
    assert status == 3 and "From 3 recordings on each side" in err


@pytest.mark.slow
def test_self_test_measures_what_can_be_seen(run: Run) -> None:
    require("perf")
    program = [sys.executable, "-S", "-c", "sum(i * i for i in range(2_000_000))"]
    status, out, err = run("diff", "--self-test", "--runs", "3", "--", *program)
    # On a machine with other load, a change may be seen where there is none.
    assert status in (0, 1), err
    assert "3 runs against 3 of the same command would show a change of" in out
    assert err.count("perfloom: run ") == 7 and (status == 1) == ("where there is none" in out)
    assert json.loads(run("list", "--format", "json")[1]) == []


def test_self_test_needs_a_command_that_runs(run: Run) -> None:
    require("perf")
    assert run("diff", "--self-test")[0] == 2
    assert run("diff", "--self-test", "--runs", "2", "--", "true")[0] == 2
    status, _, err = run("diff", "--self-test", "--", "/nonexistent")
    assert status == 2 and "does not exist" in err


def test_two_commands_are_recorded_in_turns_and_compared(run: Run) -> None:
    require("perf")

    def program(count: int) -> list[str]:
        return [sys.executable, "-S", "-c", f"sum(i * i for i in range({count}))"]

    words = [*program(3_000_000), "--with", *program(9_000_000)]
    status, out, err = run("diff", "--record", "--runs", "3", "--fail-above", "20", "--", *words)
    # With other load on the machine, three runs may not be enough.
    assert status in (1, 3), err
    assert "growth_self_percent" in out and err.count("perfloom: run ") == 8 and "3 runs against 3 runs" in err
    listed = {row["id"]: row["name"] for row in json.loads(run("list", "--format", "json")[1])}
    assert sorted(listed.values()) == [*[f"base: {sys.executable}"] * 3, *[f"other: {sys.executable}"] * 3]
    base = next(line for line in err.splitlines() if line.startswith("perfloom: base ")).split()[2:]
    assert [listed[id].partition(":")[0] for id in base] == ["base"] * 3
    assert run("diff", "--record", "--", *program(1))[0] == 2
    assert run("diff", "--record", "--by", "stack", "--", *words)[0] == 2
    for options in (["--format", "folded", "--names", "builds"], ["--absolute", "--shares"], ["--names", "everything"]):
        status, _, err = run("diff", "--record", *options, "--", *words)
        assert status == 2 and "perfloom: run" not in err, options


def store_results(folder: Path, profiles: Iterable[Profile]) -> list[str]:
    """The ids of new results of the commands: unlike a file, a result needs no process that reads it."""
    ids = []
    with contextlib.closing(open_store(Settings.load(folder / "data"))) as store:
        for number, profile in enumerate(profiles):
            ids.append(f"run{number:09}")
            staged = store.results.stage(ids[-1])
            columns.write(profile, staged)
            store.results.publish(ids[-1], staged, name=ids[-1])
    return ids


def test_earlier_results_tell_the_noise_between_runs(run: Run, tmp_path: Path) -> None:
    chance, profiles = np.random.default_rng(3), []
    for number in range(7):
        builder = ProfileBuilder("perf script text")
        event = builder.intern_event("cpu-clock", "ns", sampling="frequency", rate=999.0)
        builder.add_run("prog", "node")
        thread = builder.intern_thread(pid=1, tid=1)
        for name, mean in (("f", 420 if number == 6 else 300), ("g", 600), ("h", 300)):
            stack = builder.intern_stack([builder.intern_frame(builder.intern_function(name, "prog"))])
            for at in range(chance.poisson(mean)):
                builder.add_sample(at * 10**6, thread, event, stack, 10**6)
        profiles.append(builder.finish(Meta("perf script text", command="prog")))
    ids = store_results(tmp_path, profiles)
    status, _, err = run("diff", ids[0], ids[-1], "--fail-above", "5")
    assert status == 1 and re.search(r"`f` costs .*Run-to-run noise from 5 earlier runs: [\d.]+\s%\.", err), err
    # Of four earlier runs, nothing is known.
    status, out, _ = run("diff", *ids[:2], "--with", ids[-1], "--format", "json")
    assert {row["earlier_runs"] for row in json.loads(out)} == {None}


def test_formulas_have_verdicts_and_a_gate(run: Run, tmp_path: Path) -> None:
    cpi = (CPI, CPI | {"lookup": 4.0})
    ids = store_results(tmp_path, [record_cycles(seed, 2_000, cpi=cpi[seed // 3]) for seed in range(6)])
    base, other = ids[:3], ids[3:]
    words = ("diff", *base, "--with", *other, "--event", "CPI", "--fail-above", "10")
    status, out, err = run(*words, "--format", "markdown")
    assert status == 1, err
    assert "more `CPI` (" in err and "everything selected grew by" in err
    assert "| `lookup` | self | more | " in out and "`cycles / instructions`" in out
    # One run a side cannot tell.
    assert run("diff", base[0], other[0], "--event", "CPI", "--fail-above", "10")[0] == 3


def test_tables_of_groups_have_verdicts(run: Run, tmp_path: Path) -> None:
    profiles = []
    lengths = [100_000, 101_000, 99_000, 120_000, 122_000, 121_000, *[100_000] * 3, *[120_000] * 3]
    for length in lengths:
        trace = Trace()
        host, stream = trace.thread(1, "python"), trace.thread(7, stream=True)
        launch = trace.slice(host, 0, 100, "cudaLaunchKernel", "runtime")
        trace.slice(stream, 200, 200 + length, "gemm", "kernel", launch)
        profiles.append(trace.finish())
    ids = store_results(tmp_path, profiles)
    base, other = ids[:3], ids[3:6]
    words = (*base, "--with", *other, "kernels", "--fail-above", "5")
    status, out, err = run("diff", *words, "--format", "json")
    (row,) = json.loads(out)
    assert status == 1 and "'gemm' grew by 21.00 %" in err
    assert (row["verdict"], row["base"], row["other"]) == ("slower", 100, 121)
    assert "1 of 1 tested row has evidence of a change. The smallest change to be seen is " in err
    out = run("diff", *words, "--format", "markdown")[1]
    assert out.startswith("**Kernels: 1 of 1 tested row has evidence") and "| kernel | base | other |" in out
    assert re.search(r"^\| `gemm` \| 100 \| 121 \| 21 \| 21 \| slower \| \+1\d\.\d % to \+2\d\.\d % \|$", out, re.M), (
        out
    )
    out = run("diff", base[0], other[0], "kernels", "--format", "markdown")[1]
    assert "1 rows" not in out and "| `gemm` | 100 | 120 | 20 | 20 | grew |" in out
    assert run("diff", *other, "--with", *base, "kernels", "--fail-above", "5")[0] == 0
    status, _, err = run("diff", *base[:2], "--with", *other[:2], "kernels", "--fail-above", "5")
    assert status == 3 and "From 3 recordings on each side" in err
    # Copies of a trace tell nothing about noise.
    status, _, err = run("diff", *ids[6:9], "--with", *ids[9:], "kernels", "--fail-above", "5")
    assert status == 3 and "'gemm' grew by 20.00 %, above 5 %, but without evidence" in err


def test_a_gate_without_its_recordings_is_not_one_that_cannot_tell(run: Run, tmp_path: Path) -> None:
    a, empty = str(tmp_path / "a.folded"), str(tmp_path / "empty.data")
    Path(a).write_text("main;f 100\n")
    Path(empty).write_bytes(b"")
    assert run("diff", a, empty)[0] == 3
    assert run("diff", a, empty, "--fail-above", "5")[0] == 4
