"""Postprocessing of results: by the process that stored them, or by one that outlives the command."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.errors import Unavailable
from perfloom.domain.jobs import JobState
from perfloom.store.files import binary_cache
from perfloom.store.jobs import Job
from perfloom.workers import code_files, code_step, postprocess, recovery, steps
from perfloom.workers.base.context import JobContext
from perfloom.workers.base.jobfiles import JobFiles
from perfloom.workers.read import reading
from tests.support import paths
from tests.workers.waiting import until

SCRIPT = paths.DATA / "perf/spin.script.txt"
TRACE = paths.DATA / "llama/trace.txt"


def imported(context: JobContext, file: Path = SCRIPT) -> Job:
    job = context.store.jobs.create("import", {"files": [file.name]}, "a spin")
    files = JobFiles(context.store.jobs.directory(job.id))
    files.prepare()
    shutil.copy(file, files.artifacts / file.name)
    return steps.run_to_end(context, job.id)


def settled(context: JobContext, job: Job) -> bool:
    return all(one.settled for one in context.store.results.get(job.id).originals)


def test_small_result_is_postprocessed_immediately(context: JobContext) -> None:
    before = len(postprocess._begun)
    job = imported(replace(context, ends_with_job=True), TRACE)
    assert job.state is JobState.STORED and settled(context, job)
    assert len(postprocess._begun) == before


def test_import_does_not_wait_for_machine_code(context: JobContext) -> None:
    before = len(postprocess._begun)
    job = imported(replace(context, ends_with_job=True))
    (process,) = postprocess._begun[before:]
    # The other process holds the lock from the beginning, so that a page never says that there is no code.
    assert process.poll() is not None or context.store.results.is_code_expected(job.id)
    files = JobFiles(context.store.jobs.directory(job.id))
    recovery.recover(context)
    assert process.poll() is not None or files.artifacts.exists()
    assert process.wait(60) == 0
    assert context.store.results.open_code(job.id) is not None
    assert not context.store.results.is_code_expected(job.id)
    assert not files.artifacts.exists() and settled(context, job)


def test_machine_code_of_an_import_is_read_from_the_stored_files(
    context: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = imported(context, TRACE)
    inputs: list[tuple[Path, ...]] = []
    monkeypatch.setattr(code_step, "read_code", lambda _, job, files, keeper, **options: inputs.append(files))
    # What the import named, its user may have removed meanwhile.
    assert not JobFiles(context.store.jobs.directory(job.id)).artifacts.exists()
    steps.complete_result(context, job.id, os.open(os.devnull, os.O_RDONLY))
    assert inputs == [tuple(one.path for one in context.store.results.original(job.id))]
    assert inputs[0][0].is_file()


def test_large_result_is_postprocessed_in_another_process(context: JobContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postprocess, "LARGE_BYTES", 1)
    before = len(postprocess._begun)
    job = imported(replace(context, ends_with_job=True), TRACE)
    assert job.state is JobState.STORED
    (process,) = postprocess._begun[before:]
    assert process.wait(60) == 0
    until(lambda: settled(context, job), "the original is compressed")
    assert context.store.results.open(job.id).slices.num_rows


def test_postprocessed_result_stays_unmapped(context: JobContext) -> None:
    job = imported(replace(context, ends_with_job=True))
    postprocess.postprocess_result(context.store, job.id)
    assert str(context.store.results.path(job.id)) not in Path("/proc/self/maps").read_text()


def test_machine_code_that_could_not_be_read_is_read_again(
    context: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **options: object) -> None:
        raise Unavailable("The disk is full.")

    monkeypatch.setattr(reading, "read_code", fail)
    job = imported(context)
    assert job.state is JobState.STORED
    assert context.store.results.explain_missing_code(job.id) == "The disk is full."
    binary_cache.request_files(context.settings.data, job.id, read=True)
    code_files.answer_request(context, job.id)
    assert context.store.results.open_code(job.id) is None
    monkeypatch.undo()
    binary_cache.request_files(context.settings.data, job.id, read=True)
    code_files.answer_request(context, job.id)
    assert context.store.results.open_code(job.id) is not None
    assert context.store.results.explain_missing_code(job.id) == ""
