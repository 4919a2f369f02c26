"""Pickles are read without being run: their values, refused opcodes, and bombs."""

import io
import os
import pickle
import pickletools
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.readers.memory_snapshot import pickle_machine as machine
from perfloom.readers.memory_snapshot import pickle_tape

VALUES: list[Any] = [
    [None, True, False, 0, 255, 256, 65535, 65536, -1, -129, 2**31 - 1, -(2**31), 2**40, -(2**40), 2**63 - 1, -(2**63)],
    [1.5, -0.0, 1e300, "", "a", "é" * 300, "\x00\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace")],
    [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], {}, [[[]]]],
    {"a": 1, "b": {"c": [1, {"d": (1, 2, 3, 4, 5)}]}},
    list(range(3000)),
    {str(n): n for n in range(2500)},
]


def value_of(tape: pickle_tape.Tape, node: int) -> Any:
    """A value of a tape as Python has it."""
    kind, value = int(tape.kind[node]), int(tape.value[node])
    if kind <= machine.TRUE:
        return (None, False, True)[kind]
    if kind == machine.INT:
        return value
    if kind == machine.FLOAT:
        return struct.unpack("<d", struct.pack("<q", value))[0]
    if kind == machine.TEXT:
        return tape.get_words()[int(tape.code_of(np.array([node]))[0])]
    if kind == machine.BIG:
        return "beyond 64 bits"
    members = [value_of(tape, int(one)) for one in tape.get_members(node)]
    if kind == machine.DICT:
        return dict(zip(members[::2], members[1::2], strict=True))
    return members if kind == machine.LIST else tuple(members)


def read(data: bytes) -> pickle_tape.Tape:
    """The tape of a pickle."""
    return pickle_tape.read(io.BytesIO(data), "snapshot.pickle")


def test_plain_values_in_every_protocol() -> None:
    """Text, numbers of all widths, containers filled in several parts, and shared values."""
    shared = ["x", 1]
    for protocol in range(2, 6):
        for value in [*VALUES, [shared, shared, {"k": shared}]]:
            tape = read(pickle.dumps(value, protocol))
            assert tape.complete and tape.root is not None
            assert value_of(tape, tape.root) == value
        tape = read(pickle.dumps([2**63, -(2**63) - 1, 2**2040], protocol))
        assert tape.root is not None and value_of(tape, tape.root) == ["beyond 64 bits"] * 3


def test_values_of_pytorch_pickler() -> None:
    """Its Pickler fills a list of any length at once, and puts containers into the memo after they are filled."""
    data = b"\x80\x02}(X\x04\x00\x00\x00listq\x00](" + b"K\x01" * 3000 + b"e" + b"q\x01X\x04\x00\x00\x00moreh\x01u."
    tape = read(data)
    assert tape.root is not None and value_of(tape, tape.root) == {"list": [1] * 3000, "more": [1] * 3000}


class _Runs:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def test_hostile_pickle_runs_nothing(tmp_path: Path) -> None:
    """In every protocol, with the executable part first, within a snapshot, or after many other values."""
    touched = tmp_path / "touched"
    bad = _Runs(f"touch {touched}")
    for protocol in range(6):
        for value in (bad, {"segments": [], "device_traces": [[bad]]}, [list(range(100_000)), bad]):
            with pytest.raises(UnreadableInput, match=r"reads only lists, dicts, strings and numbers"):
                read(pickle.dumps(value, protocol))
    assert not touched.exists()


def test_other_opcodes_are_refused() -> None:
    """All opcodes of pickletools, by name; and bytes that are no opcode."""
    admitted = re.findall(
        r"\w+",
        "BININT BININT1 BININT2 LONG1 LONG4 NONE NEWTRUE NEWFALSE BINFLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 "
        "EMPTY_LIST APPEND APPENDS LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT SETITEM SETITEMS "
        "POP DUP MARK POP_MARK BINGET LONG_BINGET BINPUT LONG_BINPUT MEMOIZE PROTO FRAME STOP",
    )
    refused = [op for op in pickletools.opcodes if op.name not in admitted]
    assert {"GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"} <= {
        o.name for o in refused
    }
    assert {"EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER", "BYTEARRAY8"} <= {o.name for o in refused}
    for op in refused:
        with pytest.raises(UnreadableInput, match=rf"has the opcode {op.name} at byte 4"):
            read(b"\x80\x04K\x01" + op.code.encode("latin-1") + b"\x01" * 16)
    with pytest.raises(UnreadableInput, match="unknown opcode"):
        read(b"\x80\x04\xff")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x80\x09N.", "protocol 9"),
        (b"\x80\x04.", "does not exist"),
        (b"\x80\x04e", "does not exist"),
        (b"\x80\x04(e", "does not exist"),
        (b"\x80\x04\x86", "does not exist"),
        (b"\x80\x04](\x85", "does not exist"),
        (b"\x80\x04N0" + b"0", "does not exist"),
        (b"\x80\x04(0", "does not exist"),
        (b"\x80\x04h\x05", "memo entry 5, which does not exist"),
        (b"\x80\x04Nr\xff\xff\xff\x7f.", "memo entry 2,147,483,647"),
        (b"\x80\x04K\x01(K\x02e", "not a container"),
        (b"\x80\x04}(K\x02u", "not a container"),
        (b"\x80\x04)K\x01a", "not a container"),
        (b"\x80\x04X\xff\xff\xff\x7f", "has a value of 2,147,483,652 bytes"),
        (b"\x80\x04\x8d" + b"\xff" * 8, "BINUNICODE8"),
        (b"\x80\x04\x8b\xff\xff\xff\xff", "LONG4"),
        (b"\x80\x04\x8b\x00\x00\x00\x70", "has a value"),
    ],
)
def test_malformed_pickle_message_has_the_position(data: bytes, told: str) -> None:
    """Announced sizes allocate no memory."""
    with pytest.raises(UnreadableInput, match=told) as raised:
        read(data)
    assert "snapshot.pickle" in raised.value.message


def test_bombs_take_bounded_memory() -> None:
    """A list of lists of lists that represent 10^24 values, one nested 300,000 deep, and one that contains itself."""
    laughs: Any = ["ha"]
    for _ in range(24):
        laughs = [laughs] * 10
    tape = read(pickle.dumps(laughs))
    assert len(tape.kind) - machine.FIRST == 26
    deep = read(b"\x80\x04" + b"](" * 300_000 + b"e" * 300_000 + b".")
    assert len(deep.kind) - machine.FIRST == 300_000
    own: list[Any] = []
    own.append(own)
    tape = read(pickle.dumps(own))
    assert tape.root is not None and tape.get_members(tape.root).tolist() == [tape.root]


@pytest.mark.parametrize("key", [b")" + b"\x85" * 1_000_000, b")" + b"2\x86" * 60], ids=["nested", "shared"])
def test_keys_are_not_hashed(key: bytes) -> None:
    """Hashing a tuple with a depth of a million overflows the C stack; hashing one of 2^60 members never ends."""
    tape = read(b"\x80\x04}" + key + b"K\x07s.")
    assert tape.root is not None and len(tape.kind) - machine.FIRST == 1 + 1 + key.count(b"\x85") + key.count(b"\x86")
    assert tape.get_numbers(tape.get_members(tape.root)[1:], -1).tolist() == [7]


def test_shared_dict_is_read_once() -> None:
    """A hundred thousand keys in one dict that is referenced a hundred thousand times: not 10^10 reads."""
    large = {str(n): n for n in range(100_000)}
    tape = read(pickle.dumps([large] * 100_000))
    assert tape.root is not None
    found = tape.get_dict_values(tape.get_members(tape.root), ("99999", "none"))
    assert set(tape.get_numbers(found["99999"], -5).tolist()) == {99_999}
    assert set(found["none"].tolist()) == {-1}


def test_repeated_key_has_its_last_value() -> None:
    tape = read(b"\x80\x04}(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00aK\x02uX\x01\x00\x00\x00aK\x03s.")
    assert tape.root is not None
    assert tape.get_numbers(tape.get_dict_values(np.array([tape.root]), ("a",))["a"], 0).tolist() == [3]


def test_truncated_pickle_keeps_its_values() -> None:
    """At every byte: a prefix of the values is read, or none."""
    whole = {"first": [{"a": n, "b": [n, (n, n)]} for n in range(3)], "second": "text"}
    data = pickle.dumps(whole)
    for length in range(2, len(data) - 1):
        tape = read(data[:length])
        assert not tape.complete
        if tape.root is None:
            continue
        kept = value_of(tape, tape.root)
        assert isinstance(kept, dict) and list(kept) in ([], ["first"], ["first", "second"])
        for full, part in zip(whole["first"], kept.get("first", []), strict=False):
            assert isinstance(full, dict) and set(part) <= set(full)
    assert list(value_of(read(data[: len(data) - 20]), machine.FIRST)["first"][2]) == ["a", "b"]


def test_compiled_and_plain_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and in blocks that end anywhere."""
    data = pickle.dumps([VALUES, [{"a": n, "b": f"text {n}", "c": (n, -n, n << 33)} for n in range(400)]], 4)
    plain = read(data)
    monkeypatch.setattr(pickle_tape, "FEW_BYTES", 0)
    monkeypatch.setattr(pickle_tape, "BLOCK_BYTES", 7)
    compiled = read(data)
    for name in ("kind", "value", "items", "chunk_start", "chunk_count", "arena", "texts"):
        assert np.array_equal(getattr(plain, name), getattr(compiled, name)), name
