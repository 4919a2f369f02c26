"""The build ids of a recording's binaries as lines of `perf buildid-list`: hexadecimal digits, a space, the path."""

import re

from .perf_build_ids import MAX_ENTRIES

_LINE = re.compile(rb"([0-9a-f]{8,40}) +(\S.*)")


def parse_build_id_list(data: bytes) -> dict[str, str]:
    """The build id of each binary, by its path. Other lines are ignored."""
    found: dict[str, str] = {}
    for line in data.split(b"\n")[:MAX_ENTRIES]:
        match = _LINE.fullmatch(line)
        if match and match[1].strip(b"0"):
            found.setdefault(match[2].decode(errors="replace"), match[1].decode("ascii"))
    return found
