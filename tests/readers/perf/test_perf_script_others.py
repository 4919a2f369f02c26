"""perf script's text as other tools write it, and texts with unrecognized parts."""

from __future__ import annotations

import io
import re

import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.tables import get_column, get_strings
from perfloom.ingest.parse_quality import LineCountingStream
from perfloom.ingest.perf_text.grammar import classify_frame, parse_frame, parse_header, parse_simple_frame
from perfloom.ingest.perf_text.tokenizer import tokenize
from perfloom.readers import detect_format, perf_script
from tests.readers.perf.test_perf_script import STACK, read
from tests.support.samples import losses_of, samples_of

SIMPLEPERF = (
    "worker thread\t10987 [003] 684943.{micros}:\t\t{period} cpu-cycles:\n"
    "      7da59c5abc\tvoid spin<int>(int) (/data/app/lib/libwork.so)\n"
    "ffffff8008083a2c\tel0_irq ([kernel.kallsyms])\n\n"
)


def test_simpleperf_text() -> None:
    """Android's report_sample.py: microseconds without leading zeros, tabs, addresses without leading spaces."""
    micros = [7, 93, 450, 8_123, 45_678, 45_900, 123_456, 999_999]
    text = "".join(SIMPLEPERF.format(micros=at, period=1000 + at) for at in micros)
    assert detect_format(text.encode()).name == "perf-script"
    profile = read(text)
    found = samples_of(profile)
    assert [sample[0] - found[0][0] for sample in found] == [1000 * (at - micros[0]) for at in micros]
    assert [sample.weight for sample in found] == [1000 + at for at in micros]
    for sample in found:
        assert [(f.name, f.module, f.address) for f in sample.stack] == [
            ("el0_irq", "[kernel.kallsyms]", 0xFFFFFF8008083A2C),
            ("void spin<int>(int)", "/data/app/lib/libwork.so", 0x7DA59C5ABC),
        ]
    assert profile.meta.complete and not profile.losses.num_rows
    assert get_strings(profile.threads, "name") == ["worker thread"]


@pytest.mark.parametrize(
    ("time", "nanoseconds"),
    [
        ("12.5", 500_000_000),
        ("12.12345", 123_450_000),
        ("12.1234567", 123_456_700),
        ("12.123456789123", 123_456_789),
        ("12", 0),
    ],
)
def test_times_with_any_number_of_digits(time: str, nanoseconds: int) -> None:
    profile = read(f"a 1 [001] 11.000000: 5 cycles:{STACK}a 1 [001] {time}: 5 cycles:{STACK}")
    assert get_column(profile.samples, "time_ns").tolist() == [0, 1_000_000_000 + nanoseconds]


@pytest.mark.parametrize(
    ("start", "task"),
    [
        ("render 100/101 [003] 1000,00111:", ("render", 100, 101, 3)),
        ("render 101 [003] 1000,001110:", ("render", None, 101, 3)),
        ("alu 24252 2026-11-25 07:25:14.081918   1000.001110:", ("alu", None, 24252, -1)),
        ("alu 24250/24252 [001] 2026-11-25 07:25:14.081918   1000.001110:", ("alu", 24250, 24252, 1)),
        ("alu 24252 2026-11-25 07:25:14.081918 ", ("alu", None, 24252, -1)),
        ("alu 24252 U       1000.001110:", ("alu", None, 24252, -1)),
        ("alu 24250/24252 K     1000.001110:", ("alu", 24250, 24252, -1)),
        ("alu 24252 [001] K     1000.001110:", ("alu", None, 24252, 1)),
        ("alu 24252 [001] U     2026-11-25 07:25:14.081918  1000.001110:", ("alu", None, 24252, 1)),
        ("a 7 K 24252   1000.001110:", ("a 7 K", None, 24252, -1)),
    ],
)
def test_times_with_a_comma_dates_and_modes_are_not_part_of_a_name(start: str, task: tuple[object, ...]) -> None:
    """As perf prints them in locales with a decimal comma, and with -F +tod and +misc."""
    profile = read(f"{start}    119596 cpu-clock:{STACK}" + f"{start}    119597 cpu-clock:{STACK}")
    found = samples_of(profile)
    assert [(one.comm, one.pid, one.tid, one.cpu) for one in found] == [task] * 2
    assert [(one.event, one.weight, len(one.stack)) for one in found] == [
        ("cpu-clock", 119_596, 1),
        ("cpu-clock", 119_597, 1),
    ]
    assert profile.threads.num_rows == 1
    if "1000" in start:
        assert found[0].time_ns == 1_000_001_110_000
    assert profile.meta.complete and not profile.losses.num_rows


def test_text_truncated_within_a_stack_is_incomplete() -> None:
    frames = "\n\t            1270 spin+0x5f (/bin/mt)\n\t            12af main+0x25 (/bin/mt)\n\n"
    sample = "alu 24252   979.698043:    2004008 cpu-clock: "
    whole = 3 * (sample + frames)
    assert read(whole).meta.complete and not read(whole).losses.num_rows
    lines = whole.splitlines(keepends=True)
    for kept in range(4, len(lines)):
        profile = read("".join(lines[:kept]))
        in_sample = kept % 4 != 0
        assert profile.meta.complete != in_sample, kept
        # The part of the last sample that exists counts.
        assert profile.samples.num_rows == (kept + 3) // 4
        if in_sample:
            assert f"in the middle of a sample, after line {kept}" in profile.meta.reasons[0]
    # Samples that never end with an empty line: of other tools, and without stacks.
    assert read((sample + frames[:-1]) * 3).meta.complete
    assert read((sample + " 1270 spin+0x5f (/bin/mt)\n") * 3).meta.complete


def test_unrecognized_lines_make_a_result_incomplete() -> None:
    sample = "a 1 1.000000: 5 cycles:" + STACK
    few = read(sample * 100 + "what is this\n\n")
    assert few.meta.complete and losses_of(few)
    more = read(sample + "what is this\n\n" + sample * 20)
    assert not more.meta.complete
    assert re.search(
        r"^1 of \d+ lines of this file are not what perf script prints.* line 4: what is this", more.meta.reasons[0]
    )
    with pytest.raises(
        UnreadableInput, match=r"10 of 12 lines of x are not what perf script prints.*line 4: what is this"
    ):
        perf_script.read(io.BytesIO((sample + "what is this\n" * 10).encode()), "x")


def test_line_counts_do_not_depend_on_the_parser() -> None:
    text = b"\na\n\n\nb\r\n\r\nc\n d\n\ne"
    for size in range(1, 20):
        lines = LineCountingStream(io.BytesIO(text))
        while lines.read(size):
            pass
        assert lines.count == 5, size


@pytest.mark.parametrize(
    "time",
    [
        "99999999999999999999.123456",
        "1.1234567890123456789",
        "\u0661\u0662.000001",
        "12.\u0661\u0660\u0660\u0660\u0660\u0660",
        "9999999999999",
        "\u0661\u0662",
        "9223372037.000001",
        "9223372037.00001",
    ],
)
@pytest.mark.parametrize("tail", [STACK, "\n"])
def test_time_out_of_range_is_unrecognized(time: str, tail: str) -> None:
    good = f"spin 7 [000] 1.000000: 5000 cpu-clock:{tail}"
    odd = f"spin 7 [000] {time}: 4000 cpu-clock:{tail}"
    assert parse_header(odd.split("\n")[0].encode()) is None
    profile = read(good + odd + good)
    assert [(sample.event, sample.weight, sample.tid) for sample in samples_of(profile)] == [("cpu-clock", 5000, 7)] * 2
    assert get_strings(profile.events, "unit") == ["ns"]
    assert not profile.meta.complete and sum(count for count, _ in losses_of(profile).values()) >= 1


def test_numbers_of_each_width_are_those_of_the_grammar() -> None:
    number = "987654321012345678"
    headers = [
        f"{comm}{number[:seconds]}.{number[:fraction]}: {number[:period]} cycles:"
        for comm in ("", "a ", "a 12/34 [001] ")
        for seconds in range(1, 10)
        for fraction in (6, 9)
        for period in range(19)
    ]
    for first in range(0, len(headers), 100):
        part = headers[first:] + headers[:first]
        tokens = tokenize("".join(header + STACK for header in part).encode())
        expected = [parse_header(header.encode()) for header in part]
        found = zip(tokens.time_ns.tolist(), tokens.weight.tolist(), strict=True)
        assert list(found) == [
            (one and one.time_ns, -1 if one is None or one.weight is None else one.weight) for one in expected
        ]


@pytest.mark.parametrize(
    "offset", ["", "+0x0", "+0x1f", "+0xffffffffffffffff", "+0x10000000000000000", "+0x1F", "+0x1 ", "+0x2+0x1"]
)
@pytest.mark.parametrize("symbol", ["f", " f ", "operator()(int)", "+0x1", "[unknown]", "a b"])
@pytest.mark.parametrize("module", ["(/bin/a)", "(/bin/a (deleted))", "([kernel.kallsyms])", "()", "(/bin/a) "])
def test_places_in_a_function_are_those_of_the_grammar(symbol: str, offset: str, module: str) -> None:
    rest = f"{symbol}{offset} {module}".encode()
    frame = parse_frame(b"1 " + rest)
    assert frame is not None
    assert parse_simple_frame(rest) == (
        frame.symbol,
        frame.offset,
        frame.module,
        classify_frame(frame.symbol, frame.module),
    )


def test_period_with_too_many_digits_is_lost() -> None:
    profile = read(f"a 1 1.000000: {'9' * 5000} cycles:{STACK}a 1 2.000000: 3 cycles:{STACK}")
    assert [sample.weight for sample in samples_of(profile)] == [3]
