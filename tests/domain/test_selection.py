"""Selection: query strings and selections are equivalent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.selection import Selection, format_ms, format_thread_key, parse_ranks

words = st.text(min_size=1, max_size=12)
optional = st.none() | words
times = st.integers(0, 10**15)


@st.composite
def selections(draw: st.DrawFn) -> Selection:
    start = draw(st.none() | times)
    end = draw(st.none() | times.map(lambda ns: ns + 1 + (start or 0)))
    ranks = draw(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=3))
    return Selection(
        event=draw(optional),
        threads=tuple(dict.fromkeys(draw(st.lists(words, max_size=3)))),
        ranks=tuple((min(pair), max(pair)) for pair in ranks),
        start_ns=start,
        end_ns=end,
        focus=draw(optional),
        ignore=draw(optional),
        hide=draw(optional),
        invert=draw(st.booleans()),
        recursion=draw(st.booleans()),
        step=draw(optional),
    )


@given(selections())
def test_query_string_round_trip(selection: Selection) -> None:
    query: dict[str, list[str]] = {}
    for word, value in selection.to_query():
        query.setdefault(word, []).append(value)
    assert Selection.from_query(query) == selection


def test_milliseconds_are_exact() -> None:
    assert format_ms(1) == "0.000001"
    assert format_ms(1_500_000) == "1.5"
    assert format_ms(20_000_000) == "20"
    assert Selection.from_query({"start-ms": ["12345678.000001"]}).start_ns == 12_345_678_000_001


@pytest.mark.parametrize(
    "query",
    [
        {"start-ms": ["soon"]},
        {"start-ms": ["nan"]},
        {"start-ms": ["1e400"]},
        {"start-ms": ["9223372036855"]},
        {"end-ms": ["-2305843009214"]},
        {"start-ms": ["1_000"]},
        {"start-ms": ["\u0663"]},
        {"rank": ["\u0663"]},
        {"start-ms": ["5"], "end-ms": ["5"]},
        {"rank": ["3-1"]},
        {"rank": ["a"]},
        {"rank": ["-1"]},
        {"invert": ["perhaps"]},
        {"focus": ["x" * 2001]},
    ],
)
def test_invalid_values_are_refused(query: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidRequest):
        Selection.from_query(query)


def test_ranks_and_keys() -> None:
    assert parse_ranks("0-63, 128") == ((0, 63), (128, 128))
    assert format_thread_key(None, 12, 13) == "-/12/13"
