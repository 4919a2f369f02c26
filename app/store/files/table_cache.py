"""Data that pages need of all of a large trace, computed once and stored in the cache of its result.

The modules that compute it are imported only for a large trace.
"""

import logging
from pathlib import Path

from ...domain.errors import Unavailable
from ...domain.profile import Profile
from . import arrays

SMALL_SLICES = 100_000
"""With fewer slices it is computed within the request."""
NAME = "tables-"
log = logging.getLogger(__name__)


def save(folder: Path, profile: Profile) -> None:
    """Compute the data and store it in a result's cache, unless it is there or the disk is full."""
    if profile.slices.num_rows < SMALL_SLICES:
        return
    from ...analysis.memo_store import analysis_version, dump_memo

    path = folder / f"{NAME}{analysis_version()}"
    if arrays.read(path) is not None:
        return
    try:
        arrays.write(path, dump_memo(profile))
    except Unavailable as error:
        log.warning("could not cache the data for tables in %s: %s", folder, error.message)
        return
    for other in folder.glob(f"{NAME}*"):
        if other != path:
            other.unlink(missing_ok=True)


def load_into(folder: Path, profile: Profile) -> None:
    """Load stored data into the memo of a profile."""
    if profile.slices.num_rows < SMALL_SLICES:
        return
    from ...analysis.memo_store import analysis_version, restore_memo

    stored = arrays.read(folder / f"{NAME}{analysis_version()}")
    if stored is not None:
        try:
            restore_memo(profile, stored)
        except (KeyError, TypeError, ValueError):
            log.warning("the cached data for tables in %s is damaged", folder)
