"""Modules of the kernel are relocatable files, whose lines are those of binutils."""

from __future__ import annotations

import lzma
import os
import subprocess
from pathlib import Path

import pytest
import zstandard

from perfloom.domain.schemas.code import Code
from perfloom.ingest.machine_code.code_builder import CodeBuilder, deadline_after
from perfloom.ingest.machine_code.elf_image import ElfImage
from perfloom.ingest.machine_code.linked_image import FIRST_ADDRESS
from perfloom.workers.read.binaries import Binaries
from tests.support.machine_code import (
    FOLDER,
    address_array,
    build_profile,
    list_calls,
    list_chain,
)
from tests.support.parts import require

LOADED = 0xFFFFFFFFC0200000
PACK = {".ko": bytes, ".ko.xz": lzma.compress, ".ko.zst": zstandard.compress}


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("module")
    (folder / "sum.c").write_bytes((FOLDER / "sum.c").read_bytes())
    path = folder / "sum.ko"
    options = ["-O2", "-g", "-r", "-nostdlib", "-Wl,--build-id"]
    subprocess.run([str(require("gcc")), *options, str(folder / "sum.c"), "-o", str(path)], check=True)
    return path


def read(path: Path, build_id: str, starts: dict[str, int]) -> Code:
    profile = build_profile(path, starts, moved=LOADED)
    files = Binaries({str(path): build_id}, False, None, False, os.devnull)
    return CodeBuilder(files.open_object, files.read_source, deadline_after(60)).build(profile)


@pytest.fixture(scope="module")
def starts(module: Path) -> dict[str, int]:
    text = subprocess.run(["nm", str(module)], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in text.splitlines())
    return {words[-1]: int(words[0], 16) for words in rows if words[-1] in ("walk", "descend")}


@pytest.mark.parametrize("ending", PACK)
def test_lines_of_a_module_are_those_of_binutils(module: Path, starts: dict[str, int], ending: str) -> None:
    with open(module, "rb") as file:
        build_id = ElfImage.read(file).build_id or ""
    packed = module.with_suffix(ending)
    packed.write_bytes(PACK[ending](module.read_bytes()))
    code = read(packed, build_id, starts)
    assert code.objects.to_pylist()[0]["status"] == "complete"
    assert code.symbols.column("name").to_pylist() == ["walk", "descend"]
    places = code.instructions.column("place").to_pylist()
    chains = [[(one.function, one.line) for one in list_chain(code, place)] for place in places]
    offsets = [int(address) - FIRST_ADDRESS for address in address_array(code)]
    expected = list_calls(module, offsets, ".text")
    assert chains == [[(one.function, one.line) for one in expected[offset]] for offset in offsets]
    assert ("step", 14) in [chain[0] for chain in chains]


def test_a_module_of_another_build_is_missing(module: Path, starts: dict[str, int]) -> None:
    code = read(module, "00" * 20, starts)
    assert code.objects.to_pylist()[0]["status"] == "missing" and not code.symbols.num_rows


@pytest.mark.parametrize("seed", range(15))
def test_damaged_relocations_lose_lines_at_most(module: Path, starts: dict[str, int], seed: int) -> None:
    with open(module, "rb") as file:
        image = ElfImage.read(file)
        build_id = image.build_id or ""
    chosen = [one for one in image.sections if one.name.startswith((b".rela", b".symtab"))]
    data = bytearray(module.read_bytes())
    for number in range(20):
        section = chosen[(seed + number) % len(chosen)]
        data[section.offset + (seed * 7919 + number * 104729) % section.size] = (seed * 31 + number * 17) % 256
    damaged = module.with_name("damaged.ko")
    damaged.write_bytes(data)
    code = read(damaged, build_id, starts)
    assert code.objects.to_pylist()[0]["status"] in ("complete", "no-lines", "no-symbols", "unreadable")
