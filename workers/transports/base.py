"""What a transport is: it runs POSIX sh scripts at a target and moves files there and back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from perfloom.domain.errors import Prompt, Unavailable, Unreachable

SecretProvider = Callable[[Prompt], str | None]
"""Gives a secret that is asked for; None where it has none. May be asked from another thread."""
Progress = Callable[[float | None, str], None]
"""Told how far it is (0–1, or null) and what it does; may raise to stop."""


@dataclass(frozen=True)
class ScriptResult:
    """How a script ended there. status: its exit status, null where a signal ended it."""

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
        """Both texts and the exit status, as a batch system's adapter reads them; -1 where a signal ended the script,
        which is no answer."""
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
    """The script. Raises Unavailable for one that no shell takes."""
    if "\0" in script:
        raise Unavailable("A script for a target contains a zero byte, which no shell accepts.")
    return script


def timeout_error(where: str, timeout_s: float, more: str = "") -> Unreachable:
    """The error of a script that took longer than it may. more: what else there is to say."""
    return Unreachable(f"A script on {where} did not end within {timeout_s:g} s; it was ended.{more}")


def output_limit_error(where: str, limit_bytes: int) -> Unavailable:
    """The error of a script that printed more than it may."""
    return Unavailable(
        f"A script on {where} printed more than {limit_bytes} bytes; it was ended. Perfloom expects much "
        "shorter output."
    )


def no_secrets(prompt: Prompt) -> str | None:
    """For where there is nobody to ask."""
    return None


@runtime_checkable
class SecretInvalidator(Protocol):
    """What a provider of secrets may do beside giving them."""

    def invalidate(self, prompt: Prompt) -> None:
        """The secret was of use and will not be again (a one-time code), or it was wrong: forget it."""


class Transport(Protocol):
    """The way to one target. May be used by one thread at a time; safe to close twice.

    All methods raise Unreachable where the way is broken or too slow (it may work later), Refused or one of its kinds
    where somebody has to do something first (a wrong key, a changed host key, a password to be asked for).
    """

    @property
    def title(self) -> str:
        """The host, as a person knows it."""

    def run(
        self, script: str, *, input: bytes = b"", timeout_s: float = 60.0, limit_bytes: int = 64 << 20
    ) -> ScriptResult:
        """Run a POSIX sh script to its end. The script is never seen by a shell of another kind, however the user's
        login shell is set there. input: its standard input. Raises Unreachable after `timeout_s`, Unavailable where it
        prints more than `limit_bytes`."""

    def put(self, files: Sequence[FileCopy], progress: Progress | None = None) -> None:
        """Copy files there, each completely or not at all; a copy replaces what was there. Folders must exist. Raises
        Unavailable where the disk there is full."""

    def get(self, files: Sequence[FileCopy], progress: Progress | None = None) -> None:
        """Copy files here, many of them at a time; folders here are made. Goes on where it was broken off: what is here
        whole already (its size is that of `bytes`) is not fetched again. Raises Unavailable for a full disk here,
        NotFound where a file is not there."""

    def close(self) -> None:
        """Give it back."""
