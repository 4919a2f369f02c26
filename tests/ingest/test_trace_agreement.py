"""The compiled scanner and the decoder read trace events alike."""

from __future__ import annotations

import gzip
import io
import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perfloom.domain.tables import NUMERIC_ARGUMENTS
from perfloom.ingest.jit import cache as compiled_cache
from perfloom.ingest.trace_json import documents as trace_documents
from perfloom.ingest.trace_json.parallel_scan import scan_events_parallel
from tests.support import paths
from tests.support.real_traces import FOLDER
from tests.support.trace_texts import EVENT, Event, listed, read

RECORDED = paths.DATA / "pytorch"
READERS = Path(compiled_cache.__file__).parent

blanks = st.sampled_from(["", "", "", " ", "\n    ", "\t\r\n", " " * 70])
odd_blanks = st.sampled_from(["", "", "", "", "", "\x0b", ",", "\x00"])
letters = st.sampled_from(
    [*"ab:,{}[]/é€😀\x00\t\x7f", *(["a"] * 9), '\\"', "\\\\", "\\n", "\\u00e9", "\\ud83d\\ude00", "\\ud800", "\\x"]
)
strings = st.lists(letters, max_size=12).map(lambda parts: '"' + "".join(parts) + '"') | st.sampled_from(
    ['"' + "long " * 30 + '"', '"12"', '"1.5"', '"-0"', '"x" "y"', '"open']
)
numbers = st.sampled_from(
    [
        *("0", "-0", "7", "-12", "01", "1.", ".5", "1.50", "1e3", "1E-2", "0.0005", "NaN", "-Infinity", "9" * 50),
        *("1623142623460016.1239", "123456789012345678", "1234567890123456789"),
        *map(str, (2**62, 2**63 - 1, -(2**63), 2**64)),
    ]
) | st.integers(-(10**6), 10**18).map(str)
words = st.sampled_from(["true", "false", "null", "nul", "None"])
scopes = st.sampled_from(
    ['{"local": "0x1"}', '{"global":"7"}', '{ "local":"\\u00e9" }', '{"local":1}', '{"locals": "1"}']
)
values = st.recursive(
    numbers | strings | words | scopes,
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda parts: "[" + ", ".join(parts) + "]")
        | st.lists(st.tuples(strings, inner), max_size=3).map(
            lambda parts: "{" + ",\n".join(f"{key}: {value}" for key, value in parts) + "}"
        )
    ),
    max_leaves=8,
)


@st.composite
def objects(draw: st.DrawFn, keys: st.SearchStrategy[str], inner: st.SearchStrategy[str]) -> str:
    """The text of an object, with white space anywhere."""
    parts = [
        f"{draw(blanks)}{draw(keys)}{draw(blanks)}:{draw(blanks)}{draw(inner)}{draw(blanks)}"
        for _ in range(draw(st.integers(0, 6)))
    ]
    return "{" + ",".join(parts) + draw(blanks) + "}"


numbered = st.sampled_from(
    [*(json.dumps(key) for key in NUMERIC_ARGUMENTS), '"Ev\\u0020Idx"', '"Bytess"', '"Python is"']
)
arguments = objects(numbered | numbered | strings, values | numbers)
members = st.sampled_from(
    [
        f'"{key}"'
        for key in ("ph", "name", "cat", "pid", "tid", "ts", "dur", "id", "id2", "bind_id", "bp", "n\\u0061me", "nam")
    ]
)


@st.composite
def events(draw: st.DrawFn) -> str:
    """The text of an event, usually a valid one."""
    if draw(st.booleans()):
        return EVENT.replace("aten", draw(st.sampled_from("abcdefgh")))
    text = draw(objects(members | members | strings, values | numbers | strings))
    if draw(st.booleans()):
        text = text[:-1] + ("," if len(text) > 2 else "") + f'"ph":"X","args":{draw(arguments)}}}'
    return text


@st.composite
def texts(draw: st.DrawFn) -> str:
    """The text of a file, sometimes with one error."""
    found = draw(st.lists(events(), max_size=8))
    text = "".join(f"{draw(blanks)}{event}{draw(blanks)}{draw(odd_blanks)}," for event in found)
    text = f'{{"schemaVersion":1,"traceEvents":[{text}],"traceName":"n"}}' if draw(st.booleans()) else f"[{text}]"
    if draw(st.integers(0, 2)) == 0:
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.sampled_from(['"', "}", "]", "{", "[", ",", "\\", "", "x"])) + text[place + 1 :]
    return text


@pytest.mark.slow
@pytest.mark.heavy
@settings(max_examples=60)
@given(texts(), st.sampled_from([60, 300, 1 << 20]))
@example('[{"args":{"a":[1]]}}]', 300)
@example('[{"args":{"a":{"b":"]"}}}]', 300)
def test_scanner_and_decoder_agree(text: str, pieces: int) -> None:
    read(text.encode("utf-8", "surrogatepass"), pieces)


def test_scanner_and_decoder_agree_on_recordings() -> None:
    for name in ("training", "workers"):
        found = read(gzip.decompress((RECORDED / f"{name}.pt.trace.json.gz").read_bytes()), 20_000)
        assert len(found.events) > 200
        assert found.lost == {}


@pytest.mark.heavy
@pytest.mark.skipif(not FOLDER.is_dir(), reason="the real traces lie outside of the checkout")
@pytest.mark.parametrize("name", ["amd_mi250", "ddp_rank0", "nccl_a100"])
def test_real_traces_equal_plain_json(name: str) -> None:
    text = gzip.decompress((FOLDER / f"{name}.pt.trace.json.gz").read_bytes())
    found = scan_events_parallel(io.BytesIO(text), 1 << 18)
    assert (listed(found), found.lost) == (plain(text), [])


def plain(text: bytes) -> list[Event]:
    """A valid trace, read by Python's own decoder."""
    rows = json.loads(text, parse_float=Decimal)["traceEvents"]
    raw = listed(scan_events_parallel(io.BytesIO(text)))
    found = []
    for row, one in zip(rows, raw, strict=True):
        given_ = row.get("args", {})
        whole = {key: value for key, value in given_.items() if key in NUMERIC_ARGUMENTS and isinstance(value, int)}
        rest = {key: value for key, value in given_.items() if key not in whole}
        # The text of arguments is that of the file: compare their values.
        same = json.loads(one.arguments or "{}", parse_float=Decimal) == rest and (one.arguments is None) == (not rest)
        found.append(
            Event(
                row["ph"],
                row["name"],
                row.get("cat"),
                str(row["pid"]),
                str(row["tid"]),
                row.get("id"),
                int(row["ts"] * 1000),
                int(row["dur"] * 1000) if "dur" in row else None,
                one.arguments if same else json.dumps(rest, default=str),
                tuple(sorted(whole.items())),
            )
        )
    return found


def test_truncated_recording_is_read_up_to_its_end() -> None:
    text = gzip.decompress((RECORDED / "whole.pt.trace.json.gz").read_bytes())
    whole = listed(scan_events_parallel(io.BytesIO(text)))
    for end in range(0, len(text), 997):
        found = scan_events_parallel(io.BytesIO(text[:end]), 20_000)
        events = listed(found)
        assert events == whole[: len(events)]
        assert text[:end].count(b'"ph"') - len(events) in (0, 1)
        assert [reason for reason, _, _ in found.lost] == ([trace_documents.CUT_OFF] if end else [])
