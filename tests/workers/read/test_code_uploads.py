"""Binaries, debug files and source files that users add to a stored result."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from perfloom.analysis.source.missing_code import find_missing_source, list_missing_objects, list_missing_sources
from perfloom.config import Settings
from perfloom.domain.errors import InvalidRequest, NotFound
from perfloom.domain.schemas.code import Code
from perfloom.ingest.storage_names import CODE_FOLDER
from perfloom.store import Store
from perfloom.store.code_uploads import AddedFile, sort_added_files, store_texts
from perfloom.store.files import binary_cache
from perfloom.store.files.code_folder import read_note
from perfloom.store.files.disk import remove_tree
from perfloom.workers import code_files
from perfloom.workers.base.context import JobContext
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
    assert missing[0].module == str(before) and missing[0].wants_binary and missing[0].share > 0.5
    assert ask(context, now) == ""
    code = code_of(context)
    assert status_of(code, before) == "complete" and "walk" in code.symbols.column("name").to_pylist()
    assert (context.settings.data / "binaries" / "uploads" / missing[0].build_id / "executable").is_file()
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
    code_files.add_received_texts(context.settings, context.store, ID)
    assert status_of(code_of(context), before) == "complete"


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
    assert "Upload them again" in read_note(context.store.results.path(ID))


def test_without_code_nothing_can_be_added(settings: Settings, store: Store, tmp_path: Path) -> None:
    binary = compile_program("sum.c", tmp_path, optimized=True)
    store_recording(settings, store, record(binary, "4000"))
    with pytest.raises(NotFound, match="Import the recording again"):
        code_files.add_uploads(settings, store, ID, {"sum": binary})
