"""Binaries, debug files and source files that users add to a stored result."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from perfloom.analysis.source.missing_code import (
    MissingObject,
    MissingSource,
    find_missing_source,
    list_known_sources,
    list_missing_objects,
    list_missing_sources,
)
from perfloom.config import Settings
from perfloom.domain.errors import InvalidRequest, NotFound, Unavailable
from perfloom.domain.schemas.code import Code
from perfloom.ingest.machine_code.elf_image import ElfImage
from perfloom.ingest.storage_names import CODE_FOLDER
from perfloom.store import Store
from perfloom.store.code_uploads import (
    AddedFile,
    list_uploaded_texts,
    list_used_texts,
    remove_text,
    sort_added_files,
    store_texts,
)
from perfloom.store.files import binary_cache
from perfloom.store.files.binary_cache import BinaryFolder, FileKind
from perfloom.store.files.code_folder import read_note
from perfloom.store.files.disk import remove_tree
from perfloom.workers import code_files
from perfloom.workers.base.context import JobContext
from perfloom.workers.read.binaries import Binaries
from perfloom.workers.read.code_provider import FetchedSource
from tests.support.machine_code import compile_program
from tests.workers.read.test_source_lines import ID, read_code, record, status_of, store_recording

pytestmark = pytest.mark.heavy


@pytest.fixture
def moved(context: JobContext, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """A stored import without lines: (where its binary was, where it is now). With a parameter also without names."""
    (tmp_path / "there").mkdir()
    binary = compile_program("sum.c", tmp_path / "there", optimized=True)
    recording = record(binary, "4000")
    now = tmp_path / "sum"
    if not getattr(request, "param", ""):
        store_recording(context.settings, context.store, recording)
    binary.rename(now)
    if getattr(request, "param", ""):
        store_recording(context.settings, context.store, recording)
    code = read_code(context.settings, context.store, recording, recorded_here=False)
    assert status_of(code, binary) == "missing"
    return binary, now


def code_of(context: JobContext) -> Code:
    code = context.store.results.open_code(ID)
    assert code is not None
    return code


def ask(context: JobContext, *files: Path, texts: bool = False) -> str:
    """Upload copies of files, as the page does, and let a worker answer. Returns the note on the page."""
    folder = binary_cache.request_files(context.settings.data, ID, texts=texts)
    for file in files:
        (folder / binary_cache.name_upload(file.name)).write_bytes(file.read_bytes())
    assert "being added" in context.store.results.explain_missing_files(ID)
    code_files.answer_request(context, ID)
    assert not binary_cache.is_requested(context.settings.data, ID)
    return read_note(context.store.results.path(ID))


def test_an_uploaded_binary_gives_lines_also_for_later_results(
    context: JobContext, moved: tuple[Path, Path], tmp_path: Path
) -> None:
    before, now = moved
    missing = list_missing_objects(context.store.results.open(ID), code_of(context))
    # The C library has about as many samples on the stack.
    program = next(one for one in missing if one.module == str(before))
    assert program.wants_binary and program.share > 0.5
    assert ask(context, now) == ""
    code = code_of(context)
    assert status_of(code, before) == "complete" and "walk" in code.symbols.column("name").to_pylist()
    assert (context.settings.data / "binaries" / "uploads" / program.build_id / "executable").is_file()
    assert not list((context.settings.data / "binaries").glob(".incoming*"))
    assert now.is_file()
    recording = before.with_name("perf.data")
    remove_tree(context.store.results.path(ID) / CODE_FOLDER)
    folders = (str(binary_cache.open_origin(context.settings.data, binary_cache.UPLOADS).root),)
    again = read_code(context.settings, context.store, recording, recorded_here=False, folders=folders)
    assert status_of(again, before) == "complete"


def test_source_files_are_added_and_kept(context: JobContext, moved: tuple[Path, Path], tmp_path: Path) -> None:
    before, now = moved
    assert ask(context, now) == ""
    # The program was compiled from a file that is still here, but its name comes from an uploaded file.
    wanted = find_missing_source("sum.c", list_missing_sources(code_of(context)))
    text = tmp_path / "sum.c"
    text.write_text("int uploaded;\n")
    binaries, texts = sort_added_files(code_of(context), [AddedFile("sum.c", text)])
    assert not binaries and list(texts) == [wanted]
    store_texts(context.settings.data, texts)
    assert ask(context, texts=True) == ""
    row = next(row for row in code_of(context).files.to_pylist() if row["path"] == wanted.path)
    assert (row["text"], row["detail"]) == ("int uploaded;\n", None)
    with pytest.raises(InvalidRequest, match="neither a binary nor"):
        sort_added_files(code_of(context), [AddedFile("sum.c", text)])
    code_files.change_texts(context.settings, context.store, ID)
    assert status_of(code_of(context), before) == "complete"
    text.write_text("int replaced;\n")
    replaceable = list_uploaded_texts(context.settings.data, list_known_sources(code_of(context)))
    _, texts = sort_added_files(code_of(context), [AddedFile("sum.c", text)], "", replaceable)
    store_texts(context.settings.data, texts)
    assert ask(context, texts=True) == ""
    assert read_text(context, wanted.path) == ("int replaced;\n", None)
    assert list_used_texts(context.settings.data, code_of(context)) == tuple(texts)
    uploads = binary_cache.open_origin(context.settings.data, binary_cache.UPLOADS)
    uploads.add_source(wanted.build_ids[0], wanted.path, b"int other;\n", None)
    # It was uploaded for another result with the same binary.
    assert list_used_texts(context.settings.data, code_of(context)) == ()
    with pytest.raises(InvalidRequest, match="none that was uploaded"):
        remove_text(context.settings.data, code_of(context), wanted.path)
    uploads.add_source(wanted.build_ids[0], wanted.path, b"int replaced;\n", None)
    remove_text(context.settings.data, code_of(context), wanted.path)
    binary_cache.request_files(context.settings.data, ID, removed=wanted.path)
    assert ask(context) == ""
    assert read_text(context, wanted.path) == (None, "Its uploaded text was removed.")
    with pytest.raises(InvalidRequest, match="none that was uploaded"):
        remove_text(context.settings.data, code_of(context), wanted.path)


def read_text(context: JobContext, path: str) -> tuple[str | None, str | None]:
    """The text and the detail of a source file."""
    row = next(row for row in code_of(context).files.to_pylist() if row["path"] == path)
    return row["text"], row["detail"]


def test_other_builds_and_damaged_files_are_refused(
    context: JobContext, moved: tuple[Path, Path], tmp_path: Path
) -> None:
    before, _ = moved
    (tmp_path / "other").mkdir()
    other = compile_program("sum.c", tmp_path / "other", optimized=False)
    note = ask(context, other)
    assert "was built another time" in note or "has the build id of" in note
    assert "Upload the very file that was recorded" in note
    bad = tmp_path / "bad"
    bad.write_bytes(b"\x7fELF" + bytes(range(256)) * 20)
    assert "bad is not a valid ELF file" in ask(context, bad)
    bare = tmp_path / "bare"
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", str(other), str(bare)], check=True)
    assert "has no build id" in ask(context, bare)
    assert status_of(code_of(context), before) == "missing"
    assert not list((context.settings.data / "binaries").glob("uploads/*"))


def test_a_debug_file_completes_a_stripped_binary(
    context: JobContext, moved: tuple[Path, Path], tmp_path: Path
) -> None:
    before, now = moved
    debug = tmp_path / "sum.debug"
    subprocess.run(["objcopy", "--only-keep-debug", str(now), str(debug)], check=True)
    subprocess.run(["strip", str(now)], check=True)
    assert "to a debug file belongs the binary itself" in ask(context, debug)
    assert ask(context, now) == ""
    assert status_of(code_of(context), before) == "no-symbols"
    assert "adds no" in ask(context, now)
    assert ask(context, debug) == ""
    assert status_of(code_of(context), before) == "complete"


@pytest.mark.parametrize("moved", ["unnamed"], indirect=True)
def test_without_names_of_functions_a_binary_does_not_help(context: JobContext, moved: tuple[Path, Path]) -> None:
    _, now = moved
    assert "perf buildid-cache" in ask(context, now)


def test_what_is_lost_is_said(context: JobContext, moved: tuple[Path, Path]) -> None:
    folder = binary_cache.request_files(context.settings.data, ID)
    assert os.listdir(folder) == []
    code_files.answer_request(context, ID)
    # They may be written at this moment.
    assert binary_cache.is_requested(context.settings.data, ID)
    os.utime(folder, (0, 0))
    code_files.answer_request(context, ID)
    assert "Upload them again" in read_note(context.store.results.path(ID))


class InterruptedFiles:
    """A provider that has one binary, and fails at the next."""

    title = origin = "interrupted"

    def __init__(self, binary: Path) -> None:
        self.binary = binary

    def fetch_objects(self, wanted: Sequence[MissingObject], into: BinaryFolder) -> None:
        received = into.root / ".part-1"
        received.write_bytes(self.binary.read_bytes())
        into.add(wanted[0].build_id, FileKind.EXECUTABLE, received)
        (into.root / ".part-2").write_bytes(b"half")
        raise Unavailable("The connection was lost.")

    def fetch_sources(self, wanted: Sequence[MissingSource]) -> list[FetchedSource]:
        return []


def test_what_came_before_an_interruption_is_kept(
    context: JobContext, moved: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, now = moved
    monkeypatch.setattr(code_files, "_open_providers", lambda *_: [nullcontext(InterruptedFiles(now))])
    assert code_files.fetch_missing(context, ID) == ["The connection was lost."]
    assert status_of(code_of(context), before) == "complete"
    assert not list((context.settings.data / "binaries").glob(".incoming*"))


def test_a_wrong_binary_does_not_drop_a_text(context: JobContext, moved: tuple[Path, Path], tmp_path: Path) -> None:
    _, now = moved
    assert ask(context, now) == ""
    text = tmp_path / "sum.c"
    text.write_text("int uploaded;\n")
    store_texts(context.settings.data, sort_added_files(code_of(context), [AddedFile("sum.c", text)])[1])
    bad = tmp_path / "bad"
    bad.write_bytes(b"\x7fELF" + bytes(range(256)) * 20)
    assert "bad is not a valid ELF file" in ask(context, bad, texts=True)
    assert "int uploaded;\n" in code_of(context).files.column("text").to_pylist()


def test_without_code_nothing_can_be_added(settings: Settings, store: Store, tmp_path: Path) -> None:
    binary = compile_program("sum.c", tmp_path, optimized=True)
    store_recording(settings, store, record(binary, "4000"))
    with pytest.raises(NotFound, match="Import the recording again"):
        code_files.add_uploads(settings, store, ID, {"sum": binary})


def test_files_here_are_preferred_to_uploaded_ones(settings: Settings, tmp_path: Path) -> None:
    binary = compile_program("sum.c", tmp_path, optimized=True)
    with open(binary, "rb") as stream:
        build_id = ElfImage.read(stream).build_id
    assert build_id is not None
    folder = binary_cache.open_origin(settings.data, binary_cache.UPLOADS)
    copy = tmp_path / "copy"
    copy.write_bytes(binary.read_bytes())
    folder.add(build_id, FileKind.EXECUTABLE, copy)
    files = Binaries({str(binary): build_id}, False, None, False, os.devnull, (folder,))
    with cast(BinaryIO, files.open_object(str(binary)).stream) as stream:
        assert os.readlink(f"/proc/self/fd/{stream.fileno()}") == str(binary)
    source = tmp_path / "text.c"
    source.write_text("int here;\n")
    assert files.read_source(str(source), str(binary)).text == "int here;\n"
    # Another build at the path: the uploaded file is used, and may not name files of this machine.
    binary.unlink()
    (tmp_path / "other").mkdir()
    compile_program("sum.c", tmp_path / "other", optimized=False).rename(binary)
    with cast(BinaryIO, files.open_object(str(binary)).stream) as stream:
        assert os.readlink(f"/proc/self/fd/{stream.fileno()}") != str(binary)
    assert files.read_source(str(source), str(binary)).text is None
