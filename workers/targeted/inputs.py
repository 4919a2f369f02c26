"""A job's input files on their way from this machine to where the job runs: files and whole directories."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.jobs import JobSpec
from perfloom.launchers.quoting import join, quote
from perfloom.launchers.runs import RUN, numbered
from perfloom.workers.jobfiles import JobFiles, input_names
from perfloom.workers.supervisor import read_json, write_json
from perfloom.workers.transports import Copy, Progress, Transport

NOTE = "inputs.json"
_AT_ONCE = 200
"""How many names go into one script."""
T = TypeVar("T")


@dataclass
class Freight:
    """What is to be made at the target: directories, links (name and what it says), and files."""

    folders: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    files: list[Copy] = field(default_factory=list)


def send(
    there: Transport, spec: JobSpec, files: JobFiles, given: Sequence[str], to: str, *, own: bool, progress: Progress
) -> None:
    """Copy input files and directories into the directory `to` at the target, each under its own name.

    own: that directory is the job's. Elsewhere nothing is replaced but what an earlier attempt copied. May be
    interrupted and done again. Raises InvalidRequest, Unavailable (a full disk), or what `progress` raised.
    """
    freight = Freight()
    for source in given:
        _load(freight, Path(source), str(PurePosixPath(to) / Path(source).name))
    if not own:
        _refuse_to_replace(there, files, [str(PurePosixPath(to) / Path(source).name) for source in given])
    for part in _parts(freight.folders):
        _make(there, f"mkdir -p -- {join(part)}")
    for links in _parts(freight.links):
        _make(there, "\n".join(f"ln -sfn -- {quote(says)} {quote(name)} || exit" for name, says in links))
    there.put(freight.files, progress)


def names(inputs: Sequence[str], runs: int) -> tuple[str, ...]:
    """The input files of all runs, with the run's number in them where there are several.

    Raises InvalidRequest where one cannot be copied, or two have one name.
    """
    given = list(inputs)
    if runs > 1:
        given = [numbered(one, run) for one in inputs for run in range(runs if RUN in one else 1)]
    input_names(given)
    return tuple(given)


def _load(freight: Freight, source: Path, to: str) -> None:
    try:
        if source.is_dir():
            freight.folders.append(to)
            _load_folder(freight, source, to)
        elif source.is_file():
            freight.files.append(Copy(to, source, source.stat().st_size))
        else:
            text = f"The input file {source} does not exist or is no plain file on the worker's machine."
            raise InvalidRequest(text, "inputs")
    except OSError as error:
        raise InvalidRequest(f"The input file {source} cannot be read: {error.strerror}.", "inputs") from None


def _load_folder(freight: Freight, source: Path, to: str) -> None:
    with os.scandir(source) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            name = f"{to}/{entry.name}"
            if entry.is_symlink():
                freight.links.append((name, os.readlink(entry.path)))
            elif entry.is_dir():
                freight.folders.append(name)
                _load_folder(freight, Path(entry.path), name)
            elif entry.is_file():
                freight.files.append(Copy(name, Path(entry.path), entry.stat().st_size))


def _refuse_to_replace(there: Transport, files: JobFiles, wanted: Sequence[str]) -> None:
    note = files.run / NOTE
    ours = set((read_json(note) or {}).get("copied", ()))
    foreign = [name for name in wanted if name not in ours]
    for part in _parts(foreign):
        tests = "\n".join(
            f"if [ -e {quote(n)} ] || [ -L {quote(n)} ]; then printf '%s\\n' {quote(n)}; fi" for n in part
        )
        if found := there.run(tests).text.strip():
            raise InvalidRequest(
                f"{found.splitlines()[0]} is there already and is not replaced. Remove it, leave the input file out, "
                "or leave the working directory empty.",
                "inputs",
            )
    write_json(note, {"copied": sorted(ours | set(wanted))})


def _make(there: Transport, script: str) -> None:
    done = there.run(script)
    if done.status != 0:
        said = done.errors.strip().splitlines() or ["it was not said why"]
        raise InvalidRequest(f"Input files cannot be put on {there.where}: {said[-1][:300]}.", "inputs")


def _parts(whole: Sequence[T]) -> Iterator[Sequence[T]]:
    return (whole[start : start + _AT_ONCE] for start in range(0, len(whole), _AT_ONCE))
