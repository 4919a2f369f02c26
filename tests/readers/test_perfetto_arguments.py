"""Arguments of Perfetto's track events: compiled loops and Python code yield the same for any input."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.ingest.jit.protobuf_columns import read_messages
from perfloom.ingest.protobuf_wire import encode_bytes, encode_message, encode_varint
from perfloom.ingest.trace.event_builder import NONE, TraceEventBuilder
from perfloom.readers.perfetto_trace import arguments
from perfloom.readers.perfetto_trace.packets import PAD, TRACK_EVENT, read_packets

Losses = list[tuple[str, str, int]]


def numbered(field: int, value: int) -> bytes:
    return encode_varint(field << 3) + encode_varint(value)


def real(field: int, value: float) -> bytes:
    return encode_varint(field << 3 | 1) + struct.pack("<d", value)


WORDS = st.sampled_from([b"a", b"size", b'say "x"', "größe".encode(), b"\xff\x00", b"", b"{}"])
NUMBERS = st.sampled_from([0, 1, 7, 127, 128, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
REALS = st.sampled_from([0.0, -0.0, 1.5, 0.1, -2.5e-7, 1e22, 1 / 3, float("nan"), float("-inf")])
NAMES = st.one_of(
    st.just(b""),
    st.sampled_from([1, 2, 3]).map(lambda number: numbered(1, number)),
    WORDS.map(lambda word: encode_message(10, word)),
)
PLAIN = st.one_of(
    st.just(b""),
    st.tuples(st.sampled_from([2, 3, 4, 7]), NUMBERS).map(lambda told: numbered(*told)),
    st.sampled_from([1, 2, 3]).map(lambda number: numbered(17, number)),
    REALS.map(lambda value: real(5, value)),
    st.tuples(st.sampled_from([6, 9]), WORDS).map(lambda told: encode_message(*told)),
)
NESTED = st.recursive(
    st.one_of(
        NUMBERS.map(lambda value: numbered(5, value)), WORDS.map(lambda word: encode_message(8, word)), st.just(b"")
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: b"".join(encode_message(4, part) for part in parts)),
        st.lists(st.tuples(WORDS, inner), max_size=3).map(
            lambda parts: b"".join(encode_message(2, word) + encode_message(3, part) for word, part in parts)
        ),
    ),
    max_leaves=6,
)
ARGUMENTS = st.recursive(
    st.tuples(NAMES, PLAIN | NESTED.map(lambda value: encode_message(8, value))).map(b"".join),
    lambda inner: st.tuples(NAMES, st.sampled_from([11, 12]), st.lists(inner, min_size=1, max_size=4)).map(
        lambda told: told[0] + b"".join(encode_message(told[1], part) for part in told[2])
    ),
    max_leaves=8,
)


def texts_of(data: bytes) -> tuple[list[str | None], Losses]:
    """The arguments of each event of a trace, and its losses."""
    losses: Losses = []
    packets, _ = read_packets(data + bytes(PAD), lambda *loss: losses.append(loss))
    rows, spans = packets.all.get_spans(TRACK_EVENT)
    parts = arguments.LOCATION, arguments.LOCATION_ID
    events = read_messages(packets.all.data, spans, parts, (), (arguments.ANNOTATION,))
    made = TraceEventBuilder()
    category = np.where(np.arange(len(rows)) % 2, NONE, made.intern_text("of the lane"))
    maker = arguments.ArgumentDecoder(packets, made, lambda *loss: losses.append(loss))
    places = maker.decode(events, packets.generation[rows], category)
    return [made.get_texts()[place] if place >= 0 else None for place in places.tolist()], losses


@pytest.mark.heavy
@given(
    events=st.lists(st.lists(ARGUMENTS, max_size=3), min_size=1, max_size=8),
    damage=st.lists(st.tuples(st.integers(0, 999), st.integers(0, 255)), max_size=2),
)
def test_compiled_and_plain_agree(events: list[list[bytes]], damage: list[tuple[int, int]]) -> None:
    interned = [
        encode_message(sort, numbered(1, at), encode_bytes(2, b"name %d" % at)) for sort in (3, 29) for at in (1, 2)
    ]
    packets = [numbered(13, 1) + encode_message(12, *interned)]
    packets += [encode_message(11, *(encode_message(4, one) for one in given)) for given in events]
    data = bytearray(b"".join(encode_message(1, numbered(10, 1) + packet) for packet in packets))
    for at, byte in damage:
        data[at % len(data)] = byte
    written = texts_of(bytes(data))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arguments, "HAS_NUMBA", False)
        assert texts_of(bytes(data)) == written
