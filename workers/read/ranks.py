"""Reading what the ranks of a planned job left: a directory with plan.json and run<r>/<rank>/…, brought from elsewhere.

One rank is read at a time, and of none more is kept than what is new in it. What cannot be read of one costs that one:
the result then says so.
"""

from collections.abc import Iterator
from pathlib import Path

from perfloom.analysis.distributed.clock_alignment import ClockAligner
from perfloom.domain.errors import Unavailable, UnreadableInput
from perfloom.domain.rank_state import parse_plan
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
    TEXTS,
    RankFolder,
    rank_folders,
    read_small_file,
)
from .request import AnswerWriter, Input, Request


def read_planned(request: Request, answers: AnswerWriter, spill: SpillFile) -> tuple[list[Path], MergedProfile]:
    """(texts that had to be made, the ranks as one) of the directory that the request names.

    Raises UnreadableInput where there is nothing to be shown, and what stops all reading.
    """
    assert request.planned is not None
    root = Path(request.planned)
    plan = parse_plan(read_small_file(root / PLAN, PLAN_BYTES))
    found = list(rank_folders(root, plan.artifacts))
    ranks = RankMerger(plan, ProfileMerger(spill, addresses=len(found) <= MAX_WITH_ADDRESSES, aligner=ClockAligner()))
    found = [one for one in found if ranks.is_planned(one.rank)]
    tasks = [(folder, wanted) for folder in found for wanted in _inputs(folder, ranks)]
    read = zip(tasks, read_all(request, answers, [wanted for _, wanted in tasks]), strict=True)
    written: list[Path] = []
    ready = next(read, None)
    for number, folder in enumerate(found):
        good, counts, beside = False, None, _counts_beside(folder)
        while ready is not None and ready[0][0] is folder:
            (_, wanted), one = ready
            if beside is not None and wanted.path == str(beside):
                counts = one
            else:
                good |= _take(one, folder, ranks, counts)
            ready = next(read, None)
        if not good:
            written += _read_here(folder, ranks, request, answers, number, len(found), counts)
        ranks.add_state(folder.rank)
    reasons = ranks.get_reasons()
    if ranks.empty and (reasons or not found):
        raise UnreadableInput(" ".join(("Nothing was recorded.", *reasons[:5], "See the job's output.")))
    answers.progress(None, "Merging the ranks", now=True)
    return written, ranks.finish()


def _inputs(folder: RankFolder, ranks: RankMerger) -> Iterator[Input]:
    """The counts, texts and other files of a rank."""
    text, counts = folder.one_of(TEXTS), folder.one_of(COUNTS)
    if counts is not None:
        yield Input(str(counts), ranks.format_file_name(folder.rank, counts.name))
    if text is not None:
        yield Input(str(text), ranks.format_file_name(folder.rank, text.name), script=str(text))
    for other in folder.others:
        yield Input(str(other), ranks.format_file_name(folder.rank, other.name))


def _counts_beside(folder: RankFolder) -> Path | None:
    """What perf stat counted while a rank was sampled. None for counts that are all that was to be recorded."""
    sampled = RECORDING in folder.files or folder.one_of(TEXTS) is not None
    return folder.one_of(COUNTS) if sampled else None


def _take(file_result: FileResult, folder: RankFolder, ranks: RankMerger, counts: FileResult | None = None) -> bool:
    """Take in what a file of a rank holds, with what was counted at the same time; False where it could not be read,
    which is told."""
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


def _read_here(
    folder: RankFolder,
    ranks: RankMerger,
    request: Request,
    answers: AnswerWriter,
    number: int,
    count: int,
    counts: FileResult | None,
) -> tuple[Path, ...]:
    """Have perf read a recording of which there is no text that could be. Returns the texts that were made. counts: see
    `_take`; without a recording to be read they are kept alone."""
    recording = folder.files.get(RECORDING)
    if recording is None or (folder.rank.state is not None and not folder.rank.state.recorded):
        if counts is not None:
            _take(counts, folder, ranks)
        return ()
    wanted = Input(str(recording), ranks.format_file_name(folder.rank, recording.name))
    found = read_one(request, answers, wanted, number, count)
    if isinstance(found.error, Unavailable) and found.error.__cause__ is not None:
        # A full disk is not this rank's fault.
        raise found.error
    if not _take(found, folder, ranks, counts):
        if counts is not None:
            _take(counts, folder, ranks)
        return ()
    ranks.add_note(
        folder.rank, "Its symbols were resolved on this machine, not where it ran. Some may be missing or wrong."
    )
    return found.written
