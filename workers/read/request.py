"""The request to a reader process, and its answers: see `workers.read.child`."""

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
SCRIPT_SUFFIX, SYMBOLS_SUFFIX = ".script.zst", ".symbols.zst"
MAX_NAME_BYTES = 180
"""Of the name of a recording, within the names of files that belong to it. File systems limit names to 255 bytes."""
DESCRIPTION_FILE = "description.json"
"""In the scratch directory: the columns of a stored result in the database. Missing if they did not fit into the memory
limit."""


@dataclass(frozen=True)
class Limits:
    """Limits of a reading. memory_bytes: address space. unpacked_bytes: of one decompressed file. free_bytes: disk
    space that must remain free. cpu_seconds: of each process, null if the size of the input is unknown."""

    memory_bytes: int
    seconds: int
    unpacked_bytes: int
    free_bytes: int
    cpu_seconds: int | None = None


def script_name(perf_data: str) -> str:
    """The name of the text file for a perf.data file with that name."""
    return _name_beside(perf_data, SCRIPT_SUFFIX)


def symbols_name(perf_data: str) -> str:
    """The name of the file with the symbols of a perf.data file with that name."""
    return _name_beside(perf_data, SYMBOLS_SUFFIX)


def _name_beside(perf_data: str, suffix: str) -> str:
    return f"{os.fsencode(Path(perf_data).name)[:MAX_NAME_BYTES].decode(errors='ignore')}{suffix}"


@dataclass(frozen=True)
class Input:
    """A file to read. path: "-" for standard input. name: for messages. script: the output of perf script for this
    perf.data file, symbols: the file with its symbols, null if there is none. folder: of the rank in a planned job's
    directory, null for other files; what is written for it gets the name that such a file has there."""

    path: str
    name: str
    script: str | None = None
    symbols: str | None = None
    folder: str | None = None


@dataclass(frozen=True)
class SymbolPlaces:
    """Where the symbols of a recording may be looked for. recorded_here: whether on this machine; else no file, kernel
    or map of a just-in-time compiler is used without the build id of the recording. public: only in files that everyone
    may read. folders: with files that came from elsewhere, by build id. tables: a directory of symbol tables that came
    from the host of the recording, which replaces perf's cache of binaries."""

    recorded_here: bool = True
    public: bool = False
    folders: tuple[str, ...] = ()
    tables: str | None = None


@dataclass(frozen=True)
class CodeRequest:
    """What is known of a recording whose machine code is read. folder: for the code. recorded_here, started, public,
    folders, reads_dumps, lines: see `Binaries`. build_ids: those of the recording, None if they are read from the
    inputs. uploads: files to be sorted into `incoming` first, by the name that the user knows."""

    folder: str
    recorded_here: bool
    started: float | None
    public: bool
    folders: tuple[str, ...] = ()
    reads_dumps: bool = False
    lines: str | None = None
    build_ids: dict[str, str] | None = None
    uploads: dict[str, str] | None = None
    incoming: str | None = None


@dataclass(frozen=True)
class Request:
    """A request. scratch: an empty directory of the caller, for temporary files.

    planned: the directory of a planned job's ranks, instead of inputs. out: the directory for the columns of the
    profile; None: only convert perf.data files to text. text: the directory for that text, in files NAME.script.zst.
    perf: its path, None to search PATH. buildid_dir: where perf finds symbols by build ID. parent: the pid of the
    caller; the reader is killed when it ends. clock: the time unit of files that do not specify it, empty for their
    usual one. perf_script: whether perf reads every perf.data file. meta: fields of Meta to set; `reasons` are
    appended. describe: write DESCRIPTION_FILE. code: instead of reading the inputs, read the machine code of the
    profile in `out`, which was read from them. stays: whether the process may wait for another request after this one.
    symbols: where those of recordings are found that are read without perf.
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
    perf_script: bool = False
    meta: dict[str, Any] | None = None
    clock: str = ""
    describe: bool = False
    code: CodeRequest | None = None
    stays: bool = False
    symbols: SymbolPlaces = SymbolPlaces()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Request":
        data = json.loads(text)
        data["inputs"] = tuple(Input(**one) for one in data["inputs"])
        data["limits"] = Limits(**data["limits"])
        data["code"] = CodeRequest(**data["code"]) if data.get("code") else None
        data["symbols"] = SymbolPlaces(**data["symbols"])
        return cls(**data)


def error_to_json(error: PerfloomError) -> dict[str, str]:
    """An error as JSON, for another process."""
    return {"kind": type(error).__name__, "message": error.message}


def error_from_json(answer: Mapping[str, str]) -> PerfloomError:
    """The error from the JSON of another process."""
    kind = getattr(errors, answer["kind"], UnreadableInput)
    if not (isinstance(kind, type) and issubclass(kind, PerfloomError)):
        kind = UnreadableInput
    return kind(answer["message"])


class AnswerWriter:
    """Writes lines of JSON for the caller."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", buffering=1)
        self._last = 0.0

    def give(self, answer: dict[str, Any]) -> None:
        self._file.write(json.dumps(answer) + "\n")

    def progress(self, part: float | None, text: str, *, now: bool = False) -> None:
        """Report progress; at most one report in REPORT_S seconds unless `now`."""
        clock = time.monotonic()
        if now or clock - self._last >= REPORT_S:
            self._last = clock
            self.give({"progress": part, "text": text})

    def error(self, error: PerfloomError) -> None:
        self.give({"error": error_to_json(error)})

    def done(self, paths: Sequence[Path], *, stays: bool = False) -> None:
        """Report success. stays: whether the process waits for another request."""
        self.give({"done": {"written": [str(path) for path in paths], "stays": stays}})
