"""Files that users add to the machine code of a result: binaries, debug files, and texts of source files."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..analysis.source.missing_code import (
    MissingSource,
    find_missing_source,
    list_known_sources,
    list_missing_sources,
)
from ..domain.errors import InvalidRequest, UnreadableInput
from ..domain.schemas.code import Code
from ..domain.text import sanitize_line
from ..domain.units import format_bytes
from ..ingest.machine_code.source_text import decode_source
from .files.binary_cache import UPLOADS, is_build_id, open_origin
from .files.disk import disk_errors

MAX_BINARY_BYTES = 4 << 30
MAX_TEXT_BYTES = 4 << 20
_ELF = b"\x7fELF"


@dataclass(frozen=True)
class AddedFile:
    """A file of a user. name: as the user knows it, maybe with directories."""

    name: str
    path: Path


def sort_added_files(
    code: Code, files: Sequence[AddedFile], source: str = "", replaceable: Sequence[MissingSource] = ()
) -> tuple[tuple[AddedFile, ...], dict[MissingSource, Path]]:
    """(the binaries and debug files, the texts of source files) among added files.

    source: the path of the only text, instead of its name. replaceable: source files that have a text. Raises
    InvalidRequest for what cannot be added.
    """
    binaries = tuple(file for file in files if _is_binary(file.path))
    texts = [file for file in files if file not in binaries]
    for one in binaries:
        _check_size(one, MAX_BINARY_BYTES)
    if source and len(texts) != 1:
        raise InvalidRequest("A source file was chosen for one text: add exactly one text with it.", "source")
    missing = (*list_missing_sources(code), *replaceable) if texts else ()
    found: dict[MissingSource, Path] = {}
    for one in texts:
        _check_size(one, MAX_TEXT_BYTES)
        wanted = find_missing_source(source or one.name, missing)
        if not any(map(is_build_id, wanted.build_ids)):
            raise InvalidRequest(
                f"The binary with code of {wanted.path} has no build id, so that no text can be kept for it. Link the "
                "program with -Wl,--build-id, and record it again."
            )
        if wanted in found:
            raise InvalidRequest(f"Several files are texts of {wanted.path}. Add one of them.")
        found[wanted] = one.path
    return binaries, found


def list_uploaded_texts(data: Path, sources: Sequence[MissingSource]) -> tuple[MissingSource, ...]:
    """Those of these source files whose text was uploaded, maybe for another result with the same binary."""
    folder = open_origin(data, UPLOADS)
    return tuple(
        one
        for one in sources
        if any(folder.source(build_id, one.path).is_file() for build_id in filter(is_build_id, one.build_ids))
    )


def list_used_texts(data: Path, code: Code) -> tuple[MissingSource, ...]:
    """The source files of `code` with an uploaded text as their text. Others may have been uploaded for another result
    with the same binary."""
    uploaded = list_uploaded_texts(data, list_known_sources(code))
    if not uploaded:
        return ()
    folder, rows = open_origin(data, UPLOADS), dict[str, int]()
    for row, path in enumerate(code.files.column("path").to_pylist()):
        rows.setdefault(path, row)
    texts = code.files.column("text")

    def is_used(one: MissingSource) -> bool:
        text = texts[rows[one.path]].as_py()
        for build_id in filter(is_build_id, one.build_ids):
            with suppress(OSError):
                if decode_source(folder.source(build_id, one.path).read_bytes()) == text:
                    return True
        return False

    return tuple(filter(is_used, uploaded))


def remove_text(data: Path, code: Code, path: str) -> None:
    """Remove the uploaded text of a source file, so that the code of no result gets it any more. Raises InvalidRequest
    if it has none, Unavailable."""
    found = next((one for one in list_used_texts(data, code) if one.path == path), None)
    if found is None:
        raise InvalidRequest(
            f"The text of {sanitize_line(path)[:200]} in this result is none that was uploaded, so that it cannot be "
            "removed."
        )
    folder = open_origin(data, UPLOADS)
    for build_id in filter(is_build_id, found.build_ids):
        uploaded = folder.source(build_id, path)
        with disk_errors(uploaded.parent):
            uploaded.unlink(missing_ok=True)


def store_texts(data: Path, texts: dict[MissingSource, Path]) -> None:
    """Keep the texts of source files for results with these binaries. Raises Unavailable."""
    folder = open_origin(data, UPLOADS)
    for wanted, path in texts.items():
        with disk_errors(path):
            content = path.read_bytes()
        for build_id in filter(is_build_id, wanted.build_ids):
            folder.add_source(build_id, wanted.path, content, None)


def _is_binary(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(_ELF)) == _ELF
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror}. Check its permissions.") from None


def _check_size(file: AddedFile, most: int) -> None:
    size = file.path.stat().st_size
    if size > most:
        raise InvalidRequest(f"{file.name} has {format_bytes(size)}, and at most {format_bytes(most)} can be added.")
