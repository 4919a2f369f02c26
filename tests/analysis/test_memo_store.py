"""What is stored for a large trace equals what is computed from it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfloom.analysis import memo_store
from perfloom.analysis.advice.findings import find_advice
from perfloom.analysis.core import memo
from perfloom.analysis.core.sample_rollup import block_rollup_of
from perfloom.analysis.distributed.critical_path import path_of, savings_of
from perfloom.analysis.ml.operators import operator_calls_of
from perfloom.analysis.ml.roles import rank_times
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.ingest.compression import open_decompressed
from perfloom.readers import pytorch
from perfloom.store.files import table_cache
from tests.support import paths

TRACE = paths.DATA / "pytorch" / "training.pt.trace.json.gz"


@pytest.fixture(scope="module")
def trace() -> Profile:
    with open_decompressed(TRACE, 1 << 30) as stream:
        return pytorch.read(stream)  # type: ignore[arg-type]


def same(one: Any, other: Any) -> bool:
    if is_dataclass(one):
        return type(one) is type(other) and all(
            same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)
        )
    if isinstance(one, tuple):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(np.array_equal(one, other)) and type(one) is type(other)


def test_restored_values_equal_computed_ones(trace: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_cache, "SMALL_SLICES", 1)
    monkeypatch.setattr(memo_store, "MIN_ROLLUP_SAMPLES", 1)
    (tmp_path / "tables-of-another-version").touch()
    table_cache.save(tmp_path, trace)
    assert [path.name for path in tmp_path.iterdir()] == [f"tables-{memo_store.analysis_version()}"]
    again = replace(trace)
    table_cache.load_into(tmp_path, again)
    pinned = memo._memos[again].pinned_entries
    made = {
        "operator calls": operator_calls_of,
        "rank times": rank_times,
        "critical path": path_of,
        "savings": savings_of,
    }
    for key, make in made.items():
        assert same(make(trace), pinned[key])
    assert same(block_rollup_of(trace, 0), pinned["sample_rollup", 0])
    judged = {key: value for key, value in pinned.items() if isinstance(key, tuple) and key[0] == "findings"}
    assert len(judged) > 20 and any(judged.values())
    assert find_advice(again, Selection()) == find_advice(trace, Selection())


def test_damaged_data_is_recomputed(trace: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_cache, "SMALL_SLICES", 1)
    table_cache.save(tmp_path, trace)
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    again = replace(trace)
    table_cache.load_into(tmp_path, again)
    assert same(operator_calls_of(again), operator_calls_of(trace))
