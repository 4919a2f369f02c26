"""The form of a target gives the target back, and a file of one holds no secret."""

from dataclasses import replace

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.jobs import MpiFlavor
from perfloom.domain.targets import LOCAL, SchedulerName, Ssh, Target
from perfloom.recording.fields.target_file import from_file, to_file
from perfloom.recording.fields.target_form import TargetForm, parse, to_form

FULL = Target(
    "big one",
    ssh=Ssh("node", "ada", 2222, "~/.ssh/id", False, False, ("a@b:22", "[::1]:7"), True, (), 2.5),
    scheduler=SchedulerName.SLURM,
    directory="$SCRATCH/a b",
    scratch="${TMPDIR}",
    perf="/opt/perf",
    modules=("gcc/12", "mpi"),
    environment={"A": " blanks ", "B": "two\nlines", "C": "$'x", "D": ""},
    mpi=MpiFlavor.SRUN,
    starters={"openmpi": "/opt/a b/mpirun"},
    sudo=True,
    counters=6,
    poll_s=0.5,
    notes="one\ntwo",
)


@pytest.mark.parametrize("target", [FULL, Target(LOCAL), Target("x", ssh=Ssh("h")), replace(FULL, ssh=None)])
def test_form_and_back(target: Target) -> None:
    assert parse(to_form(target)).target == target
    posted = {
        name: [str(value)] if not isinstance(value, bool) else ["", "1"][: 1 + value]
        for name, value in to_form(target).items()
    }
    assert parse(TargetForm.from_form(posted)).target == target


def test_line_breaks_of_a_browser_and_lists_on_one_line() -> None:
    typed = TargetForm(**dict(to_form(FULL)) | {"jump": "a, b c", "modules": "x  y\nz"})
    found = parse(typed).target
    assert found is not None and found.ssh is not None
    assert found.ssh.jump == ("a", "b", "c") and found.modules == ("x", "y", "z")
    posted = {name: ["a=1\r\nb=2"] if name == "environment" else [] for name in typed}
    assert TargetForm.from_form(posted)["environment"] == "a=1\nb=2"


def test_irrelevant_target_fields_are_not_checked() -> None:
    changes = {"way": "here", "mpi": "", "host": "a b", "port": "x", "jump": "::"}
    typed = TargetForm(**dict(to_form(FULL)) | changes)
    assert parse(typed).errors == {} and parse(typed).target is not None


def test_file_names_omitted_variables() -> None:
    target = replace(FULL, environment={"API_TOKEN": "hush", "A": "b", "URL": "https://ada:hush@host/"})
    text = to_file(target, "toml")
    assert "hush" not in text and "API_TOKEN, URL" in text and 'A = "b"' in text
    assert from_file(text) == replace(target, environment={"A": "b"})
    assert "hush" not in to_file(target, "json")
    with pytest.raises(InvalidRequest, match="toml or json"):
        to_file(target, "yaml")
    with pytest.raises(InvalidRequest, match="does not contain a valid target"):
        from_file("{}")
