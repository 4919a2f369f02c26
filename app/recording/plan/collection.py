"""Scripts for a job that has ended: convert its recordings to text, list its artifacts, and remove its directory."""

import re

from ...domain.errors import UnreadableInput
from ...domain.jobs import JobSpec
from ...domain.rank_state import TABLES_FOLDER, is_artifact, is_rank_folder, parse_run_folder
from ..quoting import quote
from ..recorders import artifact_patterns
from ..scripts import script_text
from .submission import DIRECTORY_MARKER, _script, require_absolute

STATE = "state"
_LINE = re.compile(r"\s*([0-9]{1,20}) (?:\./)?(\S.*)")


def symbolize_script(directory: str, *, most_s: int = 40) -> str:
    """sh: convert recordings to text on this host that their ranks did not convert, because they were killed.

    Prints a line for each: its path, then `ok`, or `failed` with the reason. After `most_s` seconds it starts no other,
    and ends with the line `more`: then run it again.
    """
    return _script(
        f"cd {quote(require_absolute(directory))} || exit 1",
        "pl_directory=$(pwd -P)",
        f"pl_most={int(most_s)}",
        script_text("plan/symbolize.sh"),
    )


def list_script(directory: str, spec: JobSpec) -> str:
    """sh: print the non-empty artifacts of all ranks, and the symbol tables, with their sizes."""
    names = " ".join((*(f"./run*/*/{name}" for name in (STATE, *artifact_patterns(spec))), f"./{TABLES_FOLDER}/*"))
    return _script(
        f"cd {quote(require_absolute(directory))} || exit 1", f"pl_names={quote(names)}", script_text("plan/list.sh")
    )


def parse_list_output(stdout: bytes, spec: JobSpec) -> tuple[tuple[str, int], ...]:
    """(path in the job's directory, bytes) of the artifacts. Raises UnreadableInput for paths outside of it."""
    found: dict[str, int] = {}
    for line in stdout.decode(errors="replace").split("\n"):
        match = _LINE.fullmatch(line)
        if not match or match[2] in ("/dev/null", "total"):
            continue
        steps = match[2].split("/")
        if not steps[0] or ".." in steps:
            raise UnreadableInput(f"The target listed a file that does not belong to the job: {match[2][:100]}")
        known = is_artifact(steps[-1], (STATE, *artifact_patterns(spec)))
        if len(steps) == 3 and parse_run_folder(steps[0]) is not None and is_rank_folder(steps[1]) and known:
            found[match[2]] = int(match[1])
    return tuple(sorted(found.items()))


def remove_script(directory: str) -> str:
    """sh: remove the job's directory."""
    return _script(
        f"pl_directory={quote(require_absolute(directory))}",
        f"pl_mark={quote(DIRECTORY_MARKER)}",
        script_text("plan/remove.sh"),
    )
