"""What `perfloom record` makes of its options: which job is asked for, and what is said where none can be."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from perfloom.cli import group as cli
from perfloom.config import Settings
from perfloom.domain.jobs import Batch, EventSplitting, JobSpec, JobState, Mpi, MpiFlavor, PyTorch, RecorderName, Scope
from perfloom.domain.targets import SchedulerName, Ssh, Target
from perfloom.recording.fields.preset_file import to_file
from perfloom.store import open_store
from perfloom.workers import job_client

Asked = Callable[[str], JobSpec]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("PERFLOOM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PERFLOOM_RUNTIME", str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)
    settings = Settings.load()
    store = open_store(settings)
    store.targets.save(Target("node", ssh=Ssh("node17"), sudo=True, mpi=MpiFlavor.MPICH))
    store.targets.save(Target("cluster", ssh=Ssh("login"), scheduler=SchedulerName.SLURM))
    store.targets.save(Target("farm", scheduler=SchedulerName.LSF))
    store.presets.save("usual", JobSpec(target="cluster", frequency=49, events=("cycles",)).to_json())
    store.close()
    return settings


@pytest.fixture
def asked(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Gives the job that a command line asks for; nothing is run."""
    found: list[JobSpec] = []

    def record(settings: Settings, spec: JobSpec, name: str, watch: Any, **more: Any) -> Any:
        found.append(spec)

        class Ended:
            result_id, reason, outcome, state = "000000000000", None, None, JobState.STORED

        return Ended()

    monkeypatch.setattr(job_client, "record", record)

    def ask(line: str) -> JobSpec:
        assert cli.run(["record", *shlex.split(line)]) == 0, line
        return found.pop()

    return ask


def refused(capsys: pytest.CaptureFixture[str], line: str) -> str:
    capsys.readouterr()
    assert cli.run(["record", *shlex.split(line)]) == 2, line
    said = capsys.readouterr()
    assert said.out == "" and "Traceback" not in said.err
    return said.err


def test_every_field_of_a_job_has_an_option(asked: Asked, tmp_path: Path) -> None:
    line = (
        "--on cluster --name n -e cycles -e faults -F 99 --call-graph fp --mpi openmpi -n 64 --ranks-per-node 16 "
        "--mpi-program /opt/mpirun --mpi-arg --bind-to --mpi-arg core --rank-arg -x --rank-arg A --record-every 4 "
        "--record-only 0-31 --partition long --account astro --wall-time 1:30:00 --nodes 4 --cpus 2 --exclusive "
        "--batch-arg=--comment='a b' --module gcc/12 --module mpi --env A=1 --env 'B=x = y' --path /opt/bin "
        "--library-path /opt/lib --preload /opt/x.so --split sequential --events-per-run 1 --input data.csv "
        "--no-recordings --leave-files -- ./solver -n 3"
    )
    assert asked(line) == JobSpec(
        name="n",
        target="cluster",
        command=("./solver", "-n", "3"),
        environment={"A": "1", "B": "x = y"},
        inputs=(str(tmp_path / "data.csv"),),
        events=("cycles", "faults"),
        frequency=99,
        call_graph=asked("--call-graph fp -- x").call_graph,
        mpi=Mpi(
            MpiFlavor.OPENMPI,
            ranks=64,
            ranks_per_node=16,
            program="/opt/mpirun",
            arguments=("--bind-to", "core"),
            rank_arguments=("-x", "A"),
            every=4,
            only="0-31",
        ),
        batch=Batch("long", "astro", 5400, "", 4, 2, True, ("--comment=a b",)),
        modules=("gcc/12", "mpi"),
        path=("/opt/bin",),
        library_path=("/opt/lib",),
        preload=("/opt/x.so",),
        splitting=EventSplitting.SEQUENTIAL,
        events_per_run=1,
        keep_recordings=False,
        leave_files=True,
    )
    assert asked("--on node --sudo --mpi intel -n 2 --per-host -- x").mpi == Mpi(MpiFlavor.INTEL, 2, per_host=True)
    assert asked("--on farm -R 'select[mem>1]' -q normal -- x").batch == Batch("normal", resources="select[mem>1]")


def test_every_field_of_pytorch_has_an_option(asked: Asked, tmp_path: Path) -> None:
    line = (
        "--recorder pytorch --torch-steps 20,2,5,1 --torch-memory --torch-shapes --torch-stacks --torch-modules "
        "--torch-seconds 60 --save-preset torch.toml -- python train.py"
    )
    spec = asked(line)
    assert (spec.recorder, spec.pytorch) == (RecorderName.PYTORCH, PyTorch("20,2,5,1", True, True, True, True, 60))
    assert asked("--preset torch.toml") == spec
    assert asked("--preset torch.toml --torch-steps whole -- x").pytorch == PyTorch("whole", True, True, True, True, 60)


def test_target_options(asked: Asked, tmp_path: Path) -> None:
    """Here in this directory; elsewhere, and with input files, in the job's own."""
    assert asked("-- ./x").cwd == str(tmp_path)
    assert asked("--cwd sub --path bin -- ./x") == JobSpec(
        command=("./x",), cwd=str(tmp_path / "sub"), path=(str(tmp_path / "bin"),)
    )
    assert asked("--input a -- ./x").cwd is None
    assert asked("--on cluster -- ./x").cwd is None
    assert asked("--on farm -- ./x").cwd is None
    assert asked("--on cluster --cwd /scratch/me -- ./x").cwd == "/scratch/me"


def test_default_mpi_of_target_is_used(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("--on node -n 4 -- x").mpi == Mpi(MpiFlavor.MPICH, ranks=4)
    assert "--ranks needs --mpi" in refused(capsys, "--on cluster -n 4 -- x")


def test_options_override_preset(asked: Asked, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("--preset usual -- x") == JobSpec(target="cluster", frequency=49, events=("cycles",), command=("x",))
    over = asked("--preset usual -c 7 -e faults --on local --count -- x")
    assert (over.period, over.frequency, over.events, over.target) == (7, None, ("faults",), "local")
    assert over.recorder is RecorderName.PERF_STAT

    kept = JobSpec(
        command=("solver", "$(touch x)"), environment={"A": "1"}, mpi=Mpi(MpiFlavor.OPENMPI, 8), target="cluster"
    )
    (tmp_path / "p.toml").write_text(to_file(kept, "toml"))
    assert asked("--preset p.toml") == kept
    more = asked("--preset p.toml -n 2 --env B=2 -- other")
    assert (more.mpi, more.environment, more.command) == (
        Mpi(MpiFlavor.OPENMPI, 2),
        {"A": "1", "B": "2"},
        ("other",),
    )
    assert asked("--preset p.toml --mpi none").mpi is None
    assert asked("--preset p.toml --on local -a --mpi none").scope is Scope.SYSTEM
    (tmp_path / "bad.toml").write_text("command = 3")
    assert "list of strings" in refused(capsys, "--preset bad.toml -- x")
    assert "Saved presets: usual" in refused(capsys, "--preset nothing -- x")


def test_settings_are_saved_and_given_away(asked: Asked, tmp_path: Path) -> None:
    spec = asked("--on cluster -q long --env GITHUB_TOKEN=hush --env A=1 --save-preset mine.toml -- ./solver")
    text = (tmp_path / "mine.toml").read_text()
    assert "hush" not in text and "GITHUB_TOKEN" in text
    assert spec.environment == {"GITHUB_TOKEN": "hush", "A": "1"}
    again = asked("--preset mine.toml")
    assert again.environment == {"A": "1"} and again.batch == Batch("long")
    # With nothing to record they are saved, and that is all.
    assert cli.run(["record", "-F", "99", "--save-preset", "mine.json"]) == 0
    assert (tmp_path / "mine.json").read_text() == '{\n  "frequency": 99\n}\n'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--on mars -- x", "No target 'mars'"),
        ("--mpi openmpi -- x", "--mpi needs --ranks"),
        ("--mpi none -n 4 -- x", "does not apply to --mpi none"),
        ("--mpi lam -n 4 -- x", "lam"),
        ("--mpi openmpi -n 4 --record-only 9 -- x", "--record-only: Rank 9 does not exist"),
        ("-q long -- x", "--queue does not apply to target local, which has no batch system"),
        ("--on farm --nodes 2 -- x", "--nodes does not apply to target farm, which has the batch system LSF"),
        ("--on cluster -R x -- x", "--resources does not apply to target cluster, which has the batch system Slurm"),
        ("--on cluster --wall-time 30 -- x", "--wall-time: “30” is not a wall time"),
        ("--on cluster --sudo -- x", "--sudo: target cluster does not allow it"),
        ("--on cluster --pid 7", "through a batch system"),
        ("--on cluster --path bin -- x", "not an absolute path"),
        ("--events-per-run 2 -- x", "--events-per-run does not apply"),
        ("-a --mpi openmpi -n 2 -- x", "--ranks does not apply to the other options"),
        ("--recorder pytorch --torch-steps 1,1,0,1 -- x", "--torch-steps: “1,1,0,1” is not a valid schedule"),
        ("--torch-memory -- x", "--torch-memory needs --recorder pytorch"),
        ("--recorder pytorch --sudo -- x", "--sudo does not apply"),
        ("--recorder pytorch -a -- x", "Choose a command"),
        ("--recorder pytorch --count -- x", "--count means --recorder perf-stat"),
        ("--recorder pytorch -e cycles -- x", "--event does not apply"),
        ("--env A -- x", "NAME=VALUE"),
        ("-e , -- x", "--event: “,” has no event."),
        ("--env 1=2 -- x", "not a valid variable name"),
        ("--env 1=2 --stack-bytes 9 --cwd '' -- x", "first. --stack-bytes: This must be a multiple of 8. Use 16."),
        ("--module 'a b' -- x", "--module"),
        ("--preload 'a b' -- x", "--preload"),
        ("--save-preset /no/such/folder/x -- x", "cannot be written"),
    ],
)
def test_invalid_options_are_reported(
    settings: Settings, capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    assert words in refused(capsys, line).replace("\n", " ")


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("--frequency 0 --stack-bytes 9 -- x", "--frequency --stack-bytes"),
        ("--pid x --frequency 9999999", "--pid --frequency"),
        ("--env BAD --frequency 9999999 -- x", "--env --frequency"),
        ("--recorder gprof --mpi lam -n x --record-every 0 --duration -1 -- x", "--recorder --mpi --ranks --duration"),
        ("--on mars --wall-time 3 --repeat '' --count -- x", "--on --wall-time --repeat"),
        ("-q long --frequency 0 -- x", "--queue --frequency"),
        ("-q long --sudo --events-per-run 1 -- x", "--queue --sudo --events-per-run"),
    ],
)
def test_every_wrong_option_is_reported(
    settings: Settings, capsys: pytest.CaptureFixture[str], line: str, options: str
) -> None:
    said = refused(capsys, line)
    for option in options.split():
        assert option in said.split("Error:")[-1], said


def test_the_help_has_the_declared_ranges(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["record", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Samples per second. [default: 199] [1 to 1,000,000]" in said and "[0.1 to 2,592,000 s]" in said
    assert "--call-graph [none|fp|dwarf|lbr]" in said and "x>=" not in said


def test_choices_are_completed() -> None:
    found = ShellComplete(cli.cli, {}, "perfloom", "_PERFLOOM_COMPLETE").get_completions(
        ["record", "--call-graph"], "d"
    )
    assert [one.value for one in found] == ["dwarf"]


def test_the_help_has_headings(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["record", "--help"]) == 0
    said = capsys.readouterr().out
    titles = ["Recording:", "Where it runs:", "MPI:", "Batch system:", "Environment:"]
    places = [said.index(title) for title in titles]
    assert places == sorted(places)
    assert said.index("MPI:") < said.index("--ranks-per-node") < said.index("Batch system:") < said.index("--queue")
