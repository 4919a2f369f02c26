"""Which files are opened as binaries and sources: a binary may name any path as its source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfloom.domain.schemas.code import CodeStatus
from perfloom.ingest.machine_code.code_builder import CodeBuilder, deadline_after
from perfloom.ingest.machine_code.elf_image import ElfImage
from perfloom.workers.read.binaries import KERNEL, NOT_SOURCE, Binaries
from tests.support.machine_code import build_profile, compile_program, list_functions


def binaries(*, public: bool, started: float | None = None) -> Binaries:
    return Binaries({}, True, started, public, os.devnull)


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("target", ["/proc/kallsyms", "/proc/self/maps", "/proc/self/mem", "/sys/kernel/notes"])
def test_what_the_kernel_shows_is_no_source(tmp_path: Path, target: str, public: bool) -> None:
    link = tmp_path / "link.c"
    link.symlink_to(target)
    assert binaries(public=public).read_source(str(link), "/a").text is None


def test_a_link_to_another_kind_of_file_is_no_source(tmp_path: Path) -> None:
    secret, link, source = tmp_path / "secret", tmp_path / "link.c", tmp_path / "real.c"
    secret.write_text("password")
    link.symlink_to(secret)
    found = binaries(public=False).read_source(str(link), "/a")
    assert (found.text, found.detail) == (None, NOT_SOURCE)
    source.write_text("int main;\n")
    (tmp_path / "other.h").symlink_to(source)
    assert binaries(public=False).read_source(str(tmp_path / "other.h"), "/a").text == "int main;\n"


def test_only_what_everyone_may_read_is_public(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    inside = closed / "a.c"
    inside.write_text("int a;\n")
    inside.chmod(0o644)
    (tmp_path / "link.c").symlink_to(inside)
    assert binaries(public=True).read_source(str(inside), "/a").text is None
    assert binaries(public=True).read_source(str(tmp_path / "link.c"), "/a").text is None
    assert binaries(public=False).read_source(str(inside), "/a").text == "int a;\n"


def test_pipes_and_directories_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.c")
    (tmp_path / "folder.c").mkdir()
    for name in ("pipe.c", "folder.c", "missing.c"):
        assert binaries(public=False).read_source(str(tmp_path / name), "/a").text is None


def test_a_map_of_symbols_is_no_binary() -> None:
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    path.write_text("1000 10 f\n")
    try:
        # It is newer than the start, and would count as a binary that was built again.
        assert binaries(public=False, started=1.0).open_object(str(path)).status is CodeStatus.NO_FILE
    finally:
        path.unlink()


def test_sources_newer_than_the_program_are_named(tmp_path: Path) -> None:
    program, source = tmp_path / "program", tmp_path / "a.c"
    program.write_bytes(b"\x7fELF")
    source.write_text("int a;\n")
    os.utime(program, (1000, 1000))
    os.utime(source, (2000, 2000))
    files = binaries(public=False, started=3000)
    stream = files.open_object(str(program)).stream
    assert stream is not None
    stream.close()
    assert files.read_source(str(source), "/a").detail == "It was changed after the program was built."
    os.utime(source, (500, 500))
    assert not files.read_source(str(source), "/a").detail
    os.utime(source, (4000, 4000))
    assert files.read_source(str(source), "/a").detail == "It was changed after the recording began."


@pytest.mark.heavy
def test_the_kernel_is_opened_by_its_build_id(tmp_path: Path) -> None:
    """The kernel was loaded at another address than it was linked for."""
    vmlinux = compile_program("sum.c", tmp_path, optimized=True)
    with open(vmlinux, "rb") as file:
        build_id = ElfImage.read(file).build_id
    assert build_id is not None
    starts = {name: found[0] for name, found in list_functions(vmlinux).items() if name in ("walk", "descend", "main")}
    profile = build_profile(vmlinux, starts, module=KERNEL, moved=0x7FFFFF200000)
    kernel = Binaries({KERNEL: build_id}, False, None, False, str(tmp_path))

    def build() -> tuple[list[str], list[str]]:
        code = CodeBuilder(kernel.open_object, kernel.read_source, deadline_after(60)).build(profile)
        return code.objects.column("status").to_pylist(), code.symbols.column("name").to_pylist()

    assert build() == (["kernel"], [])
    kept = tmp_path / ".build-id" / build_id[:2] / build_id[2:]
    kept.mkdir(parents=True)
    vmlinux.rename(kept / "vmlinux")
    status, names = build()
    assert status == ["complete"]
    assert set(names) == set(starts)
    kernel.build_ids[KERNEL] = "0" * 40
    assert build() == (["kernel"], [])
