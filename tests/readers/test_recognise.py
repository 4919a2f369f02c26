"""Formats are told by content, never by name."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
import zstandard

from perfloom.domain.errors import UnreadableInput
from perfloom.readers import READERS, perf_data, recognise

DATA = Path(__file__).parent.parent / "data" / "perf"


@pytest.mark.parametrize("name", ["spin", "events", "dwarf", "flat"])
def test_perf_script(name: str) -> None:
    raw = (DATA / f"{name}.script.txt").read_bytes()
    assert recognise(raw).name == "perf-script"
    # Without its heading too, and when only the beginning is there.
    body = b"\n".join(line for line in raw.split(b"\n") if not line.startswith(b"#"))
    assert recognise(body).name == "perf-script"
    assert recognise(body[:600]).name == "perf-script"


def test_collapsed() -> None:
    assert recognise((DATA / "spin.collapsed-all.txt").read_bytes()).name == "collapsed"


def test_perf_data() -> None:
    with open(DATA / "spin.perf.data.zst", "rb") as file:
        raw = zstandard.ZstdDecompressor().stream_reader(file).read()
    reader = recognise(raw)
    assert (reader.name, reader.needs_perf) == ("perf-data", True)
    assert not perf_data.is_piped(raw)
    assert perf_data.is_piped(b"PERFILE2" + (16).to_bytes(8, "little"))
    assert perf_data.is_piped(b"2ELIFREP" + (16).to_bytes(8, "big"))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"", "x is empty"),
        (bytes(1000), "nothing but zero bytes"),
        (b"\x7fELF\x02\x01\x01" + bytes(99), "The format of x is not known. Give "),
        (random.Random(5).randbytes(100_000), "The format of x is not known"),
        (b"hello world\n" * 50, "The format of x is not known"),
        (b'{"a": 1}', "The format of x is not known"),
    ],
)
def test_refused_with_what_is_known(head: bytes, message: str) -> None:
    with pytest.raises(UnreadableInput, match=message) as caught:
        recognise(head, "x")
    if "not known" in message:
        assert all(reader.label in caught.value.message for reader in READERS.values())


def test_random_bytes_are_never_taken_for_a_format() -> None:
    for seed in range(200):
        with pytest.raises(UnreadableInput):
            recognise(random.Random(seed).randbytes(5000))


def test_what_perf_prints_before_is_no_hindrance() -> None:
    raw = b"Warning:\nProcessed 10 events and lost 2 chunks!\n\n" + (DATA / "spin.script.txt").read_bytes()
    reader = recognise(raw)
    assert reader.name == "perf-script"
    assert reader.read(io.BytesIO(raw), "x").losses.num_rows == 1


def test_perf_data_opens_on_the_event_that_was_asked_for_first() -> None:
    heading = "# event : name = cpu-clock, , id = { 1 }\n# event : name = page-faults, , id = { 2 }\n"
    samples = [f"a 1/1 [000] {at}.000000000: 5 {event}: 10 f (/bin/a)\n" for at, event in enumerate(EVENTS)]
    meta = perf_data.read(io.BytesIO((heading + "".join(samples)).encode())).meta
    assert meta.main_event == "cpu-clock"
    without = perf_data.read(io.BytesIO((heading + samples[0]).encode())).meta
    assert without.main_event == "page-faults"


EVENTS = ("page-faults", "cpu-clock")
