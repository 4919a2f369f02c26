"""The collected directory of a planned job: which files each rank has. Other files are ignored."""

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.rank_state import (
    BUILD_IDS_FILE,
    COUNTS_FILE,
    RECORDING_FILE,
    TEXT_FILES,
    Rank,
    is_artifact,
    is_rank_folder,
    is_trace_file,
    parse_run_folder,
    parse_state,
)

PLAN = "plan.json"
STATE = "state"
RECORDING = RECORDING_FILE
SYMBOLS, PACKED_TEXT = f"{RECORDING}.symbols.zst", f"{RECORDING}.script.zst"
"""What is written when a recording without text is read."""
TEXTS = (*TEXT_FILES, PACKED_TEXT)
COUNTS = tuple(f"{COUNTS_FILE}{packed}" for packed in ("", ".zst", ".gz"))
BUILD_IDS = BUILD_IDS_FILE
KNOWN_FILES = (STATE, RECORDING, SYMBOLS, *TEXTS, BUILD_IDS, *COUNTS)
PLAN_BYTES = 4 << 20
STATE_BYTES = 64 << 10


@dataclass(frozen=True)
class RankFolder:
    """The files of a rank. files: existing files of KNOWN_FILES and other files of the recorder, by name."""

    rank: Rank
    files: dict[str, Path]

    @property
    def others(self) -> list[Path]:
        """The other files of the recorder, such as the trace of each process, by name."""
        return [path for name, path in self.files.items() if name not in KNOWN_FILES]

    @property
    def recordings(self) -> list[Path]:
        """The list of build ids and the recording of perf."""
        return [self.files[name] for name in (BUILD_IDS, RECORDING) if name in self.files]

    def one_of(self, names: tuple[str, ...]) -> Path | None:
        """The first of these files that exists; None if there is none."""
        return next((self.files[name] for name in names if name in self.files), None)


def rank_folders(root: Path, artifacts: Collection[str] = ()) -> Iterator[RankFolder]:
    """The files of each rank, in order. Only regular files in real directories; links are ignored. artifacts: names of
    files of the recorder, or patterns of them."""
    runs = {number: path for path in _subdirectories(root) if (number := parse_run_folder(path.name)) is not None}
    for run in sorted(runs):
        found = []
        for path in _subdirectories(runs[run]):
            if is_rank_folder(path.name):
                others = sorted(name for name in _names(path) if is_trace_file(name) or is_artifact(name, artifacts))
                files = {name: path / name for name in (*KNOWN_FILES, *others) if _is_regular_file(path / name)}
                state = parse_state(read_small_file(files[STATE], STATE_BYTES)) if STATE in files else None
                found.append(RankFolder(Rank(run, path.name, state), files))
        yield from sorted(found, key=lambda folder: folder.rank.sort_key)


def _subdirectories(folder: Path) -> list[Path]:
    """The directories in a directory, without links."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return []


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)
    return []


def _is_regular_file(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode)


def read_small_file(path: Path, most: int) -> bytes:
    """The first `most` bytes of a regular file that is not a link. Raises UnreadableInput."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("it is not a regular file")
            return file.read(most)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise UnreadableInput(f"{path} cannot be read: {why}. Submit the job again.") from None
