"""Scripts for a job that has ended: complete its texts, list what it left, and remove its directory."""

import re

from ...domain.errors import UnreadableInput
from ...domain.rank_state import is_rank_folder, is_trace_file, parse_run_folder
from .quoting import quote
from .submission import DIRECTORY_MARKER, _full, _script

ARTIFACTS = ("perf.data", "perf.script.zst", "perf.script.gz", "perf.script", "perf-stat.txt", "state")
_LINE = re.compile(r"\s*([0-9]{1,20}) (?:\./)?(\S.*)")


def symbolize_script(directory: str, *, most_s: int = 40) -> str:
    """sh: have perf script read, here and now, what no rank could (it was killed); prints what it did.

    A line for each: its path, then `ok` or `failed` and why. After `most_s` seconds it begins no other, and ends with
    the line `more`: then run it again.
    """
    return _script(
        f"cd {quote(_full(directory))} || exit 1",
        "pl_directory=$(pwd -P)",
        f"pl_most={int(most_s)}",
        _SYMBOLISE,
    )


_SYMBOLISE = r""". ./common.sh && . ./plan.sh || exit 1
pl_find_host
pl_now
pl_until=$((${pl_time%?????????} + pl_most))
pl_read_rest '*' '' || echo more"""


def list_script(directory: str) -> str:
    """sh: print the artefacts of all ranks that hold anything, with their sizes."""
    names = " ".join(f"./run*/*/{name}" for name in (*ARTIFACTS, "*.pt.trace.json.gz"))
    return _script(f"cd {quote(_full(directory))} || exit 1", _FRESH, f"for pl_file in {names}; do", _LIST)


# What another host has made lately is seen late on a network file system, unless something is changed beside it.
_FRESH = r"""for pl_place in . ./run*; do
    [ -L "$pl_place" ] || { mkdir "$pl_place/.look" && rmdir "$pl_place/.look"; } 2>/dev/null
done"""


# Only names of our own making come through, so a line is a file. Links would lead out of the directory.
_LIST = r"""case ${pl_file#./} in *[!A-Za-z0-9._/-]*) continue ;; esac
    pl_place=${pl_file%/*}
    if [ -s "$pl_file" ] && [ -f "$pl_file" ] && [ ! -L "$pl_file" ] && [ ! -L "$pl_place" ]; then
        [ -L "${pl_place%/*}" ] || echo "$pl_file"
    fi
done | LC_ALL=C xargs wc -c /dev/null"""


def parse_list_output(stdout: bytes) -> tuple[tuple[str, int], ...]:
    """(path in the job's directory, bytes) of the artefacts. Raises UnreadableInput for paths that lead out of it."""
    found: dict[str, int] = {}
    for line in stdout.decode(errors="replace").split("\n"):
        match = _LINE.fullmatch(line)
        if not match or match[2] in ("/dev/null", "total"):
            continue
        steps = match[2].split("/")
        if not steps[0] or ".." in steps:
            raise UnreadableInput(f"The target names a file that is none of the job's: {match[2][:100]}")
        known = steps[-1] in ARTIFACTS or is_trace_file(steps[-1])
        if len(steps) == 3 and parse_run_folder(steps[0]) is not None and is_rank_folder(steps[1]) and known:
            found[match[2]] = int(match[1])
    return tuple(sorted(found.items()))


def remove_script(directory: str) -> str:
    """sh: remove the job's directory, with everything in it and nothing else."""
    return _script(f"pl_directory={quote(_full(directory))}", f"pl_mark={quote(DIRECTORY_MARKER)}", _REMOVE)


_REMOVE = r"""[ -e "$pl_directory" ] || [ -L "$pl_directory" ] || exit 0
pl_found=''
{ read -r pl_found <"$pl_directory/.perfloom"; } 2>/dev/null
if [ -L "$pl_directory" ] || [ ! -O "$pl_directory" ] || [ "$pl_found" != "$pl_mark" ]; then
    printf '%s is not removed: it was not made for a job.\n' "$pl_directory" >&2
    exit 1
fi
# The mark goes last, so that a removal that was broken off can be done again.
cd "$pl_directory" || exit 1
chmod -R u+rwX . 2>/dev/null
for pl_file in ./* ./.[!.]* ./..?*; do
    [ "$pl_file" = ./.perfloom ] || rm -rf "$pl_file"
done
cd / && rm -rf "$pl_directory"
[ ! -e "$pl_directory" ]"""
