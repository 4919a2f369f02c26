"""Recognizes from file names that files are those of one `perf record --switch-output`: perf.data.2026112722560712.

perf appends the local time when it ended the file, to hundredths of a second (tools/perf/util/util.c of Linux,
fetch_current_timestamp). The file that it writes has no time yet, and keeps this name if perf is killed.
"""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from .result_set_names import strip_compression

_NAME = re.compile(
    r"(?P<prefix>.+)\.(?P<time>(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d[0-6]\d\d\d)",
    re.ASCII | re.DOTALL,
)


def group_switch_output(names: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """(the name without a time, the indices of its files in the order of time) of each recording that has several
    files; one without a time is the last. Files in another folder do not belong to it, nor do several with the same
    time."""
    found: dict[tuple[PurePosixPath, str], dict[str, int]] = {}
    unfinished: dict[tuple[PurePosixPath, str], list[int]] = {}
    doubtful = set()
    for at, name in enumerate(names):
        path = PurePosixPath(strip_compression(name.replace("\\", "/")))
        match = _NAME.fullmatch(path.name)
        if match is None:
            unfinished.setdefault((path.parent, path.name), []).append(at)
            continue
        key = path.parent, match["prefix"]
        if found.setdefault(key, {}).setdefault(match["time"], at) != at:
            doubtful.add(key)
    groups = []
    for key, files in found.items():
        last = unfinished.get(key, [])
        group = (*(files[time] for time in sorted(files)), *(last if len(last) == 1 else ()))
        if len(group) > 1 and key not in doubtful:
            groups.append((key[1], group))
    return groups
