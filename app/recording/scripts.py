"""The constant POSIX sh scripts in the directory of a package."""

from functools import cache
from pathlib import Path


@cache
def script_text(path: str, package: Path = Path(__file__).parent) -> str:
    """A script by its path in a package (default: this one), such as `plan/job.sh`."""
    return (package / path).read_text(encoding="utf-8")
