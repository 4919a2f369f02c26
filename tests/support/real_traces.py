"""Real traces of PyTorch next to the checkout, with the tables that torch-tb-profiler computed from them."""

from __future__ import annotations

import functools
import gzip
import json
from typing import Any

import pytest

from perfloom.domain.profile import Profile
from perfloom.ingest.merge import merge
from perfloom.readers import detect_format
from tests.support import paths

FOLDER = paths.ORACLES / "pytorch"
NAMES = ("resnet50_v100", "nccl_a100", "ns_resolution_v100", "ddp_rank0", "ddp_rank1", "amd_mi250")
here = pytest.mark.skipif(not FOLDER.is_dir(), reason="the real traces lie outside of the checkout")


@functools.cache
def trace(name: str) -> Profile:
    """The profile in a trace."""
    with gzip.open(FOLDER / f"{name}.pt.trace.json.gz") as file:
        head = file.read(1 << 16)
        file.seek(0)
        return detect_format(head).read(file, name)  # type: ignore[arg-type]


@functools.cache
def two_ranks() -> Profile:
    """Both ranks of one job."""
    return merge([trace("ddp_rank0"), trace("ddp_rank1")])


@functools.cache
def expected(name: str) -> dict[str, Any]:
    """The tables of torch-tb-profiler."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.expected.json").read_text(encoding="utf-8"))
    return found
