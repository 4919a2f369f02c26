"""Symbols of recorded programs, compared with those that perf prints, and never those of other files."""

from __future__ import annotations

import bisect
import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from perfloom.ingest.machine_code.elf_image import ElfImage
from perfloom.ingest.perf_records.code_objects import CodeObject, ObjectKind, SymbolNames, SymbolSource
from perfloom.store.files.binary_cache import BinaryFolder, FileKind
from perfloom.workers.read import binaries, symbol_files
from perfloom.workers.read.symbol_files import make_symbol_files, make_symbol_source
from tests.support.parts import require, require_reference_perf

pytestmark = pytest.mark.heavy
C = """
#include <stdlib.h>
#include <string.h>
int main(int count, char **words) {
    volatile long sum = 0;
    char text[64];
    for (long at = 0; at < 2000000; at++) {
        sum += strlen(words[0]) + rand();
        memset(text, (int)at, count * 4);
    }
    return 0;
}
"""
CPP = """
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>
namespace shapes {
template <class T, int N> struct Box {
    T v[N];
    __attribute__((noinline)) T sum(std::function<T(T, const T &)> f) const {
        T s{};
        for (auto &x : v) s = f(s, x);
        return s;
    }
    __attribute__((noinline)) Box operator+(const Box &o) const {
        Box b = *this;
        for (int i = 0; i < N; i++) b.v[i] += o.v[i] / 3;
        return b;
    }
};
namespace {
__attribute__((noinline)) int hidden(std::map<std::string, int> &m) {
    int s = 0;
    for (int n = 0; n < 30; n++)
        for (auto &[k, x] : m) s += x + k.size();
    return s;
}
}
template <class... A> __attribute__((noinline)) auto variadic(A &&...a) -> decltype((a + ...)) {
    volatile double s = 0;
    for (int i = 0; i < 300; i++) s += (a + ...);
    return (a + ...);
}
}
int main() {
    shapes::Box<double, 16> b{};
    std::map<std::string, int> m;
    for (int i = 0; i < 100; i++) m[std::to_string(i)] = i;
    double t = 0;
    std::vector<int> v(300);
    for (int r = 0; r < 1500; r++) {
        t += b.sum([&](double x, const double &y) { return x + y + r; });
        for (int i = 0; i < 60; i++) b = b + b;
        t += shapes::hidden(m) + shapes::variadic(1, 2.0, 3L, r);
        for (int i = 0; i < 300; i++) v[i] = (i * 7919 + r) % 1000;
        std::sort(v.begin(), v.end(), [](int a, int c) { return a > c; });
    }
    return t == 1;
}
"""
RUST = """
use std::collections::HashMap;
#[inline(never)]
fn work<T: Into<f64> + Copy>(v: &[T]) -> f64 {
    v.iter().map(|x| { let y: f64 = (*x).into(); y.sqrt().sin() }).sum()
}
trait Shape { fn area(&self) -> f64; }
struct Square(f64);
impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> f64 { (0..200).map(|i| (self.0 + i as f64).sqrt()).sum() }
}
fn main() {
    let mut m: HashMap<String, f64> = HashMap::new();
    let v: Vec<f32> = (0..300).map(|x| x as f32).collect();
    let s: Vec<Box<dyn Shape>> = vec![Box::new(Square(1.0))];
    for i in 0..10000 { *m.entry(format!("k{}", i % 977)).or_insert(0.0) += work(&v) + s[0].area(); }
    let mut k: Vec<_> = m.into_iter().collect();
    k.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap());
    std::process::exit((k.len() != 977) as i32);
}
"""
PROGRAMS = {
    "c": (C, ("gcc", "-O1", "-fno-builtin", "-x", "c")),
    "cpp": (CPP, ("g++", "-std=c++17", "-O1", "-x", "c++")),
    "rust": (RUST, ("rustc", "-O")),
}
EXPECTED = {
    "c": {"main"},
    "cpp": {"shapes::Box<double, 16>::operator+", "shapes::(anonymous namespace)::hidden"},
    "rust": {"<main::Square as main::Shape>::area"},
}
"""Functions in which there are certainly samples."""
MAP = re.compile(r"MMAP2 -?\d+/\d+: \[0x([0-9a-f]+)\(0x([0-9a-f]+)\) @ (?:0x)?([0-9a-f]+) .*: [r-][w-]x[ps] (.+)")
PLACE = re.compile(r"^\s+([0-9a-f]+) (.+) \((.+)\)$")
PLT = re.compile(r".+@plt|_init|\[unknown\]")
"""What perf 6.1 prints for entries of the procedure linkage table depends on the shape of its search tree."""


def build(kind: str, folder: Path) -> Path:
    source, (compiler, *options) = PROGRAMS[kind]
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    path, out = folder / "main.source", folder / "program"
    path.write_text(source)
    done = subprocess.run([compiler, *options, str(path), "-o", str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Programs that were built, by kind."""
    return {}


@pytest.fixture
def program(programs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C program."""
    if "c" not in programs:
        programs["c"] = build("c", tmp_path_factory.mktemp("c"))
    return programs["c"]


def record(program: Path) -> dict[tuple[str, int], str]:
    """What perf prints for each (module, offset in the file) with samples."""
    perf, out = str(require_reference_perf()), program.with_name("perf.data")
    command = [perf, "record", "-q", "-N", "-F", "4000", "-e", "cpu-clock:u", "-o", str(out), "--", str(program)]
    subprocess.run(command, check=True, capture_output=True)
    shown = [perf, "script", "-i", str(out), "--no-inline", "--show-mmap-events", "-F", "ip,sym,dso"]
    text = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
    maps = sorted((int(low, 16), int(size, 16), int(at, 16), path) for low, size, at, path in MAP.findall(text))
    found = {}
    for line in text.splitlines():
        if place := PLACE.match(line):
            address = int(place[1], 16)
            low, size, at, path = maps[bisect.bisect(maps, (address, 2**64)) - 1]
            if low <= address < low + size and path == place[3]:
                found[path, address - low + at] = place[2]
    return found


def read_build_id(path: Path) -> str:
    with open(path, "rb") as file:
        build_id = ElfImage.read(file).build_id
    assert build_id is not None
    return build_id


def find(source: SymbolSource, code: CodeObject, addresses: Sequence[int]) -> list[str]:
    found = source(code, np.array(sorted(addresses), np.uint64))
    return [found.names[row] if row >= 0 else "[unknown]" for row in found.row.tolist()]


def file_object(path: Path) -> CodeObject:
    return CodeObject(ObjectKind.FILE, str(path), read_build_id(path))


@pytest.mark.parametrize("kind", PROGRAMS)
def test_names_are_those_of_perf(kind: str, tmp_path: Path) -> None:
    program = build(kind, tmp_path)
    printed = record(program)
    source, names = make_symbol_source(None), set()
    for path in {path for path, _ in printed if path.startswith("/")}:
        offsets = sorted(offset for known, offset in printed if known == path)
        found = find(source, CodeObject(ObjectKind.FILE, path, read_build_id(Path(path))), offsets)
        for offset, name in zip(offsets, found, strict=True):
            perf_name = printed[path, offset]
            assert name == perf_name or (name.endswith("@plt") and PLT.fullmatch(perf_name)), (path, hex(offset))
        names |= set(found)
    assert names >= EXPECTED[kind]
    assert kind != "c" or any(name.endswith("@plt") for name in names)


def make_stripped(program: Path, folder: Path, *options: str) -> tuple[Path, Path]:
    """(stripped program, its debug file)."""
    stripped, debug = folder / "program", folder / "program.debug"
    subprocess.run(["objcopy", "--only-keep-debug", str(program), str(debug)], check=True)
    subprocess.run(["objcopy", "--strip-all", *options, str(program), str(stripped)], check=True)
    return stripped, debug


def main_offset(program: Path) -> int:
    text = subprocess.run(["nm", str(program)], check=True, capture_output=True, text=True).stdout
    found = re.search(r"^([0-9a-f]+) T main$", text, re.MULTILINE)
    assert found
    # The linker gives the code of a position-independent program equal addresses and offsets.
    return int(found[1], 16)


@pytest.mark.parametrize("place", ["beside", ".debug", "uploads", "cache", "own cache"])
def test_debug_files_name_functions_of_stripped_programs(place: str, program: Path, tmp_path: Path) -> None:
    stripped, debug = make_stripped(program, tmp_path)
    code, offset = file_object(stripped), main_offset(program)
    assert code.build_id is not None
    uploads, cache = BinaryFolder(tmp_path / "uploads"), tmp_path / "cache"
    source = make_symbol_source(str(cache), (uploads,))
    assert find(source, code, [offset]) == ["[unknown]"]
    match place:
        case "uploads":
            uploads.add(code.build_id, FileKind.DEBUG, debug)
        case "cache" | "own cache":
            folder = cache / ".build-id" / code.build_id[:2] / code.build_id[2:]
            folder = folder if place == "cache" else cache / str(stripped).lstrip("/") / code.build_id
            folder.mkdir(parents=True)
            shutil.copy(program, folder / "elf")
        case _:
            subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", str(stripped)], check=True)
            if place == ".debug":
                (tmp_path / ".debug").mkdir()
                debug.rename(tmp_path / ".debug" / debug.name)
    assert find(source, code, [offset]) == ["main"]


def test_mini_debug_info_names_functions(program: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(lzma.compress(program.read_bytes()))
    stripped, _ = make_stripped(program, tmp_path, f"--add-section=.gnu_debugdata={packed}")
    assert find(make_symbol_source(None), file_object(stripped), [main_offset(program)]) == ["main"]


def test_files_of_another_build_name_nothing(program: Path, tmp_path: Path) -> None:
    offset, source = main_offset(program), make_symbol_source(None)
    other = CodeObject(ObjectKind.FILE, str(program), "0123456789abcdef0123456789abcdef01234567")
    assert find(source, other, [offset]) == ["[unknown]"]
    # As in perf: without a build id in the recording the file is taken as it is.
    assert find(source, CodeObject(ObjectKind.FILE, str(program)), [offset]) == ["main"]
    # A file that was deleted and written again by the same build.
    deleted = CodeObject(ObjectKind.FILE, f"{program} (deleted)", read_build_id(program))
    assert find(source, deleted, [offset]) == ["main"]
    assert find(source, CodeObject(ObjectKind.FILE, f"{program} (deleted)"), [offset]) == ["[unknown]"]


def test_of_a_recording_from_elsewhere_the_build_id_must_be_known(program: Path, tmp_path: Path) -> None:
    source = make_symbol_source(None, recorded_here=False)
    offset = main_offset(program)
    assert find(source, file_object(program), [offset]) == ["main"]
    for kind in (ObjectKind.FILE, ObjectKind.MODULE):
        assert find(source, CodeObject(kind, str(program)), [offset]) == ["[unknown]"]


def test_without_build_ids_the_checksum_of_a_debug_file_must_be_right(program: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", str(program), str(plain)], check=True)
    stripped, debug = make_stripped(plain, tmp_path)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", str(stripped)], check=True)
    source, code = make_symbol_source(None), CodeObject(ObjectKind.FILE, str(stripped))
    assert find(source, code, [main_offset(program)]) == ["main"]
    debug.write_bytes(debug.read_bytes() + b"\0")
    assert find(source, code, [main_offset(program)]) == ["[unknown]"]


@pytest.mark.parametrize(
    "path", ["/dev/zero", "/proc/self/mem", "/", "relative", "//anon", "/no\0file", "/tmp/\udcff", "[heap]"]
)
def test_what_is_no_file_names_nothing(path: str) -> None:
    assert find(make_symbol_source(None), CodeObject(ObjectKind.FILE, path), [0x1000]) == ["[unknown]"]


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert find(make_symbol_source(None), CodeObject(ObjectKind.FILE, str(tmp_path / "pipe")), [1]) == ["[unknown]"]


def test_devices_are_not_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/ptmx")
    opened = []
    monkeypatch.setattr(binaries.os, "open", lambda path, flags: opened.append(path))
    for path in ("/dev/ptmx", str(tmp_path / "link")):
        assert find(make_symbol_source(None), CodeObject(ObjectKind.FILE, path), [1]) == ["[unknown]"]
    assert not opened


def test_files_that_not_everyone_may_read_are_left_out(program: Path, tmp_path: Path) -> None:
    private = tmp_path / "private"
    shutil.copy(program, private)
    private.chmod(0o700)
    source = make_symbol_source(None, public=True)
    assert find(source, file_object(private), [main_offset(program)]) == ["[unknown]"]
    # A path that only begins in a directory of Perfloom's.
    (tmp_path / "own").mkdir()
    source = make_symbol_source(None, (BinaryFolder(tmp_path / "own"),), public=True)
    around = CodeObject(ObjectKind.FILE, f"{tmp_path}/own/../private", read_build_id(private))
    assert find(source, around, [main_offset(program)]) == ["[unknown]"]


def test_the_vdso_is_that_of_the_running_kernel() -> None:
    image = symbol_files._read_own_vdso()
    names = find(make_symbol_source(None), CodeObject(ObjectKind.VDSO, "[vdso]"), list(range(0, len(image), 16)))
    assert {"__vdso_gettimeofday", "__vdso_clock_gettime"} & set(names) or "clock_gettime" in set(names)
    elsewhere = make_symbol_source(None, recorded_here=False)
    assert set(find(elsewhere, CodeObject(ObjectKind.VDSO, "[vdso]"), [0x800])) == {"[unknown]"}
    other = CodeObject(ObjectKind.VDSO, "[vdso]", "00" * 20)
    assert set(find(make_symbol_source(None), other, [0x800])) == {"[unknown]"}


def test_symbols_of_the_kernel_follow_its_address(tmp_path: Path) -> None:
    build_id = "ab" * 20
    folder = tmp_path / "[kernel.kallsyms]" / build_id
    folder.mkdir(parents=True)
    text = "ffffffff81000000 T _text\nffffffff81000100 t here\nffffffff81000200 T there\n"
    (folder / "kallsyms").write_text(text)
    source = make_symbol_source(str(tmp_path))
    code = CodeObject(ObjectKind.KERNEL, "[kernel.kallsyms]", build_id, text_start=0xFFFFFFFF9A000000)
    found: SymbolNames = source(code, np.array([0xFFFFFFFF9A000180, 0xFFFFFFFF9A000200], np.uint64))
    assert [found.names[row] for row in found.row.tolist()] == ["here", "there"]
    assert found.starts.tolist() == [0xFFFFFFFF9A000100, 0xFFFFFFFF9A000200]
    hidden = CodeObject(ObjectKind.KERNEL, "[kernel.kallsyms]", "cd" * 20, text_start=1)
    assert find(source, hidden, [0xFFFFFFFF81000180]) == ["[unknown]"]


def test_maps_of_compilers_are_read_if_recorded_here(monkeypatch: pytest.MonkeyPatch) -> None:
    # No process has this number: it is above the largest possible one.
    path = Path("/tmp/perf-4194399.map")
    code = CodeObject(ObjectKind.PERF_MAP, str(path), pid=4194399)
    try:
        path.write_text("7f00 10 py::main:/app.py\n")
        assert find(make_symbol_source(None), code, [0x7F08]) == ["py::main:/app.py"]
        assert find(make_symbol_source(None, recorded_here=False), code, [0x7F08]) == ["[unknown]"]
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        os.chown(path, 1234 if os.getuid() == 0 else -1, -1)
        owner = path.stat().st_uid
        assert find(make_symbol_source(None), code, [0x7F08]) == ["[unknown]"]
        assert find(make_symbol_files(None, recorder=owner).find, code, [0x7F08]) == ["py::main:/app.py"]
        path.unlink()
        path.symlink_to("/dev/zero")
        assert find(make_symbol_source(None), code, [0x7F08]) == ["[unknown]"]
    finally:
        path.unlink(missing_ok=True)


JIT = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static const unsigned char loop[] = {0xb9, 0, 0x10, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
int main(void) {
    unsigned char *code = mmap(0, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char name[64];
    sprintf(name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    for (int at = 0; at < 3000; at++)
        fprintf(map, "%lx %x function number %d\\n", (long)code + rand() % 1024 * 64, 1 + rand() % 200, at);
    fclose(map);
    for (int at = 0; at < 1 << 16; at += 64) memcpy(code + at, loop, sizeof loop);
    for (int times = 0; times < 40; times++)
        for (int at = 0; at < 1 << 16; at += 64) ((void (*)(void))(code + at))();
    puts(name);
    return 0;
}
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="The program writes machine code for x86-64.")
def test_of_symbols_that_overlap_in_a_map_the_same_is_found_as_by_perf(tmp_path: Path) -> None:
    (tmp_path / "jit.c").write_text(JIT)
    perf, out = str(require_reference_perf()), tmp_path / "perf.data"
    subprocess.run([str(require("gcc")), str(tmp_path / "jit.c"), "-o", str(tmp_path / "jit")], check=True)
    command = [perf, "record", "-q", "-N", "-F", "4000", "-e", "cpu-clock:u", "-o", str(out), str(tmp_path / "jit")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    map_path = Path(re.findall(r"/tmp/perf-\d+\.map", done.stdout)[0])
    try:
        shown = [perf, "script", "-i", str(out), "--no-inline", "-F", "ip,sym,dso"]
        text = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
        places = [found for line in text.splitlines() if (found := PLACE.match(line)) and found[3] == str(map_path)]
        printed = {int(place[1], 16): place[2] for place in places if place[2] != "[unknown]"}
        code = CodeObject(ObjectKind.PERF_MAP, str(map_path), pid=int(re.findall(r"\d+", map_path.name)[0]))
        assert find(make_symbol_source(None), code, list(printed)) == [printed[one] for one in sorted(printed)]
        assert len(set(printed.values())) > 100
    finally:
        map_path.unlink()


def test_symbols_of_a_kernel_module(program: Path, tmp_path: Path) -> None:
    source, module = tmp_path / "module.c", tmp_path / "sum.ko"
    source.write_text("int shared; int first(int a) { return a + shared; } int second(int a) { return a * shared; }")
    options = ["-O1", "-r", "-nostdlib", "-Wl,--build-id"]
    subprocess.run([str(require("gcc")), *options, str(source), "-o", str(module)], check=True, capture_output=True)
    text = subprocess.run(["nm", str(module)], check=True, capture_output=True, text=True).stdout
    second = int(text[: text.index(" T second")].rpartition("\n")[2], 16)
    build_id = read_build_id(module)
    packed = module.with_suffix(".ko.xz")
    packed.write_bytes(lzma.compress(module.read_bytes()))
    for path in (module, packed):
        code = CodeObject(ObjectKind.MODULE, str(path), build_id)
        assert find(make_symbol_source(None), code, [0, second]) == ["first", "second"]
    other = CodeObject(ObjectKind.MODULE, str(module), "00" * 20)
    assert find(make_symbol_source(None), other, [0]) == ["[unknown]"]
