"""Functions that were read before are taken from the cache, with the same code and lines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from perfloom.domain.schemas.code import Code
from perfloom.ingest.machine_code.code_builder import CodeBuilder, deadline_after
from perfloom.ingest.machine_code.elf_image import ElfImage
from perfloom.store.files import known_code
from perfloom.workers.read.binaries import Binaries
from tests.support.machine_code import build_profile, compile_program, list_chain, list_functions

OUT_OF_TIME = "Its debug information was not read completely, because that takes too long."


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program("sum.c", tmp_path_factory.mktemp("program"), optimized=True)


@pytest.fixture(scope="module")
def starts(program: Path) -> dict[str, int]:
    return {name: found[0] for name, found in list_functions(program).items()}


class Reader:
    """Reads functions of a program, with a cache or without."""

    def __init__(self, program: Path, starts: dict[str, int], cache: Path | None) -> None:
        self.program, self.starts, self.cache = program, starts, cache
        with open(program, "rb") as file:
            self.build_id = ElfImage.read(file).build_id or ""

    def read(self, *names: str, seconds: float = 60) -> Code:
        """seconds: of CPU time for debug information; what is below 0 suffices only where none is read."""
        profile = build_profile(self.program, {name: self.starts[name] for name in names})
        files = Binaries({str(self.program): self.build_id}, False, None, False, os.devnull, lines=self.cache)
        return CodeBuilder(files.open_object, files.read_source, deadline_after(seconds)).build(profile)

    @property
    def files(self) -> list[Path]:
        assert self.cache is not None
        return list(self.cache.glob("*/*"))


@pytest.fixture
def cached(program: Path, starts: dict[str, int], tmp_path: Path) -> Reader:
    return Reader(program, starts, tmp_path / "lines")


@pytest.fixture
def plain(program: Path, starts: dict[str, int]) -> Reader:
    return Reader(program, starts, None)


def describe(code: Code) -> list[Any]:
    """What a page shows of all instructions; the binary; its source files."""
    names = [code.symbols.column("name")[row].as_py() for row in code.instructions.column("symbol").to_pylist()]
    rows = code.instructions.drop_columns(["symbol", "place"]).to_pylist()
    chains = [list_chain(code, place) for place in code.instructions.column("place").to_pylist()]
    return [list(zip(names, rows, chains, strict=True)), code.objects.to_pylist(), set(code.files["path"].to_pylist())]


def test_known_functions_are_not_read_again(cached: Reader, plain: Reader) -> None:
    fresh = describe(plain.read("walk", "main"))
    assert describe(cached.read("walk", "main")) == fresh
    assert describe(cached.read("walk", "main", seconds=-1)) == fresh
    assert describe(cached.read("main", seconds=-1)) == describe(plain.read("main"))


def test_other_functions_are_added(cached: Reader, plain: Reader) -> None:
    cached.read("main")
    assert describe(cached.read("walk", "main", "_start")) == describe(plain.read("walk", "main", "_start"))
    cached.read("descend")
    everything = ("_start", "descend", "main", "walk")
    assert describe(cached.read(*everything, seconds=-1)) == describe(plain.read(*everything))
    assert len(cached.files) == 1


def test_what_could_not_be_read_is_read_later(cached: Reader, plain: Reader) -> None:
    (known,) = cached.read("walk", seconds=-1).objects.to_pylist()
    assert known["detail"] == OUT_OF_TIME
    assert describe(cached.read("walk")) == describe(plain.read("walk"))


def test_a_changed_file_is_another_one(cached: Reader, plain: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_code, "MAX_STATES", 2)
    for seconds in range(3):
        os.utime(cached.program, (1000 + seconds, 1000 + seconds))
        assert cached.read("walk", seconds=-1).objects.to_pylist()[0]["detail"] == OUT_OF_TIME
        cached.read("walk")
    assert len(cached.files) == 2


def test_what_another_version_has_read_is_not_used(cached: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    cached.read("walk")
    monkeypatch.setattr(known_code, "_hash_readers", lambda: b"another version")
    assert cached.read("walk", seconds=-1).objects.to_pylist()[0]["detail"] == OUT_OF_TIME


@pytest.mark.parametrize("damage", ["empty", "cut", "zeros", "swapped", "renamed", "flipped"])
def test_a_damaged_cache_is_replaced(cached: Reader, plain: Reader, damage: str) -> None:
    fresh = describe(cached.read("walk", "main"))
    (file,) = cached.files
    data = file.read_bytes()
    damaged = {
        "empty": b"",
        "cut": data[: len(data) // 2],
        "zeros": bytes(len(data)),
        "swapped": data[8:] + data[:8],
        "renamed": data.replace(b"walk", b"talk"),
        "flipped": bytes([*data[:-1], data[-1] ^ 1]),
    }
    file.write_bytes(damaged[damage])
    assert describe(cached.read("walk", "main")) == fresh
    assert describe(cached.read("walk", "main", seconds=-1)) == fresh


def test_without_room_nothing_is_kept(cached: Reader, plain: Reader) -> None:
    assert cached.cache is not None
    cached.cache.write_text("no directory")
    assert describe(cached.read("walk")) == describe(plain.read("walk"))
