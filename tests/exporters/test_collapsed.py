"""Collapsed stacks against what stackcollapse-perf.pl makes of the same text, and under every filter."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.exporters import get_exporter
from perfloom.readers import collapsed, perf_script
from tests.support import paths
from tests.support.samples import samples_of

SWITCHES = ("pid", "tid", "kernel", "jit", "all", "addrs")
OWN = paths.DATA / "perf"
# More of them may lie beside the checkout; they are not ours to hand on.
ORACLES = paths.ORACLES / "perf-script"
CASES = [
    pytest.param(folder / f"{name}{ending}", folder / f"{name}.collapsed-{switch}.txt", switch, id=f"{name}-{switch}")
    for folder, ending in ((OWN, ".script.txt"), (ORACLES, ".txt"))
    for name in sorted({path.name.split(".collapsed-")[0] for path in folder.glob("*.collapsed-*.txt")})
    for switch in SWITCHES
]


def read(text: str | bytes) -> Profile:
    return perf_script.read(io.BytesIO(text.encode() if isinstance(text, str) else text))


def written(profile: Profile, selection: Selection | None = None, **switches: bool) -> bytes:
    return b"".join(get_exporter("collapsed").write(profile, selection or Selection(), switches))


def lines(profile: Profile, selection: Selection | None = None, **switches: bool) -> dict[str, int]:
    rows = (line.rpartition(" ") for line in written(profile, selection, **switches).decode().split("\n")[:-1])
    return {stack: int(weight) for stack, _, weight in rows}


@pytest.mark.parametrize(("text", "wanted", "switch"), CASES)
def test_like_stackcollapse_perf(text: Path, wanted: Path, switch: str) -> None:
    with open(text, "rb") as file:
        profile = perf_script.read(file)
    assert sorted(written(profile, **{switch: True}).split(b"\n")) == sorted(wanted.read_bytes().split(b"\n"))


def frame(line: str, comm: str = "a", **switches: bool) -> str:
    """What is written for one line of a stack."""
    profile = read(f"{comm} 1 1.000000: 5 cycles:\n\t{line}\n\n")
    ((stack, weight),) = lines(profile, **switches).items()
    assert weight == 5
    return stack.partition(";")[2]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("10 f(int, char) const (/bin/a)", "f"),
        ("10 (anonymous namespace)::f(int) (/bin/a)", ""),
        ("10 a::(anonymous namespace)::f(int) (/bin/a)", "a::(anonymous namespace)::f"),
        ("10 net/http.(*Client).Do (/bin/a)", "net/http.(*Client).Do"),
        ("10 f;g'h\"i (/bin/a)", "f:ghi"),
        ("10 [unknown] (/usr/lib/libc-2.15.so)", "[libc-2.15.so]"),
        ("10 [unknown] ([unknown])", "[unknown]"),
        # With a space, as the tool has it: it takes the bracket for the module.
        ("10 [unknown] (/usr/lib/x.so (deleted))", "[unknown] "),
        ("10 A::operator->() const (/bin/a)", "A::operator;_[i]"),
        ("10 f->g->h (/tmp/perf-1.map)", "f;g_[i];h_[i]"),
        ("10 f+0x10 (/bin/a)", "f"),
    ],
)
def test_names(line: str, wanted: str) -> None:
    assert frame(line) == wanted


def test_switches() -> None:
    kernel, jit = "ffff f ([kernel.kallsyms])", "7f g (/tmp/perf-9.map)"
    assert (frame(kernel, kernel=True), frame(kernel, all=True), frame(kernel, jit=True)) == ("f_[k]", "f_[k]", "f")
    assert (frame(jit, jit=True), frame(jit, all=True), frame(jit, kernel=True)) == ("g_[j]", "g_[j]", "g")
    assert frame("7d8 f (/lib/modules/4.3/build/vmlinux)", kernel=True) == "f_[k]"
    assert frame("7d8 f ([unknown])", kernel=True) == "f"
    assert frame("7f00ab [unknown] (/lib/x.so)", addrs=True) == "[x.so <7f00ab>]"
    assert frame("7f00ab [unknown] ([unknown])", addrs=True) == "[unknown <7f00ab>]"


def test_java_signatures() -> None:
    line = "7f Lorg/mozilla/Member;.call(Lorg/x;)Ljava/lang/Object; (/tmp/perf-9.map)"
    assert frame(line, "java") == "org/mozilla/Member:.call"
    assert frame(line, "javac") == "org/mozilla/Member:.call"
    assert frame(line, "other") == "Lorg/mozilla/Member:.call"


def test_ids_as_far_as_they_were_printed() -> None:
    text = "V8 Worker {} 1.000000: 5 cycles:\n\t10 f (/bin/a)\n\n"
    assert list(lines(read(text.format("12/34")), pid=True)) == ["V8_Worker-12;f"]
    assert list(lines(read(text.format("12/34")), tid=True)) == ["V8_Worker-12/34;f"]
    assert list(lines(read(text.format("34")), pid=True)) == ["V8_Worker-?;f"]
    assert list(lines(read(text.format("34")), tid=True)) == ["V8_Worker-?/34;f"]
    assert list(lines(read(text.format("0/0")), tid=True)) == ["V8_Worker-?/0;f"]


def test_a_sample_without_a_stack_and_one_without_a_period() -> None:
    text = "a 1 1.000000: 5 cycles:\n\na 1 2.000000: cycles:\n\na 1 3.000000: 0 cycles:\n\n"
    assert lines(read(text)) == {"a": 7}


TWO = (
    "a 1/1 1.000000: 5 cycles:\n\t10 g (/bin/a)\n\t20 f (/bin/a)\n\n"
    "b 1/2 2.000000: 7 cycles:\n\t10 g (/bin/a)\n\t10 f (/bin/a)\n\t10 g (/bin/a)\n\t20 f (/bin/a)\n\n"
    "a 1/1 3.000000: 100 faults:\n\t10 h (/bin/a)\n\n"
)


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        (Selection(), {"a;f;g": 5, "b;f;g;f;g": 7}),
        (Selection(event="faults"), {"a;h": 100}),
        (Selection(threads=("b",)), {"b;f;g;f;g": 7}),
        (Selection(threads=("-/1/1",)), {"a;f;g": 5}),
        (Selection(start_ns=1_000_000_000), {"b;f;g;f;g": 7}),
        (Selection(end_ns=1_000_000_000), {"a;f;g": 5}),
        (Selection(hide="^g$"), {"a;f": 5, "b;f;f": 7}),
        (Selection(invert=True), {"a;g;f": 5, "b;g;f;g;f": 7}),
        (Selection(recursion=True), {"a;f;g": 5, "b;f;g": 7}),
        (Selection(recursion=True, invert=True, hide="^f$"), {"a;g": 5, "b;g": 7}),
    ],
)
def test_filters(selection: Selection, wanted: dict[str, int]) -> None:
    assert lines(read(TWO), selection) == wanted


@pytest.mark.parametrize("selection", [Selection(focus="^h$"), Selection(ignore="g")])
def test_a_file_without_lines_is_refused(selection: Selection) -> None:
    with pytest.raises(InvalidRequest, match="Nothing is selected"):
        written(read(TWO), selection)


def test_an_event_that_is_not_there() -> None:
    with pytest.raises(InvalidRequest, match="choose one of: cycles, faults"):
        written(read(TWO), Selection(event="instructions"))
    with pytest.raises(InvalidRequest, match="choose one of"):
        get_exporter("nothing")


def test_of_other_formats_names_stay_as_they_are() -> None:
    text = b"main (a.py:3);f(int)_[k];(x) 3\nmain (a.py:3) 4\n"
    profile = collapsed.read(io.BytesIO(text))
    assert sorted(written(profile).splitlines()) == sorted(text.splitlines())
    assert sorted(written(profile, kernel=True).splitlines()) == sorted(text.splitlines())


def test_weights_add_up_whatever_the_names() -> None:
    with open(OWN / "events.script.txt", "rb") as file:
        profile = perf_script.read(file)
    totals: Counter[str] = Counter()
    for sample in samples_of(profile):
        totals[sample.event] += sample.weight
    for event, total in totals.items():
        assert sum(lines(profile, Selection(event=event), tid=True, addrs=True).values()) == total
