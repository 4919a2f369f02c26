"""Settings as a file: what is written is read again, and what is wrong is said with what to do."""

import json

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.jobs import JobSpec, Mpi, MpiFlavor
from perfloom.domain.targets import Ssh, Target
from perfloom.recording.fields import serialization

HOSTILE = "$(touch /tmp/x) `id` 'a' \"b\" \\ \n\t\x00\x7f\u2028 é 🙂"


def test_job_and_target_are_read_back() -> None:
    spec = JobSpec(
        name=HOSTILE,
        command=("solver", HOSTILE),
        environment={HOSTILE: HOSTILE},
        mpi=Mpi(MpiFlavor.OPENMPI, ranks=4, arguments=("--x", HOSTILE)),
    )
    target = Target("a", ssh=Ssh("node", jump=("a@b:22",)), environment={"A B": HOSTILE}, poll_s=2.5)
    for write in (serialization.to_toml, serialization.to_json):
        assert JobSpec.from_json(serialization.from_text(write(spec.to_json()))) == spec
        assert Target.from_json(serialization.from_text(write(target.to_json()).encode())) == target


def test_nulls_are_left_out_and_heading_is_a_comment() -> None:
    text = serialization.to_toml({"a": None, "b": {"c": None, "d": [1]}}, "A preset\nof somebody")
    assert text.startswith("# A preset\n# of somebody\n\n")
    assert serialization.from_text(text) == {"b": {"d": [1]}}


def test_line_ends_and_marks_of_other_systems() -> None:
    assert serialization.from_text(b"\xef\xbb\xbfa = 1\r\nb = 'x'\r\n") == {"a": 1, "b": "x"}
    assert serialization.from_text("\ufeff{}") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = ", "cannot be read"),
        ("a = 1\na = 2", "cannot be read"),
        ('{"a": 1', "cannot be read"),
        ('{"a": NaN}', "not a number"),
        ("a = nan", "out of range"),
        ("a = inf", "out of range"),
        ("a = 99999999999999999999", "out of range"),
        ('{"a": 1e999}', "out of range"),
        ("a = 1979-05-27", "date"),
        ('{"a": "\\ud800"}', "surrogate pair"),
        ('{"\\ud800": 1}', "surrogate pair"),
        ("[1, 2]", "cannot be read"),
        ("a = " + "[" * 20 + "]" * 20, "brackets"),
        ("a = " + "[" * 100_000, "brackets"),
        ('{"a": ' + "[" * 100_000, "brackets"),
        (b"\xff\xfe", "UTF-8"),
        ("#" * 2_000_000, "bytes"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_invalid_files_are_rejected(text: str | bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        serialization.from_text(text)


def test_json_is_plain() -> None:
    assert json.loads(serialization.to_json({"a": ("b",)})) == {"a": ["b"]}
