"""The hierarchy of errors for users. Any other exception is a bug and is shown with an error id.

Each message says what the user can do next. `exit_status` is the exit status of the command line, `http_status` that of
a page or the API.
"""

from dataclasses import dataclass

PASSWORD = "password"
"""The name of the secret that is the password on the target's own host, whichever name and user the worker's
~/.ssh/config gives it: a page asks for it before that is known."""


@dataclass(frozen=True)
class Prompt:
    """A request for a secret. name: identifies it, such as "password user@host". text: shown to the user."""

    name: str
    text: str


class PerfloomError(Exception):
    """An error that the user can act on. Never raised itself: raise a subclass."""

    exit_status = 2
    http_status = 400

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(PerfloomError):
    """A value that the user gave is invalid. `field` names the form field or option, if there is one."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NotFound(PerfloomError):
    """Something that the user named does not exist (any more)."""

    http_status = 404


class Forbidden(PerfloomError):
    """The user is not permitted to do this, or not authenticated."""

    http_status = 403


class Conflict(PerfloomError):
    """The operation is impossible in the present state, such as cancelling a job that has ended."""

    http_status = 409


class RequestTimeout(PerfloomError):
    """A client uploads more slowly than the server permits."""

    http_status = 408


class TooManyRequests(PerfloomError):
    """The token was wrong too often. after_s: when the next attempt is permitted."""

    http_status = 429

    def __init__(self, message: str, after_s: int) -> None:
        super().__init__(message)
        self.after_s = after_s


class UnreadableInput(PerfloomError):
    """A file has an unknown format, or nothing in it could be read."""

    exit_status = 3
    http_status = 422


class TooLarge(UnreadableInput):
    """An uncompressed file is larger than the limit, or than the free disk space."""

    http_status = 413


class Unavailable(PerfloomError):
    """A required program or resource of the machine (perf, redis-server, disk space) is missing or does not respond."""

    exit_status = 4
    http_status = 503


class Unreachable(Unavailable):
    """Another machine cannot be reached now. It may be reachable later: programs continue to run there."""


class Refused(PerfloomError):
    """Another machine refuses access, or its host key has changed. The user has to act first."""

    exit_status = 4
    http_status = 502


class SecretNeeded(Refused):
    """A password or passphrase is needed. `prompts`: one text for each."""

    def __init__(self, message: str, prompts: "tuple[Prompt, ...]") -> None:
        super().__init__(message)
        self.prompts = prompts


class HostKeyUnknown(Refused):
    """A host showed a key that no user has accepted yet. key: a line for a known_hosts file."""

    def __init__(self, message: str, host: str, key: str, fingerprint: str) -> None:
        super().__init__(message)
        self.host = host
        self.key = key
        self.fingerprint = fingerprint


class JobFailed(PerfloomError):
    """A job ended without a result."""

    exit_status = 4
