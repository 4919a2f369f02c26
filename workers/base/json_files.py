"""JSON files that are written atomically and survive a power cut. Standard library only."""

import json
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, data: dict[str, Any], *, exclusive: bool = False) -> bool:
    """Write `data` to `path` completely or not at all, also after a power cut.

    exclusive: returns False, and writes nothing, if the file exists.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    private = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(private, "w", encoding="utf-8") as stream:
        json.dump(data, stream)
        stream.flush()
        os.fsync(stream.fileno())
    try:
        if exclusive:
            os.link(temporary, path)
            temporary.unlink()
        else:
            os.replace(temporary, path)
    except FileExistsError:
        temporary.unlink()
        return False
    sync_directory(path.parent)
    return True


def read_json(path: Path) -> dict[str, Any] | None:
    """The data of `write_json`; None if there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def sync_directory(path: Path) -> None:
    """Flush new and renamed entries of the directory `path` to disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
