"""Symbols of ELF files that gcc wrote, compared with those of nm, and of damaged ones."""

from __future__ import annotations

import io
import lzma
import random
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.ingest.machine_code.elf_image import ElfImage
from perfloom.ingest.symbols.elf_symbols import read_elf_symbols, read_plt_symbols
from perfloom.ingest.symbols.perf_names import PerfNames
from perfloom.ingest.symbols.symbol_table import SymbolTable
from tests.support.parts import require

SOURCE = """
static int table[4] = {1, 2, 3, 4};
__attribute__((noinline)) static int local(int at) { return table[at & 3]; }
__attribute__((weak, noinline)) int overridden(int at) { return local(at) + 1; }
int exported(int at) { return overridden(at) * 2; }
int exported_alias(int at) __attribute__((alias("exported")));
void _start(void) { for (int at = 0;; at++) exported(at); }
__asm__(".text\\n.globl label\\nlabel: nop\\nnop\\n.type sized, @function\\nsized: nop\\n.size sized, 1\\n");
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elf")
    (path / "source.c").write_text(SOURCE)
    return path


def link(folder: Path, *options: str) -> Path:
    """A program without libraries."""
    out = folder / f"program{''.join(options)}"
    argv = [str(require("gcc")), "-O1", "-nostdlib", "-static", *options, str(folder / "source.c"), "-o", str(out)]
    subprocess.run(argv, check=True, capture_output=True)
    return out


def read_image(data: bytes) -> ElfImage:
    return ElfImage.read(io.BytesIO(data))


def find(table: SymbolTable, offsets: list[int]) -> list[str | None]:
    names = PerfNames()
    rows = table.find(np.array(offsets, np.uint64), names.format).tolist()
    return [names.format(table.name_of(row)) if row >= 0 else None for row in rows]


def list_functions(path: Path) -> dict[str, int]:
    """Addresses as nm prints them."""
    text = subprocess.run(["nm", str(path)], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return {name: int(address, 16) for address, kind, name in rows if kind in "tTwWV"}


@pytest.mark.parametrize("options", [(), ("-m32",), ("-Wl,-Ttext=0x7000000",)], ids=lambda value: " ".join(value))
def test_functions_are_found_by_offset_in_the_file(options: tuple[str, ...], folder: Path) -> None:
    path = link(folder, *options)
    image = read_image(path.read_bytes())
    assert image.is_64 == ("-m32" not in options)
    functions = list_functions(path)
    text = image.find_section(b".text")
    assert text is not None
    table = read_elf_symbols(image)
    for name in ("local", "overridden", "_start", "label", "sized"):
        offset = functions[name] - text.addr + text.offset
        assert find(table, [offset]) == [name]
    # Of two names with equal binding, the longer one.
    assert find(table, [functions["exported"] - text.addr + text.offset]) == ["exported_alias"]
    label = functions["label"] - text.addr + text.offset
    assert find(table, [label + 1, label + 2]) == ["label", "sized"]


def test_the_build_id_is_that_of_readelf(folder: Path) -> None:
    path = link(folder, "-Wl,--build-id=0x0123456789abcdef")
    assert read_image(path.read_bytes()).build_id == "0123456789abcdef"
    assert read_image(link(folder, "-Wl,--build-id=none").read_bytes()).build_id is None


def test_a_debug_file_names_functions_of_the_stripped_program(folder: Path) -> None:
    path, stripped, debug = link(folder), folder / "stripped", folder / "debug"
    subprocess.run(["objcopy", "--strip-all", str(path), str(stripped)], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", str(path), str(debug)], check=True)
    program = read_image(stripped.read_bytes())
    text = program.find_section(b".text")
    assert text is not None
    assert len(read_elf_symbols(program)) == 0
    offset = list_functions(path)["local"] - text.addr + text.offset
    assert find(read_elf_symbols(program, read_image(debug.read_bytes())), [offset]) == ["local"]


def add_mini_debug_info(path: Path, folder: Path, data: bytes) -> ElfImage:
    out = folder / "mini"
    (folder / "packed").write_bytes(data)
    section = f".gnu_debugdata={folder / 'packed'}"
    subprocess.run(["objcopy", "--strip-all", "--add-section", section, str(path), str(out)], check=True)
    return read_image(out.read_bytes())


def test_mini_debug_info_names_functions(folder: Path) -> None:
    path, symbols = link(folder), folder / "symbols"
    subprocess.run(["objcopy", "--only-keep-debug", str(path), str(symbols)], check=True)
    program = add_mini_debug_info(path, folder, lzma.compress(symbols.read_bytes()))
    text = program.find_section(b".text")
    assert text is not None
    offset = list_functions(path)["local"] - text.addr + text.offset
    assert find(read_elf_symbols(program), [offset]) == ["local"]


@pytest.mark.parametrize("data", [b"", b"rubbish", lzma.compress(b"no ELF file"), lzma.compress(bytes(1000))[:40]])
def test_damaged_mini_debug_info_names_nothing(data: bytes, folder: Path) -> None:
    assert len(read_elf_symbols(add_mini_debug_info(link(folder), folder, data or b"\0"))) == 0


def test_compressed_data_is_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, symbols = link(folder), folder / "symbols"
    subprocess.run(["objcopy", "--only-keep-debug", str(path), str(symbols)], check=True)
    monkeypatch.setattr("perfloom.ingest.symbols.elf_symbols.MAX_MINI_BYTES", 2000)
    program = add_mini_debug_info(path, folder, lzma.compress(symbols.read_bytes() + bytes(10_000_000)))
    # Of the file only the beginning is read, which has no table of sections.
    assert len(read_elf_symbols(program)) == 0


def test_damaged_files_give_symbols_or_an_error(folder: Path) -> None:
    whole = link(folder).read_bytes()
    chosen = random.Random(18)
    for at in range(0, len(whole), max(1, len(whole) // 150)):
        read_anything(whole[:at])
    for _ in range(300):
        data = bytearray(whole)
        # The ELF header, the sections at the end, and anything.
        for low, high in ((16, 64), (len(data) - 900, len(data)), (0, len(data))):
            place = chosen.randrange(low, high)
            data[place] = chosen.choice((0, 1, 0x7F, 0x80, 0xFF, chosen.randrange(256)))
        read_anything(bytes(data))
    huge = bytearray(whole)
    struct.pack_into("<Q", huge, 40, 2**64 - 1)
    read_anything(bytes(huge))


def read_anything(data: bytes) -> None:
    """Everything that is read of a file, which may be damaged."""
    try:
        image = read_image(data)
    except UnreadableInput:
        return
    offsets = list(range(0, 0x4000, 0x80))
    assert len(find(read_elf_symbols(image), offsets)) == len(offsets)
    find(read_plt_symbols(image), offsets)
    assert image.build_id is None or len(image.build_id) < 2**17
    assert image.debug_link is None


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"\x7fELF\2\1\1" + bytes(20), b"\x7fELF\3\1" + bytes(100), b"#!/bin/sh\n" * 9]
)
def test_other_files_are_rejected(data: bytes) -> None:
    with pytest.raises(UnreadableInput):
        read_image(data)
