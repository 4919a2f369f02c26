"""What reading is asked for, and how the process that reads answers: see `workers.read.child`."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from perfloom.domain import errors
from perfloom.domain.errors import PerfloomError, UnreadableInput

REPORT_S = 0.2


@dataclass(frozen=True)
class Limits:
    """What reading may take. memory_bytes: address space. unpacked_bytes: of one file, unpacked. free_bytes: of disk,
    which unpacking leaves untouched. cpu_seconds: of each process, null where the size of what is read is not known."""

    memory_bytes: int
    seconds: int
    unpacked_bytes: int
    free_bytes: int
    cpu_seconds: int | None = None


@dataclass(frozen=True)
class Input:
    """A file to read. path: "-" for standard input. name: for messages. script: the text that perf printed of this
    perf.data, where there is one."""

    path: str
    name: str
    script: str | None = None


@dataclass(frozen=True)
class Request:
    """What to do. scratch: an empty directory of the caller's, for what only reading needs.

    planned: the directory with what the ranks of a planned job left, in place of inputs. out: the directory that gets
    the columns of the profile; None: only the text of perf.data files is wanted. text: the directory that gets that
    text, as NAME.script.zst. perf: None for the one on PATH. buildid_dir: where perf finds symbols by build ids.
    parent: the pid that it ends with. clock: the unit of the times in files that do not say it, empty for what they
    suggest. meta: what the caller knows better, by the fields of Meta; its `reasons` are added.
    """

    inputs: tuple[Input, ...]
    scratch: str
    text: str
    limits: Limits
    parent: int
    out: str | None = None
    planned: str | None = None
    perf: str | None = None
    buildid_dir: str | None = None
    meta: dict[str, Any] | None = None
    clock: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Request":
        data = json.loads(text)
        data["inputs"] = tuple(Input(**one) for one in data["inputs"])
        data["limits"] = Limits(**data["limits"])
        return cls(**data)


def error_to_json(error: PerfloomError) -> dict[str, str]:
    """An error as it goes to another process."""
    return {"kind": type(error).__name__, "message": error.message}


def error_from_json(answer: Mapping[str, str]) -> PerfloomError:
    """The error that another process reported."""
    kind = getattr(errors, answer["kind"], UnreadableInput)
    if not (isinstance(kind, type) and issubclass(kind, PerfloomError)):
        kind = UnreadableInput
    return kind(answer["message"])


class AnswerWriter:
    """The lines of JSON that go to the caller."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", buffering=1)
        self._last = 0.0

    def give(self, answer: dict[str, Any]) -> None:
        self._file.write(json.dumps(answer) + "\n")

    def progress(self, part: float | None, text: str, *, now: bool = False) -> None:
        """Tell how far it got; too many of these in a short time are left out."""
        clock = time.monotonic()
        if now or clock - self._last >= REPORT_S:
            self._last = clock
            self.give({"progress": part, "text": text})

    def error(self, error: PerfloomError) -> None:
        self.give({"error": error_to_json(error)})

    def done(self, paths: Sequence[Path]) -> None:
        self.give({"done": {"written": [str(path) for path in paths]}})
