"""Binaries that are damaged, stripped, rebuilt, or made to break their reader."""

from __future__ import annotations

import io
import os
import random
import subprocess
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from perfloom.ingest.machine_code.code_builder import CodeBuilder, ObjectFile, SourceText, deadline_after
from perfloom.ingest.machine_code.elf import is_same_build
from perfloom.ingest.machine_code.placement import base_word
from tests.support.machine_code import address_array, build_code, build_profile, compile_program, list_functions

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program("sum.c", tmp_path_factory.mktemp("code"), optimized=True)


@pytest.fixture(scope="module")
def starts(binary: Path) -> dict[str, int]:
    return {name: found[0] for name, found in list_functions(binary).items() if name in ("walk", "descend", "main")}


def test_without_debug_information_there_are_instructions_without_lines(
    binary: Path, starts: dict[str, int], tmp_path: Path
) -> None:
    stripped = tmp_path / "stripped"
    subprocess.run(["objcopy", "--strip-debug", str(binary), str(stripped)], check=True)
    code = build_code(build_profile(stripped, starts), stripped)
    assert code.objects.column("status").to_pylist() == ["no-lines"]
    assert code.symbols.num_rows == 3
    assert set(code.instructions.column("place").to_pylist()) == {-1}


def test_debug_information_may_be_in_a_file_of_the_same_build_id(
    binary: Path, starts: dict[str, int], tmp_path: Path
) -> None:
    stripped, debug = tmp_path / "stripped", tmp_path / "debug"
    subprocess.run(["objcopy", "--strip-all", str(binary), str(stripped)], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", str(binary), str(debug)], check=True)
    asked = []

    def find_debug(build_id: str) -> BinaryIO:
        asked.append(build_id)
        return io.BytesIO(debug.read_bytes())

    builder = CodeBuilder(
        lambda module: ObjectFile(io.BytesIO(stripped.read_bytes()), debug=find_debug),
        lambda path, module: SourceText(None),
        deadline_after(60),
    )
    code, whole = builder.build(build_profile(stripped, starts)), build_code(build_profile(binary, starts), binary)
    assert asked == whole.objects.column("build_id").to_pylist()
    assert code.objects.column("status").to_pylist() == ["complete"]
    for name in ("symbols", "instructions", "places"):
        assert code.tables()[name].equals(whole.tables()[name]), name


def test_without_symbols_nothing_is_shown(binary: Path, starts: dict[str, int], tmp_path: Path) -> None:
    stripped = tmp_path / "stripped"
    subprocess.run(["objcopy", "--strip-all", str(binary), str(stripped)], check=True)
    code = build_code(build_profile(stripped, starts), stripped)
    # Imported functions have names, but no code in this file.
    assert code.objects.column("status").to_pylist() == ["no-symbols"]
    assert code.instructions.num_rows == 0


def test_another_build_id_gives_no_lines(binary: Path, starts: dict[str, int]) -> None:
    code = build_code(build_profile(binary, starts), binary, build_id="0123456789abcdef")
    assert code.objects.column("status").to_pylist() == ["rebuilt"]
    assert code.instructions.num_rows == code.frames.num_rows == 0


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x02\x01\x01" + bytes(57)])
def test_other_files_are_no_binaries(content: bytes, starts: dict[str, int], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_bytes(content)
    code = build_code(build_profile(wrong, starts), wrong)
    assert code.objects.column("status").to_pylist()[0] in ("unreadable", "no-symbols")
    assert code.instructions.num_rows == 0


@pytest.mark.parametrize("seed", range(12))
def test_damaged_binaries_give_a_status(seed: int, binary: Path, starts: dict[str, int], tmp_path: Path) -> None:
    generator = random.Random(seed)
    data = bytearray(binary.read_bytes())
    # Headers and debug information, which begin after the code and end the file.
    for _ in range(200):
        place = generator.choice((generator.randrange(64, 800), generator.randrange(len(data) // 4, len(data))))
        data[place] = generator.randrange(256)
    damaged = tmp_path / "damaged"
    damaged.write_bytes(data)
    code = build_code(build_profile(damaged, starts), damaged)
    assert code.objects.num_rows == 1
    assert len(code.instructions) == len(address_array(code))
    places = np.array(code.instructions.column("place").to_pylist() or [-1])
    assert places.max() < code.places.num_rows


@pytest.mark.parametrize("kept", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_truncated_binaries_give_a_status(kept: float, binary: Path, starts: dict[str, int], tmp_path: Path) -> None:
    truncated = tmp_path / "truncated"
    data = binary.read_bytes()
    truncated.write_bytes(data[: int(len(data) * kept)])
    assert build_code(build_profile(truncated, starts), truncated).objects.num_rows == 1


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("main", "main"),
        ("work::Solver::run", "run"),
        ("work::Solver::run(int)", "run"),
        ("std::vector<int, std::allocator<int> >::push_back(int const&)", "push_back"),
        ("void std::__introsort_loop<f(int)::{lambda(double)#1}>(double)", "__introsort_loop"),
        ("core::ptr::drop_in_place<alloc::vec::Vec<f64>>", "drop_in_place"),
        ("<walk::Walk as core::fmt::Display>::fmt", "fmt"),
        ("walk::Walk::run::h0123456789abcdef", "run"),
        ("std::operator+", ""),
        ("puts@plt", "puts"),
        ("sort.constprop.0", "sort"),
        ("(anonymous namespace)::go", "go"),
    ],
)
def test_the_last_identifier_of_a_name(name: str, word: str) -> None:
    assert base_word(name) == word


def test_only_the_needed_parts_of_a_large_binary_are_read(binary: Path, starts: dict[str, int], tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(binary.read_bytes())
    os.truncate(large, 2 << 30)
    code, small = build_code(build_profile(large, starts), large), build_code(build_profile(binary, starts), binary)
    assert code.instructions.equals(small.instructions)


@pytest.mark.parametrize(
    ("build_id", "recorded", "same"),
    [
        ("ab" * 20, "ab" * 20, True),
        ("ab" * 32, "ab" * 20, True),
        ("ab" * 16, "ab" * 16 + "00" * 4, True),
        ("ab" * 16, "ab" * 16, True),
        ("ab" * 20, "cd" * 20, False),
        ("ab" * 16, "ab" * 20, False),
        (None, "ab" * 20, False),
    ],
)
def test_build_ids_are_compared_as_perf_records_them(build_id: str | None, recorded: str, same: bool) -> None:
    assert is_same_build(build_id, recorded) is same
