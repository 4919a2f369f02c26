"""Directories of results that are not yet published."""

import secrets
from pathlib import Path

from ..ids import require_id
from .disk import disk_errors

STAGED_PREFIX = ".staged-"
"""Of their names in `results`."""


def stage_result(data: Path, id: str) -> Path:
    """A new empty directory for the result `id` in the data directory. One per attempt. Raises Unavailable."""
    staged = data / "results" / f"{STAGED_PREFIX}{require_id(id, 'result')}-{secrets.token_hex(4)}"
    with disk_errors(staged.parent):
        staged.mkdir(mode=0o700)
    return staged
