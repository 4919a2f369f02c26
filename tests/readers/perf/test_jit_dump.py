"""Code of just-in-time compilers has the names and times that `perf inject --jit` gives it."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from perfloom.domain.profile import Profile
from perfloom.domain.tables import FrameKind
from perfloom.ingest.perf_records.losses import UNTIMED_CODE
from perfloom.workers.read.record_reading import read_records
from perfloom.workers.read.request import SymbolPlaces
from tests.support.parts import require, require_reference_perf
from tests.support.samples import samples_of

MAX_BYTES = 1 << 30
NAMES = ("first", "Ljava/lang/StringLatin1;equals([B[B)Z", "_ZN4core3runEi")
SHOWN = ("first", "java.lang.StringLatin1.equals(byte[], byte[])", "core::run")
COMPILER = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static FILE *dump;
static const uint8_t LOOP[] = {0x48, 0xc7, 0xc1, 0x00, 0x00, 0x00, 0x01, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0xc3};
static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}
static void begin(uint32_t kind, uint32_t bytes) {
    struct { uint32_t kind, size; uint64_t time; uint32_t pid, tid; } head = {kind, 24 + bytes, now(), getpid(), getpid()};
    fwrite(&head, sizeof head, 1, dump);
}
static void load(void *at, const char *name, uint64_t index) {
    memcpy(at, LOOP, sizeof LOOP);
    begin(0, 32 + strlen(name) + 1 + sizeof LOOP);
    fwrite((uint64_t[]){(uintptr_t)at, (uintptr_t)at, sizeof LOOP, index}, 32, 1, dump);
    fwrite(name, strlen(name) + 1, 1, dump);
    fwrite(LOOP, sizeof LOOP, 1, dump);
}
static void move(void *from, void *to, uint64_t index) {
    memcpy(to, from, sizeof LOOP);
    begin(1, 40);
    fwrite((uint64_t[]){(uintptr_t)to, (uintptr_t)from, (uintptr_t)to, sizeof LOOP, index}, 40, 1, dump);
}
static volatile int calls;
__attribute__((noinline)) static void run(void *code) { ((void (*)(void))code)(); calls++; }
int main(void) {
    char name[40];
    sprintf(name, "jit-%d.dump", getpid());
    dump = fopen(name, "w+");
    struct { uint32_t magic, version, size, machine, pad, pid; uint64_t time, flags; } head =
        {0x4A695444, 1, 40, 62, 0, getpid(), now(), 0};
    fwrite(&head, sizeof head, 1, dump);
    fflush(dump);
    mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0);
    char *memory = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    load(memory, "first", 1);
    run(memory);
    load(memory, "Ljava/lang/StringLatin1;equals([B[B)Z", 2);
    run(memory);
    load(memory + 4096, "_ZN4core3runEi", 3);
    run(memory + 4096);
    move(memory, memory + 64, 2);
    run(memory + 64);
    fclose(dump);
}
"""


def record(folder: Path, *options: str) -> Path:
    """A recording of a program that loads code three times, twice at the same address, and moves it once."""
    if platform.machine() != "x86_64":
        pytest.skip("the machine code is for x86-64")
    program, path = folder / "compiler", folder / "perf.data"
    argv = [require("gcc"), "-O1", "-fno-omit-frame-pointer", "-x", "c", "-o", program, "-"]
    subprocess.run(argv, input=COMPILER, text=True, check=True)
    perf = [require("perf"), "record", "-q", "-e", "cpu-clock:u", "-F", "2999", *options, "-o", path, program]
    subprocess.run(perf, check=True, cwd=folder)
    return path


def read(path: Path, stored: Path | None = None) -> Profile:
    out = path.with_suffix(".again" if stored else ".symbols")
    return read_records(path, stored, out, None, MAX_BYTES, SymbolPlaces())


def list_stacks(profile: Profile) -> list[list[tuple[str, int | None]]]:
    return [[(frame.name, frame.offset) for frame in sample.stack] for sample in samples_of(profile)]


def read_injected(path: Path) -> Profile:
    """What perf script prints after `perf inject --jit`."""
    from perfloom.readers import perf_script

    injected = path.with_name("injected.data")
    perf = require_reference_perf()
    subprocess.run([perf, "inject", "--jit", "-i", path, "-o", injected], check=True, cwd=path.parent)
    printed = subprocess.run([perf, "script", "-i", injected], check=True, capture_output=True, cwd=path.parent)
    text = path.with_suffix(".txt")
    text.write_bytes(printed.stdout)
    with open(text, "rb") as stream:
        return perf_script.read(stream)


def test_code_has_its_name_at_each_time(tmp_path: Path) -> None:
    path = record(tmp_path, "-g", "-k", "mono")
    profile = read(path)
    stacks = list_stacks(profile)
    assert stacks == list_stacks(read_injected(path))
    inner = [stack[-1][0] for stack in stacks if stack[-1][0] in SHOWN]
    # The moved code keeps its name.
    assert list(dict.fromkeys(inner)) == list(SHOWN)
    assert inner[-1] == SHOWN[1]
    frames = {frame.name: frame for sample in samples_of(profile) for frame in sample.stack}
    assert frames["first"].kind == FrameKind.JIT
    dump = next(tmp_path.glob("jit-*.dump"))
    assert frames["first"].module == str(dump)
    dump.unlink()
    assert list_stacks(read(path, path.with_suffix(".symbols"))) == stacks


def test_without_that_clock_code_has_the_name_of_the_last_at_its_address(tmp_path: Path) -> None:
    profile = read(record(tmp_path))
    names = {frame.name for sample in samples_of(profile) for frame in sample.stack}
    assert names & set(SHOWN) == {"core::run", SHOWN[1]}
    losses = [row for row in profile.losses.to_pylist() if row["reason"] == UNTIMED_CODE]
    assert [row["count"] for row in losses] == [4]
    assert "-k mono" in losses[0]["example"]
