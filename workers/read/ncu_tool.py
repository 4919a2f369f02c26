"""Converts a report of Nsight Compute to text with `ncu`, in a restricted process.

Like perf (see perf_tool.py), ncu runs under the limits that `workers.read.child` has set for itself, with a minimal
environment, in an empty directory. It needs neither a GPU nor a driver to print a report.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO

from perfloom.domain.errors import Unavailable, UnreadableInput
from perfloom.readers.nsight_compute import PAGES

from .perf_tool import error_message

INSTALL_PATTERNS = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute", "/opt/cuda/bin")
"""Where installers put ncu without adding it to PATH."""
STDERR_NAME = "ncu.stderr"
PIECE_BYTES = 1 << 20
_NO_OPTION = re.compile(r"unrecogni[sz]ed option '?-*([\w-]+)")


def find_ncu() -> str | None:
    """The path of ncu; None if it is not installed."""
    return shutil.which("ncu") or next(iter(_list_installations()), None)


def _list_installations() -> Iterator[str]:
    for place in INSTALL_PATTERNS:
        for path in (Path(place, "ncu"), *sorted(Path(place).glob("*/ncu"), reverse=True)):
            if os.access(path, os.X_OK) and path.is_file():
                yield str(path)


class ReportStream:
    """The pages of a report as ncu prints them, one after another. Raises UnreadableInput if ncu cannot print the first
    one. Errors about other pages are in `defect`."""

    def __init__(self, ncu: str, report: Path, scratch: Path) -> None:
        self.defect: str | None = None
        self._ncu = ncu
        self._report = report
        self._scratch = scratch
        self._texts = self._iterate_pages()

    def read(self, size: int) -> bytes:
        """At most PIECE_BYTES bytes, whatever `size` is; none at the end."""
        return next(self._texts, b"")

    def _iterate_pages(self) -> Iterator[bytes]:
        for number, page in enumerate(PAGES):
            problem = yield from self._page(page)
            if problem and not number:
                raise UnreadableInput(f"ncu cannot read this report: {problem}")
            if problem:
                problem = f"ncu could not print the page {page[1]} of the report: {problem}"
                self.defect = f"{self.defect} {problem}" if self.defect else problem

    def _page(self, arguments: tuple[str, ...]) -> Generator[bytes, None, str]:
        """The text of a page. Returns ncu's error message, empty after success."""
        while True:
            argv = [self._ncu, "--import", str(self._report), "--csv", *arguments]
            with open(self._scratch / STDERR_NAME, "w+b") as errors:
                process = self._start(argv, errors)
                assert process.stdout is not None
                try:
                    begun = False
                    while data := process.stdout.read(PIECE_BYTES):
                        # ncu also prints errors to standard output.
                        begun = begun or not data.lstrip().startswith(b"==ERROR==")
                        if begun:
                            yield data
                        else:
                            errors.write(data)
                    status = process.wait()
                finally:
                    process.kill()
                    process.wait()
                    process.stdout.close()
                if not status:
                    yield b"\n"
                    return ""
                message = error_message(errors, status)
            fewer_arguments = _remove_unknown_option(arguments, message)
            if begun or fewer_arguments is None:
                return message
            arguments = fewer_arguments

    def _start(self, argv: list[str], errors: IO[bytes]) -> "subprocess.Popen[bytes]":
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._scratch),
            "TMPDIR": str(self._scratch),
            "LC_ALL": "C",
        }
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=self._scratch,
            )
        except OSError as error:
            raise Unavailable(
                f"{argv[0]} cannot be executed: {error.strerror}. Install Nsight Compute again."
            ) from None


def _remove_unknown_option(arguments: tuple[str, ...], message: str) -> tuple[str, ...] | None:
    """The arguments without the option that this ncu does not support; None if the error message is another one."""
    option = _NO_OPTION.search(message)
    if option is None or (name := f"--{option[1]}") not in arguments[2:]:
        return None
    at = arguments.index(name)
    return arguments[:at] + arguments[at + 2 :]
