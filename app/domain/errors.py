"""The one family of errors for users. Any other exception is a bug and is shown with an error id.

The message of each tells the user what to do next. `exit_status` is the exit status of the command
line, `http_status` that of a page or the API.
"""

from dataclasses import dataclass

PASSWORD = "password"
"""The name of the secret that is the password on the target's own host, whatever ~/.ssh/config of the worker makes of
its user and name: a page asks for it before anybody knows that."""


@dataclass(frozen=True)
class Prompt:
    """A request for a secret. name: of the secret, such as "password user@host". text: for a person."""

    name: str
    text: str


class PerfloomError(Exception):
    """Something the user can act on. Never raised itself: raise one of the kinds below."""

    exit_status = 2
    http_status = 400

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(PerfloomError):
    """A value the user gave cannot be used. `field` names the form field or option, where there is one."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NotFound(PerfloomError):
    """What the user named does not exist (any more)."""

    http_status = 404


class Forbidden(PerfloomError):
    """The user is not permitted to do this, or not authenticated."""

    http_status = 403


class Conflict(PerfloomError):
    """It cannot be done in the present state, for instance cancelling a job that has ended."""

    http_status = 409


class RequestTimeout(PerfloomError):
    """A client sends what it uploads more slowly than a server waits for."""

    http_status = 408


class TooManyRequests(PerfloomError):
    """The token was guessed too often. after_s: when it may be tried again."""

    http_status = 429

    def __init__(self, message: str, after_s: int) -> None:
        super().__init__(message)
        self.after_s = after_s


class UnreadableInput(PerfloomError):
    """A file is in no format that is known, or nothing in it could be read."""

    exit_status = 3
    http_status = 422


class TooLarge(UnreadableInput):
    """A file is larger, unpacked, than the limit or than the disk has room for."""

    http_status = 413


class Unavailable(PerfloomError):
    """A required part of the machine (perf, redis-server, disk space) is missing or does not respond."""

    exit_status = 4
    http_status = 503


class Unreachable(Unavailable):
    """Another machine cannot be reached now. It may be reachable later: programs continue to run there."""


class Refused(PerfloomError):
    """Another machine refuses access, or its host key has changed: a user has to act first."""

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
