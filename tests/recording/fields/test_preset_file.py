"""The settings of a job as a file: they come back, and no secret is among them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.jobs import Batch, EventSplitting, JobSpec, Mpi, MpiFlavor, PyTorch, RecorderName
from perfloom.recording.fields.preset_file import FORMATS, find_secrets, from_file, to_file
from tests.recording.fields.test_job import SPECS

HOSTILE = "$(touch /tmp/x) `id` 'a' \"b\" \\ \n\t é 🙂"


@pytest.mark.heavy
@pytest.mark.parametrize("form", FORMATS)
@given(spec=SPECS)
def test_preset_is_read_back(form: str, spec: JobSpec) -> None:
    left_out = find_secrets(spec.environment)
    kept = {name: value for name, value in spec.environment.items() if name not in left_out}
    again = from_file(to_file(spec, form, "a title\nof two lines"))
    assert again == JobSpec(**vars(spec) | {"environment": kept})


def test_only_what_is_not_as_usual_is_written() -> None:
    spec = JobSpec(
        command=("a", HOSTILE),
        mpi=Mpi(MpiFlavor.MPICH, 4, every=2),
        batch=Batch(queue="long"),
        splitting=EventSplitting.SEQUENTIAL,
        keep_recordings=False,
        recorder=RecorderName.PYTORCH,
        pytorch=PyTorch("20,2,5,1", stacks=True),
    )
    assert json.loads(to_file(spec, "json")) == {
        "command": ["a", HOSTILE],
        "mpi": {"flavour": "mpich", "ranks": 4, "every": 2},
        "batch": {"queue": "long"},
        "splitting": "sequential",
        "keep_recordings": False,
        "recorder": "pytorch",
        "pytorch": {"steps": "20,2,5,1", "stacks": True},
    }
    toml = to_file(spec, "toml", "mine\nand = 3")
    assert toml.startswith("# Settings of a Perfloom job: mine and = 3.\n# ") and from_file(toml) == spec


SECRET = (
    "PASSWORD",
    "PGPASSWORD",
    "MY_SECRET",
    "GITHUB_TOKEN",
    "token",
    "API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "SSH_AUTH",
)
PLAIN = ("PATH", "OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM", "KEYBOARD", "AUTHOR", "MONKEY", "COMPASS", "PWD")


def test_likely_secrets_are_left_out_and_named() -> None:
    environment = dict.fromkeys((*SECRET, *PLAIN), "hunter2") | {"URL": "https://me:hunter3@example.org/"}
    assert find_secrets(environment) == (*SECRET, "URL")
    spec = JobSpec(command=("x",), environment=environment)
    for form in FORMATS:
        text = to_file(spec, form)
        assert "hunter3" not in text
        assert from_file(text).environment == dict.fromkeys(PLAIN, "hunter2")
    assert f"# Left out because they look like secrets: {', '.join((*SECRET, 'URL'))}." in to_file(spec, "toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("commando = 'x'", "no field “commando”"),
        ("command = 3", "list of strings"),
        ("command = ['x']\nfrequency = 'often'", "whole number"),
        ("[mpi]\nranks = 4", "MPI implementation"),
        ("[mpi]\nflavour = 'openmpi'\nranks = 4\nfast = true", "no field “fast”"),
        ("batch = 'x'", "object with its own fields"),
        ("recorder = 'pytorch'\n[pytorch]\nsteps = '1,1,0,1'", "not a valid schedule"),
        ("recorder = 'pytorch'\n[pytorch]\nhooks = true", "no field “hooks”"),
        ("pytorch = 'whole'", "object with its own fields"),
        ("[environment]\nA = 1", "must be a string"),
        ("scope = 'galaxy'", "galaxy"),
        ("target = 3", "must be a string"),
        ("a = ", "cannot be read"),
    ],
)
def test_invalid_preset_is_reported(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        from_file(text)
    assert said in caught.value.message


def test_unknown_target_and_missing_command_are_valid() -> None:
    spec = from_file("target = 'theirs'\nsudo = true\n[batch]\nnodes = 2\nresources = 'x'")
    assert (spec.target, spec.sudo, spec.batch) == ("theirs", True, Batch(nodes=2, resources="x"))
