"""The state files of a planned job: its plan, and the state of each rank. They are untrusted.

A plan is a JSON object: `runs` (each `{"run": 0, "events": [...], "command": [...]}`), `ranks` (a number or null),
`flavour` (the MPI implementation), `target`, `recorder`, `artifacts` (names of the recorder's files, or patterns),
`clock_ns` (how far the target's clock was ahead of this machine's, or null) and `told` (whether the whole job was asked
to stop). A state consists of lines `key value`; the last line of a key counts, but all notes are kept.
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from .errors import UnreadableInput
from .text import sanitize_line

MAX_RUNS = 1000
MAX_RANKS = 1 << 16
MAX_TEXT_CHARS = 400
MAX_NOTES = 10
HOST_FOLDER_PREFIX = "on-"
INCOMPLETE = "incomplete"
"""The name of a comment ("# incomplete : …") in the text of a recording, with the reason why it is incomplete."""
END_MISSING = "missing end of a recording"
"""The loss that such a comment represents."""
THROTTLED = "throttled"
"""The name of a comment with how often the kernel stopped an event for a while."""
THROTTLING = "sampling throttled by the kernel"
"""The loss that such a comment represents."""
GOVERNOR_FACT, CPUS_FACT = "frequency governor", "allowed CPUs"
"""The facts (see `Meta.facts`) that a job records where its command starts: the kernel's governor of CPU frequencies,
and the CPUs that the command may use."""
RECORDING_FILE = "perf.data"
COUNTS_FILE = "perf-stat.txt"
TEXT_FILES = tuple(f"perf.script{packed}" for packed in (".zst", ".gz", ""))
"""The names of a recording of perf, of the counts of perf stat, and of the text of a recording, the best first."""
BUILD_IDS_FILE = "build-ids.txt"
"""The name of the list of a recording's binaries with their build ids: lines of `perf buildid-list`."""
TABLES_FOLDER = "tables"
"""The directory of symbol tables in that of a planned job. They are called BUILDID.KIND, with a suffix if packed."""
TABLE_KINDS = ("elf", "debug", "kallsyms", "vdso")
"""The parts of a binary that symbols are read from; those of its debug information; the symbols of a kernel; the
code that a kernel maps into every process."""
WITH_TABLES = "tables"
"""What the state of a rank says of its text if the recording is to be read with symbol tables."""
MAX_ARTIFACTS = 20
_ARTIFACT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)
_RUN = re.compile(r"run(0|[1-9][0-9]{0,5})", re.ASCII)
_PLACE = re.compile(r"0|[1-9][0-9]{0,6}|all|on-[\w.-]{1,200}", re.ASCII)
TRACE_FILE_PATTERN = r"(?:rank[0-9]{1,7}|process)-[A-Za-z0-9-]{1,120}\.pt\.trace\.json\.gz"
"""The file name of a process's trace from PyTorch's profiler, as a regular expression."""
INJECTED_FILE = "sitecustomize.py"
"""The file that the PyTorch recorder injects into programs: Python imports a module of that name when it starts."""
_TRACE = re.compile(TRACE_FILE_PATTERN, re.ASCII)
_TABLE = re.compile(rf"([0-9a-f]{{8,40}}\.(?:{'|'.join(TABLE_KINDS)}))(?:\.zst|\.gz)?", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_CPUS = re.compile(r"[0-9,-]{1,200}", re.ASCII)
MAX_GOVERNOR_CHARS = 100


@dataclass(frozen=True)
class PlannedRun:
    """A planned run. command: as one line."""

    run: int
    events: tuple[str, ...] = ()
    command: str | None = None


@dataclass(frozen=True)
class RecordingPlan:
    """The plan of a job. ranks: null for a program without ranks. clock_ns: how far the target's clock was ahead.
    stop_requested: whether the job was asked to stop, by its own record. artifacts: names of the recorder's files, or
    patterns of them."""

    runs: tuple[PlannedRun, ...]
    ranks: int | None = None
    mpi_flavor: str | None = None
    target: str | None = None
    clock_ns: int = 0
    stop_requested: bool = False
    artifacts: tuple[str, ...] = ()


@dataclass(frozen=True)
class RankState:
    """What a rank recorded about itself. start_ns, end_ns: since the epoch, by its host's clock. stop_reason: why it
    was asked to stop, empty if it was not. perf_signal: the signal that ended perf while the program continued.
    text_status: the state of the text of its recording, empty if unknown. cpus: those that it was allowed to use, as in
    0-3,8; governor: of CPU frequencies; both empty if unknown."""

    host: str | None = None
    size: int | None = None
    pid: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    exit_status: int | None = None
    signal: int | None = None
    perf_signal: int | None = None
    recorded: bool = True
    stop_reason: str = ""
    text_status: str = ""
    cpus: str = ""
    governor: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rank:
    """A rank, or another process of a run. folder: the name of its directory. state None: there is no state file."""

    run: int
    folder: str
    state: RankState | None

    @property
    def number(self) -> int | None:
        """The rank; null for a program without ranks, and if it is ambiguous."""
        return int(self.folder) if self.folder.isdecimal() else None

    @property
    def host(self) -> str | None:
        """Its host, if known."""
        if self.state is not None and self.state.host:
            return self.state.host
        return self.folder.removeprefix(HOST_FOLDER_PREFIX) if self.folder.startswith(HOST_FOLDER_PREFIX) else None

    @property
    def sort_key(self) -> tuple[int, int, str]:
        """All ranks, sorted by run and rank."""
        return self.run, -1 if self.number is None else self.number, self.folder


def parse_run_folder(folder: str) -> int | None:
    """The number of a run by the name of its directory; None if it is not the directory of a run."""
    match = _RUN.fullmatch(folder)
    return int(match[1]) if match and int(match[1]) < MAX_RUNS else None


def is_rank_folder(folder: str) -> bool:
    """Whether a name is valid for the directory of a rank: its number, "all", or "on-HOST" for none."""
    return _PLACE.fullmatch(folder) is not None


def is_trace_file(name: str) -> bool:
    """Whether a name is valid for a rank's trace from PyTorch's profiler."""
    return _TRACE.fullmatch(name) is not None


def parse_table_name(name: str) -> str | None:
    """The name BUILDID.KIND in that of a symbol table's file, which may be packed; None for another file."""
    match = _TABLE.fullmatch(name)
    return match[1] if match else None


def is_artifact(name: str, patterns: Iterable[str]) -> bool:
    """Whether a file of a rank may be called so: a plain name that is one of the patterns, as a shell reads them."""
    return _ARTIFACT.fullmatch(name) is not None and any(fnmatchcase(name, pattern) for pattern in patterns)


def parse_plan(text: bytes) -> RecordingPlan:
    """The plan in the text of a plan.json. Raises UnreadableInput if it is malformed."""
    try:
        data = json.loads(text)
        runs = [_parse_planned_run(one, number) for number, one in enumerate(data["runs"][:MAX_RUNS])]
        if len({run.run for run in runs}) < len(runs):
            raise ValueError("two runs have the same number")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableInput(
            f"The plan of the recording (plan.json) is invalid ({str(error)[:100]}). Submit the job again."
        ) from None
    ranks, clock, artifacts = data.get("ranks"), data.get("clock_ns"), data.get("artifacts")
    return RecordingPlan(
        runs=tuple(runs),
        ranks=ranks if _is_int(ranks) and 0 < ranks <= MAX_RANKS else None,
        mpi_flavor=_clean_text(data.get("flavour")),
        target=_clean_text(data.get("target")),
        clock_ns=clock if _is_int(clock) and abs(clock) < 1 << 62 else 0,
        stop_requested=data.get("told") is True,
        artifacts=tuple(map(str, artifacts[:MAX_ARTIFACTS])) if isinstance(artifacts, list) else (),
    )


def parse_state(text: bytes) -> RankState:
    """The state of a rank. Unknown lines are ignored."""
    found: dict[str, str] = {}
    notes: list[str] = []
    for line in text.decode("utf-8", "replace").split("\n"):
        key, _, value = line.partition(" ")
        value = _clean_text(value) or ""
        if key == "note":
            if value and len(notes) < MAX_NOTES:
                notes.append(value)
        elif len(key) < 20:
            found[key] = value
    status, signal, killed = _parse_int(found, "exit"), _parse_int(found, "signal"), _parse_int(found, "killed")
    return RankState(
        host=found.get("host") or None,
        size=_parse_int(found, "size"),
        pid=_parse_int(found, "pid"),
        start_ns=_parse_int(found, "start"),
        end_ns=_parse_int(found, "end"),
        exit_status=status if status is not None and status < 256 else None,
        signal=signal if signal is not None and signal < 128 else None,
        perf_signal=killed if killed is not None and killed < 128 else None,
        recorded=found.get("recorded") != "0",
        stop_reason=found.get("stopped", ""),
        text_status=found.get("text", ""),
        cpus=cpus if _CPUS.fullmatch(cpus := found.get("cpus", "")) else "",
        governor=found.get("governor", "")[:MAX_GOVERNOR_CHARS],
        notes=tuple(dict.fromkeys(notes)),
    )


def parse_conditions(values: Mapping[str, Any]) -> dict[str, str]:
    """The facts in what a process recorded about where it started: `cpus` and `governor`, as in a state."""
    state = parse_state("".join(f"{key} {values.get(key, '')}\n" for key in ("cpus", "governor")).encode())
    facts = {CPUS_FACT: state.cpus, GOVERNOR_FACT: state.governor}
    return {name: value for name, value in facts.items() if value}


def _parse_planned_run(data: Any, place: int) -> PlannedRun:
    run = data.get("run", place)
    if not (_is_int(run) and 0 <= run < MAX_RUNS):
        raise ValueError("a run has no number")
    command = [str(word) for word in data.get("command") or ()]
    events = [_clean_text(str(event)) or "" for event in data.get("events") or ()]
    return PlannedRun(run, tuple(event for event in events if event), shlex.join(command) if command else None)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _parse_int(found: dict[str, str], key: str) -> int | None:
    text = found.get(key, "")
    return int(text) if _NUMBER.fullmatch(text) and int(text) < 1 << 63 else None


def _clean_text(value: Any) -> str | None:
    """A text as one line of printable characters, limited in length; None for none."""
    if not isinstance(value, str):
        return None
    return sanitize_line(value[: 4 * MAX_TEXT_CHARS])[:MAX_TEXT_CHARS] or None
