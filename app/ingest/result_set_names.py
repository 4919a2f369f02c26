"""Recognizes from file names that files are a result set of PerfAnalyzer: NAME.results with NAME_proc0_EVENT."""

from collections.abc import Sequence
from pathlib import PurePosixPath

INDEX_SUFFIX, SETTINGS_SUFFIX = ".results", ".settings"
COMPRESSION_SUFFIXES = (".gz", ".zst", ".xz")
_PARTS = ("_proc", "_host")


def strip_compression(name: str) -> str:
    """A file name without the suffix of a compression."""
    return next((name.removesuffix(suffix) for suffix in COMPRESSION_SUFFIXES if name.endswith(suffix)), name)


def group_result_sets(names: Sequence[str]) -> list[tuple[int, ...]]:
    """The indices of the files of each set, its .results file first. A set has at least one other file; files in
    another folder do not belong to it."""
    plain = [PurePosixPath(strip_compression(name.replace("\\", "/"))) for name in names]
    groups = []
    for at, path in enumerate(plain):
        if path.suffix != INDEX_SUFFIX or not path.stem:
            continue
        starts = tuple(path.stem + part for part in _PARTS)
        others = [
            number
            for number, other in enumerate(plain)
            if other.parent == path.parent
            and (other.name.startswith(starts) or other.name == path.stem + SETTINGS_SUFFIX)
        ]
        if others:
            groups.append((at, *others))
    return groups
