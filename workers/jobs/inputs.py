"""Copying a job's input files and directories from this machine to the target.

Where another user runs jobs (`--run-as`), that user also lists their input files and copies them into the job's
directory here, from where they are sent. Opening them as the worker's user would follow links of that user.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar

from perfloom.domain.errors import InvalidRequest
from perfloom.recording.plan.runs import RUN_PLACEHOLDER, with_run_number
from perfloom.recording.quoting import join
from perfloom.store.files.disk import disk_errors, remove_tree

from ..base.jobfiles import JobFiles
from ..base.json_files import read_json, write_json
from ..base.scripts import worker_script
from ..transports import FileCopy, Progress, Transport
from ..transports.as_user import UserTransport

INPUTS_FILE = "inputs.json"
READ_FOLDER = "inputs"
"""In the job's directory here: input files as another user read them, until they are copied."""
ENTRY = "%y\\0%m\\0%s\\0%P\\0%l\\0"
"""For find(1): type, permissions, bytes, path below the listed directory, and target of a link."""
_BATCH_SIZE = 200
"""How many names one script has."""
T = TypeVar("T")


@dataclass
class InputFiles:
    """What is to be created at the target: directories, links (name and link target), and files.

    keep_permissions: of the files that this process reads. read: if another user reads the files, the path of each, and
    whether it may be executed.
    """

    keep_permissions: bool = False
    folders: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    files: list[FileCopy] = field(default_factory=list)
    read: list[tuple[str, bool]] = field(default_factory=list)

    def add_file(self, to: str, source: Path, status: os.stat_result) -> None:
        """Add a file that this process reads."""
        mode = stat.S_IMODE(status.st_mode) if self.keep_permissions else None
        self.files.append(FileCopy(to, source, status.st_size, mode))


def send_inputs(
    transport: Transport,
    files: JobFiles,
    paths: Sequence[str],
    to: str,
    *,
    own: bool,
    progress: Progress,
    reader: UserTransport | None = None,
    keep_permissions: bool = False,
) -> None:
    """Copy input files and directories into the directory `to` at the target, each under its own name.

    reader: the user that reads them here, null for this process. own: that directory is the job's. Elsewhere only what
    an earlier attempt copied is replaced. keep_permissions: of files that this process reads. May be interrupted and
    repeated. Raises InvalidRequest, Unavailable (a full disk), NotFound and Refused where the reader cannot read one,
    or what `progress` raised.
    """
    input_set = InputFiles(keep_permissions)
    for source in paths:
        name = str(PurePosixPath(to) / Path(source).name)
        if reader is None:
            _load(input_set, Path(source), name)
        else:
            _load_as(reader, input_set, source, name, files.root / READ_FOLDER)
    if not own:
        _refuse_to_replace(transport, files, [str(PurePosixPath(to) / Path(source).name) for source in paths])
    for part in _batches(input_set.folders):
        _run(transport, f"mkdir -p -- {join(part)}")
    for links in _batches(input_set.links):
        targets_and_paths = join([word for path, link_target in links for word in (link_target, path)])
        _run(transport, f"set -- {targets_and_paths}\n{worker_script('jobs/create_links.sh')}")
    try:
        if reader is not None:
            _read_as(reader, input_set, progress)
        transport.put(input_set.files, progress)
    finally:
        if reader is not None:
            remove_tree(files.root / READ_FOLDER)


def input_files(inputs: Sequence[str], runs: int) -> tuple[str, ...]:
    """The input files of all runs, with the run's number in them where there are several.

    Raises InvalidRequest where one cannot be copied, or two have one name.
    """
    paths = list(inputs)
    if runs > 1:
        paths = [with_run_number(one, run) for one in inputs for run in range(runs if RUN_PLACEHOLDER in one else 1)]
    _input_names(paths)
    return tuple(paths)


def _input_names(inputs: Sequence[str]) -> tuple[str, ...]:
    """The names that input files have where they are copied to. Raises InvalidRequest for what cannot be copied."""
    for path in inputs:
        if not Path(path).is_absolute():
            raise InvalidRequest(f"The input file {path} is not an absolute path. Start it with /.", "inputs")
    names = tuple(Path(path).name for path in inputs)
    if "" in names or ".." in names or len(set(names)) < len(names):
        raise InvalidRequest("Two input files have the same name, or one has none. Rename one of them.", "inputs")
    return names


def is_in_place(source: str, to: str) -> bool:
    """Whether an input is already where it would be copied on this machine, in the directory `to`."""
    if PurePosixPath(source) == PurePosixPath(to) / PurePosixPath(source).name:
        return True
    try:
        return Path(source).samefile(Path(to) / Path(source).name)
    except OSError:
        return False


def _load(input_set: InputFiles, source: Path, to: str) -> None:
    try:
        if source.is_dir():
            input_set.folders.append(to)
            _load_folder(input_set, source, to)
        elif source.is_file():
            input_set.add_file(to, source, source.stat())
        else:
            text = f"The input file {source} does not exist or is not a regular file on the worker's machine."
            raise InvalidRequest(text, "inputs")
    except OSError as error:
        raise InvalidRequest(f"The input file {source} cannot be read: {error.strerror}.", "inputs") from None


def _load_folder(input_set: InputFiles, source: Path, to: str) -> None:
    with os.scandir(source) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            name = f"{to}/{entry.name}"
            if entry.is_symlink():
                input_set.links.append((name, os.readlink(entry.path)))
            elif entry.is_dir():
                input_set.folders.append(name)
                _load_folder(input_set, Path(entry.path), name)
            elif entry.is_file():
                input_set.add_file(name, Path(entry.path), entry.stat())


def _load_as(reader: UserTransport, input_set: InputFiles, source: str, to: str, folder: Path) -> None:
    """The same, as a user lists it. Files are to be read into `folder`. The listing is not trusted, so it determines no
    name of a file here."""
    done = reader.run(f"set -- {join((source, ENTRY))}\n{worker_script('jobs/list_input.sh')}")
    if done.status != 0:
        message = " ".join(done.errors.split())[:300] or "find gives no reason"
        raise InvalidRequest(f"The input file {source} cannot be read by {reader.user}: {message}.", "inputs")
    words = os.fsdecode(done.stdout).split("\0")[:-1]
    for kind, mode, size, below, link_target in zip(*[iter(words)] * 5, strict=True):
        name = f"{to}/{below}" if below else to
        if kind == "d":
            input_set.folders.append(name)
        elif kind == "l" and below:
            input_set.links.append((name, link_target))
        elif kind == "f":
            number = len(input_set.files)
            input_set.files.append(FileCopy(name, folder / str(number), int(size)))
            input_set.read.append((f"{source}/{below}" if below else source, int(mode, 8) & 0o111 != 0))
        elif not below:
            raise InvalidRequest(f"The input file {source} is not a regular file on the worker's machine.", "inputs")


def _read_as(reader: UserTransport, input_set: InputFiles, progress: Progress) -> None:
    reading = [
        FileCopy(source, file.local, file.bytes)
        for file, (source, _) in zip(input_set.files, input_set.read, strict=True)
    ]
    for file in reading[:1]:
        remove_tree(file.local.parent)
        with disk_errors(file.local):
            file.local.parent.mkdir(mode=0o700)
    reader.get(reading, progress)
    for file, (_, executable) in zip(input_set.files, input_set.read, strict=True):
        file.local.chmod(0o700 if executable else 0o600)


def _refuse_to_replace(transport: Transport, files: JobFiles, paths: Sequence[str]) -> None:
    note = files.run / INPUTS_FILE
    copied = set((read_json(note) or {}).get("copied", ()))
    foreign = [name for name in paths if name not in copied]
    for part in _batches(foreign):
        listing = f"set -- {join(part)}\n{worker_script('jobs/existing_files.sh')}"
        if existing := transport.run(listing).text.strip():
            raise InvalidRequest(
                f"{existing.splitlines()[0]} already exists and is not replaced. Remove it, remove the input file, "
                "or leave the working directory empty.",
                "inputs",
            )
    write_json(note, {"copied": sorted(copied | set(paths))})


def _run(transport: Transport, script: str) -> None:
    done = transport.run(script)
    if done.status != 0:
        messages = done.errors.strip().splitlines() or ["no reason was given"]
        raise InvalidRequest(f"Input files cannot be copied to {transport.title}: {messages[-1][:300]}.", "inputs")


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _BATCH_SIZE] for start in range(0, len(items), _BATCH_SIZE))
