"""Collapsed stacks: reading and writing."""

from __future__ import annotations

import io
from collections import Counter
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import FrameKind, get_strings
from perfloom.exporters import get_exporter
from perfloom.ingest import text_lines
from perfloom.ingest.losses import UNRECOGNIZED_LINE
from perfloom.readers import collapsed, detect_format
from tests.support.samples import losses_of, samples_of


def read(text: str | bytes) -> Profile:
    return collapsed.read(io.BytesIO(text.encode() if isinstance(text, str) else text))


def stacks(profile: Profile) -> list[tuple[str, int]]:
    return [(";".join(frame.name for frame in sample.stack), sample.weight) for sample in samples_of(profile)]


def test_every_element_is_a_frame() -> None:
    profile = read("main;f;g 3\nmain;f 4\nmain 5\n")
    assert stacks(profile) == [("main;f;g", 3), ("main;f", 4), ("main", 5)]
    assert profile.functions.num_rows == 3
    assert (profile.meta.format, profile.meta.duration_ns, profile.meta.complete) == ("collapsed", None, True)


def test_suffixes_determine_the_kind() -> None:
    profile = read("java;call_[j];read_[k];inner_[i];wake_[w];[unknown] 1\n")
    (sample,) = samples_of(profile)
    assert [FrameKind(frame.kind).name for frame in sample.stack] == [
        *("USER", "JIT", "KERNEL", "INLINED", "USER", "UNKNOWN"),
    ]
    assert profile.functions.column("display").to_pylist() == ["java", "call", "read", "inner", "wake", "[unknown]"]
    assert profile.functions.column("name").to_pylist()[1] == "call_[j]"


def test_mangled_names_are_readable() -> None:
    profile = read("main;_ZN3foo3barEv;_ZN3foo3barEv_[i];java/util/HashMap.get_[j] 1\n")
    assert get_strings(profile.functions, "display") == ["main", "foo::bar()", "foo::bar()", "java.util.HashMap.get"]
    assert get_strings(profile.functions, "name")[1:3] == ["_ZN3foo3barEv", "_ZN3foo3barEv_[i]"]


def test_unrecognized_lines_are_losses() -> None:
    profile = read(
        b"a;b 1\nno weight\n\n# a comment\na;b \xff\x00 x\n99999999999999999999\na 99999999999999999999\nc 2\r\n"
    )
    assert stacks(profile) == [("a;b", 1), ("c", 2)]
    assert losses_of(profile) == {
        UNRECOGNIZED_LINE: (3, "line 2: no weight"),
        collapsed.IMPOSSIBLE_STACK_WEIGHT: (1, "line 7: a 99999999999999999999"),
    }


def test_fractions_are_rounded() -> None:
    profile = read("a 1.5\nb 2.4\nc 3.0\n")
    assert stacks(profile) == [("a", 2), ("b", 2), ("c", 3)]
    assert losses_of(profile) == {collapsed.FRACTION: (2, "line 1: a 1.5")}


@pytest.mark.parametrize("text", ["", "\n\n", "nothing\nof that\n"])
def test_empty_files_are_refused(text: str) -> None:
    with pytest.raises(UnreadableInput, match="that has no stacks"):
        collapsed.read(io.BytesIO(text.encode()), "that")


@pytest.mark.parametrize("text", ["a;b;c 1\n", "a 1", "a;b (x.py:3) 12\r\n", "ä;b 1\n" * 3000, "a b;c d 0\n"])
def test_detection(text: str) -> None:
    assert detect_format(text.encode()).name == "collapsed"


@pytest.mark.parametrize("text", ["{}\n", "a;b;c\n" * 9 + "a;b 1\n", "\0a;b 1\n", "a,b\n1,2\n"])
def test_other_texts_are_not_recognized(text: str) -> None:
    assert not collapsed.sniff(text.encode())


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters=";"), min_size=1)
lines = st.lists(
    st.tuples(st.lists(names, min_size=1, max_size=8).map(";".join), st.integers(0, 10**15)), min_size=1, max_size=30
)


@given(lines)
@pytest.mark.heavy
def test_round_trip(written: list[tuple[str, int]]) -> None:
    written = [(stack, weight) for stack, weight in written if not stack.startswith("#")] or [("a", 1)]
    profile = read("".join(f"{stack} {weight}\n" for stack, weight in written))
    assert sorted(stacks(profile)) == sorted(written)
    wanted: Counter[str] = Counter()
    for stack, weight in written:
        wanted[stack] += weight
    text = b"".join(get_exporter("collapsed").write(profile, Selection(), {})).decode()
    got = {stack: int(weight) for stack, _, weight in (line.rpartition(" ") for line in text.split("\n")[:-1])}
    assert got == dict(wanted)


@given(st.binary(max_size=300))
def test_random_bytes_do_not_fail(raw: bytes) -> None:
    collapsed.sniff(raw)
    try:
        profile = read(raw)
    except UnreadableInput:
        return
    assert profile.samples.num_rows > 0


def test_truncated_anywhere() -> None:
    text = "main;f;g 31\nmain;f 42\nmain 53\n"
    for end in range(len(text)):
        try:
            found = stacks(read(text[:end]))
        except UnreadableInput:
            continue
        assert len(found) <= text[:end].count("\n") + 1


def test_long_and_deep_stacks() -> None:
    deep = ";".join(f"f{i}" for i in range(3000))
    assert stacks(read(f"{'x' * 10_000};y 1\n{deep} 2\n")) == [(f"{'x' * 10_000};y", 1), (deep, 2)]


def test_chunk_size_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"a;b{i};c{i % 7} {i}\n" for i in range(500))
    whole = stacks(read(text))
    monkeypatch.setattr(text_lines, "CHUNK_BYTES", 100)
    assert stacks(read(text)) == whole


def test_name_with_a_zero_byte() -> None:
    text = b"main;one\x00two 3\nmain;three 4\n"
    assert detect_format(text).name == "collapsed"
    profile = read(text)
    assert stacks(profile) == [("main;one\0two", 3), ("main;three", 4)] and profile.meta.complete
    svg = b"".join(get_exporter("svg").write(profile, Selection(), {}))
    assert b"\0" not in svg
    ElementTree.fromstring(svg)
    # Other binary data is refused: text in UTF-16, numbers.
    for other in (text.decode().encode("utf-16-le"), bytes(40) + text):
        with pytest.raises(UnreadableInput):
            detect_format(other)


def test_weight_out_of_range_makes_the_result_incomplete() -> None:
    profile = read("main;a 99999999999999999999999999\nmain 5\n")
    assert stacks(profile) == [("main", 5)]
    assert losses_of(profile) == {collapsed.IMPOSSIBLE_STACK_WEIGHT: (1, "line 1: main;a 99999999999999999999999999")}
    assert not profile.meta.complete
    assert profile.meta.reasons == ("The weights of 1 samples are too large; all totals lack them.",)
