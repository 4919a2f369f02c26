"""Starts a program that must not outlive its parent: `guard PARENT SIGNAL PROGRAM ARGUMENT…`.

In a separate process rather than between fork and exec, which a parent with threads must not use for more than the
exec. Standard library only.
"""

import os
import signal
import sys

from ..base import processes


def main() -> None:
    """Ask the kernel for the signal at the parent's death, then become the program."""
    parent, number, *argv = sys.argv[1:]
    for inherited in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(inherited, signal.SIG_DFL)
    processes.die_with_parent(int(number), int(parent))
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.exit(f"{argv[0]} cannot be executed: {error.strerror}")
