"""Timelines of results: levels of detail, which are computed once and stored in the result's cache."""

import logging
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from weakref import WeakKeyDictionary

from ...analysis.timeline.model import CACHE_NAME, Timeline, open_timeline, prepare_timeline
from ...domain.errors import PerfloomError, Unavailable
from ...domain.profile import Profile
from . import arrays

SMALL_ROWS = 300_000
"""With up to this many slices and samples, the timeline is prepared within the request."""
_KEPT = re.compile(r"timeline-[0-9]+")
log = logging.getLogger(__name__)


class Timelines:
    """The timelines of stored results. Thread-safe and fork-safe."""

    def __init__(self, cache: Callable[[str], Path]) -> None:
        """cache: the cache directory of a result, by id."""
        self._cache = cache
        self._opened: WeakKeyDictionary[Profile, Timeline] = WeakKeyDictionary()
        self._running: dict[str, threading.Thread] = {}
        self._failed: WeakKeyDictionary[Profile, PerfloomError] = WeakKeyDictionary()

    def get(self, id: str, profile: Profile) -> Timeline | None:
        """The timeline of a result; None while it is being prepared, which this call starts if necessary.

        Raises the error of the preparation: UnreadableInput, Unavailable.
        """
        known = self._opened.get(profile)
        if known is not None:
            return known
        if profile in self._failed:
            raise self._failed[profile]
        stored = arrays.read(self._path(id))
        if stored is not None:
            return self._keep(profile, open_timeline(profile, stored))
        if _small(profile):
            return self.prepare(id, profile)
        running = self._running.get(id)
        # After a fork, the parent's threads do not exist.
        if running is None or not running.is_alive():
            self._running[id] = thread = threading.Thread(target=self._prepare, args=(id, profile), daemon=True)
            thread.start()
        return None

    def prepare_large(self, id: str, profile: Profile) -> None:
        """Prepare the timeline of a large result before a page requests it. Raises UnreadableInput."""
        if not _small(profile) and arrays.read(self._path(id)) is None:
            self.prepare(id, profile)

    def prepare(self, id: str, profile: Profile) -> Timeline:
        """Prepare the timeline of a result, and store it unless the disk is full. Raises UnreadableInput."""
        prepared = prepare_timeline(profile)
        try:
            path = self._path(id)
            arrays.write(path, prepared)
            self._remove_earlier(path)
            # Read it again memory-mapped, so that the kernel can reclaim its memory.
            prepared = arrays.read(path) or prepared
        except Unavailable as error:
            log.warning("could not cache the timeline of %s: %s", id, error.message)
        return self._keep(profile, open_timeline(profile, prepared))

    @staticmethod
    def _remove_earlier(path: Path) -> None:
        """Remove the files of earlier versions, which are not read any more."""
        for other in path.parent.iterdir():
            if other != path and _KEPT.fullmatch(other.name):
                with suppress(OSError):
                    other.unlink()

    def _path(self, id: str) -> Path:
        return self._cache(id) / CACHE_NAME

    def _keep(self, profile: Profile, timeline: Timeline) -> Timeline:
        return self._opened.setdefault(profile, timeline)

    def _prepare(self, id: str, profile: Profile) -> None:
        try:
            self.prepare(id, profile)
        except PerfloomError as error:
            self._failed[profile] = error
        except Exception:
            log.exception("the timeline of %s could not be prepared", id)
            self._failed[profile] = Unavailable(
                "The timeline of this result could not be prepared; see the server's log. The other pages work."
            )
        finally:
            self._running.pop(id, None)


def _small(profile: Profile) -> bool:
    return bool(profile.slices.num_rows + profile.samples.num_rows + profile.instants.num_rows <= SMALL_ROWS)
