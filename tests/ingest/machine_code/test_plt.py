"""Entries of the procedure linkage table, compared with those of objdump."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.ingest.machine_code.elf import Binary, open_binary
from tests.support.machine_code import build_code, build_profile

pytestmark = pytest.mark.heavy
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **words) {
    char *text = malloc(100);
    strcpy(text, words[0]);
    puts(text);
    free(text);
    return atoi(words[count - 1]);
}
"""
ENTRY = re.compile(r"^([0-9a-f]+) <(\S+@plt)>:", re.MULTILINE)
X86, ARM = ("gcc", "objdump"), ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-objdump")
LINKING = [
    (X86, ()),
    (X86, ("-Wl,-z,lazy",)),
    (X86, ("-Wl,-z,now",)),
    (X86, ("-Wl,-z,ibtplt", "-Wl,-z,lazy", "-fcf-protection=full")),
    (X86, ("-Wl,-z,ibtplt", "-Wl,-z,now", "-fcf-protection=full")),
    (X86, ("-no-pie",)),
    (ARM, ()),
    (ARM, ("-Wl,-z,force-bti", "-mbranch-protection=bti")),
]


def link(folder: Path, tools: tuple[str, str], options: tuple[str, ...]) -> Path:
    """A program that calls functions of libc. Skips the test without the tools."""
    if any(shutil.which(tool) is None for tool in tools):
        pytest.skip(f"{tools[0]} is not installed")
    source, out = folder / "calls.c", folder / "calls"
    source.write_text(SOURCE)
    subprocess.run([tools[0], "-O1", *options, str(source), "-o", str(out)], check=True, capture_output=True)
    return out


def opened(path: Path) -> Binary:
    with open(path, "rb") as file:
        return open_binary(file)


@pytest.mark.parametrize(("tools", "options"), LINKING, ids=lambda value: " ".join(value))
def test_entries_are_those_of_objdump(tools: tuple[str, str], options: tuple[str, ...], tmp_path: Path) -> None:
    path = link(tmp_path, tools, options)
    symbols = opened(path).symbols
    starts = symbols.start.tolist()
    own = {start: symbols.name_of(row) for row, start in enumerate(starts) if symbols.name_of(row).endswith("@plt")}
    text = subprocess.run([tools[1], "-d", str(path)], check=True, capture_output=True, text=True).stdout
    assert own == {int(address, 16): name for address, name in ENTRY.findall(text)}
    assert {"puts@plt", "malloc@plt"} <= set(own.values())
    for low, high in zip(symbols.end.tolist(), starts[1:], strict=False):
        assert low <= high, "functions overlap"


def test_calls_name_entries_and_entries_have_instructions(tmp_path: Path) -> None:
    path = link(tmp_path, *LINKING[0])
    symbols = opened(path).symbols
    start = {symbols.name_of(row): start for row, start in enumerate(symbols.start.tolist())}
    code = build_code(build_profile(path, {name: start[name] for name in ("main", "puts@plt")}, moved=1 << 40), path)
    assert set(code.symbols.column("name").to_pylist()) == {"main", "puts@plt"}
    texts = code.instructions.column("text").to_pylist()
    assert any("<puts@plt>" in text for text in texts)
    assert any(text.startswith("jmpq") for text in texts)


@pytest.mark.parametrize("seed", range(10))
def test_damaged_tables_give_symbols_or_the_expected_error(seed: int, tmp_path: Path) -> None:
    path = link(tmp_path, *LINKING[0])
    data = bytearray(path.read_bytes())
    generator = random.Random(seed)
    for _ in range(300):
        data[generator.randrange(64, len(data))] = generator.randrange(256)
    path.write_bytes(data)
    try:
        symbols = opened(path).symbols
    except UnreadableInput:
        return
    assert all(isinstance(symbols.name_of(row), str) for row in range(len(symbols.start)))
