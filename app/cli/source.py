"""source: list, add and remove binaries and source files behind the lines of a result, and read its code again."""

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..domain.errors import InvalidRequest, NotFound, UnreadableInput
from .ids import ResultId
from .options import data_option, format_option, load_settings, open_store
from .output import write_rows

if TYPE_CHECKING:
    from ..domain.schemas.code import Code
    from ..store import Store

WAIT_S = 0.2
LIST_COLUMNS = ("missing", "path", "build_id", "samples_percent")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def source() -> None:
    """The binaries and source files behind the source lines of a result."""


@source.command("list")
@format_option
@data_option
@click.argument("id", type=ResultId())
def list_(output_format: str, data: Path | None, id: str) -> int:
    """List what is missing: binaries, debug information and source files; those with the most samples first."""
    from ..analysis.source.missing_code import list_missing_objects, list_missing_sources

    with open_store(data) as store:
        code = _open_code(store, id)
        objects = list_missing_objects(store.results.open(id), code)
        rows: list[dict[str, Any]] = [
            {
                "missing": "binary" if one.wants_binary else "debug information",
                "path": one.module,
                "build_id": one.build_id,
                "samples_percent": 100 * one.share,
            }
            for one in objects
        ]
        rows += [
            {"missing": "source file", "path": one.path, "build_id": None, "samples_percent": None}
            for one in list_missing_sources(code)
            if one.build_ids
        ]
    write_rows(LIST_COLUMNS, rows, output_format, fit=True)
    return 0


@source.command()
@click.option("--as", "path", default="", metavar="PATH", help="The source file of which FILE is the text.")
@data_option
@click.argument("id", type=ResultId())
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def add(path: str, data: Path | None, id: str, files: tuple[str, ...]) -> int:
    """Add binaries, debug files and texts of source files, and read the lines of ID again.

    Build ids must be those of the recording. A source file is found by the end of the path of FILE. A text that was
    added before is replaced.
    """
    from ..analysis.source.missing_code import list_known_sources
    from ..store.code_uploads import AddedFile, list_uploaded_texts, sort_added_files, store_texts
    from ..store.files.binary_cache import open_incoming
    from ..store.files.disk import disk_errors, remove_tree
    from ..workers import code_files

    for file in files:
        if not Path(file).is_file():
            raise UnreadableInput(f"The file {file!r} does not exist, or is not a regular file. Check the path.")
    settings = load_settings(data)
    with open_store(data) as store:
        code = _open_code(store, id)
        added = [AddedFile(file, Path(file).absolute()) for file in files]
        replaceable = list_uploaded_texts(settings.data, list_known_sources(code))
        binaries, texts = sort_added_files(code, added, path, replaceable)
        if binaries:
            copies = open_incoming(settings.data).root
            try:
                uploads = {}
                for number, one in enumerate(binaries):
                    with disk_errors(copies):
                        uploads[one.name] = Path(shutil.copyfile(one.path, copies / str(number)))
                code_files.add_uploads(settings, store, id, uploads)
            finally:
                remove_tree(copies)
        if texts:
            store_texts(settings.data, texts)
            code_files.change_texts(settings, store, id)
    return 0


@source.command()
@data_option
@click.argument("id", type=ResultId())
def fetch(data: Path | None, id: str) -> int:
    """Fetch again what is missing, from the host that recorded ID or servers of debuginfod."""
    from ..workers import code_files
    from ..workers.base.context import open_context

    settings = load_settings(data)
    with open_store(data) as store:
        store.results.get(id)
        notes = code_files.fetch_missing(open_context(settings, store), id)
    for note in notes:
        click.echo(f"perfloom: {note}", err=True)
    if notes:
        raise InvalidRequest("What is missing could not be fetched completely.")
    return 0


@source.command()
@data_option
@click.argument("id", type=ResultId())
@click.argument("path", metavar="PATH")
def remove(data: Path | None, id: str, path: str) -> int:
    """Remove the text that was added for the source file PATH of ID."""
    from ..store.code_uploads import remove_text
    from ..workers import code_files

    settings = load_settings(data)
    with open_store(data) as store:
        remove_text(settings.data, _open_code(store, id), path)
        code_files.change_texts(settings, store, id, (path,))
    return 0


@source.command()
@data_option
@click.argument("id", type=ResultId())
def read(data: Path | None, id: str) -> int:
    """Read the machine code of ID from its stored files, if it has none."""
    from ..workers import code_files
    from ..workers.base.context import open_context

    settings = load_settings(data)
    with open_store(data) as store:
        if store.results.open_code(id) is not None:
            raise InvalidRequest(f"The result {id} has machine code. To add what it lacks, use perfloom source add.")
        code_files.repeat_reading(open_context(settings, store), id)
        if store.results.open_code(id) is None:
            raise NotFound(f"The machine code of the result {id} is not known. Import the recording again.")
    return 0


def _open_code(store: "Store", id: str) -> "Code":
    """The machine code of a result. Waits while it is being read. Raises NotFound."""
    is_noted = False
    while (code := store.results.open_code(id)) is None and store.results.is_code_expected(id):
        if not is_noted:
            click.echo("perfloom: another process reads the machine code of this result; waiting for it", err=True)
            is_noted = True
        time.sleep(WAIT_S)
    code = code or store.results.open_code(id)
    if code is None:
        reason = store.results.explain_missing_code(id)
        raise NotFound(
            f"The machine code of the result {id} is not known. {reason + ' ' if reason else ''}Read it again: "
            f"perfloom source read {id}"
        )
    return code


commands = [source]
