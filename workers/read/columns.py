"""Reading files, or what the ranks of a planned job left, into the columns of one profile."""

import tempfile
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from perfloom.analysis.distributed.clocks import Alignment
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.tables import column
from perfloom.domain.validity import too_heavy
from perfloom.ingest.counted import with_counts, without_counts
from perfloom.ingest.merge import FEW, Merged, Merging, Origin
from perfloom.ingest.pieces import Spill
from perfloom.store.files import columns
from perfloom.workers.read.ahead import read_all
from perfloom.workers.read.ranks import read_planned
from perfloom.workers.read.request import Answers, Input, Request

COUNTS = "perf-stat.txt"
RECORDINGS = ("perf.data", "perf.script")


def read_columns(request: Request, answers: Answers) -> tuple[Path, ...]:
    """Read all that the request names. Returns the texts that were written. Raises PerfloomError, OSError."""
    assert request.out is not None
    with tempfile.TemporaryFile(dir=request.scratch, buffering=0) as file:
        spill = Spill(cast(BinaryIO, file))
        if request.planned is not None:
            written, merged = read_planned(request, answers, spill)
        else:
            written, merged = _read_files(request, answers, spill)
        answers.progress(None, "Stores", now=True)
        profile = replace(merged.profile, meta=told(merged.profile.meta, request.meta or {}))
        columns.write(profile, Path(request.out), merged.pieces)
    return tuple(written)


def _read_files(request: Request, answers: Answers, spill: Spill) -> tuple[list[Path], Merged]:
    """(texts that were written, what is in the files), which are ranks where there are several."""
    count = len(request.inputs)
    if counts_beside(request.inputs):
        return _read_both(request, answers)
    merging = Merging(spill, addresses=count <= FEW, aligner=Alignment() if count > 1 else None)
    written: list[Path] = []
    for number, found in enumerate(read_all(request, answers, request.inputs)):
        if found.error is not None:
            raise found.error
        written += found.written
        if found.unpacked is not None and count == 1:
            return read_planned(replace(request, planned=str(found.unpacked)), answers, spill)
        if found.profile is None:
            raise UnreadableInput(f"{request.inputs[number].name} holds all ranks of a job; read it alone.")
        _check_weights(found.profile)
        if count == 1:
            return written, Merged(found.profile, {})
        merging.add(found.profile, Origin(f"rank {merging.processes}", merging.processes))
    answers.progress(None, "Brings the ranks together", now=True)
    return written, merging.finish()


def counts_beside(inputs: Sequence[Input]) -> bool:
    """Whether these are a recording and what perf stat counted at the same time."""
    names = [one.name for one in inputs]
    return len(names) == 2 and COUNTS in names and any(name.startswith(RECORDINGS) for name in names)


def _read_both(request: Request, answers: Answers) -> tuple[list[Path], Merged]:
    """The same of a recording with counts beside it. Without the counts the rest is still good."""
    recording = counts = None
    for one, found in zip(request.inputs, read_all(request, answers, request.inputs), strict=True):
        if one.name == COUNTS:
            counts = found
        elif found.error is not None:
            raise found.error
        else:
            recording = found
    assert recording is not None and recording.profile is not None and counts is not None
    _check_weights(recording.profile)
    if counts.profile is not None:
        profile = with_counts(recording.profile, counts.profile)
    else:
        profile = without_counts(recording.profile, counts.error.message if counts.error else "It is no text.")
    return list(recording.written), Merged(profile, {})


def _check_weights(profile: Profile) -> None:
    """Refuse a profile whose weights no sum can hold. Those that are read here never are so."""
    if too_heavy(column(profile.samples, "weight")):
        raise UnreadableInput(
            "The weights of the samples add up to more than 2^63, which cannot be right: the file is damaged. "
            "Export it again."
        )


def told(meta: Meta, changes: dict[str, Any]) -> Meta:
    """`meta` with what the caller knows better; reasons are added to those there are."""
    known = {field.name for field in fields(Meta)}
    changes = {name: value for name, value in changes.items() if name in known}
    reasons = tuple(dict.fromkeys((*meta.reasons, *changes.pop("reasons", ()))))
    if not meta.complete:
        changes.pop("complete", None)
    return replace(meta, **changes, reasons=reasons)
