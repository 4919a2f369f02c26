"""Secret settings that no environment has to hold: from files, and from a descriptor that a parent hands over.

The environment of a process can be read by every other process of the same user, in /proc/PID/environ,
for as long as it lives, whatever it does to its own variables.
"""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from .domain.errors import InvalidRequest

DESCRIPTOR_VARIABLE = "PERFLOOM_SECRETS_HANDLE"
"""The variable with the number of an inherited descriptor: of a file in memory alone, JSON of variables and values."""
FILE_SUFFIX = "_FILE"
"""Behind the name of a variable: of the one that names a file with its value."""
PATHS_VARIABLE = "PERFLOOM_SECRETS_PATHS"
"""The variable by which a child knows of the files that its parent took them from: JSON, a list of paths."""
MAX_BYTES = 1 << 16

_taken: dict[str, dict[str, str]] = {}


def with_secrets(environ: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The environment with the secrets that a parent handed over, and those in files. names: of variables.

    Raises InvalidRequest for a secret that is given twice, and for a file that cannot be read.
    """
    found = dict(environ)
    if handle := environ.get(DESCRIPTOR_VARIABLE):
        found |= {name: value for name, value in _handed(handle).items() if name in names}
    for name in names:
        path = environ.get(f"{name}{FILE_SUFFIX}")
        if not path:
            continue
        if environ.get(name):
            raise InvalidRequest(f"Both {name} and {name}{FILE_SUFFIX} are set. Remove one of them.")
        found[name] = _in_file(name, path)
    return found


def secrets_descriptor(secrets: Mapping[str, str]) -> int:
    """A descriptor for children, that may be read as often as there are children. Goes with its last holder."""
    handle = os.memfd_create("perfloom-secrets", os.MFD_CLOEXEC)
    os.write(handle, json.dumps(dict(secrets)).encode())
    return handle


def secret_paths(names: Collection[str], environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The files with secrets that this process, or its parent, was given. names: of variables."""
    paths = [path for name in names if (path := environ.get(f"{name}{FILE_SUFFIX}"))]
    return tuple(dict.fromkeys([*paths, *map(str, json.loads(environ.get(PATHS_VARIABLE) or "[]"))]))


def _handed(handle: str) -> dict[str, str]:
    """What a parent handed over; read once, as what this process starts does not get the descriptor."""
    if handle not in _taken:
        try:
            descriptor = int(handle)
            data = json.loads(os.pread(descriptor, MAX_BYTES, 0))
            os.close(descriptor)
            _taken[handle] = {str(name): str(value) for name, value in data.items()}
        except (OSError, ValueError, AttributeError):
            raise InvalidRequest(
                f"{DESCRIPTOR_VARIABLE} is reserved for processes that Perfloom starts. Remove it."
            ) from None
    return _taken[handle]


def _in_file(name: str, path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            value = file.read(MAX_BYTES).strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise InvalidRequest(f"{name}{FILE_SUFFIX}: {path} cannot be read: {why}.") from None
    if not value:
        raise InvalidRequest(f"{name}{FILE_SUFFIX}: {path} is empty. Write the value to it, on one line.")
    return value
