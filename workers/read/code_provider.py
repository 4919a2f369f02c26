"""Providers of binaries and source files that this machine lacks: the host that recorded, servers of debuginfod."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from perfloom.analysis.source.missing_code import MissingObject, MissingSource
from perfloom.store.files.binary_cache import UPLOADS, BinaryFolder, is_build_id

MIN_SHARE = 0.005
"""Of the samples: binaries with less are not fetched."""
MAX_OBJECTS = 50
MAX_FILE_BYTES = 1 << 30
"""The kernel with debug information has up to 900 MB."""
MAX_ALL_BYTES = 2 << 30
"""Of the binaries and debug files for one result."""
MAX_SOURCES = 2000
MAX_SOURCE_BYTES = 4 << 20
MAX_ALL_SOURCE_BYTES = 64 << 20
FETCH_S = 300.0
"""For all files of a result from one provider."""


@dataclass(frozen=True)
class FetchedSource:
    """A source file. changed: when it was written last, seconds since the epoch, None if that is unknown."""

    wanted: MissingSource
    content: bytes
    changed: float | None


class CodeProvider(Protocol):
    """A provider. Its methods raise PerfloomError if it cannot be used at all; a file that it lacks is no error."""

    @property
    def title(self) -> str:
        """Its name for users."""

    @property
    def origin(self) -> str:
        """The origin of its files in the cache of binaries."""

    def fetch_objects(self, wanted: Sequence[MissingObject], into: BinaryFolder) -> None:
        """Write what it has of these binaries. They are not checked."""

    def fetch_sources(self, wanted: Sequence[MissingSource]) -> list[FetchedSource]:
        """What it has of these source files."""


@dataclass(frozen=True)
class ReceivedTexts:
    """The texts of source files that users uploaded."""

    folder: BinaryFolder
    title: str = "uploads"
    origin: str = UPLOADS

    def fetch_objects(self, wanted: Sequence[MissingObject], into: BinaryFolder) -> None:
        """See CodeProvider. Uploaded binaries are added together with the request to do so."""

    def fetch_sources(self, wanted: Sequence[MissingSource]) -> list[FetchedSource]:
        """See CodeProvider."""
        found = []
        for one in wanted:
            for build_id in filter(is_build_id, one.build_ids):
                with suppress(FileNotFoundError):
                    content = self.folder.source(build_id, one.path).read_bytes()
                    found.append(FetchedSource(one, content, None))
                    break
        return found


class Budget:
    """What one provider may still transfer for a result."""

    def __init__(self, seconds: float = FETCH_S, all_bytes: int = MAX_ALL_BYTES) -> None:
        self._end = time.monotonic() + seconds
        self.bytes = all_bytes

    @property
    def seconds(self) -> float:
        """What is left, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def take(self, size: int, most: int = MAX_FILE_BYTES) -> bool:
        """Whether a file of this size may be transferred; if so, it counts."""
        if not 0 < size <= min(most, self.bytes) or not self.seconds:
            return False
        self.bytes -= size
        return True


def select_objects(wanted: Sequence[MissingObject]) -> list[MissingObject]:
    """Those with a useful share of the samples."""
    return [one for one in wanted if one.share >= MIN_SHARE][:MAX_OBJECTS]
