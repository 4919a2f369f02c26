"""Damaged recordings, symbol stores, binaries, dumps and maps: an error or what can be read, in time and within memory.

`python -m tests.support.perf.fuzzing --seconds 3600` does the same for longer.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.support.parts import ci, require
from tests.support.perf.fuzzing import Fuzzing, make_targets

SECONDS = 60.0 if ci() else 3.0
ROUNDS = 12
"""At least, on a slow machine."""


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("binary") / "program"
    source = "int one(int at) { return at + 1; } int main(int count, char **all) { return one(count); }"
    subprocess.run([require("gcc"), "-g", "-x", "c", "-o", path, "-"], input=source, text=True, check=True)
    return path.read_bytes()


@pytest.mark.heavy
def test_damaged_files_crash_nothing(binary: bytes, tmp_path: Path) -> None:
    fuzzing = Fuzzing(make_targets(tmp_path, [binary], []), seed=time.time_ns())
    fuzzing.load()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or fuzzing.outcomes.total() < ROUNDS * len(fuzzing.targets):
        for target in fuzzing.targets:
            fuzzing.run(target)
            assert not fuzzing.findings, fuzzing.findings[0].describe()
    for target in fuzzing.targets:
        assert fuzzing.outcomes[f"{target.name}: read"], target.name


def test_sections_at_the_end_of_the_address_space(binary: bytes, tmp_path: Path) -> None:
    (target,) = (one for one in make_targets(tmp_path, [binary], []) if one.name == "binary")
    start = int.from_bytes(binary[40:48], "little")
    for number in range(int.from_bytes(binary[60:62], "little")):
        for field in (16, 24, 32):
            changed = bytearray(binary)
            at = start + 64 * number + field
            changed[at : at + 8] = (2**64 - 8).to_bytes(8, "little")
            target.read(bytes(changed))
