"""The interface of transports: they run POSIX sh scripts at a target and copy files in both directions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from perfloom.domain.errors import Unavailable, Unreachable

from ..base.progress import Progress


@dataclass(frozen=True)
class ScriptResult:
    """The result of a script. status: its exit status, null if a signal ended it."""

    status: int | None
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """Its standard output as text."""
        return self.stdout.decode(errors="replace")

    @property
    def errors(self) -> str:
        """Its standard error as text."""
        return self.stderr.decode(errors="replace")

    @property
    def output(self) -> tuple[str, str, int]:
        """Output, errors and exit status, as a scheduler adapter parses them. The status is -1 if a signal ended the
        script."""
        return self.text, self.errors, -1 if self.status is None else self.status


@dataclass(frozen=True)
class FileCopy:
    """A file to be copied: `remote` is an absolute path at the target, `local` one on this machine. mode: the
    permissions of the copy at the target, null for 0600, or 0700 where the file here is executable."""

    remote: str
    local: Path
    bytes: int | None = None
    mode: int | None = None


def require_script(script: str) -> str:
    """The script. Raises Unavailable if it contains a null byte, which no shell accepts."""
    if "\0" in script:
        raise Unavailable("A script for a target contains a zero byte, which no shell accepts.")
    return script


def timeout_error(where: str, timeout_s: float, more: str = "") -> Unreachable:
    """The error of a script that took too long. more: another sentence."""
    return Unreachable(f"A script on {where} did not end within {timeout_s:g} s; it was ended.{more}")


def output_limit_error(where: str, limit_bytes: int) -> Unavailable:
    """The error of a script that printed too much."""
    return Unavailable(
        f"A script on {where} printed more than {limit_bytes} bytes; it was ended. Perfloom expects much "
        "shorter output."
    )


class Transport(Protocol):
    """A transport to one target. For one thread at a time; may be closed twice.

    All methods raise Unreachable if the connection fails or is too slow (it may work later), and Refused or one of its
    subclasses if a user has to act first (a wrong key, a changed host key, a missing password).
    """

    @property
    def title(self) -> str:
        """The host's name for users."""

    def run(
        self, script: str, *, input: bytes = b"", timeout_s: float = 60.0, limit_bytes: int = 64 << 20
    ) -> ScriptResult:
        """Run a POSIX sh script to its end, whatever the user's login shell is. input: its standard input. Raises
        Unreachable after `timeout_s`, Unavailable if it prints more than `limit_bytes`."""

    def put(self, files: Sequence[FileCopy], progress: Progress | None = None) -> None:
        """Copy files to the target, each atomically; existing files are replaced. Directories must exist. Raises
        Unavailable if the disk there is full."""

    def get(self, files: Sequence[FileCopy], progress: Progress | None = None) -> None:
        """Copy files from the target, many at a time; creates directories here. Resumes after an interruption: a file
        that is complete here (its size is `bytes`) is not fetched again. Raises Unavailable for a full disk here,
        NotFound if a file does not exist there."""

    def close(self) -> None:
        """Release it."""
