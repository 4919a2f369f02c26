"""What is put into programs to record PyTorch, in programs with a double of it; with the real one: test_torch_real.py."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from perfloom.domain.jobs import JobSpec, PyTorch, RecorderName
from perfloom.domain.rank_state import is_trace_file
from perfloom.recording.recorders import recorder_of
from perfloom.recording.recorders.torch_inject import parse_steps

DOUBLE = Path(__file__).with_name("torch_double")
SOURCE = recorder_of(JobSpec(recorder=RecorderName.PYTORCH)).injection(JobSpec())
TRAIN = "import torch\no = torch.optim.SGD()\nfor i in range({}):\n    torch.op('forward%d' % i)\n    o.step()\n"


@dataclass
class Ran:
    """What came of a program. traces: by name, in their order."""

    status: int
    output: str
    errors: str
    notes: str
    traces: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def only(self) -> dict[str, Any]:
        """The one trace."""
        (trace,) = self.traces.values()
        return trace

    @property
    def said(self) -> dict[str, Any]:
        """What the one trace says of its steps."""
        said: dict[str, Any] = self.only["perfloom"]
        return said

    @property
    def names(self) -> list[str]:
        """The events of the one trace."""
        return [event["name"] for event in self.only["traceEvents"]]


class Runner:
    """Runs programs with the injected file."""

    def __init__(self, folder: Path, *, double: bool = True) -> None:
        self.folder, self.double = folder, str(DOUBLE) if double else ""
        self.out = folder / "traces" / "of it"
        assert SOURCE is not None
        (folder / "ours").mkdir()
        self.file = folder / "ours" / "sitecustomize.py"
        self.file.write_text(SOURCE.files["sitecustomize.py"])

    def __call__(self, program: str, *arguments: str, path: str = "", **variables: str) -> Ran:
        script = self.folder / "program.py"
        script.write_text(program)
        environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "PERFLOOM_TORCH_OUT": str(self.out)}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(self.file.parent), path, self.double)))
        environment |= {
            name if name.isupper() else f"PERFLOOM_TORCH_{name.upper()}": v for name, v in variables.items()
        }
        done = subprocess.run(
            [sys.executable, *arguments, str(script)], env=environment, cwd=self.folder, capture_output=True, text=True
        )
        found = sorted(self.out.glob("*"), key=lambda one: one.name)
        traces = {one.name: json.loads(gzip.decompress(one.read_bytes())) for one in found if one.suffix == ".gz"}
        notes = "".join(one.read_text() for one in found if one.suffix == ".note")
        assert {one.suffix for one in found} <= {".gz", ".note"} and all(map(is_trace_file, traces))
        return Ran(done.returncode, done.stdout, done.stderr, notes, traces)


@pytest.fixture
def program(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_steps_are_wait_warmup_active_repeat() -> None:
    assert parse_steps("1,1,3,1") == (1, 1, 3, 1) and parse_steps(" 5, 0, 2") == (5, 0, 2, 1)
    assert parse_steps("0,1,1,2") == (1, 1, 1, 2)
    assert parse_steps("Whole") is None
    for wrong in ("", "3", "1,1", "1,1,0,1", "-1,1,1,1", "1,1,1,0", "1,1,1,1,1", "a,b,c,d", "1,1,1,101"):
        with pytest.raises(ValueError):
            parse_steps(wrong)


def test_a_step_is_one_of_an_optimizer(program: Runner) -> None:
    ran = program("print(torch.__name__)\n".join([TRAIN.format(9), ""]), shapes="1")
    assert (ran.status, ran.output, ran.errors, ran.notes) == (0, "torch\n", "", "")
    assert ran.said == {"step": "optimizer step", "counted": "SGD", "schedule": "1,1,3,1", "steps_over": 5}
    steps = [name for name in ran.names if "#" in name or name.startswith("forward")]
    # What an optimizer does is in the step that it ends.
    assert steps == [word for n in (2, 3, 4) for word in (f"ProfilerStep#{n}", f"forward{n}")]
    assert ran.names[-2:] == ["Optimizer.step", "sgd"]
    assert ran.only["options"]["record_shapes"] is True and ran.only["options"]["with_stack"] is False


def test_each_span_has_its_own_file(program: Runner) -> None:
    ran = program(TRAIN.format(20), steps="2,0,1,2", OLD="1")
    assert [one["perfloom"]["steps_over"] for one in ran.traces.values()] == [3, 6]
    first, second = ran.traces
    assert first.replace("-0.pt", "-1.pt") == second


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [
        ("raise RuntimeError", 1, "ended before"),
        ("import os; os._exit(7)", 7, "ended before"),
        ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM, "request to end"),
        ("import torch; torch.profiler.profile().start()", 0, "used its own profiler"),
    ],
    ids=["exception", "_exit", "SIGTERM", "own profiler"],
)
def test_recording_is_saved_at_exit(program: Runner, end: str, status: int, reason: str) -> None:
    ran = program(TRAIN.format(4) + end)
    assert ran.status == status and reason in ran.said["reason"]
    assert "forward3" in ran.names and ran.said["steps_over"] == 4


def test_too_few_steps_are_reported(program: Runner) -> None:
    ran = program(TRAIN.format(2) + "import sys; sys.exit(3)")
    assert (ran.status, ran.traces) == (3, {})
    assert "after 2 steps" in ran.notes and "from step 3 on" in ran.notes
    assert ran.errors == f"perfloom: {ran.notes}"


def test_of_several_optimizers_one_counts(program: Runner) -> None:
    """Nested steps, and one that a scaler skips, are one step each; compilation is not affected."""
    ran = program(
        """
import torch
class Outer(torch.optim.Optimizer):
    def step(self, closure=None):
        inner.step(); inner.step()
inner, outer, other, scaler = torch.optim.SGD(), Outer(), torch.optim.Adam(), torch.amp.GradScaler()
for i in range(6):
    torch.op("round%d" % i)
    scaler.skips = i == 3
    scaler.step(outer)
    other.step()
torch.compiling = True
outer.step()
""",
        steps="1,0,9",
    )
    assert ran.said["counted"] == "Outer" and ran.said["steps_over"] == 6
    rounds = [name for name in ran.names if name[:2] in ("ro", "Pr")]
    assert rounds[:4] == ["ProfilerStep#1", "round1", "ProfilerStep#2", "round2"]
    assert rounds[4:6] == ["ProfilerStep#3", "round3"]


def test_active_optimizer_replaces_idle_one(program: Runner) -> None:
    ran = program(TRAIN.format(1) + "p = torch.optim.Adam()\nfor i in range(40): p.step()\n", steps="1,0,2")
    assert ran.said["counted"] == "Adam"


LOADER = "import torch\nfor e in range(2):\n    for x in torch.utils.data.DataLoader(4): torch.op('infer')\n"


def test_without_an_optimizer_a_step_is_a_batch(program: Runner) -> None:
    ran = program(LOADER)
    assert ran.said == {"step": "batch", "counted": "Batches", "schedule": "1,1,3,1", "steps_over": 5}
    # Waiting for a batch is part of the step.
    assert ran.names[:3] == ["ProfilerStep#2", "batch", "infer"]


def test_batches_wait_for_an_optimizer_that_is_there(program: Runner) -> None:
    """Gradients are accumulated over several batches."""
    ran = program(
        """
import torch
o = torch.optim.SGD()
for i, x in enumerate(torch.utils.data.DataLoader(24)):
    if i % 4 == 3: o.step()
"""
    )
    assert ran.said["step"] == "optimizer step" and ran.names.count("batch") == 12


def test_steps_of_an_optimizer_go_before_batches(program: Runner) -> None:
    ran = program(LOADER + TRAIN.format(6))
    assert ran.said["step"] == "optimizer step" and "infer" not in ran.names
    # Until there is a recording of them, that of the batches stays.
    (program.out / next(iter(ran.traces))).unlink()
    ran = program(LOADER + TRAIN.format(2))
    assert ran.said["step"] == "batch"


def test_without_steps_it_is_the_whole_run(program: Runner) -> None:
    ran = program("import torch\nm = torch.nn.Module()\nm(); torch.op('last')\n")
    assert ran.said == {"step": "whole run", "schedule": "whole"} and ran.names == ["linear", "last"]


def test_the_whole_run_is_bounded(program: Runner) -> None:
    ran = program(
        """
import torch, time, sys
torch.op("first")
end = time.monotonic() + 20
while torch.active and time.monotonic() < end: time.sleep(0.001)
torch.op("later")
""",
        seconds="0.05",
    )
    assert ran.names == ["first"] and "after 0.05 seconds" in ran.said["reason"]


def test_requested_schedule_has_precedence(program: Runner) -> None:
    ran = program(TRAIN.format(8), steps="whole", stacks="1", memory="1", modules="1")
    assert ran.said == {"step": "whole run", "schedule": "whole"} and ran.names.count("sgd") == 8
    assert all(ran.only["options"][name] for name in ("with_stack", "profile_memory", "with_modules"))


def test_program_without_operators_has_no_trace(program: Runner) -> None:
    assert program("import torch") == Ran(0, "", "", "")
    assert program("import json") == Ran(0, "", "", "")


@pytest.mark.parametrize("how", ["start", "out", "hook", "steps"])
def test_program_continues_after_errors(program: Runner, how: str) -> None:
    if how == "out":
        program.out.parent.write_text("no folder")
    if how == "hook":
        program.file.write_text(program.file.read_text().replace('"_patch_step_function"', '"_no_such_thing"'))
    variables = {"start": {"FAILS": "start"}, "steps": {"steps": "many"}}.get(how, {})
    ran = program(TRAIN.format(6) + "print('done')", **variables)
    assert (ran.status, ran.output) == (0, "done\n")
    if how == "steps":
        assert "not valid" in ran.notes and ran.said["schedule"] == "1,1,3,1"
    else:
        assert not ran.traces and ran.errors.startswith("perfloom: ")


def test_launched_process_has_rank_and_children_are_not_recorded(program: Runner) -> None:
    """The launcher and children of a recorded process are not recorded, however they are started; ranks of mp.spawn are."""
    ran = program(
        """
import multiprocessing, os, subprocess, sys
import torch
def train(name):
    o = torch.optim.SGD()
    for i in range(6): torch.op(name); o.step()
if __name__ == "__main__":
    work = sys.argv[1:] or [os.environ.get("WORK", "launch")]
    if work == ["launch"]:
        for rank in "01":
            subprocess.run([sys.executable, __file__], env={**os.environ, "RANK": rank, "WORK": "rank"}, check=True)
        spawned = multiprocessing.get_context("spawn").Process(target=train, args=("spawned",))
        spawned.start(); spawned.join()
    elif work == ["rank"]:
        train("mine")
        for way in ("spawn", "fork"):
            child = multiprocessing.get_context(way).Process(target=train, args=("child",))
            child.start(); child.join()
        subprocess.run([sys.executable, __file__, "child"], check=True)
    else:
        train("child")
""",
        "-W",
        "error",
    )
    assert (ran.status, ran.errors) == (0, "")
    who = {name.split("-")[0]: {event["name"] for event in one["traceEvents"]} for name, one in ran.traces.items()}
    assert set(who) == {"rank0", "rank1", "process"} and len(ran.traces) == 3
    assert "mine" in who["rank0"] and "mine" in who["rank1"] and "spawned" in who["process"]
    assert not any("child" in names for names in who.values())


def test_devices_are_not_initialized_by_recorder(program: Runner) -> None:
    program.file.write_text(program.file.read_text().replace('"/dev/nvidiactl"', '"/dev/null"'))
    ran = program("import torch\ntorch.op('before')\ntorch.cuda._lazy_init()\ntorch.op('after')\n", CUDA="1")
    assert ran.names == ["after"] and ran.only["activities"] == ["cpu", "cuda"]
    (program.out / next(iter(ran.traces))).unlink()
    ran = program("import torch\nm = torch.nn.Module()\ntorch.op('before')\nm()\n", CUDA="1")
    assert ran.names == ["linear"] and ran.only["activities"] == ["cpu"]


def test_the_users_own_sitecustomize_is_imported(program: Runner, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('own', __name__)\n")
    show = "import sitecustomize, sys\nprint(sitecustomize.__file__)\nprint([p for p in sys.path if 'ours' in p])\n"
    ran = program(TRAIN.format(6) + show, path=str(own))
    assert ran.output.splitlines() == ["own sitecustomize", str(own / "sitecustomize.py"), "[]"] and ran.traces
    (own / "sitecustomize.py").write_text("import no_such_module\n")
    ran = program("print('done')", path=str(own))
    assert ran.output == "done\n" and "Error in sitecustomize" in ran.errors and "no_such_module" in ran.errors


def test_a_job_sets_its_variables() -> None:
    spec = JobSpec(
        recorder=RecorderName.PYTORCH,
        command=("python", "train.py"),
        pytorch=PyTorch("2,1,4,1", memory=True, stacks=True, seconds=5.5),
    )
    injection = recorder_of(spec).injection(spec)
    assert injection is not None and dict(injection.variables) == {
        "PERFLOOM_TORCH_STEPS": "2,1,4,1",
        "PERFLOOM_TORCH_MEMORY": "1",
        "PERFLOOM_TORCH_STACKS": "1",
        "PERFLOOM_TORCH_SECONDS": "5.5",
    }
