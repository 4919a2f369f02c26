"""The constant scripts of POSIX sh that lie beside the modules of this package."""

from functools import cache
from pathlib import Path


@cache
def script_text(path: str) -> str:
    """A script by its path in this package, such as `plan/job.sh`."""
    return (Path(__file__).parent / path).read_text(encoding="utf-8")
