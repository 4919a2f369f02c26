"""A job whose data directory becomes full."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.jobs import JobState
from perfloom.store import open_store
from perfloom.workers.base.context import open_context
from tests.support.jobspecs import spec_of
from tests.support.parts import missing, require
from tests.workers.conftest import files_of, has_no_process, run


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, which only root may")
def test_a_disk_that_fills_up_ends_the_recording_and_harms_nothing(tmp_path: Path, short_path: Path) -> None:
    require("perf")
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", small], check=False).returncode:
        missing("permission to mount", "run the tests as root of the machine, not of a container")
    try:
        settings = Settings.load(small / "data", environ={}, runtime=short_path / "run", reserve_bytes=30_000_000)
        with contextlib.closing(open_store(settings)) as store:
            context = open_context(settings, store)
            before = run(context, spec_of(sys.executable, "-S", "-c", "sum(i * i for i in range(3_000_000))"))
            fill = f"head -c 45000000 /dev/zero >big; exec {sys.executable} -S -c 'while True: pass'"
            job = run(context, spec_of("/bin/sh", "-c", fill))
            assert job.state.final and "disk" in (job.reason or "") and has_no_process(job)
            refused = run(context, spec_of("true"))
            assert refused.state is JobState.FAILED and " left. " in (refused.reason or "")
            assert store.results.get(before.id).complete and store.results.open(before.id).samples.num_rows > 0
            files_of(context, job).work.joinpath("big").unlink()
            assert run(context, spec_of("true")).state is JobState.STORED
    finally:
        subprocess.run(["umount", "-l", small], check=True)
