"""Checks of values, shared by all fields: each returns a sentence with advice, or None for a valid value."""

import base64
import binascii
import re
from dataclasses import dataclass

from ...domain.errors import InvalidRequest
from ..plan import path_variables
from .command_line import MAX_ARGUMENT_BYTES

MAX_PATH = 4_096
MAX_TARGET_NAME = 60
RESERVED_TARGET_NAMES = ("new", "import")
"""Names of other pages below /targets."""

_TARGET_NAME = re.compile(r"\w[\w .@+-]*")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9._-]+)?")
_USER = re.compile(r"[\w.][\w.@\\$+-]*")
_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_KEY_TYPE = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_OF_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class JumpHostAddress:
    """A jump host: [user@]host[:port]."""

    host: str
    user: str = ""
    port: int | None = None


def find_text_error(value: str, what: str) -> str | None:
    """The problem of a text as an argument, variable or path of a program."""
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        return f"{what} contains bytes that are not UTF-8, which a job cannot store. Rename the file, or link to it."
    if "\0" in value:
        return f"{what} contains a zero byte, which cannot be passed to a program. Remove it."
    if length > MAX_ARGUMENT_BYTES:
        return f"{what} has {length:,} bytes. The kernel's limit is {MAX_ARGUMENT_BYTES:,}. Put the text into a file."
    return None


def find_control_error(value: str, what: str, *, lines: bool = False) -> str | None:
    """The problem of a text for display and storage. lines: whether it may have line breaks and tabs."""
    if any("\ud800" <= character <= "\udfff" for character in value):
        return f"{what} contains bytes that are not UTF-8. Remove them."
    if (_CONTROL_OF_LINES if lines else _CONTROL).search(value):
        return f"{what} contains a nonprintable character, such as a line break. Remove it."
    return None


def find_path_error(value: str, what: str) -> str | None:
    """The problem of a text as an absolute path."""
    problem = find_text_error(value, what)
    if problem is None and not value.startswith("/"):
        return f"{what} “{value[:80]}” is not an absolute path. Start it with /."
    if problem is None and len(value) > MAX_PATH:
        return f"The path of {what[:1].lower()}{what[1:]} has {len(value):,} characters. Linux allows {MAX_PATH:,}."
    return problem


def find_target_name_error(name: str) -> str | None:
    """The problem of a target's name."""
    if not name:
        return "Enter a name."
    if len(name) > MAX_TARGET_NAME:
        return f"The name has {len(name):,} characters. Use at most {MAX_TARGET_NAME}."
    if not _TARGET_NAME.fullmatch(name) or name != name.strip() or name.endswith("."):
        return "A name starts with a letter or digit, and contains only letters, digits, spaces and . _ - + @."
    if name.lower() in RESERVED_TARGET_NAMES:
        return f"“{name}” is reserved. Choose another name."
    return None


def find_target_path_error(path: str, what: str) -> str | None:
    """The problem of a text as a directory at a target, in which variables are expanded."""
    problem = find_control_error(path, what)
    if problem is not None or not path:
        return problem
    if not path.startswith(("/", "~/", "$")) and path != "~":
        return f"{what} “{path[:80]}” is not an absolute path. Start it with /, ~/ or a variable such as $HOME."
    if len(path) > MAX_PATH:
        return f"The path of {what[:1].lower()}{what[1:]} has {len(path):,} characters. Linux allows {MAX_PATH:,}."
    if ".." in path.split("/"):
        return f"{what} contains “..”. Write the path without it."
    if path.strip("/") == "":
        return f"{what} must not be the root directory. Choose one of your directories."
    try:
        path_variables.path_variables(path)
    except InvalidRequest as error:
        return error.message
    return None


def find_target_program_error(value: str, what: str) -> str | None:
    """The problem of a program at a target: a name to search in PATH, or an absolute path."""
    problem = find_control_error(value, f"The name of {what}")
    if problem is not None:
        return problem
    if value.startswith("/"):
        names_file = len(value) <= MAX_PATH and not value.endswith("/")
        return None if names_file else f"The path of {what} does not name a file. Enter the path of the program."
    if len(value) > 200 or not _PROGRAM.fullmatch(value):
        return f"“{value[:80]}” is neither the name of a program nor an absolute path. Start a path with /."
    return None


def find_host_error(host: str) -> str | None:
    """The problem of a host's name or address."""
    if not host:
        return "Enter the name or address of the host, or its alias in ~/.ssh/config."
    if "@" in host:
        return "Enter only the host. The user has its own field."
    if re.fullmatch(r"[^:]+:[0-9]+", host):
        return "Enter only the host. The port has its own field."
    if len(host) > 255 or not _HOST.fullmatch(host):
        return f"“{host[:80]}” cannot be the name or address of a host. Correct it."
    return None


def find_user_error(user: str) -> str | None:
    """The problem of a login name."""
    if user and (len(user) > 100 or not _USER.fullmatch(user)):
        return f"“{user[:80]}” cannot be the name of a user. Correct it."
    return None


def find_private_key_error(path: str, what: str) -> str | None:
    """The problem of the path of a private key."""
    problem = find_control_error(path, what)
    if problem is not None or not path:
        return problem
    if not path.startswith(("/", "~/")):
        return "Enter the absolute path of the private key on the worker's machine. It may start with ~/."
    if len(path) > MAX_PATH or path.endswith("/"):
        return "This path does not name a file. Enter the path of the private key."
    return None


def parse_jump_host(text: str) -> JumpHostAddress:
    """Parse [user@]host[:port], with an IPv6 address in brackets. Raises InvalidRequest."""
    user, at, rest = text.rpartition("@")
    bracket = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", rest)
    if bracket:
        host, port = bracket[1], bracket[2]
    else:
        host, _, port_text = rest.partition(":")
        port = port_text if ":" in rest else None
    wrong = f"“{text[:80]}” is not a valid jump host. Write [user@]host[:port]."
    if len(text) > 400 or not _HOST.fullmatch(host) or (at and not _USER.fullmatch(user)):
        raise InvalidRequest(wrong, "jump")
    if port is not None and not (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        raise InvalidRequest(wrong, "jump")
    return JumpHostAddress(host, user, None if port is None else int(port))


def find_jump_host_error(text: str) -> str | None:
    """The problem of a jump host."""
    try:
        parse_jump_host(text)
    except InvalidRequest as error:
        return error.message
    return None


def find_host_key_error(line: str) -> str | None:
    """The problem of a line of a known_hosts file."""
    wrong = "This is not a line of a known_hosts file. Write host, key type, key."
    words = line.split()
    if find_control_error(line, "") or len(words) < 3 or words[0].startswith("@") or not _KEY_TYPE.fullmatch(words[1]):
        return wrong
    try:
        blob = base64.b64decode(words[2], validate=True)
    except (binascii.Error, ValueError):
        return wrong
    # The key begins with the length of its type's name, and that name.
    kind = words[1].encode()
    return None if blob.startswith(len(kind).to_bytes(4) + kind) else wrong


def find_first_error(*problems: str | None) -> str | None:
    """The first problem, or None."""
    return next(filter(None, problems), None)
