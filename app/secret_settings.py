"""Secret settings outside of the environment: in files, and in a descriptor from the parent process.

Every process of the same user can read the environment of a process in /proc/PID/environ, even after the process has
changed its variables.
"""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from .domain.errors import InvalidRequest

SECRETS = ("PERFLOOM_DATABASE_URL", "PERFLOOM_BROKER_URL", "PERFLOOM_TOKEN", "PERFLOOM_SECRET_KEY")
"""The variables of the settings that are secret. Each can also be read from a file: see `with_secrets`."""
DESCRIPTOR_VARIABLE = "PERFLOOM_SECRETS_HANDLE"
"""The variable with the number of an inherited descriptor, of a file in memory with a JSON object of variables."""
FILE_SUFFIX = "_FILE"
"""The suffix of a variable that contains the path of a file with the value."""
PATHS_VARIABLE = "PERFLOOM_SECRETS_PATHS"
"""The variable with the paths of the files from which the parent read its secrets: a JSON list."""
MAX_BYTES = 1 << 16

_taken: dict[str, dict[str, str]] = {}


def with_secrets(environ: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The environment with the secrets from the parent and from files. names: of variables.

    Raises InvalidRequest for a secret with two values, and for a file that cannot be read.
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
    """A descriptor with secrets, which any number of children may inherit."""
    handle = os.memfd_create("perfloom-secrets", os.MFD_CLOEXEC)
    os.write(handle, json.dumps(dict(secrets)).encode())
    return handle


def secret_paths(names: Collection[str], environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The files from which this process or its parent read secrets. names: of variables."""
    paths = [path for name in names if (path := environ.get(f"{name}{FILE_SUFFIX}"))]
    return tuple(dict.fromkeys([*paths, *map(str, json.loads(environ.get(PATHS_VARIABLE) or "[]"))]))


def _handed(handle: str) -> dict[str, str]:
    """The secrets from the parent. Reads the descriptor once and closes it, so that children do not inherit it."""
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
