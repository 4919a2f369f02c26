"""Reads the recordings of the ranks of a planned job: a collected directory with plan.json and run<r>/<rank>/….

Ranks are merged one at a time, and only new frames, stacks and names are kept. If a rank cannot be read, the result
lacks that rank and reports it.
"""

from collections.abc import Iterator
from pathlib import Path

from perfloom.analysis.distributed.clock_alignment import ClockAligner
from perfloom.domain.errors import Unavailable, UnreadableInput
from perfloom.domain.rank_state import WITH_TABLES, parse_plan
from perfloom.ingest.chunked_tables import SpillFile
from perfloom.ingest.merge import MAX_WITH_ADDRESSES, MergedProfile, ProfileMerger
from perfloom.ingest.rank_merge import RankMerger
from perfloom.ingest.stat_counts import add_counts, add_counts_loss

from .parallel import FileResult, read_all, read_one
from .rank_folders import (
    COUNTS,
    PLAN,
    PLAN_BYTES,
    RECORDING,
    SYMBOLS,
    TEXTS,
    RankFolder,
    rank_folders,
    read_small_file,
)
from .request import AnswerWriter, Input, Request


def read_planned(request: Request, answers: AnswerWriter, spill: SpillFile) -> tuple[list[Path], MergedProfile]:
    """(text files that were written, merged profile) of the request's directory `planned`.

    Raises UnreadableInput if nothing was recorded, and errors that affect all ranks.
    """
    assert request.planned is not None
    root = Path(request.planned)
    plan = parse_plan(read_small_file(root / PLAN, PLAN_BYTES))
    found = list(rank_folders(root, plan.artifacts))
    ranks = RankMerger(plan, ProfileMerger(spill, addresses=len(found) <= MAX_WITH_ADDRESSES, aligner=ClockAligner()))
    found = [one for one in found if ranks.is_planned(one.rank)]
    tasks = [(folder, input) for folder in found for input in _inputs(folder, ranks, request)]
    read = zip(tasks, read_all(request, answers, [input for _, input in tasks]), strict=True)
    written: list[Path] = []
    ready = next(read, None)
    for number, folder in enumerate(found):
        good, counts, counts_path = False, None, _counts_with_samples(folder)
        while ready is not None and ready[0][0] is folder:
            (_, input), one = ready
            if counts_path is not None and input.path == str(counts_path):
                counts = one
            elif input.path == str(folder.files.get(RECORDING)):
                good |= _add_recording(one, folder, ranks, counts)
                written += one.written
            else:
                good |= _add_result(one, folder, ranks, counts)
            ready = next(read, None)
        if not good and folder.one_of(TEXTS) is not None and (again := _recording_input(folder, ranks, request)):
            one = read_one(request, answers, again, number, len(found))
            good = _add_recording(one, folder, ranks, counts)
            written += one.written
        if not good and counts is not None:
            _add_result(counts, folder, ranks)
        ranks.add_state(folder.rank)
    reasons = ranks.get_reasons()
    if ranks.empty and (reasons or not found):
        raise UnreadableInput(" ".join(("Nothing was recorded.", *reasons[:5], "See the job's output.")))
    answers.progress(None, "Merging the ranks", now=True)
    return written, ranks.finish()


def _inputs(folder: RankFolder, ranks: RankMerger, request: Request) -> Iterator[Input]:
    """The counts, the text, else the recording, and the other files of a rank."""
    text, counts = folder.one_of(TEXTS), folder.one_of(COUNTS)
    if counts is not None:
        yield Input(str(counts), ranks.format_file_name(folder.rank, counts.name))
    if text is not None:
        yield Input(str(text), ranks.format_file_name(folder.rank, text.name), script=str(text))
    elif recording := _recording_input(folder, ranks, request):
        yield recording
    for other in folder.others:
        yield Input(str(other), ranks.format_file_name(folder.rank, other.name))


def _counts_with_samples(folder: RankFolder) -> Path | None:
    """The output of a perf stat that ran while the rank was sampled. None if only counts were recorded."""
    sampled = RECORDING in folder.files or folder.one_of(TEXTS) is not None
    return folder.one_of(COUNTS) if sampled else None


def _add_result(
    file_result: FileResult, folder: RankFolder, ranks: RankMerger, counts: FileResult | None = None
) -> bool:
    """Add the profile of a rank's file, with the counts of the same time. If it could not be read, add the failure and
    return False."""
    if file_result.error is not None:
        ranks.add_failure(folder.rank, file_result.error.message)
        return False
    profile = file_result.profile
    if profile is not None and counts is not None:
        if counts.profile is not None:
            profile = add_counts(profile, counts.profile)
        else:
            profile = add_counts_loss(profile, counts.error.message if counts.error else "It is not text.")
    if profile is not None:
        ranks.add(folder.rank, profile)
    return True


def _recording_input(folder: RankFolder, ranks: RankMerger, request: Request) -> Input | None:
    """The perf.data file of a rank, of which there is no readable text."""
    recording = folder.files.get(RECORDING)
    if recording is None or (folder.rank.state is not None and not folder.rank.state.recorded):
        return None
    symbols = folder.files.get(SYMBOLS)
    return Input(
        str(recording),
        ranks.format_file_name(folder.rank, recording.name),
        symbols=None if symbols is None else str(symbols),
        folder=_find_folder(request, recording),
    )


def _add_recording(found: FileResult, folder: RankFolder, ranks: RankMerger, counts: FileResult | None) -> bool:
    """Like `_add_result`, for a perf.data file that was read here. Raises Unavailable."""
    if isinstance(found.error, Unavailable) and found.error.__cause__ is not None:
        # A full disk is not this rank's fault.
        raise found.error
    if not _add_result(found, folder, ranks, counts):
        return False
    if folder.rank.state is None or folder.rank.state.text_status != WITH_TABLES:
        ranks.add_note(
            folder.rank, "Its symbols were resolved on this machine, not where it ran. Some may be missing or wrong."
        )
    return True


def _find_folder(request: Request, recording: Path) -> str | None:
    """The directory of a rank within that of the job; None for an archive, which is stored as it is."""
    assert request.planned is not None
    if Path(request.planned).is_relative_to(request.scratch):
        return None
    return str(recording.parent.relative_to(request.planned))
