"""What is put into programs to record PyTorch, with PyTorch itself on a CPU; ranks of it: targeted/test_pytorch.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recording.recorders.test_torch_inject import Ran, Runner
from tests.support.parts import require

pytestmark = pytest.mark.heavy

TRAIN = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(24, 4), torch.randn(24, 2)), batch_size=4, num_workers=1)
scaler = torch.amp.GradScaler("cpu")
for x, y in loader:
    optimizer.zero_grad()
    scaler.scale(nn.functional.mse_loss(model(x), y)).backward()
    scaler.step(optimizer)
    scaler.update()
raise SystemExit("it ends badly")
"""


@pytest.fixture
def program(tmp_path: Path) -> Runner:
    require("torch")
    return Runner(tmp_path, double=False)


def categories(ran: Ran) -> set[str]:
    return {str(event.get("cat")) for event in ran.only["traceEvents"]}


@pytest.mark.slow
def test_a_training_with_a_worker_that_ends_badly(program: Runner) -> None:
    ran = program(TRAIN, "-W", "error", memory="1", shapes="1", stacks="1")
    assert ran.status == 1 and "it ends badly" in ran.errors and not ran.notes
    assert ran.said == {"step": "optimizer step", "counted": "Adam", "schedule": "1,1,3,1", "steps_over": 5}
    assert {f"ProfilerStep#{n}" for n in (2, 3, 4)} == {name for name in ran.names if name.startswith("ProfilerStep")}
    assert ran.names.count("Optimizer.step#Adam.step") == 3 and ran.names.count("aten::mse_loss") == 3
    assert {"cpu_op", "python_function", "user_annotation", "cpu_instant_event"} <= categories(ran)
    assert any(name.endswith(": perfloom_recorder") for name in ran.names)


def test_a_run_without_steps(program: Runner) -> None:
    ran = program("import torch\na = torch.ones(8, 8)\nfor _ in range(5): a = a @ a\n")
    assert (ran.status, ran.notes, ran.said["step"]) == (0, "", "whole run")
    assert ran.names.count("aten::mm") == 5
