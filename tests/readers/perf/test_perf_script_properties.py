"""Random texts: samples round-trip, tokenizer and grammar agree, and the reader never fails."""

from __future__ import annotations

import io

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.ingest.losses import UNRECOGNIZED_LINE
from perfloom.readers import perf_script
from perfloom.readers.perf_script.profile import NO_FRAME, ScriptProfileBuilder
from tests.support.samples import losses_of, samples_of

# No separators of the text itself.
words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="()/:->"), min_size=1)
symbols = st.one_of(
    words,
    st.just("[unknown]"),
    st.tuples(words, words).map("::".join),
    st.tuples(words, words).map(lambda two: f"{two[0]}({two[1]}, int)"),
    st.sampled_from(["operator()", "operator+", "A::operator->()", "f<g(h)>()", "a b c"]),
)
modules = st.sampled_from(
    ["/bin/a", "/usr/lib/x y.so", "[kernel.kallsyms]", "[unknown]", "/b (deleted)", "/tmp/perf-1.map"]
)
frames = st.tuples(st.integers(0, 2**64 - 1), symbols, st.none() | st.integers(0, 2**64 - 1), modules)
comms = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="#"), min_size=1, max_size=15
)
events = st.sampled_from(["cycles", "cpu-clock:u", "cpu/event=0x3c/", "sched:sched_switch", "page-faults"])


@st.composite
def samples(draw: st.DrawFn, shape: tuple[bool, bool, bool, int, bool]) -> tuple[str, tuple[object, ...]]:
    """One sample as text and as its meaning. shape: the printed fields: pid, cpu, time, its number of digits,
    period."""
    with_pid, with_cpu, with_time, digits, with_period = shape
    comm, pid, tid = draw(comms), draw(st.integers(0, 2**22)), draw(st.integers(0, 2**22))
    # A name of digits is ambiguous with an id.
    assume(comm.strip("0123456789/-"))
    # And with a time in whole seconds.
    assume(digits or not comm.endswith(":"))
    cpu, event, period = draw(st.integers(0, 999)), draw(events), draw(st.integers(0, 2**58))
    time = draw(st.integers(0, 10**15)) // 10 ** max(0, 9 - digits) * 10 ** max(0, 9 - digits)
    stack = draw(st.lists(frames, max_size=6))
    text = f"{comm} {f'{pid}/' if with_pid else ''}{tid}"
    text += f" [{cpu:03}]" if with_cpu else ""
    if with_time:
        fraction = f"{time % 10**9:09}".ljust(digits, "0")[:digits]
        text += f" {time // 10**9:5}{'.' if digits else ''}{fraction}:"
    text += f" {period:10}" if with_period else ""
    text += f" {event}: \n"
    for address, symbol, offset, module in reversed(stack):
        text += f"\t{address:16x} {symbol}{'' if offset is None else f'+{offset:#x}'} ({module})\n"
    meaning = (
        time if with_time else None,
        comm,
        pid if with_pid else None,
        tid,
        cpu if with_cpu else -1,
        event,
        period if with_period else 1,
        tuple((symbol, module, address, offset) for address, symbol, offset, module in stack),
    )
    return text + "\n", meaning


digits = st.sampled_from([6, 9]) | st.integers(0, 12)
shapes = st.tuples(st.booleans(), st.booleans(), st.booleans(), digits, st.booleans())
texts = shapes.flatmap(lambda shape: st.lists(samples(shape), min_size=1, max_size=12))


def read(raw: bytes) -> Profile:
    return perf_script.read(io.BytesIO(raw))


def read_line_by_line(raw: bytes) -> Profile:
    """The same, using only the grammar."""
    raw = raw.replace(b"\r\n", b"\n")
    raw += b"" if raw.endswith(b"\n") else b"\n"
    assembly = ScriptProfileBuilder(perf_script.FORMAT)
    starts = [0, *(at + 1 for at, byte in enumerate(raw) if byte == 10)]
    assembly._read(raw, starts, 1)
    return assembly.finish()


@pytest.mark.heavy
@given(texts)
def test_samples_round_trip(written: list[tuple[str, tuple[object, ...]]]) -> None:
    profile = read("".join(text for text, _ in written).encode())
    found = [
        (*sample[:7], tuple((f.name, f.module, f.address, f.offset) for f in sample.stack))
        for sample in samples_of(profile)
    ]
    wanted = [meaning for _, meaning in written]
    if wanted[0][0] is None:
        found, wanted = [sample[1:] for sample in found], [sample[1:] for sample in wanted]
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    assert not profile.losses.num_rows


pieces = st.one_of(
    shapes.flatmap(samples).map(lambda sample: sample[0].encode()),
    st.sampled_from(
        [
            b"a 1 1.000000: 5 cycles:\n",
            b"a 1/2 [003] 1.000000001: 5 cycles: 10 f (/bin/a)\n",
            b"        a 1 1.000000: 5 cycles:     10 f (/bin/a)\n",
            b"a 1 1.5: 5 cycles:\n",
            b"a 1 [001] 12: 5 cycles:\n",
            b"a 1 1.123456789012: 5 cycles:\n",
            b"a\t1 [003] 1.12345:\t\t5 cycles:\n",
            b"              10\tf (/bin/a)\n",
            b"ffffff8000000010\tf (/bin/a)\n",
            b"\t10\tf\t(/bin/a)\n",
            b"\t10 f (inlined)\n",
            b"\t10 f->g (/tmp/perf-1.map)\n",
            b"    10 f (/bin/a)\n",
            b"10 f (/bin/a)\n",
            b"  file.c:12\n",
            b"\n",
            b"\n\n",
            b"# comment : here\n",
            b"a 1 1.5: PERF_RECORD_LOST lost 3\n",
            b"a 1 1.000000: sched:sched_switch: x=1 (y)\n",
            b"a 1 1.000000: 99999999999999999999 cycles:\n",
            b"a 1 cycles:\n",
            b"a 12 \n",
            b"\r\n",
            b"   \n",
        ]
    ),
    st.binary(max_size=40),
)


@pytest.mark.slow
@pytest.mark.heavy
@settings(max_examples=300)
@given(st.lists(pieces, max_size=15).map(b"".join))
def test_tokenizer_and_grammar_agree(raw: bytes) -> None:
    slow = read_line_by_line(raw)
    try:
        fast = read(raw)
    except UnreadableInput:
        lost = sum(losses_of(slow).get(reason, (0, ""))[0] for reason in (UNRECOGNIZED_LINE, NO_FRAME))
        assert not slow.samples.num_rows or 2 * lost > len([line for line in raw.splitlines() if line])
        return
    assert sorted(map(repr, samples_of(fast))) == sorted(map(repr, samples_of(slow)))
    assert {r: c for r, (c, _) in losses_of(fast).items()} == {r: c for r, (c, _) in losses_of(slow).items()}


@pytest.mark.slow
@pytest.mark.heavy
@settings(max_examples=300)
@given(st.lists(st.one_of(pieces, st.binary()), max_size=20).map(b"".join))
def test_random_text_does_not_fail(raw: bytes) -> None:
    perf_script.sniff(raw)
    try:
        profile = read(raw)
    except UnreadableInput:
        return
    assert profile.samples.num_rows >= 0
