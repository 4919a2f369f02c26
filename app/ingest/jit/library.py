"""The file of compiled loops: their code, after a description of it and a list of the functions in JSON."""

import dataclasses
import hashlib
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .linked_code import LinkedCode

if TYPE_CHECKING:
    from .native import Result
    from .object_code import ObjectCode

LEFT_S = 3600
"""Files of writers are removed after that time."""


@dataclass(frozen=True)
class CompiledFunction:
    """A function in object code. loop: the name of the loop with its module. arguments: their types. word_count: words
    of the arguments. See NativeFunction."""

    loop: str
    arguments: str
    symbol: str
    word_count: int
    result: "Result"


@dataclass(frozen=True)
class LoopLibrary:
    """The content of the file."""

    functions: tuple[CompiledFunction, ...]
    code: "ObjectCode | LinkedCode"


def write_library(path: Path, library: LoopLibrary) -> None:
    """Write the file at once. Raises OSError."""
    import tempfile

    fields = {field.name: getattr(library.code, field.name) for field in dataclasses.fields(library.code)}
    code = fields.pop("content")
    about = {"functions": [dataclasses.asdict(function) for function in library.functions], "code": fields}
    content = json.dumps(about).encode() + b"\n" + code
    for left in path.parent.glob(f"{path.name}-*"):
        # By a writer that was killed.
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > LEFT_S:
                left.unlink()
    with tempfile.NamedTemporaryFile(prefix=f"{path.name}-", dir=path.parent, delete=False) as file:
        try:
            file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
            file.flush()
            os.fsync(file.fileno())
            file.close()
            os.replace(file.name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(file.name)
            raise


def read_library(path: Path) -> LoopLibrary | None:
    """The content; None if there is none. A damaged file is removed: its code would end the process."""
    try:
        digest, _, content = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    except OSError:
        digest, content = b"", b""
    if hashlib.sha256(content).hexdigest().encode() != digest:
        with suppress(OSError):
            path.unlink()
        return None
    try:
        return _parse(content)
    except (ValueError, LookupError, TypeError):
        with suppress(OSError):
            path.unlink()
        return None


def _parse(content: bytes) -> LoopLibrary:
    text, _, code = content.partition(b"\n")
    about = json.loads(text)
    functions = tuple(CompiledFunction(**function) for function in about["functions"])
    fields = about["code"]
    if "needed" in fields:
        from .object_code import ObjectCode

        return LoopLibrary(functions, ObjectCode(code, tuple(fields["needed"])))
    outside = {name: tuple(places) for name, places in fields["outside"].items()}
    own = tuple(fields["own"])
    return LoopLibrary(functions, LinkedCode(code, fields["data_at"], fields["symbols"], own, outside))
