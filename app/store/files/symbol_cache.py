"""Symbol tables of the binaries of targets, as perf keeps files by build id: `<data>/symbols`.

    <origin>/.build-id/<2 digits>/<other digits>/elf         a copy of a binary that has only the parts with symbols
                                                 debug       the same of its debug information
                                                 kallsyms    the symbols of a kernel
                                                 vdso        the code that a kernel maps into every process

Origins are those of `binary_cache`. A file appears completely or not at all. What was not used for the longest time is
removed first.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...domain.rank_state import TABLE_KINDS
from .disk import disk_errors

FOLDER = "symbols"
LINKS = ".build-id"
_BUILD_ID = re.compile(r"[0-9a-f]{8,40}")


@dataclass(frozen=True)
class SymbolCache:
    """The tables of one origin. root: what perf calls the build-id directory. Names of tables: BUILDID.KIND."""

    root: Path

    def file(self, name: str) -> Path:
        """The path of a table, which may not exist."""
        build_id, _, kind = name.partition(".")
        return self.root / LINKS / build_id[:2] / build_id[2:] / kind

    def add(self, name: str, received: Path) -> None:
        """Move a complete file here. Raises Unavailable."""
        target = self.file(name)
        with disk_errors(target.parent):
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            received.replace(target)

    def list_names(self) -> list[str]:
        """The tables that are here, the last used first."""
        found = sorted(((_changed(folder), folder) for folder in self.list_folders()), reverse=True)
        return [
            f"{folder.parent.name}{folder.name}.{kind}"
            for _, folder in found
            for kind in TABLE_KINDS
            if (folder / kind).is_file()
        ]

    def keep(self, build_ids: Iterable[str]) -> None:
        """Note that the tables of build ids are in use. Other texts are ignored."""
        for build_id in build_ids:
            with suppress(OSError):
                if _BUILD_ID.fullmatch(build_id):
                    os.utime(self.file(build_id).parent)

    def list_folders(self) -> Iterator[Path]:
        """The directory of each build id."""
        for part in _subdirectories(self.root / LINKS):
            yield from _subdirectories(part)


def open_symbols(data: Path, origin: str) -> SymbolCache:
    """The tables that came from an origin."""
    return SymbolCache(data / FOLDER / origin)


def list_all_folders(data: Path) -> Iterator[Path]:
    """The directory of each build id of each origin."""
    for origin in _subdirectories(data / FOLDER):
        yield from SymbolCache(origin).list_folders()


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _subdirectories(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    return []
