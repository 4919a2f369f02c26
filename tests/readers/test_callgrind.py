"""Files of callgrind: self costs are exact; stacks are estimated from calls."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.tables import FrameKind, get_strings
from perfloom.domain.validation import find_error
from perfloom.ingest.losses import UNRECOGNIZED_LINE
from perfloom.readers import callgrind, detect_format
from perfloom.readers.callgrind import assembly as callgrind_assembly
from perfloom.readers.callgrind import lines as callgrind_lines
from perfloom.readers.callgrind import tree as callgrind_tree
from perfloom.readers.callgrind.tree import Graph, build_tree
from perfloom.web.views.results.run_notes import list_stack_notes
from tests.support import paths
from tests.support.samples import losses_of, samples_of

DATA = paths.DATA / "callgrind"
SPEC = """# callgrind format
events: Instructions
fl=(1) file1.c
fn=(1) main
16 20
cfn=(2) func1
calls=1 50
16 400
cfi=(2) file2.c
cfn=(3) func2
calls=3 20
16 400
fn=(2)
51 100
cfi=(2)
cfn=(3)
calls=2 20
51 300
fl=(2)
fn=(3)
20 700
"""


def read(text: str | bytes) -> Profile:
    data = text.encode() if isinstance(text, str) else text
    found = callgrind.read(io.BytesIO(data), "that")
    assert find_error(found) is None
    return found


def spent(profile: Profile, event: str) -> dict[str, int]:
    """The self cost of each stack."""
    found: Counter[str] = Counter()
    for sample in samples_of(profile):
        if sample.event == event:
            found[";".join(frame.name for frame in sample.stack)] += sample.weight
    return dict(found)


def own(profile: Profile, event: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for stack, weight in spent(profile, event).items():
        found[stack.rpartition(";")[2]] += weight
    return dict(found)


def inclusive(profile: Profile, event: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for stack, weight in spent(profile, event).items():
        for name in set(stack.split(";")):
            found[name] += weight
    return dict(found)


@pytest.fixture(scope="module")
def calls() -> Profile:
    return read((DATA / "calls.out").read_bytes())


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["calls", "everything", "long"])
def test_costs_equal_callgrind_annotate(name: str) -> None:
    profile = read((DATA / f"{name}.out").read_bytes())
    told: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    assert get_strings(profile.events, "name") == [*told, "calls"] and profile.meta.main_event == "Ir"
    for event, numbers in told.items():
        assert own(profile, event) == {name: value for name, value in numbers["self"].items() if value}
        assert sum(own(profile, event).values()) == numbers["total"]
    with_calls, wanted = inclusive(profile, "Ir"), told["Ir"]["inclusive"]
    # Recursive functions are counted repeatedly there.
    circles = {"fib'2", "even'2", "odd'2"}
    assert {f for f in wanted if abs(with_calls[f] - wanted[f]) > 1 + wanted[f] / 500} == circles
    assert all(with_calls[f] <= wanted["main"] for f in circles)
    assert (profile.meta.complete, profile.losses.num_rows) == (True, 0)


def test_functions_have_files_lines_and_objects(calls: Profile) -> None:
    functions = {row["name"]: row for row in calls.functions.to_pylist()}
    fib = functions["fib"]
    assert (fib["file"][-8:], fib["module"][-6:], fib["start_line"]) == ("/calls.c", "/calls", 6)
    assert functions["0x000000000001ab70"]["file"] is None
    assert (calls.meta.command, calls.meta.facts["creator"]) == ("./calls", "callgrind-3.19.0")
    (note,) = list_stack_notes(calls)
    assert note.startswith("Call stacks were not recorded. They are estimated from callers")


def test_call_counts(calls: Profile) -> None:
    called = own(calls, "calls")
    assert called["work"] == 12 and called["fib"] + called["fib'2"] == 177
    assert spent(calls, "calls")[next(s for s in spent(calls, "calls") if s.endswith("backup;reader;work"))] == 1


def test_threads_are_separate() -> None:
    profile = read((DATA / "threads.out").read_bytes())
    assert get_strings(profile.threads, "name") == ["thread 1", "thread 2"]
    by_thread: Counter[int] = Counter()
    for row in profile.samples.to_pylist():
        if row["event"] == 0:
            by_thread[row["thread"]] += row["weight"]
    totals = [int(line.split()[1]) for line in (DATA / "threads.out").read_text().splitlines() if "totals:" in line]
    assert [by_thread[0], by_thread[1]] == totals
    assert any(stack.endswith(";run") for stack in spent(profile, "Ir"))


def test_example_of_the_specification() -> None:
    profile = read(SPEC)
    # func2 was called 3 times from main for 400, and twice from func1 for 300.
    assert spent(profile, "Instructions") == {"main": 20, "main;func1": 100, "main;func2": 400, "main;func1;func2": 300}
    assert spent(profile, "calls") == {"main;func1": 1, "main;func2": 3, "main;func1;func2": 2}


def test_relative_positions() -> None:
    short = "positions: instr line\nevents: ticks\nfn=func\n0x80001234 90 1\n+3 * 5\n+1 +1 6\ncfn=g\ncalls=2 0x90 -81\n"
    profile = read(short + "* * 7\njump=3 +4 *\n* * 9\njcnd=3/4 -2 +1\n* *\nfn=g\n0x90 10 7\n")
    assert spent(profile, "ticks") == {"func": 12, "func;g": 7}
    assert not profile.losses.num_rows


def test_too_many_positions_are_ignored() -> None:
    """The compiled loop checks no index: only so many are kept as there is room for."""
    assert own(read(f"positions: {'line ' * 500}\nevents: Ir\nfn=f\n1 1 1 1 5\n"), "Ir") == {"f": 5}


def test_xdebug_file() -> None:
    profile = read((DATA / "xdebug.out").read_bytes())
    assert [(row["name"], row["unit"]) for row in profile.events.to_pylist()] == [
        *(("Time", "ns"), ("Memory", "bytes"), ("calls", "count")),
    ]
    assert own(profile, "Time") == {"{main}": 20_000, "func1": 10_000, "func2": 8_000, "php::strrev": 4_000}
    # The call without a file is to the only func2.
    assert inclusive(profile, "Time") == {"{main}": 42_000, "func1": 22_000, "func2": 12_000, "php::strrev": 4_000}
    assert losses_of(profile) == {callgrind.format.BELOW_ZERO: (1, "line 23")}
    for event, creator, wanted in (
        ("Time", "xdebug 2.9.8", ("Time", "ns", 1000)),
        ("Time", "xdebug 3.0", ("Time", "ns", 10)),
        ("Time_(µs)", "", ("Time", "ns", 1000)),
        ("ns", "", ("ns", "ns", 1)),
        ("Time", "", ("Time", "count", 1)),
    ):
        assert callgrind_assembly.unit_of(event, creator) == wanted


def test_cachegrind_file_has_no_calls() -> None:
    profile = read(
        "desc: I1 cache: none\ncmd: ./x\nevents: Ir Dr\nfl=a.c\nfn=f\n1 5 .\n2 7 1\nfl=b.c\nfn=f\n9 1\nsummary: 13 1\n"
    )
    assert [(s.event, s.weight, s.stack[0].name) for s in samples_of(profile)] == [
        *(("Ir", 12, "f"), ("Dr", 1, "f"), ("Ir", 1, "f")),
    ]
    assert profile.functions.column("file").to_pylist() == ["a.c", "b.c"]
    (note,) = list_stack_notes(profile)
    assert "each sample has only one function" in note


def test_derived_events() -> None:
    head = "event: Sum = Ir + 2 Dr : Both\nevent: More = Sum + 3*Ir\nevent: Bad = Nothing + Ir\nevent: Ir : Fetched\n"
    profile = read(head + "events: Ir Dr\nfn=f\n1 10 1\ncfn=g\ncalls=1 1\n1 5 5\nfn=g\n1 5 5\n")
    assert own(profile, "Sum") == {"f": 12, "g": 15} and own(profile, "More") == {"f": 42, "g": 30}
    assert profile.meta.facts["event Ir"] == "Fetched"
    assert losses_of(profile) == {callgrind.format.NO_FORMULA: (1, "Bad = 1 Nothing + 1 Ir")}


def test_recursion_is_bounded() -> None:
    """Any cycle yields finite stacks, in which no function occurs twice."""
    profile = read(
        "events: Ir\nfn=main\n1 10\ncfn=a\ncalls=1 1\n1 990\nfn=a\n1 100\ncfn=a\ncalls=9 1\n1 5000\n"
        "cfn=b\ncalls=5 1\n1 800\nfn=b\n1 300\ncfn=a\ncalls=5 1\n1 700\ncfn=c\ncalls=1 1\n1 590\nfn=c\n1 590\n"
    )
    assert own(profile, "Ir") == {"main": 10, "a": 100, "b": 300, "c": 590}
    assert set(spent(profile, "Ir")) == {"main", "main;a", "main;a;b", "main;a;b;c"}
    # These have no callers from outside: the one with the highest cost is the first.
    lonely = read("events: Ir\nfn=a\n1 1\ncfn=b\ncalls=1 1\n1 9\nfn=b\n1 5\ncfn=a\ncalls=1 1\n1 90\n")
    assert spent(lonely, "Ir") == {"b;a": 1, "b": 5}


def test_random_graphs_keep_exact_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callgrind_tree, "MAX_WIDTH", 20)
    monkeypatch.setattr(callgrind_tree, "MAX_DEPTH", 7)
    chance = random.Random(4)
    for size in (1, 2, 5, 40, 200):
        pairs = sorted({(chance.randrange(size), chance.randrange(size)) for _ in range(4 * size)})
        cost = np.array([[chance.choice([0, 7, 10**6, 10**17]), chance.randrange(50)] for _ in pairs])
        graph = Graph(
            np.array([[chance.choice([0, 3, 10**9, 4 * 10**17]), chance.randrange(9)] for _ in range(size)]),
            np.array([a for a, _ in pairs]),
            np.array([b for _, b in pairs]),
            cost,
            np.array([chance.randrange(1, 99) for _ in pairs]),
        )
        tree = build_tree(graph)
        sums = np.zeros((size, 3), np.int64)
        np.add.at(sums, tree.function, tree.weight)
        assert (sums[:, :2] == graph.own).all() and (tree.weight >= 0).all()
        assert sums[:, 2].tolist() == np.bincount(graph.called, graph.count, size).tolist()
        assert (tree.parent < np.arange(len(tree.parent))).all()


def test_deep_and_wide_graphs_are_bounded() -> None:
    deep = "".join(f"fn=f{i}\n1 1\ncfn=f{i + 1}\ncalls=1 1\n1 {3000 - i}\n" for i in range(3000))
    profile = read("events: Ir\n" + deep + "fn=f3000\n1 1\n")
    assert sum(own(profile, "Ir").values()) == 3001
    assert int(profile.stacks.column("depth").to_numpy().max()) <= callgrind_tree.MAX_DEPTH + 1
    fan = "".join(
        f"fn=({i}) a{i}\n1 5\n" + "".join(f"cfn=({j}) a{j}\ncalls=1 1\n1 9\n" for j in range(60)) for i in range(60)
    )
    many = read("events: Ir\n" + fan)
    assert own(many, "Ir") == {f"a{i}": 5 for i in range(60)}


def test_losses() -> None:
    profile = read(
        "events: Ir\nfn=(1) f\n1 5\nwhat is this\n1 two\n1 3 4\n99999999999999999999 1\nfn=(77)\n1 2\n"
        "1 9999999999999999999\ncalls=x\nfn=(99999999) g\ntotals: 8\n# end\n# of it\n"
    )
    assert own(profile, "Ir") == {"f": 5, "???": 2}
    assert losses_of(profile) == {
        UNRECOGNIZED_LINE: (7, "line 4: what is this"),
        callgrind.format.NOT_NAMED: (1, "line 8"),
        callgrind.format.OTHER_SUM: (1, "line 13: Ir: 8 in the totals, 7 found"),
    }


def test_truncated_file_is_reported() -> None:
    text = (DATA / "calls.out").read_text()
    for end in range(400, len(text), 397):
        try:
            found = read(text[:end])
        except UnreadableInput:
            continue
        assert not found.meta.complete and found.meta.reasons == (callgrind_assembly.TRUNCATED,)
    assert read(text.replace("\n", "\r\n")).losses.num_rows == 0


def test_hostile_names_are_unchanged() -> None:
    name = "operator()<a;b>(\u202e\"'<script>, int) [clone .isra.0]"
    profile = read(f"events: Ir\nfl=../../etc/passwd\nfn={name}\n1 1\nfn=(below main)\n1 2\nfn=\n1 3\nfn=???\n1 4\n")
    assert [row["name"] for row in profile.functions.to_pylist()] == [name, "(below main)", "", "???"]
    assert [FrameKind(kind).name for kind in profile.frames.column("kind").to_pylist()] == [
        *("USER", "USER", "UNKNOWN", "UNKNOWN"),
    ]


def test_mangled_names_are_readable() -> None:
    functions = read("events: Ir\nfn=_ZN3foo3barEv\n1 1\nfn=main\n1 2\n").functions
    assert get_strings(functions, "name") == ["_ZN3foo3barEv", "main"]
    assert get_strings(functions, "display") == ["foo::bar()", "main"]


def test_chunk_size_does_not_matter(monkeypatch: pytest.MonkeyPatch, calls: Profile) -> None:
    monkeypatch.setattr(callgrind, "CHUNK_BYTES", 97)
    monkeypatch.setattr(callgrind_lines, "ROWS", 3)
    monkeypatch.setattr(callgrind_lines, "NAMES", 2)
    assert spent(read((DATA / "calls.out").read_bytes()), "Ir") == spent(calls, "Ir")


@pytest.mark.parametrize("text", ["", "events: Ir\n", "# callgrind format\nfn=f\n1 2\n", "events: a a\nfn=f\n1 2\n"])
def test_empty_files_are_refused(text: str) -> None:
    with pytest.raises(UnreadableInput, match="that has no costs"):
        callgrind.read(io.BytesIO(text.encode()), "that")


def test_detection() -> None:
    for path in DATA.glob("*.out"):
        assert detect_format(path.read_bytes()).name == callgrind.FORMAT
    assert callgrind.sniff(b"event: ns : Nanoseconds\nevents: ns\nsummary: 7\nfl=a.py\nfn=f\n2 7\n")
    for text in (b"", b"events: none\n", b'{"events: 3": "fn=\\n"}', b"a;b 3\n", b"fn=3\nevents\n"):
        assert not callgrind.sniff(text)


@pytest.mark.heavy
@settings(max_examples=150)
@given(st.data())
def test_random_bytes_do_not_fail(data: st.DataObject) -> None:
    raw = bytearray(SPEC.encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"\n", b"(", b"+", b"*", b"=", b"9" * 18, b"fn=", b"calls="])
        )
    try:
        read(bytes(raw))
    except UnreadableInput:
        pass
