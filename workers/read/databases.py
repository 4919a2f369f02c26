"""Reads databases of HPCToolkit: all files of a directory, or files that were given together."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from perfloom.domain.errors import PerfloomError, UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.ingest.compression import open_decompressed
from perfloom.ingest.database_names import EXPERIMENT_FILE, META_FILE, is_tree_file, is_values_file
from perfloom.ingest.result_set_names import strip_compression

from .files import ProgressStream
from .request import AnswerWriter, Input, Request

if TYPE_CHECKING:
    from perfloom.readers.hpctoolkit.prefixed_stream import PrefixedStream

SNIFFED_BYTES = 1 << 14
MAX_SNIFFED_BYTES = 1 << 24
_TREE_SUFFIXES = (".db", ".xml")


def find_trees(inputs: Sequence[Input]) -> list[Input]:
    """The inputs that have the call tree of a database, by suffix and content."""
    found = []
    for one in inputs:
        if one.path != "-" and strip_compression(one.name).endswith(_TREE_SUFFIXES):
            from perfloom.readers.hpctoolkit.parts import TREE_FILE, classify_file

            try:
                with open_decompressed(Path(one.path), MAX_SNIFFED_BYTES) as stream:
                    if classify_file(stream.peek(SNIFFED_BYTES)) == TREE_FILE:
                        found.append(one)
            except PerfloomError:
                # Reported when it is read.
                continue
    return found


def read_database(request: Request, answers: AnswerWriter, trees: Sequence[Input]) -> Profile:
    """The profile of the request's inputs, with these files with a call tree. Raises UnreadableInput, TooLarge."""
    from perfloom.readers.hpctoolkit.database import DatabaseReader
    from perfloom.readers.hpctoolkit.parts import REPEATED_FILE, VALUES_FILE, classify_file

    if len(trees) > 1:
        raise UnreadableInput(
            f"{trees[0].name} and {trees[1].name} are of two databases of HPCToolkit. Import each with its own files, "
            "then compare the results."
        )
    (tree,) = trees
    if request.clock:
        raise UnreadableInput(
            f"{tree.name} is of a database of HPCToolkit, which has time units. Do not set the clock."
        )
    answers.progress(0.0, "Reading the call tree")
    with _opened(request, tree) as stream:
        reader = DatabaseReader(stream, tree.name, alone=False)
    others = [one for one in request.inputs if one is not tree]
    unknown = []
    for number, one in enumerate(others):
        answers.progress(number / len(others), f"Reading ({number + 1:,} of {len(others):,})")
        try:
            with _opened(request, one) as stream:
                kind = classify_file(stream.head)
                if kind == VALUES_FILE:
                    reader.add_file(stream, one.name)
                elif kind != REPEATED_FILE:
                    unknown.append(one.name)
        except UnreadableInput as error:
            reader.add_failure(one.name, error.message)
    reader.add_others(unknown)
    return reader.finish()


def add_database_files(files: Sequence[str]) -> tuple[str, ...]:
    """`files`; a directory with a database, or the only file if it has a call tree, is replaced by the files of the
    database that are regular files in its directory. Raises UnreadableInput for other directories."""
    if len(files) == 1 and is_tree_file(files[0]) and os.path.isfile(files[0]):
        directory, name = os.path.split(files[0])
        return (files[0], *(os.path.join(directory, other) for other in _list_values(directory or ".", name)))
    added: list[str] = []
    for file in files:
        if not os.path.isdir(file):
            added.append(file)
            continue
        names = _list_regular_files(file)
        tree = next((name for wanted in (META_FILE, EXPERIMENT_FILE) for name in names if _is(name, wanted)), None)
        if tree is None:
            raise UnreadableInput(
                f"The directory {file!r} is no database of HPCToolkit: it has neither {META_FILE} nor "
                f"{EXPERIMENT_FILE}. Name the files to read; of measurements, make a database with hpcprof first."
            )
        added += [os.path.join(file, name) for name in (tree, *_list_values(file, tree))]
    return tuple(added)


def _is(name: str, wanted: str) -> bool:
    return strip_compression(name) == wanted


def _list_values(directory: str, tree: str) -> list[str]:
    """The names of the files with the values of a database, sorted."""
    return [name for name in _list_regular_files(directory) if is_values_file(name, tree)]


def _list_regular_files(directory: str) -> list[str]:
    """The names of the regular files in a directory, sorted. A link could lead elsewhere."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise UnreadableInput(f"{directory} cannot be read: {why}. Check the path and its permissions.") from None


@contextmanager
def _opened(request: Request, one: Input) -> Iterator["PrefixedStream"]:
    from perfloom.readers.hpctoolkit.prefixed_stream import PrefixedStream

    with open_decompressed(Path(one.path), request.limits.unpacked_bytes) as stream:
        yield PrefixedStream(cast(BinaryIO, ProgressStream(stream, lambda _: None)))
