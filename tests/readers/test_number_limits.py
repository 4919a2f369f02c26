"""Numbers of files that do not fit into the columns of tables."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from perfloom.domain.profile import Profile
from perfloom.domain.tables import get_column
from perfloom.domain.validation import find_error
from perfloom.ingest.merge import merge
from perfloom.ingest.number_limits import MAX_CATEGORIES, OTHER_CATEGORIES, check_cpus
from perfloom.readers import chrome, perf_script


def read_categories(first: int, count: int) -> Profile:
    """A trace with a slice and an instant of each of many categories."""
    events = [
        {"name": f"f{number}", "cat": f"c{number}", "pid": 1, "tid": 1, **what}
        for number in range(first, first + count)
        for what in ({"ph": "X", "ts": 4 * number, "dur": 2}, {"ph": "i", "ts": 4 * number + 1, "s": "t"})
    ]
    return chrome.read(io.BytesIO(json.dumps({"traceEvents": events}).encode()), "many")


def find_categories(profile: Profile, table: str) -> list[str]:
    names = profile.categories.column("name").to_pylist()
    functions = profile.functions.column("name").to_pylist()
    rows = getattr(profile, table)
    own = {
        functions[of]: names[at]
        for of, at in zip(get_column(rows, "function"), get_column(rows, "category"), strict=True)
    }
    return [own[name] for name in sorted(own, key=lambda name: int(name[1:]))]


def test_more_categories_than_numbers() -> None:
    profile = read_categories(0, MAX_CATEGORIES + 900)
    assert find_error(profile) is None
    for table in ("slices", "instants"):
        found = find_categories(profile, table)
        assert found[:MAX_CATEGORIES] == [f"c{number}" for number in range(MAX_CATEGORIES)]
        assert found[MAX_CATEGORIES:] == [OTHER_CATEGORIES] * 900


def test_files_with_more_categories_together() -> None:
    half = MAX_CATEGORIES // 2
    profile = merge([read_categories(0, half), read_categories(half, half + 700)])
    assert find_error(profile) is None
    for table in ("slices", "instants"):
        found = find_categories(profile, table)
        assert found[:MAX_CATEGORIES] == [f"c{number}" for number in range(MAX_CATEGORIES)]
        assert found[MAX_CATEGORIES:] == [OTHER_CATEGORIES] * 700


@pytest.mark.parametrize("cpu", [-5, -(2**31) - 1, 2**31])
def test_impossible_cpus(cpu: int) -> None:
    text = f"prog 123/124 [{cpu}] 10.123456: 1 cycles:\n\t1000 main (/bin/prog)\n\nprog 123/124 [003] 10.2: 1 cycles:\n\t1000 main (/bin/prog)\n\n"
    profile = perf_script.read(io.BytesIO(text.encode()), "text")
    assert profile.samples.column("cpu").to_pylist() == [-1, 3]
    assert check_cpus(np.array([cpu, 3])).tolist() == [-1, 3]
