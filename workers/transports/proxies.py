"""A program that connects to a host: ProxyCommand of ssh_config(5)."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Sequence

from perfloom.domain.errors import Refused
from perfloom.paths import os_error_text

from ..base.processes import clean_environment

MAX_STDERR = 300


class ProxyCommand:
    """A running ProxyCommand. sock: the socket that is connected to the host through it; the user of it must close it.

    It is started without a shell: its arguments are those of the file, with tokens such as %h replaced.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        """Raises Refused if it cannot be started."""
        self._ended = False
        self.sock, other = socket.socketpair()
        self._errors = os.memfd_create("proxy-says")
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=other.fileno(),
                stdout=other.fileno(),
                stderr=self._errors,
                env=clean_environment(),
                start_new_session=True,
            )
        except OSError as error:
            self.sock.close()
            os.close(self._errors)
            raise Refused(
                f"The ProxyCommand {argv[0]} in ~/.ssh/config cannot be started: {os_error_text(error)}."
            ) from None
        finally:
            other.close()

    def stderr_text(self) -> str:
        """The end of its standard error."""
        if self._ended:
            return ""
        size = os.fstat(self._errors).st_size
        return os.pread(self._errors, MAX_STDERR, max(0, size - MAX_STDERR)).decode(errors="replace")

    def end(self) -> None:
        """End it and its process group. May be called twice."""
        if self._ended:
            return
        self._ended = True
        self.sock.close()
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._errors)
