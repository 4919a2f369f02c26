"""Programs in C, C++ and Rust, and what binutils say about their machine code."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Profile
from perfloom.domain.schemas.code import Code
from perfloom.ingest.machine_code.code_builder import CodeBuilder, ObjectFile, SourceText, deadline_after

FOLDER = Path(__file__).parent
COMPILERS = {
    "sum.c": ["gcc", "-lm", "-fno-omit-frame-pointer"],
    "sort.cpp": ["g++", "-fno-omit-frame-pointer"],
    "walk.rs": ["rustc", "-Cforce-frame-pointers=yes"],
}
OPTIONS = {
    ("gcc", False): ["-g", "-O0"],
    ("gcc", True): ["-g", "-O2"],
    ("rustc", False): ["-g"],
    ("rustc", True): ["-g", "-O"],
}
CODE_LINE = re.compile(r"^ *([0-9a-f]+):\t(.*)$", re.MULTILINE)
SYMBOL_LINE = re.compile(r"^([0-9a-f]+) <(.+)>:$", re.MULTILINE)


class Call(NamedTuple):
    """A line of a chain of inlined calls."""

    function: str
    file: str
    line: int


def compile_program(source: str, folder: Path, *, optimized: bool, extra: tuple[str, ...] = ()) -> Path:
    """Compile one of `COMPILERS` into `folder`. Skips the test without its compiler."""
    compiler, *options = COMPILERS[source]
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    kind = "rustc" if compiler == "rustc" else "gcc"
    out = folder / f"{source.replace('.', '-')}-{'fast' if optimized else 'plain'}"
    copy = folder / source
    if not copy.exists():
        shutil.copyfile(FOLDER / source, copy)
    subprocess.run([compiler, str(copy), "-o", str(out), *OPTIONS[kind, optimized], *options, *extra], check=True)
    return out


def list_functions(binary: Path) -> dict[str, list[int]]:
    """The addresses of the instructions of each function in .text, by objdump."""
    command = ["objdump", "-d", "-j", ".text", "--no-show-raw-insn", str(binary)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, list[int]] = {}
    for part in re.split(r"\n(?=[0-9a-f]+ <)", text)[1:]:
        match = SYMBOL_LINE.match(part)
        assert match is not None
        found[match[2]] = [int(line[0], 16) for line in CODE_LINE.findall(part) if line[1].strip() != "..."]
    return found


def list_calls(binary: Path, addresses: list[int], section: str = "") -> dict[int, list[Call]]:
    """The line of each address, innermost first, then those that called the inlined functions, by addr2line; none if it
    is unknown. section: of which the addresses are offsets."""
    command = ["addr2line", "-a", "-i", "-f", "-e", str(binary), *(("-j", section) if section else ())]
    asked = "\n".join(map(hex, addresses))
    text = subprocess.run(command, check=True, capture_output=True, text=True, input=asked).stdout
    found: dict[int, list[Call]] = {}
    for part in re.split(r"^(?=0x[0-9a-f]+$)", text, flags=re.MULTILINE)[1:]:
        first, *rest = part.splitlines()
        chain = []
        for function, place in zip(rest[::2], rest[1::2], strict=True):
            file, _, line = place.split(" (")[0].rpartition(":")
            chain.append(Call(function, file, int(line) if line.isdigit() else 0))
        found[int(first, 16)] = chain if chain[0].file != "??" else []
    return found


def build_profile(binary: Path, functions: dict[str, int], module: str | None = None, moved: int = 0) -> Profile:
    """A profile with one sample at the start of each function. moved: of the addresses in the process."""
    builder = ProfileBuilder("perf-script")
    event, thread = builder.intern_event("cpu-clock", "ns"), builder.intern_thread(pid=1, tid=1)
    for number, (name, start) in enumerate(functions.items()):
        function = builder.intern_function(name, str(binary) if module is None else module)
        frame = builder.intern_frame(function, address=start + moved, symbol_offset=0)
        builder.add_sample(number, thread, event, builder.intern_stack([frame]), 1)
    return builder.finish()


def build_code(profile: Profile, binary: Path, build_id: str | None = None) -> Code:
    """The code of a profile from one binary."""

    def open_object(module: str) -> ObjectFile:
        return ObjectFile(open(binary, "rb"), build_id=build_id)

    def read_source(path: str, module: str) -> SourceText:
        found = Path(path)
        return SourceText(found.read_text()) if found.is_file() else SourceText(None, "It is missing.")

    return CodeBuilder(open_object, read_source, deadline_after(120)).build(profile)


def list_chain(code: Code, place: int) -> list[Call]:
    """A row of `places` as `list_calls` has it."""
    chain = []
    while place >= 0:
        row = {name: code.places.column(name)[place].as_py() for name in code.places.column_names}
        chain.append(Call(row["function"], code.files.column("path")[row["file"]].as_py(), row["line"]))
        place = row["parent"]
    return chain


def address_array(code: Code) -> np.ndarray:
    """The addresses of all instructions."""
    return code.instructions.column("address").to_numpy()
