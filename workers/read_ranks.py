"""Reading what the ranks of a planned job left: a directory with plan.json and run<r>/<rank>/…, brought from elsewhere.

One rank is read at a time, and of none more is kept than what is new in it. What cannot be read of one costs that one:
the result then says so.
"""

from pathlib import Path

from perfloom.domain.errors import PerfloomError, UnreadableInput
from perfloom.domain.pieces import Spill
from perfloom.readers.merge import FEW, Merged, Merging
from perfloom.readers.rank_notes import RankState, parse_plan
from perfloom.readers.ranks import Ranks
from perfloom.workers.rank_folders import COUNTS, PLAN, PLAN_BYTES, RECORDING, TEXTS, Folder, folders, small_file
from perfloom.workers.read_files import Reading
from perfloom.workers.read_request import Answers, Input, Request


def read_planned(request: Request, answers: Answers, spill: Spill) -> tuple[list[Path], Merged]:
    """(texts that had to be made, the ranks as one) of the directory that the request names.

    Raises UnreadableInput where there is nothing to be shown, and what stops all reading.
    """
    assert request.planned is not None
    root = Path(request.planned)
    plan = parse_plan(small_file(root / PLAN, PLAN_BYTES))
    found = list(folders(root))
    ranks = Ranks(plan, Merging(spill, addresses=len(found) <= FEW))
    found = [one for one in found if ranks.known(one.rank)]
    written: list[Path] = []
    for number, folder in enumerate(found):
        written += _read(folder, ranks, request, answers, number, len(found))
        ranks.seen(folder.rank)
    reasons = ranks.reasons()
    if ranks.empty and (reasons or not found):
        raise UnreadableInput(" ".join(("Nothing was recorded.", *reasons[:5], "Look at the job's output.")))
    answers.progress(None, "Brings the ranks together", now=True)
    return written, ranks.finish()


def _read(folder: Folder, ranks: Ranks, request: Request, answers: Answers, number: int, count: int) -> list[Path]:
    """Take in what a rank recorded. Returns the texts that had to be made."""
    rank, files = folder.rank, folder.files
    text, recording, counts = folder.one_of(TEXTS), files.get(RECORDING), folder.one_of(COUNTS)
    state = rank.state or RankState()
    if counts is not None:
        _take(Input(str(counts), ranks.name(rank, counts.name)), folder, ranks, request, answers, number, count)
    if text is not None:
        wanted = Input(str(text), ranks.name(rank, text.name), script=str(text))
        if _take(wanted, folder, ranks, request, answers, number, count) is not None or recording is None:
            return []
    if recording is None or (text is None and not state.recorded):
        return []
    wanted = Input(str(recording), ranks.name(rank, recording.name))
    reading = _take(wanted, folder, ranks, request, answers, number, count)
    if reading is None:
        return []
    ranks.note(rank, "The names of its functions were looked up here, not where it ran: some may be missing or wrong.")
    return reading.written


def _take(
    wanted: Input, folder: Folder, ranks: Ranks, request: Request, answers: Answers, number: int, count: int
) -> Reading | None:
    """Read a file of a rank; None where that cannot be done, which is told."""
    reading = Reading(request, answers, wanted, number, count)
    try:
        profile = reading.read()
    except PerfloomError as error:
        ranks.failed(folder.rank, error.message)
        return None
    if profile is not None:
        ranks.add(folder.rank, profile)
    return reading
