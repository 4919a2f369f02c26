"""The command line `perfloom`.

Only the standard library is imported here: a command on files starts the process that reads them before it loads
anything else.
"""

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

from .. import garbage

SERVING_COMMANDS = ("serve", "worker", "web", "demo")
READING_COMMANDS = ("import", "report", "convert", "diff")
MAX_READERS = 2
"""Of the files that are compared, so many are read at once."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its status: 0 success, 1 a gate failed, 2 usage error, 3 unreadable input, 4 no
    result."""
    # With Python's 700, there are dozens of collections while libraries are loaded.
    garbage.collect_rarely()
    own = arguments is None
    if arguments is None:
        _open_missing_streams()
        arguments = sys.argv[1:]
        if arguments[:1] and arguments[0] in SERVING_COMMANDS:
            _hide_secrets()
        elif arguments[:1] and arguments[0] in READING_COMMANDS:
            _start_reader(*arguments)
    # Imported here: see above.
    from .group import run

    status = run(arguments)
    if own:
        _exit(status)
    sys.exit(status)


def _open_missing_streams() -> None:
    """Open /dev/null for standard streams that are closed: Python has None for them, and a file that is opened would
    get the number of one, so that messages were written into it."""
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _start_reader(command: str, *arguments: str) -> None:
    """Start the process that reads the files among the arguments."""
    files = [argument for argument in arguments if os.path.isfile(argument)]
    if not files:
        return
    from ..workers import forked_reader

    separate = files[:MAX_READERS] if command == "diff" else files if len(files) == 1 else []
    # An import needs other libraries, which it loads at the same time.
    forked_reader.prefork_readers(files, shares_libraries=command != "import", count=max(1, len(separate)))
    if command != "import" and not any(one.startswith("--data") for one in arguments):
        _begin_reading(separate)


def _begin_reading(files: Sequence[str]) -> None:
    """Let the processes begin to read a file each, with the settings of the environment. The command makes the same
    requests, or others if it finds other files among its arguments, and reports errors."""
    from ..config import Settings
    from ..domain.errors import PerfloomError
    from ..workers.read import early_reading

    with contextlib.suppress(PerfloomError):
        settings = Settings.load(None)
        for file in files:
            early_reading.begin_profile(settings, [file])


def _exit(status: int) -> NoReturn:
    """Exit as Python does, but without freeing every object, which takes 0.1 s."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _hide_secrets() -> None:
    """For long-running commands: prevent other processes from inspecting this one, and remove secrets from the
    environment in /proc, which is the initial one: execute this program again, with the secrets in a descriptor."""
    from ..secret_settings import DESCRIPTOR_VARIABLE, SECRETS, secrets_descriptor
    from ..workers.base import processes

    processes.disable_dumping()
    values = {name: value for name in SECRETS if (value := os.environ.get(name))}
    if values:
        handle = secrets_descriptor(values)
        os.set_inheritable(handle, True)
        environment = {name: value for name, value in os.environ.items() if name not in values}
        os.execve(
            sys.executable, [sys.executable, *sys.orig_argv[1:]], environment | {DESCRIPTOR_VARIABLE: str(handle)}
        )
