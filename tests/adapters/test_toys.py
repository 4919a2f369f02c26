"""A batch system, an MPI launcher and a recorder that only these modules know go all the way of a job."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from perfloom.config import Settings
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.jobs import JobSpec, JobState, Mpi, MpiFlavor, RecorderName, Scope
from perfloom.domain.targets import SchedulerName, Target
from perfloom.recording.adapters import MPI_LAUNCHERS, RECORDERS, SCHEDULERS
from perfloom.recording.fields import relevance
from perfloom.recording.fields.job_validity import validate_job
from perfloom.recording.fields.relevance import make_hiding_rules
from perfloom.recording.plan.plan import make_plan, preview
from perfloom.store import Store
from perfloom.web.app import create_app
from perfloom.workers.base.context import JobContext
from perfloom.workers.remote import checks
from perfloom.workers.transports import open_transport
from tests.adapters.toy_launcher import ToyLauncher
from tests.adapters.toy_recorder import ToyRecorder
from tests.adapters.toy_scheduler import ToyScheduler
from tests.recording.plan.test_launchers import functions
from tests.support import paths
from tests.web.conftest import TOKEN, Browser
from tests.workers.conftest import context, facts, settings, store
from tests.workers.remote.driving import files_of, is_cleaned_up, run, sight_of, to_the_end, until_job

__all__ = ["context", "facts", "settings", "store"]
HERE = Path(__file__).parent
DOC = paths.ROOT / "docs/how-to/add-a-scheduler.md"
PARTS = ("toy_scheduler.py", "toy_launcher.py", "toy_recorder.py", "toy.sh", "toyrun.sh")


@pytest.fixture(autouse=True)
def toys() -> Iterator[None]:
    """The three lines that register them."""
    SCHEDULERS[SchedulerName.register("toy")] = ToyScheduler()
    MPI_LAUNCHERS[MpiFlavor.register("toympi")] = ToyLauncher()
    RECORDERS[RecorderName.register("toy-count")] = ToyRecorder()
    yield
    del SCHEDULERS[SchedulerName("toy")], MPI_LAUNCHERS[MpiFlavor("toympi")], RECORDERS[RecorderName("toy-count")]
    for names, name in ((SchedulerName, "toy"), (MpiFlavor, "toympi"), (RecorderName, "toy-count")):
        names.unregister(name)


@pytest.fixture
def target(store: Store, tmp_path: Path) -> Target:
    """A target whose jobs are given to Toy."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("toy", "toyrun"):
        (programs / name).write_text((HERE / f"{name}.sh").read_text())
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "TOY_DIR": str(tmp_path)}
    made = Target(
        "toys", scheduler=SchedulerName("toy"), directory=str(tmp_path / "jobs"), environment=environment, poll_s=0.3
    )
    store.targets.save(made)
    return made


@pytest.fixture
def browser(settings: Settings) -> Iterator[Browser]:
    """Somebody at the pages of this store."""
    app: Flask = create_app(Settings.load(settings.data, environ={}, token=TOKEN, runtime=settings.runtime))
    yield Browser(app.test_client())
    app.extensions["perfloom"].queue.close()
    app.extensions["perfloom"].store.close()


def submit_form(browser: Browser, typed: dict[str, str]) -> None:
    """Start a job, although no worker runs."""
    accepted = re.search(r'name="accepted" value="(\w+)"', browser.post("/jobs/new", **typed).text)
    assert accepted
    response = browser.post("/jobs/new", **typed, accepted=accepted[1])
    assert response.status_code == 303, response.text


def test_toy_job_becomes_result(context: JobContext, target: Target, browser: Browser) -> None:
    store = context.store
    with open_transport(target) as transport:
        found = checks.probe(transport, target)
    assert (found.scheduler_version, found.versions["toympi"], found.missing) == ("Toy 1.5", "Toy MPI 2.1", ())
    assert [queue.name for queue in found.queues] == ["slow", "fast"]
    store.targets.save_check(target.name, found, ())
    assert "Lanes" in browser.page("/targets/toys") and "Toy" in browser.page("/targets/new")
    form = browser.page("/jobs/new")
    for text in ("Toy counter", "Count runs of the command.", "Toy MPI", ">Lane</span>"):
        assert text in form, text
    assert 'form[data-scheduler="toy"] [data-hidden-by~="scheduler-toy"]' in make_hiding_rules()

    typed = {"target": "toys", "command": "sh -c 'echo rank $TOY_RANK'", "recorder": "toy-count", "scope": "command"}
    typed |= {"mpi": "toympi", "ranks": "2", "recorded": "ranks", "queue": "fast", "action": "submit"}
    submit_form(browser, typed)
    (job,) = store.jobs.list()
    assert (job.job_spec.recorder, job.job_spec.batch.queue) == ("toy-count", "fast")
    assert "toy submit" in preview(job.job_spec, target, found) and "toyrun -n 2" in preview(
        job.job_spec, target, found
    )
    job = to_the_end(context, job)
    assert (job.state, job.reason) == (JobState.STORED, None), files_of(context, job).tail()
    counts = store.results.open(job.id).counts.to_pylist()
    assert sorted(row["rank"] for row in counts) == [0, 1] and {row["value"] for row in counts} == {1}
    assert sight_of(context, job).submissions[0].native.isdigit() and is_cleaned_up(job)
    page = browser.page(f"/jobs/{job.id}")
    assert "<dt>MPI</dt><dd>Toy MPI</dd>" in page and "2 ranks" in page

    long = typed | {"command": "sh -c 'echo begun; exec sleep 60'"}
    submit_form(browser, long)
    job = next(job for job in store.jobs.list() if not job.state.final)
    until_job(context, job, lambda job: files_of(context, job).tail().count("begun") == 2)
    store.jobs.request_cancel(job.id)
    job = to_the_end(context, job, 60)
    assert job.state is JobState.CANCELLED and is_cleaned_up(job)


@pytest.mark.parametrize("scratch", ["", "scratch"])
def test_a_file_of_any_name_is_brought_from_a_target(context: JobContext, tmp_path: Path, scratch: str) -> None:
    """The recorder alone names its files, also where they are recorded on a scratch directory first."""
    store = context.store
    store.targets.save(
        Target("here", directory=str(tmp_path / "jobs"), scratch=scratch and str(tmp_path / scratch), poll_s=0.3)
    )
    spec = JobSpec(target="here", recorder=RecorderName("toy-count"), command=("true",))
    job = run(context, spec)
    assert (job.state, job.reason) == (JobState.STORED, None), files_of(context, job).tail()
    assert [row["value"] for row in store.results.open(job.id).counts.to_pylist()] == [1]


@pytest.mark.parametrize(
    ("launcher", "libraries", "note"),
    [
        (ToyLauncher(), "libmpich.so.12", ""),
        (ToyLauncher(accepted_libraries=("toympi",)), "libmpich.so.12", "built with MPICH or Intel MPI, but"),
        (ToyLauncher(accepted_libraries=("toympi",), library_patterns=("libtoy.so",)), "libtoy.so.1 libmpi.so.40", ""),
        (ToyLauncher(accepted_libraries=("mpich",)), "libmpich.so.12", ""),
    ],
)
def test_a_launcher_names_the_libraries_that_it_starts(
    tmp_path: Path, launcher: ToyLauncher, libraries: str, note: str
) -> None:
    MPI_LAUNCHERS[MpiFlavor("toympi")] = launcher
    script = functions(tmp_path, Mpi(MpiFlavor("toympi"))) + f"ldd() {{ echo '{libraries}'; }}\npl_check_program sh"
    subprocess.run(["/bin/sh", "-c", script], check=True, timeout=30)
    noted = tmp_path / "noted"
    assert note in noted.read_text() if note else not noted.exists()


def test_programs_know_the_rank_variables_of_every_launcher(tmp_path: Path) -> None:
    spec = JobSpec(command=("x",), recorder=RecorderName.PYTORCH, mpi=Mpi(MpiFlavor.OPENMPI))
    plan = make_plan(spec, Target("t"), None, "x" * 12, str(tmp_path)).files["plan.sh"]
    assert re.search(r"PERFLOOM_RANKS='.* TOY_RANK\b", plan) and 'pl_try "${TOY_RANK-}" "${TOY_SIZE-}"' in plan


@pytest.mark.parametrize(
    ("fields", "used", "unused"),
    [
        ((), (), ("events", "frequency", "repeat", "steps")),
        (("perf", "sampling"), ("events", "frequency", "stack_bytes"), ("repeat", "steps")),
        (("counting", "pytorch"), ("repeat", "steps", "torch_memory"), ("events", "frequency")),
    ],
)
def test_a_recorder_chooses_groups_of_fields(
    browser: Browser, fields: tuple[str, ...], used: tuple[str, ...], unused: tuple[str, ...]
) -> None:
    name = RecorderName("toy-count")
    RECORDERS[name] = ToyRecorder(fields=fields, samples="sampling" in fields)
    relevance._conditions.cache_clear()
    found = relevance.relevant_fields(JobSpec(recorder=name, command=("x",)))
    assert found.issuperset(used) and found.isdisjoint(unused)
    hidden = relevance.list_hiding_choices()
    assert all("recorder-toy-count" not in hidden[field].split() for field in used)
    assert all("recorder-toy-count" in hidden[field].split() for field in unused)
    assert "<legend>PyTorch</legend>" in browser.page("/jobs/new")
    assert validate_job(JobSpec(recorder=name, scope=Scope.SYSTEM)) == {
        "scope": "Toy counter only records a command. Choose a command."
    }
    relevance._conditions.cache_clear()


def test_an_unknown_name_is_an_error_that_lists_the_registered_ones() -> None:
    with pytest.raises(InvalidRequest, match="perf-record, perf-stat, pytorch, toy-count"):
        JobSpec.from_json({"recorder": "gone"})
    with pytest.raises(InvalidRequest, match="none, slurm, lsf, toy"):
        Target.from_json({"name": "t", "scheduler": "gone"})
    with pytest.raises(InvalidRequest, match="srun, toympi"):
        JobSpec.from_json({"mpi": {"flavour": "gone"}})


@pytest.mark.parametrize("name", PARTS)
def test_the_page_shows_these_modules(name: str) -> None:
    assert (HERE / name).read_text() in DOC.read_text(encoding="utf-8")
