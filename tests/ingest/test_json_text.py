"""Values of JSON, and errors of invalid JSON."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.ingest.json_text import NestedTooDeeply, parse_json, parse_json_file
from perfloom.ingest.trace.argument_values import parse_arguments
from perfloom.readers import cpuprofile, speedscope


def test_values_are_parsed() -> None:
    assert parse_json('{"a": [1]}') == {"a": [1]}
    assert parse_json_file(b'\xef\xbb\xbf{"a": 1}', "x", "Copy it again.") == {"a": 1}
    with pytest.raises(UnreadableInput, match=r"x is not complete JSON: .*\. Copy it again\."):
        parse_json_file(b'{"a": ', "x", "Copy it again.")


@pytest.mark.parametrize("read", [cpuprofile.read, speedscope.read])
def test_deep_nesting_is_not_reported_as_damage(read: Callable[..., Any]) -> None:
    deep = b'{"nodes":' + b"[" * 2000 + b"]" * 2000 + b"}"
    with pytest.raises(NestedTooDeeply):
        parse_json(deep)
    with pytest.raises(UnreadableInput, match="x is nested too deeply"):
        read(io.BytesIO(deep), "x")


@pytest.mark.parametrize(
    "parse",
    [parse_json, lambda text: parse_json_file(text.encode(), "x", ""), parse_arguments],
)
def test_lack_of_memory_is_not_reported_as_damage(monkeypatch: pytest.MonkeyPatch, parse: Callable[[str], Any]) -> None:
    def no_memory(text: object) -> None:
        raise orjson.JSONDecodeError("Not enough memory to allocate buffer for parsing", "", 0)

    monkeypatch.setattr(orjson, "loads", no_memory)
    with pytest.raises(MemoryError):
        parse("{}")
