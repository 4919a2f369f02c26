"""A job's directory: its files, its locks, and the environment of the program."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perfloom.store.files.disk import disk_errors, remove_tree
from perfloom.store.files.locks import try_lock

from .json_files import read_json, write_json
from .processes import clean_environment

if TYPE_CHECKING:
    # Not imported at run time: `perfloom import` sends the request to its reader process before it loads this.
    from perfloom.domain.jobs import JobSpec

JOB_VARIABLE = "PERFLOOM_JOB"
"""Environment variable of every process of a job: its id. It identifies processes that lost their ancestors."""
ENVIRONMENT = "environment.json"


@dataclass(frozen=True)
class JobFiles:
    """The directory of one job. work: the default working directory. run: files that supervisor and steps exchange."""

    root: Path

    @property
    def work(self) -> Path:
        """Where the command runs unless the job says otherwise."""
        return self.root / "work"

    @property
    def artifacts(self) -> Path:
        """What was recorded, or uploaded."""
        return self.root / "artefacts"

    @property
    def output(self) -> Path:
        """What the program printed."""
        return self.root / "output.log"

    @property
    def run(self) -> Path:
        """Between the supervisor and the steps."""
        return self.root / "run"

    def prepare(self) -> None:
        """Create the directories, and remove what an earlier attempt recorded in part."""
        with disk_errors(self.root):
            remove_tree(self.artifacts)
            for path in (self.root, self.run, self.work, self.artifacts):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.output.touch(mode=0o600)

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """Whether this process may work on the job now; no other process may until this one ends."""
        with disk_errors(self.root):
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with try_lock(self.root / "lock") as locked:
            yield locked

    @contextlib.contextmanager
    def runner_lock(self) -> Iterator[bool]:
        """Whether this process, of those that commands start, is the only one that takes the job's steps."""
        with disk_errors(self.root):
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with try_lock(self.root / "runner.lock") as lock:
            yield lock

    def recorded_files(self) -> tuple[Path, ...]:
        """The files of the artifacts directory that are not empty, by name."""
        try:
            paths = sorted(path for path in self.artifacts.iterdir() if path.is_file() and not path.is_symlink())
        except FileNotFoundError:
            return ()
        return tuple(path for path in paths if path.stat().st_size)

    def collected_files(self) -> tuple[Path, ...]:
        """The same for a job that scripts run: the files of each rank of each run."""
        paths = sorted(path for path in self.artifacts.glob("run*/*/*") if path.is_file() and not path.is_symlink())
        return tuple(path for path in paths if path.stat().st_size)

    def tail(self, most: int = 4000) -> str:
        """The end of what the program printed."""
        try:
            with open(self.output, "rb") as stream:
                stream.seek(max(0, stream.seek(0, os.SEEK_END) - most))
                return stream.read().decode(errors="replace")
        except OSError:
            return ""


def working_directory(spec: "JobSpec", files: JobFiles) -> Path:
    """Where the command starts."""
    return Path(spec.cwd) if spec.cwd else files.work


def save_environment(files: JobFiles, environment: Mapping[str, str]) -> None:
    """Save the environment of the submitter in the job's directory, until the program runs.

    It may hold secrets, so it is neither in the database nor at the broker.
    """
    with disk_errors(files.root):
        files.run.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(files.run / ENVIRONMENT, dict(environment))


def job_environment(job_id: str, spec: "JobSpec", files: JobFiles, own: Mapping[str, str]) -> dict[str, str]:
    """The environment of the program: that of the submitter, else the worker's, and the job's variables.

    It has no settings of Perfloom, as some are secret.
    """
    base = read_json(files.run / ENVIRONMENT)
    inherited = own if base is None else {str(name): str(value) for name, value in base.items()}
    return clean_environment(inherited) | dict(spec.environment) | {JOB_VARIABLE: job_id}


def delete_environment(files: JobFiles) -> None:
    """Remove it, as the program has it now."""
    with contextlib.suppress(OSError):
        (files.run / ENVIRONMENT).unlink()


def command_path(spec: "JobSpec", cwd: Path, environment: Mapping[str, str]) -> str | None:
    """The program of a job's command, searched as execvp(3) does; None if there is none."""
    name = spec.command[0]
    if "/" in name:
        place = str(cwd / name)
        return place if os.access(place, os.X_OK, effective_ids=True) and not os.path.isdir(place) else None
    return shutil.which(name, path=environment.get("PATH", os.defpath))
