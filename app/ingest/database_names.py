"""Recognizes from file names that files are a database of HPCToolkit: meta.db with profile.db, or experiment.xml with
.metric-db files."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from .result_set_names import strip_compression

META_FILE, PROFILE_FILE = "meta.db", "profile.db"
EXPERIMENT_FILE, METRICS_SUFFIX = "experiment.xml", ".metric-db"
_UNREAD_FILES = ("cct.db", "trace.db", "FORMATS.md")
_UNREAD_FOLDERS = ("src", "metrics")


def is_tree_file(name: str) -> bool:
    """Whether a file with this name may have the call tree of a database."""
    return PurePosixPath(strip_compression(name)).name in (META_FILE, EXPERIMENT_FILE)


def is_values_file(name: str, tree: str) -> bool:
    """Whether a file with this name may have values of a database whose file with the call tree is `tree`."""
    plain = PurePosixPath(strip_compression(name)).name
    if PurePosixPath(strip_compression(tree)).name == META_FILE:
        return plain == PROFILE_FILE
    return plain.endswith(METRICS_SUFFIX)


def group_databases(names: Sequence[str]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The indices of the files of each database, that with the call tree first, and those of other files of its folder,
    which are not read: copies of source files, and what repeats the values. A database has at least one file of values;
    files in another folder do not belong to it."""
    plain = [PurePosixPath(strip_compression(name.replace("\\", "/"))) for name in names]
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for at, path in enumerate(plain):
        if not is_tree_file(path.name):
            continue
        beside = [number for number, other in enumerate(plain) if other.parent == path.parent]
        values = [number for number in beside if is_values_file(plain[number].name, path.name)]
        if not values:
            continue
        unread = [number for number in beside if plain[number].name in _UNREAD_FILES]
        # Without folders, files in src cannot be distinguished from others.
        unread += [
            number
            for number, other in enumerate(plain)
            if other.parent != path.parent
            and other.is_relative_to(path.parent)
            and other.relative_to(path.parent).parts[0] in _UNREAD_FOLDERS
        ]
        groups.append(((at, *values), tuple(unread)))
    return groups
