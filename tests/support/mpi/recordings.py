"""The recordings of tests/data/mpi as profiles."""

from __future__ import annotations

import functools
import io

import zstandard

from perfloom.domain.profile import Profile
from perfloom.ingest.merge import merge
from perfloom.readers import detect_format
from tests.support.paths import DATA

NAMES = tuple(f"{name}.{flavour}" for name in ("slow", "even") for flavour in ("openmpi", "mpich"))


@functools.cache
def recording_of(name: str) -> Profile:
    """The profile of the four ranks of a recording, one of `NAMES`."""
    ranks = []
    for rank in range(4):
        packed = (DATA / "mpi" / f"{name}.{rank}.script.txt.zst").read_bytes()
        text = zstandard.ZstdDecompressor().stream_reader(packed).read()
        ranks.append(detect_format(text[:65536]).read(io.BytesIO(text), name))
    return merge(ranks)
