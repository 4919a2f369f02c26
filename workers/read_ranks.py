"""Reading what the ranks of a planned job left: a directory with plan.json and run<r>/<rank>/…, brought from elsewhere.

One rank is read at a time, and of none more is kept than what is new in it. What cannot be read of one costs that one:
the result then says so.
"""

from collections.abc import Iterator
from pathlib import Path

from perfloom.analysis.clocks import Alignment
from perfloom.domain.errors import Unavailable, UnreadableInput
from perfloom.domain.pieces import Spill
from perfloom.domain.rank_notes import parse_plan
from perfloom.readers.merge import FEW, Merged, Merging
from perfloom.readers.ranks import Ranks
from perfloom.workers.rank_folders import COUNTS, PLAN, PLAN_BYTES, RECORDING, TEXTS, Folder, folders, small_file
from perfloom.workers.read_ahead import Found, read_all, read_one
from perfloom.workers.read_request import Answers, Input, Request


def read_planned(request: Request, answers: Answers, spill: Spill) -> tuple[list[Path], Merged]:
    """(texts that had to be made, the ranks as one) of the directory that the request names.

    Raises UnreadableInput where there is nothing to be shown, and what stops all reading.
    """
    assert request.planned is not None
    root = Path(request.planned)
    plan = parse_plan(small_file(root / PLAN, PLAN_BYTES))
    found = list(folders(root))
    ranks = Ranks(plan, Merging(spill, addresses=len(found) <= FEW, aligner=Alignment()))
    found = [one for one in found if ranks.known(one.rank)]
    tasks = [(folder, wanted) for folder in found for wanted in _inputs(folder, ranks)]
    read = zip(tasks, read_all(request, answers, [wanted for _, wanted in tasks]), strict=True)
    written: list[Path] = []
    ready = next(read, None)
    for number, folder in enumerate(found):
        good = False
        while ready is not None and ready[0][0] is folder:
            good |= _take(ready[1], folder, ranks)
            ready = next(read, None)
        if not good:
            written += _read_here(folder, ranks, request, answers, number, len(found))
        ranks.seen(folder.rank)
    reasons = ranks.reasons()
    if ranks.empty and (reasons or not found):
        raise UnreadableInput(" ".join(("Nothing was recorded.", *reasons[:5], "Look at the job's output.")))
    answers.progress(None, "Brings the ranks together", now=True)
    return written, ranks.finish()


def _inputs(folder: Folder, ranks: Ranks) -> Iterator[Input]:
    """The texts, counts and traces of a rank."""
    text, counts = folder.one_of(TEXTS), folder.one_of(COUNTS)
    if counts is not None:
        yield Input(str(counts), ranks.name(folder.rank, counts.name))
    if text is not None:
        yield Input(str(text), ranks.name(folder.rank, text.name), script=str(text))
    for trace in folder.traces:
        yield Input(str(trace), ranks.name(folder.rank, trace.name))


def _take(found: Found, folder: Folder, ranks: Ranks) -> bool:
    """Take in what a file of a rank holds; False where it could not be read, which is told."""
    if found.error is not None:
        ranks.failed(folder.rank, found.error.message)
        return False
    if found.profile is not None:
        ranks.add(folder.rank, found.profile)
    return True


def _read_here(
    folder: Folder, ranks: Ranks, request: Request, answers: Answers, number: int, count: int
) -> tuple[Path, ...]:
    """Have perf read a recording of which there is no text that could be. Returns the texts that were made."""
    recording = folder.files.get(RECORDING)
    if recording is None or (folder.rank.state is not None and not folder.rank.state.recorded):
        return ()
    wanted = Input(str(recording), ranks.name(folder.rank, recording.name))
    found = read_one(request, answers, wanted, number, count)
    if isinstance(found.error, Unavailable) and found.error.__cause__ is not None:
        # A full disk is not this rank's fault.
        raise found.error
    if not _take(found, folder, ranks):
        return ()
    ranks.note(
        folder.rank, "The names of its functions were looked up here, not where it ran: some may be missing or wrong."
    )
    return found.written
