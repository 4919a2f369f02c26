"""Reads result sets of PerfAnalyzer: a .results file with the data files that it lists, given together or beside it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from perfloom.domain.errors import PerfloomError, UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.ingest.compression import open_decompressed
from perfloom.ingest.result_set_names import COMPRESSION_SUFFIXES, INDEX_SUFFIX, SETTINGS_SUFFIX, strip_compression
from perfloom.store.files.disk import safe_name

from .files import ProgressStream
from .request import AnswerWriter, Input, Request

SNIFFED_BYTES = 1 << 14
MAX_LISTED_BYTES = 1 << 24


def find_indexes(inputs: Sequence[Input]) -> list[Input]:
    """The inputs that are .results files of PerfAnalyzer, by name and content."""
    found = []
    for one in inputs:
        if one.path != "-" and strip_compression(one.name).endswith(INDEX_SUFFIX):
            from perfloom.readers.perfanalyzer import is_index

            try:
                with open_decompressed(Path(one.path), MAX_LISTED_BYTES) as stream:
                    if is_index(stream.peek(SNIFFED_BYTES)):
                        found.append(one)
            except PerfloomError:
                # Reported when it is read.
                continue
    return found


def read_result_set(request: Request, answers: AnswerWriter, indexes: Sequence[Input]) -> Profile:
    """The profile of the request's inputs, with these .results files. Raises UnreadableInput, TooLarge."""
    from perfloom.readers.perfanalyzer import ResultSetReader

    if len(indexes) > 1:
        raise UnreadableInput(
            f"{indexes[0].name} and {indexes[1].name} are two result sets of PerfAnalyzer. Import each with its own "
            "data files, then compare the results."
        )
    (index,) = indexes
    if request.clock:
        raise UnreadableInput(
            f"{index.name} is a result set of PerfAnalyzer, which has a time unit. Do not set the clock."
        )
    with _opened(request, index) as stream:
        reader = ResultSetReader(stream, index.name)
    others = {strip_compression(one.name): one for one in request.inputs if one is not index}
    names = reader.names
    for number, name in enumerate(names):
        # Stored files have safe names.
        one = others.pop(name, None) or others.pop(safe_name(name), None)
        if one is None:
            continue
        label = f"Reading ({number + 1:,} of {len(names):,})"
        answers.progress(number / len(names), label)
        try:
            with _opened(request, one) as stream:
                reader.add_file(name, stream)
        except UnreadableInput as error:
            reader.add_failure(name, error.message)
    for name, one in list(others.items()):
        if name.endswith(SETTINGS_SUFFIX):
            with _opened(request, one) as stream:
                reader.add_settings(stream, one.name)
            del others[name]
    reader.add_unlisted(one.name for one in others.values())
    return reader.finish()


def add_files_beside(files: Sequence[str]) -> tuple[str, ...]:
    """`files`; if it is one .results file, also the data files that it lists and its settings, as far as they are
    regular files in its directory. Other names that it lists are ignored."""
    if len(files) != 1 or not strip_compression(files[0]).endswith(INDEX_SUFFIX):
        return tuple(files)
    path = Path(files[0])
    index = Input(str(path), path.name)
    if not find_indexes([index]):
        return tuple(files)
    return (files[0], *(str(path.parent / name) for name in _list_beside(path)))


def _list_beside(path: Path) -> Iterator[str]:
    from perfloom.readers.perfanalyzer import read_index

    with open_decompressed(path, MAX_LISTED_BYTES) as stream:
        names = [file.name for file in read_index(cast(BinaryIO, stream), path.name).files]
    settings = strip_compression(path.name).removesuffix(INDEX_SUFFIX) + SETTINGS_SUFFIX
    yield from _existing(path.parent, (*names, settings))


def _existing(directory: Path, names: Iterable[str]) -> Iterator[str]:
    """The names of regular files in a directory, also compressed. A link could lead elsewhere."""
    for name in names:
        for suffix in ("", *COMPRESSION_SUFFIXES):
            beside = directory / (name + suffix)
            try:
                found = name + suffix == beside.name and beside.is_file() and not beside.is_symlink()
            except OSError:
                # Too long for a name, or not permitted.
                continue
            if found:
                yield beside.name
                break


@contextmanager
def _opened(request: Request, one: Input) -> Iterator[BinaryIO]:
    with open_decompressed(Path(one.path), request.limits.unpacked_bytes) as stream:
        yield cast(BinaryIO, ProgressStream(stream, lambda _: None))
