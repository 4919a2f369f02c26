"""What the values of a target may be, whatever they come from."""

from dataclasses import replace
from typing import Any

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.jobs import MpiFlavor
from perfloom.domain.targets import LOCAL, SchedulerName, Ssh, Target
from perfloom.recording.fields import serialization, target_file, target_validity, value_checks

HOSTILE = (
    "$(touch /tmp/x)",
    "`touch /tmp/x`",
    "a;touch /tmp/x",
    "a\nb",
    "a\0b",
    "a b'c\"d",
    "-oProxyCommand=touch",
    "../../etc",
    "\ud800",
    "a\u2028\x1b[2J",
    "x" * 40_000,
)
KEY = "node ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB3xG8q1z0Yx3k1n7sF5p2mZ2d0R1u8mJx0c8O8q2v5T"
FULL = Target(
    "Big machine (2)".replace("(", "").replace(")", ""),
    ssh=Ssh(
        "login.example.org",
        user="EXAMPLE\\ada",
        port=2222,
        key_file="~/.ssh/id_ed25519",
        agent=False,
        jump=("ada@gate.example.org:2222", "[2001:db8::1]:22", "second"),
        password=True,
        host_keys=(KEY,),
    ),
    scheduler=SchedulerName.SLURM,
    directory="$SCRATCH/perf loom",
    scratch="${TMPDIR}",
    perf="/opt/perf/bin/perf",
    modules=("gcc/12.2", "openmpi/4.1"),
    environment={"OMP_NUM_THREADS": "4", "ODD": "$(touch /tmp/x)\n'\"\\"},
    mpi=MpiFlavor.OPENMPI,
    starters={"openmpi": "/opt/openmpi/bin/mpirun"},
    sudo=True,
    counters=4,
    poll_s=30.0,
    notes="Ask Ada.\nOr Bob.",
)


def test_a_full_target_and_a_bare_one_can_be_used() -> None:
    assert target_validity.validate_target(FULL) == {}
    assert target_validity.validate_target(Target(LOCAL)) == {}
    assert target_validity.validate_target(Target("n", ssh=Ssh("fe80::1%eth0"))) == {}


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_hostile_values_go_nowhere_that_takes_a_name(text: str) -> None:
    """The rest is quoted wherever it is used: directories with blanks or quotes are the user's own business."""
    ssh = FULL.ssh
    assert ssh is not None
    for word in ("host", "user", "key_file"):
        assert word in target_validity.validate_target(replace(FULL, ssh=replace(ssh, **{word: text}))), word
    for word in ("jump", "host_keys"):
        assert word in target_validity.validate_target(replace(FULL, ssh=replace(ssh, **{word: (text,)}))), word
    for word in ("name", "directory", "scratch", "perf"):
        assert word in target_validity.validate_target(replace(FULL, **{word: text})), word
    assert "starters" in target_validity.validate_target(replace(FULL, starters={"openmpi": text}))
    assert "starters" in target_validity.validate_target(replace(FULL, starters={text: "mpirun"}))
    assert "environment" in target_validity.validate_target(replace(FULL, environment={text: "x"}))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"name": ""}, "name"),
        ({"name": "new"}, "name"),
        ({"name": "x" * 61}, "name"),
        ({"name": " a"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "."}, "name"),
        ({"name": LOCAL}, "name"),
        ({"name": 3}, "name"),
        ({"directory": "relative"}, "directory"),
        ({"directory": "/"}, "directory"),
        ({"directory": "/a/../b"}, "directory"),
        ({"directory": "$"}, "directory"),
        ({"directory": "/a/${b c}"}, "directory"),
        ({"scratch": "$1"}, "scratch"),
        ({"perf": "~/perf"}, "perf"),
        ({"perf": "/opt/"}, "perf"),
        ({"modules": ("gcc 12",)}, "modules"),
        ({"environment": {"PERFLOOM_DATA": "x"}}, "environment"),
        ({"modules": "gcc"}, "modules"),
        ({"modules": ("x",) * 300}, "modules"),
        ({"environment": {"A": "x\0"}}, "environment"),
        ({"environment": {"A": 1}}, "environment"),
        ({"mpi": MpiFlavor.SRUN, "scheduler": SchedulerName.LSF}, "mpi"),
        ({"counters": 0}, "counters"),
        ({"counters": 1.5}, "counters"),
        ({"poll_s": 0}, "poll"),
        ({"poll_s": float("nan")}, "poll"),
        ({"poll_s": None}, "poll"),
        ({"sudo": 1}, "sudo"),
        ({"notes": "\x1b[2J"}, "notes"),
        ({"ssh": Ssh("")}, "host"),
        ({"ssh": Ssh("ada@node")}, "host"),
        ({"ssh": Ssh("node:22")}, "host"),
        ({"ssh": Ssh("n", port=0)}, "port"),
        ({"ssh": Ssh("n", port=True)}, "port"),
        ({"ssh": Ssh("n", port=70_000)}, "port"),
        ({"ssh": Ssh("n", key_file="id_rsa")}, "key_file"),
        ({"ssh": Ssh("n", jump=("a:b",))}, "jump"),
        ({"ssh": Ssh("n", jump=("a@",))}, "jump"),
        ({"ssh": Ssh("n", jump=("::1",))}, "jump"),
        ({"ssh": Ssh("n", host_keys=("n ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAA",))}, "host_keys"),
        ({"ssh": Ssh("n", connect_timeout_s=0)}, "connect_timeout"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_invalid_value_is_reported_at_its_field(changes: dict[str, Any], word: str) -> None:
    found = target_validity.validate_target(replace(FULL, **changes))
    assert list(found) == [word]
    assert found[word].endswith(".") and len(found[word]) < 300


def test_jump_hosts_are_parsed() -> None:
    assert value_checks.parse_jump_host("a@b.c:22") == value_checks.JumpHostAddress("b.c", "a", 22)
    assert value_checks.parse_jump_host("b") == value_checks.JumpHostAddress("b")
    assert value_checks.parse_jump_host("x@y@[::1]:7") == value_checks.JumpHostAddress("::1", "x@y", 7)


def test_a_file_brings_all_but_keys_of_hosts() -> None:
    data = target_file.to_data(FULL)
    assert "host_keys" not in data["ssh"] and "config" not in data["ssh"]
    for text in (serialization.to_toml(data), serialization.to_json(data)):
        found = target_file.from_data(serialization.from_text(text))
        assert FULL.ssh is not None
        assert found == replace(FULL, ssh=replace(FULL.ssh, host_keys=()))
    smuggled = data | {"ssh": data["ssh"] | {"host_keys": [KEY]}}
    accepted = target_file.from_data(smuggled).ssh
    assert accepted is not None and accepted.host_keys == ()
    assert target_file.from_data(data, name="other").name == "other"
    assert target_file.to_data(Target("a")) == {"name": "a"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "needs the field “name”"),
        ("name = 'a'\nsecret = 'x'", "no field “secret”"),
        ("name = 'a'\nssh = 'host'", "its own fields"),
        ("name = 'a'\n[ssh]\nuser = 'x'", "“ssh” needs the field “host”"),
        ("name = 'a'\n[ssh]\nhost = 'x'\npasswort = 'x'", "no field “passwort”"),
        ("name = 'a'\n[ssh]\nhost = 'x'\nport = '22'", "whole number"),
        ("name = 'a'\n[ssh]\nhost = 'x'\njump = 'y'", "list of strings"),
        ("name = 'a'\nscheduler = 'pbs'", "Use one of: none, slurm, lsf"),
        ("name = 'a'\nmpi = 'best'", "Use one of: openmpi"),
        ("name = 'a'\nmpi = ['best']", "Use one of: openmpi"),
        ("name = 'a'\nmodules = [1]", "list of strings"),
        ("name = 'a'\n[environment]\nA = 1", "The value of A must be a string"),
        ("name = 'a'\nenvironment = 'A=1'", "names to strings"),
        ("name = 1", "name"),
    ],
)
def test_files_that_are_none_of_a_target(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        target_file.from_data(serialization.from_text(text))


def test_every_wrong_field_is_reported() -> None:
    text = "name = 'a'\ncounters = 0\npoll_s = 'x'\nmpi = 'best'\ngone = 1\n[ssh]\nhost = 'a b'\nport = 0"
    with pytest.raises(InvalidRequest) as raised:
        target_file.from_data(serialization.from_text(text))
    for name in ("counters: ", "poll: ", "mpi: ", "gone: ", "host: ", "port: "):
        assert name in raised.value.message
