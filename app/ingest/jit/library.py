"""The file of compiled loops: object code, with a list of its functions in JSON before it."""

import hashlib
import json
import os
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .native import Result

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
    """The content of the file. needed: symbols that the code has from the process."""

    functions: tuple[CompiledFunction, ...]
    code: bytes
    needed: tuple[str, ...]


def write_library(path: Path, library: LoopLibrary) -> None:
    """Write the file at once. Raises OSError."""
    about = {"functions": [asdict(function) for function in library.functions], "needed": library.needed}
    content = json.dumps(about).encode() + b"\n" + library.code
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
    """The content; None if there is none. A damaged file is removed: LLVM would end the process."""
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
    text, _, code = content.partition(b"\n")
    about = json.loads(text)
    functions = tuple(CompiledFunction(**function) for function in about["functions"])
    return LoopLibrary(functions, code, tuple(about["needed"]))
