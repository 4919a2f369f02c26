"""Trace events in invalid, truncated or damaged texts: valid parts are read, the others are losses."""

from __future__ import annotations

import io
import json
import re

import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.losses import NO_UNICODE
from perfloom.ingest.trace_json import decoder as decoding
from perfloom.ingest.trace_json import documents, grammar, window
from perfloom.ingest.trace_json.decoder import decode
from perfloom.ingest.trace_json.parallel_scan import scan_events_parallel
from perfloom.ingest.trace_json.sniff import find_top_keys, is_trace_json
from perfloom.readers import chrome
from tests.support.trace_texts import EVENT, Event, read, trace

ONE = Event(
    *("X", "aten::add", "cpu_op", "1", "2", 9, 1500, 2000),
    '{"Input Dims":[[1, 2], []],"Call stack":"a;b"}',
    (("External id", 5),),
)


def named(name: str, **more: str) -> str:
    """The text of an event."""
    return f'{{"ph":"X","name":"{name}"' + "".join(f',"{key}":{value}' for key, value in more.items()) + "}"


@pytest.mark.parametrize(
    "text",
    [
        f"[{EVENT},{EVENT}]",
        f"[{EVENT}\n{EVENT}]",
        f'{{"traceEvents":[{EVENT},{EVENT}],}}',
        f'\n{{"a":{{"b":[1]}},"traceEvents" : [\n{EVENT} ,\n{EVENT},\n{{}}],"c":"]}}"}}\n',
        f"[{EVENT},\n{EVENT},\n]",
        f"[{EVENT}]\n[{EVENT}]",
        f"{trace(EVENT)}{trace(EVENT)}",
        "\ufeff" + trace(EVENT, EVENT),
        trace(EVENT, EVENT).encode("utf-16"),
        trace(EVENT, EVENT).encode("utf-16-le"),
        trace(EVENT, EVENT).encode("utf-16-be"),
        trace(EVENT, EVENT).encode("utf-32"),
    ],
)
def test_document_forms(text: str | bytes) -> None:
    found = read(text)
    assert (found.events, found.lost) == ([ONE, ONE], {})
    assert is_trace_json(text.encode() if isinstance(text, str) else text)


def test_members_next_to_the_events() -> None:
    text = '{"deviceProperties":[{"id":0,"totalGlobalMem":34084028416}],"traceEvents":[],"big":123456789012345678901,'
    found = read(text + '"baseTimeNanoseconds":1711964646000000001,"x":NaN,"deep":' + "[" * 5000 + "]" * 5000 + "}")
    assert found.top["deviceProperties"] == [{"id": 0, "totalGlobalMem": 34084028416}]
    assert (found.top["baseTimeNanoseconds"], found.top["big"]) == (1711964646000000001, 123456789012345678901)
    assert found.top["x"] is None
    assert {reason: count for reason, (count, _) in found.lost.items()} == {documents.NO_VALUE: 1, documents.DAMAGED: 1}


def test_consecutive_documents_share_a_clock() -> None:
    found = read(
        trace(EVENT, baseTimeNanoseconds="1000", host='"a"')
        + trace(EVENT, named("no time"), baseTimeNanoseconds="7000", host='"b"')
        + trace(EVENT)
    )
    assert [event.time for event in found.events] == [1500, 7500, None, 1500]
    assert found.top == {"baseTimeNanoseconds": 1000, "host": "a"}
    assert list(found.lost) == [documents.OTHER_VALUE]


@pytest.mark.heavy
def test_truncated_text_is_read_up_to_its_end() -> None:
    whole = trace(EVENT, named("second"), named("third"), traceName='"n"')
    for end in range(len(whole)):
        found = read(whole[:end])
        count = sum(whole.index(sign) <= end for sign in ("}},{", '},{"ph":"X","name":"third', "}],"))
        assert found.names == ["aten::add", "second", "third"][: len(found.names)]
        assert len(found.events) >= count - 1
        assert set(found.lost) <= {documents.CUT_OFF}
        assert (documents.CUT_OFF in found.lost) == bool(end)
    assert read(whole[:-5]).lost[documents.CUT_OFF] == (1, f"byte {len(whole) - 5:,}")


def test_damaged_events_do_not_affect_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = [
        '{"ph":"X","name":"a" "b":1}',
        '{"ph":"X","name":"a,"b":1}',
        '{"ph":"X",name:"a"}',
        '{"ph":"X","args":{"a":1]}',
        '{"ph":""","name":"a"}',
    ]
    for text in bad:
        found = read(f'{{"traceEvents":[{EVENT},{text},{named("good")},{EVENT}],"traceName":"n"}}')
        assert found.names == ["aten::add", "good", "aten::add"], text
        ((reason, (count, first)),) = found.lost.items()
        assert (reason, count) == (documents.DAMAGED, 1)
        assert first.startswith(f"byte {16 + len(EVENT) + 1}: {text[:9]}")
        assert found.top == {"traceName": "n"}
        at_end = read(f'{{"traceEvents":[{EVENT},{text}],"traceName":"n"}}')
        assert (at_end.names, at_end.top) == (["aten::add"], {"traceName": "n"})
    returns: list[int] = []
    put_back = window.Window.put_back
    monkeypatch.setattr(
        window.Window,
        "put_back",
        lambda *given: (returns.append(given[1]), put_back(*given))[1],  # type: ignore[func-returns-value]
    )
    for pieces in (1000, 1 << 16):
        many = read(f"[{','.join(f'{text},{EVENT}' for text in bad * 10)}]", pieces)
        assert (many.events, many.lost[documents.DAMAGED][0]) == ([ONE] * 50, 50)
    # Damaged bytes are skipped when found: each chunk is scanned once.
    assert len(returns) < 10


@pytest.mark.parametrize(
    ("text", "times", "events"),
    [
        ('{"ph":[{},', 3000, 0),
        ("[", 3000, 0),
        ('{"a":', 3000, 0),
        ('{"a":[', 3000, 0),
        ('},{"ph":', 3000, 0),
        ('{"a":"{\\"a\\":', 3000, 0),
        (f'{EVENT},{{"ph":[{{}},', 300, 300),
        (f'{EVENT},[{{"a":1}},', 300, 300),
        (f"{EVENT},{{x}},", 300, 300),
    ],
)
def test_unterminated_values_are_scanned_once(
    monkeypatch: pytest.MonkeyPatch, text: str, times: int, events: int
) -> None:
    class Counted:
        def __init__(self, pattern: re.Pattern[bytes]) -> None:
            self.pattern, self.bytes = pattern, 0

        def match(self, data: bytes, *where: int) -> re.Match[bytes] | None:
            found = self.pattern.match(data, *where)
            self.bytes += len(found[0]) if found else 0
            return found

        def search(self, data: bytes, start: int) -> re.Match[bytes] | None:
            found = self.pattern.search(data, start)
            self.bytes += (found.end() if found else len(data)) - start
            return found

    tokens, closes = Counted(grammar._TOKEN), Counted(documents._CLOSE)
    monkeypatch.setattr(grammar, "_TOKEN", tokens)
    monkeypatch.setattr(documents, "_CLOSE", closes)
    found = read('{"traceEvents":[' + text * times, 4000)
    assert (len(found.events), documents.DAMAGED in found.lost) == (events, True)
    assert tokens.bytes < 30 * len(text) * times
    # Once for each visible part of the file.
    assert closes.bytes < 60 * len(text) * times


def test_damaged_header_loses_no_events() -> None:
    found = read(f'{{"schemaVersion":1,"a":{{x}},"traceEvents":[{EVENT}],"traceName":"n"}}')
    assert (found.events, found.top) == ([ONE], {"schemaVersion": 1, "traceName": "n"})
    assert list(found.lost) == [documents.DAMAGED]


@pytest.mark.parametrize(
    ("text", "reason", "count"),
    [
        (f'[1,"x",[2],null,{EVENT}]', documents.NO_EVENT, 4),
        ('{"traceEvents":{"a":1}}', documents.NO_EVENTS, 1),
        ("no trace at all", documents.NO_DOCUMENT, 1),
        ('[{"ph":"XY"},{"ph":"é"},{"ph":1},{"ph":""}]', decoding.NO_PHASE, 4),
        ('[{"name":["a"],"pid":true,"tid":{}},{"cat":null,"id":null}]', decoding.NO_TEXT, 3),
        ('[{"ts":"soon","dur":[]},{"ts":true},{"ts":null}]', decoding.NO_TIME, 3),
        ('[{"ts":99999999999999999999,"dur":4611686018427387.904},{"ts":1e300}]', decoding.TOO_LARGE_TIME, 3),
        ('[{"args":[1]},{"args":"x"},{"args":null}]', decoding.NO_ARGUMENTS, 2),
        ('[{"args":{"a":' + "[" * 70 + "]" * 70 + ',"b":1}}]', decoding.TOO_DEEP_ARGUMENT, 1),
        ('[{"ph":"X","args":{"a":' + "[" * 5000 + "]" * 5000 + "}}]", documents.DAMAGED, 1),
        ('[{"ts":NaN,"args":{"a":-inf,"b":[Infinity,nan(ind)],"c":1e999}}]', documents.NO_VALUE, 5),
    ],
)
def test_unrecognized_text_is_a_loss(text: str, reason: str, count: int) -> None:
    found = read(text)
    assert found.lost[reason][0] == count
    assert found.lost[reason][1].startswith("byte ")


def test_empty_input() -> None:
    assert read("").lost == read(" \n").lost == {}
    assert read('{"traceEvents":[]}').lost == {}


def test_texts_equal_those_of_the_file() -> None:
    found = read(
        r'[{"name":"a\"\\\/\n\u00e9\ud83d\ude00","p\u0068":"\u0058","pid":-5,"tid":4294967295.0,"id":"0x1f"},'
        r'{"name":12,"pid":"","tid":123456789012345678901234567890,"bind_id":1073741824,"ph":"X"},'
        r'{"name":"x","id":"7","bind_id":8},{"id":"07"}]'
    )
    assert found.lost == {}
    assert [(event.phase, event.name, event.process, event.thread, event.id) for event in found.events] == [
        ("X", 'a"\\/\né😀', "-5", "4294967295.0", "0x1f"),
        ("X", "12", "", "123456789012345678901234567890", "1073741824"),
        ("", "x", None, None, 7),
        ("", None, None, None, "07"),
    ]


def test_invalid_unicode_stays_distinct() -> None:
    found = read(b'[{"name":"a\xff"},{"name":"a\\ud800"},{"name":"a\xed\xa0\x80","args":{"k\xfe":"\\udc00\\\\udc00"}}]')
    assert found.names == ["a\\xff", "a\\ud800", "a\\xed\\xa0\\x80"]
    assert json.loads(found.events[2].arguments or "") == {"k\\xfe": "\\udc00\\udc00"}
    assert found.lost == {NO_UNICODE: (4, "byte 1: a\\xff")}


def test_control_characters_and_bad_escapes_are_kept() -> None:
    found = read('[{"name":"a\tb\x01","args":{"path":"D:\\data","x":[1,,2,],}}]')
    assert found.names == ["a\tb\x01"]
    assert found.events[0].arguments == '{"path":"D:\\\\data","x":[1,2]}'
    assert read(r'[{"name":"\\\\a","args":{"": 0}}]').events[0].arguments == '{"": 0}'
    assert found.lost == {}


def test_whole_numbers_are_separate_columns() -> None:
    found = read(
        '[{"args":{"correlation":-5,"Bytes":9223372036854775807,"Addr":9223372036854775808,"Ev Idx":3.0,'
        '"Sequence number":1.5,"External id":"7","Python parent id":null,"Python id":1e3,"bytes":-9223372036854775808}},'
        '{"args":{"Ev Idx":1,"Ev Idx":2}},{"args":{"Ev Idx":1,"Ev Idx":"x","a":1,"a":2}},{"args":{"Ev Idx":"x","Ev Idx":1}},'
        '{"args":{"a":1},"args":{"Ev\\u0020Idx":4}}]'
    )
    first, *others = found.events
    assert dict(first.numbers) == {
        "correlation": -5,
        "Bytes": 2**63 - 1,
        "Ev Idx": 3,
        "bytes": -(2**63),
    }
    assert first.arguments == (
        '{"Addr":9223372036854775808,"Sequence number":1.5,"External id":"7","Python parent id":null,"Python id":1e3}'
    )
    assert [(event.numbers, event.arguments) for event in others] == [
        ((("Ev Idx", 2),), None),
        ((), '{"Ev Idx":"x","a":1,"a":2}'),
        ((("Ev Idx", 1),), None),
        ((("Ev Idx", 4),), None),
    ]
    assert found.lost == {}


def test_times_are_exact() -> None:
    times = {
        "0": 0,
        "-0": 0,
        "1623142623460016": 1623142623460016000,
        "1711964646123456.789": 1711964646123456789,
        '"1711964646123456.789"': 1711964646123456789,
        "4203669603018.756": 4203669603018756,
        "0.0004": 0,
        "0.0005": 1,
        "-0.0005": -1,
        "2.99949999999": 2999,
        "1.0000000000000000000000001": 1000,
        "1.7119646461234567e15": 1711964646123456700,
        "5e-05": 0,
        "25E-4": 3,
        "4611686018427387.903": 2**62 - 1,
        "-4611686018427387.903": 1 - 2**62,
        '" +.5 "': 500,
        '"007."': 7000,
        "1" + "0" * 15: 10**18,
        "0." + "9" * 5000: 1000,
    }
    found = read("[" + ",".join(f'{{"ts":{text}}}' for text in times) + "]")
    assert [event.time for event in found.events] == list(times.values())
    assert found.lost == {}


def test_long_texts_and_many_members() -> None:
    long = "n" * 3_000_000
    many = ",".join(f'"k{i}":{i}' for i in range(500))
    found = read(f'[{named(long)},{{"args":{{{many}}}}},{EVENT}]', 1 << 20)
    assert (len(found.names[0] or ""), found.names[1:], found.lost) == (3_000_000, [None, "aten::add"], {})
    assert found.events[1].arguments == "{" + many + "}"


def test_many_distinct_texts_and_events() -> None:
    count = 6_000
    texts = [
        f'{{"name":"n{i}","id":"x{i}","args":{{"v":"{i % 7000} {"y" * (i % 300)}","Ev Idx":{i}}}}}'
        for i in range(count)
    ]
    found = read(f"[{','.join(texts)}]", 1 << 20)
    assert found.names == [f"n{i}" for i in range(count)]
    assert [event.id for event in found.events] == [f"x{i}" for i in range(count)]
    assert [event.numbers for event in found.events] == [(("Ev Idx", i),) for i in range(count)]


def test_stream_errors_are_passed_on() -> None:
    class Broken(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object, /) -> int:
            raise UnreadableInput("gone")

    for read_events in (decode, scan_events_parallel):
        with pytest.raises(UnreadableInput, match="gone"):
            read_events(Broken())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("head", "is_trace", "keys"),
    [
        (b'{"schemaVersion": 1, "deviceProp', True, ["schemaVersion"]),
        (b'{"a": {"traceEvents": []}}', False, ["a"]),
        (b'  [ {"ph": "M", "na', True, []),
        (b'[{"x": 1}]', False, []),
        (b'{"traceEvents": [{"ph', True, ["traceEvents"]),
        ('{"distributedInfo": {"rank": 0}}'.encode("utf-16"), True, ["distributedInfo"]),
        (b"{", False, []),
        (b"main;f 3\n", False, []),
    ],
)
def test_traces_are_detected_by_their_beginning(head: bytes, is_trace: bool, keys: list[str]) -> None:
    assert (is_trace_json(head), find_top_keys(head)) == (is_trace, keys)


def nested(depth: int) -> str:
    return named("deep", pid="1", tid="1", ts="3", dur="2", args='{"a":' * depth + "1" + "}" * depth)


def test_events_after_deeply_nested_arguments_are_read() -> None:
    for depth in (65, 900):
        found = read(trace(nested(depth)))
        assert [event.name for event in found.events] == ["deep"] and documents.DAMAGED not in found.lost
    for depth in (1_500, 30_000):
        found = read(trace(EVENT, nested(depth), EVENT))
        assert len(found.events) == 2 and found.lost[documents.DAMAGED][0] == 1


def test_unreadable_trace_message_has_the_reason() -> None:
    text = trace(nested(grammar.MAX_DEPTH + 1))
    with pytest.raises(UnreadableInput, match=r"x has no readable event: .*nested deeper than 1,000.*first at byte"):
        chrome.read(io.BytesIO(text.encode()), "x")
    assert len(read(trace(EVENT, nested(grammar.MAX_DEPTH + 1), EVENT)).events) == 2
