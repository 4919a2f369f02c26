"""Shells that a target may have, and jobs that leave nothing behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perfloom.domain.jobs import JobSpec
from tests.recording.plan.jobs import PlannedJob
from tests.support.batch import folder
from tests.support.jobspecs import spec_of
from tests.support.parts import require

SHELLS = ("dash", "bash", "busybox")
MakeJob = Callable[..., PlannedJob]


@pytest.fixture(scope="session")
def shells() -> Iterator[Callable[[str], Path]]:
    """A shell by its name, called `sh`, as which bash obeys POSIX and busybox is a shell."""
    with folder("pl-sh-") as place:

        def find(name: str) -> Path:
            program = require(name) if name != "bash" else Path(shutil.which("bash") or "/bin/bash")
            link = place / name / "sh"
            if not link.exists():
                link.parent.mkdir(exist_ok=True)
                link.symlink_to(program)
            return link

        yield find


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, shells: Callable[[str], Path]) -> Path:
    """Each of the shells in turn."""
    return shells(request.param)


@pytest.fixture
def make_job(tmp_path: Path) -> Iterator[MakeJob]:
    """A planned job in its own directory; all its processes have ended at the end of the test."""
    made: list[PlannedJob] = []

    def make(*command: str, directory: Path | None = None, spec: JobSpec | None = None, **more: Any) -> PlannedJob:
        of_job = {key: more.pop(key) for key in list(more) if key in PlannedJob.__dataclass_fields__}
        wanted = spec or spec_of(*command, **more)
        job = PlannedJob(wanted, directory or tmp_path / f"job{len(made)}", **of_job)
        made.append(job)
        return job

    yield make
    for job in made:
        if (job.directory / "plan.sh").exists():
            job.end(gently=False)
        job.until_gone()
