"""Reads files, or the recordings of the ranks of a planned job, into the columns of one profile."""

import json
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.rank_state import COUNTS_FILE, RECORDING_FILE, TEXT_FILES
from perfloom.domain.tables import get_column
from perfloom.domain.validation import sum_overflows
from perfloom.ingest.chunked_tables import SpillFile
from perfloom.ingest.merge import MAX_WITH_ADDRESSES, MergedProfile, Origin, ProfileMerger
from perfloom.ingest.stat_counts import add_counts, add_counts_loss
from perfloom.ingest.switch_output_names import group_switch_output
from perfloom.store.files import columns

from .databases import find_trees, read_database
from .parallel import read_all
from .request import DESCRIPTION_FILE, AnswerWriter, Input, Request
from .result_sets import find_indexes, read_result_set

if TYPE_CHECKING:
    from perfloom.analysis.distributed.clock_alignment import ClockAligner

RECORDINGS = (RECORDING_FILE, *TEXT_FILES)


def read_columns(request: Request, answers: AnswerWriter) -> tuple[Path, ...]:
    """Read all inputs of the request. Returns the text files that were written. Raises PerfloomError, OSError."""
    assert request.out is not None
    with tempfile.TemporaryFile(dir=request.scratch, buffering=0) as file:
        spill = SpillFile(cast(BinaryIO, file))
        if request.planned is not None:
            written, merged = _read_planned(request, answers, spill)
        else:
            written, merged = _read_files(request, answers, spill)
        answers.progress(None, "Storing", now=True)
        profile = replace(merged.profile, meta=update_meta(merged.profile.meta, request.meta or {}))
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(columns.write, profile, Path(request.out), merged.chunked_tables)
            is_whole = not merged.chunked_tables
            if request.describe and is_whole:
                _write_description(request, profile)
            del profile, merged
            writing.result()
    if request.describe and not is_whole:
        _write_description(request)
    return tuple(written)


def _write_description(request: Request, profile: Profile | None = None) -> None:
    """Describe the profile, None for the stored one, for the caller, which then needs not load it and the libraries for
    it.

    The caller does it itself if the memory limit does not suffice for a profile that was written in pieces, or the disk
    is full.
    """
    from perfloom.store.description import describe_profile

    assert request.out is not None
    with suppress(MemoryError, OSError):
        description = describe_profile(columns.read(Path(request.out)) if profile is None else profile)
        path = Path(request.scratch, DESCRIPTION_FILE)
        # If the disk is full, only the temporary file is incomplete.
        temporary = path.with_name(f".{path.name}")
        temporary.write_text(json.dumps(description), encoding="utf-8")
        temporary.rename(path)


def _read_files(request: Request, answers: AnswerWriter, spill: SpillFile) -> tuple[list[Path], MergedProfile]:
    """(text files that were written, merged profile). Several files are ranks, except those of one recording."""
    if group_switch_output([one.name for one in request.inputs]):
        from .switch_output import join_switch_output

        with join_switch_output(request, answers) as joined:
            return _read_inputs(joined.request, answers, spill, joined.complete)
    return _read_inputs(request, answers, spill, lambda number, profile: profile)


def _read_inputs(
    request: Request, answers: AnswerWriter, spill: SpillFile, complete: Callable[[int, Profile], Profile]
) -> tuple[list[Path], MergedProfile]:
    """Like `_read_files`. complete: the final profile of an input, by its index."""
    count = len(request.inputs)
    if has_counts_file(request.inputs):
        return _read_both(request, answers)
    if count > 1 and (indexes := find_indexes(request.inputs)):
        profile = read_result_set(request, answers, indexes)
        _check_weights(profile)
        return [], MergedProfile(profile, {})
    if count > 1 and (trees := find_trees(request.inputs)):
        profile = read_database(request, answers, trees)
        _check_weights(profile)
        return [], MergedProfile(profile, {})
    merging = ProfileMerger(spill, addresses=count <= MAX_WITH_ADDRESSES, aligner=_aligner() if count > 1 else None)
    written: list[Path] = []
    for number, found in enumerate(read_all(request, answers, request.inputs)):
        if found.error is not None:
            raise found.error
        written += found.written
        if found.unpacked is not None and count == 1:
            return _read_planned(replace(request, planned=str(found.unpacked)), answers, spill)
        if found.profile is None:
            raise UnreadableInput(f"{request.inputs[number].name} contains all ranks of a job. Read it separately.")
        profile = complete(number, found.profile)
        _check_weights(profile)
        if count == 1:
            return written, MergedProfile(profile, {})
        merging.add(profile, Origin(f"rank {merging.process_count}", merging.process_count))
    answers.progress(None, "Merging the ranks", now=True)
    return written, merging.finish()


def _aligner() -> "ClockAligner":
    # Imported here, because only several ranks need it, and it brings analyses.
    from perfloom.analysis.distributed.clock_alignment import ClockAligner

    return ClockAligner()


def _read_planned(request: Request, answers: AnswerWriter, spill: SpillFile) -> tuple[list[Path], MergedProfile]:
    from .ranks import read_planned

    return read_planned(request, answers, spill)


def has_counts_file(inputs: Sequence[Input]) -> bool:
    """Whether the inputs are a recording and the output of a perf stat that ran at the same time."""
    names = [one.name for one in inputs]
    return len(names) == 2 and COUNTS_FILE in names and any(name.startswith(RECORDINGS) for name in names)


def _read_both(request: Request, answers: AnswerWriter) -> tuple[list[Path], MergedProfile]:
    """Like `_read_files`, for a recording with counts. If only the counts are unreadable, that is a loss."""
    recording = counts = None
    for one, found in zip(request.inputs, read_all(request, answers, request.inputs), strict=True):
        if one.name == COUNTS_FILE:
            counts = found
        elif found.error is not None:
            raise found.error
        else:
            recording = found
    assert recording is not None and recording.profile is not None and counts is not None
    _check_weights(recording.profile)
    if counts.profile is not None:
        profile = add_counts(recording.profile, counts.profile)
    else:
        profile = add_counts_loss(recording.profile, counts.error.message if counts.error else "It is not text.")
    return list(recording.written), MergedProfile(profile, {})


def _check_weights(profile: Profile) -> None:
    """Raise UnreadableInput if the sum of the weights overflows. No valid recording has such weights."""
    if sum_overflows(get_column(profile.samples, "weight")):
        raise UnreadableInput(
            "The weights of the samples add up to more than 2^63, which is impossible: the file is damaged. "
            "Export it again."
        )


def update_meta(meta: Meta, changes: dict[str, Any]) -> Meta:
    """`meta` with the caller's changes; `reasons` and `facts` are added to the existing ones."""
    names = {field.name for field in fields(Meta)}
    changes = {name: value for name, value in changes.items() if name in names}
    reasons = tuple(dict.fromkeys((*meta.reasons, *changes.pop("reasons", ()))))
    facts = meta.facts | changes.pop("facts", {})
    if not meta.complete:
        changes.pop("complete", None)
    return replace(meta, **changes, reasons=reasons, facts=facts)
