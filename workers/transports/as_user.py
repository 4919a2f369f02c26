"""This machine as another user, for programs that must not access the files of the worker's user.

A worker that runs as root sets the user of its child processes; any other uses sudo, without a password. Processes of
that user also read and write the files, so that links of that user cannot lead to files that only the worker may open.
"""

import contextlib
import os
import pwd
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

from perfloom.domain.errors import InvalidRequest, NotFound, Refused, Unavailable
from perfloom.paths import os_error_text
from perfloom.store.files.disk import disk_errors

from ..base.progress import Progress
from ..base.scripts import worker_script
from .base import FileCopy, require_script
from .local import (
    SHELL,
    LocalTransport,
    copy_to,
    is_complete,
    mode_of,
    open_for_reading,
    report_progress,
)

PATH = "/usr/local/bin:/usr/bin:/bin"
INHERITED_VARIABLES = ("LANG", "LC_ALL", "TZ")
MIN_TIMEOUT_S = 60.0
MIN_BYTES_PER_S = 1_000_000
TIMED_OUT = 124
MISSING = "No such file or directory"


class UserTransport(LocalTransport):
    """A Transport to this machine, as another user."""

    def __init__(self, user: str) -> None:
        """Raises InvalidRequest for a user that does not exist."""
        self._user = passwd_entry(user)

    @property
    def user(self) -> str:
        """Its name."""
        return self._user.pw_name

    def _argv(self, argv: Sequence[str]) -> list[str]:
        if os.geteuid() == 0:
            return list(argv)
        return ["sudo", "-n", "-H", "-u", self._user.pw_name, "--", *argv]

    def _options(self) -> dict[str, Any]:
        """Arguments for Popen: user, directory, and a minimal environment."""
        user = self._user
        found = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
        found |= {"PATH": PATH, "HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": SHELL}
        options: dict[str, Any] = {"env": found, "cwd": "/", "start_new_session": True}
        if os.geteuid() == 0:
            groups = os.getgrouplist(user.pw_name, user.pw_gid)
            options |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}
        return options

    @contextlib.contextmanager
    def _start_script(self, script: str, input: bytes) -> Iterator[tuple["subprocess.Popen[bytes]", bytes]]:
        """Send the script before the input: sudo passes no variables on, and the other user could not read a private
        file."""
        text = os.fsencode(require_script(script))
        argv = [SHELL, "-c", worker_script("transports/run_input.sh"), SHELL, str(len(text))]
        pipe = subprocess.PIPE
        process = subprocess.Popen(self._argv(argv), stdin=pipe, stdout=pipe, stderr=pipe, **self._options())
        yield process, text + input

    def _kill(self, process: "subprocess.Popen[bytes]") -> None:
        super()._kill(process)
        if os.geteuid() != 0:
            # sudo runs as root, but the processes that it started do not.
            argv = self._argv(["kill", "-s", "KILL", "--", f"-{process.pid}"])
            subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, **self._options())

    def put(self, files: Sequence[FileCopy], progress: Progress | None = None) -> None:
        """See Transport."""
        for number, file in enumerate(files):
            report_progress(progress, number, len(files), f"Copying {file.local.name}")
            folder, _, name = file.remote.rpartition("/")
            partial = f"{folder}/.{name[:100]}.{secrets.token_hex(6)}.part"
            with open_for_reading(file.local) as source:
                put = worker_script("transports/put_file.sh")
                argv = [SHELL, "-c", put, "sh", partial, f"{mode_of(file):o}", file.remote]
                self._copy(argv, file.remote, stdin=source, stdout=subprocess.DEVNULL)

    def get(self, files: Sequence[FileCopy], progress: Progress | None = None) -> None:
        """See Transport."""
        for number, file in enumerate(files):
            if is_complete(file):
                continue
            report_progress(progress, number, len(files), f"Copying {file.remote.rpartition('/')[2]}")
            with disk_errors(file.local):
                file.local.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=file.local.parent) as temporary_file:
                most = file.bytes if file.bytes is not None else sys.maxsize
                limit_s = MIN_TIMEOUT_S + (file.bytes or 0) / MIN_BYTES_PER_S
                get = worker_script("transports/get_file.sh")
                argv = ["timeout", f"{limit_s:.0f}", SHELL, "-c", get, "sh", file.remote, str(most)]
                self._copy(argv, file.remote, stdin=subprocess.DEVNULL, stdout=temporary_file)
                temporary_file.seek(0)
                copy_to(temporary_file, file.local, 0o600)

    def _copy(self, argv: Sequence[str], there: str, *, stdin: IO[bytes] | int, stdout: IO[bytes] | int) -> None:
        """Raises NotFound, Refused, Unavailable."""
        done = subprocess.run(
            self._argv(argv), stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, check=False, **self._options()
        )
        if done.returncode == 0:
            return
        if done.returncode == TIMED_OUT:
            raise Refused(
                f"{there} cannot be read as {self._user.pw_name}: it took too long. Check that it is a regular file."
            )
        stderr = done.stderr.decode(errors="replace").strip()
        if MISSING in stderr or "Directory nonexistent" in stderr:
            raise NotFound(f"{there} does not exist, or no longer.")
        if "No space left" in stderr or "Disk quota" in stderr:
            raise Unavailable(f"{there} cannot be written: the disk is full. Delete files, then try again.")
        raise Refused(f"{there} cannot be copied as {self._user.pw_name}: {stderr[-200:]}. Check its permissions.")


def passwd_entry(user: str) -> pwd.struct_passwd:
    """The user. Raises InvalidRequest for an unknown user, and for root, which can access everything."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise InvalidRequest(
            f"No such user here: {user[:60]!r}. Create one: useradd --create-home NAME", "run_as"
        ) from None
    if entry.pw_uid in (0, os.geteuid()):
        raise InvalidRequest(f"Programs would run as {user}, who can access everything. Choose another user.", "run_as")
    return entry


def require_usable(user: str) -> None:
    """Raises InvalidRequest or Unavailable, with advice, if no process can be started as that user."""
    try:
        done = UserTransport(user).run("id -u")
    except (Unavailable, OSError) as error:
        why = error.message if isinstance(error, Unavailable) else os_error_text(error)
        raise Unavailable(f"Programs cannot be started as {user}: {why}") from None
    if done.text.strip() != str(passwd_entry(user).pw_uid):
        message = done.errors.strip()[-200:].rstrip(".") or "sudo gives no reason"
        rule = f"{pwd.getpwuid(os.geteuid()).pw_name} ALL=({user}) NOPASSWD: ALL"
        raise Unavailable(
            f"Programs cannot be started as {user}: {message}. Start the worker as root, or allow it sudo, with this "
            f"line in sudoers: {rule}"
        )
