"""The process that reads a recording: everything that comes from outside is parsed in one of these, below limits.

It is given the name of a file with one request in JSON, and answers in lines of JSON on standard output:

    {"progress": 0.25, "text": "…"}                              progress: 0 to 1, or null where it is not known
    {"done": {"written": [path, …]}}                             the last line, when all went well
    {"error": {"kind": "UnreadableInput", "message": "…"}}       the last line, when not

Its limits are its own doing, before it looks at a file. So nothing has to happen between fork and exec of a process
that may have threads.
"""

import os
import resource
import signal
import sys
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from perfloom.domain.errors import PerfloomError, UnreadableInput
from perfloom.domain.pieces import Spill
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.tables import column
from perfloom.domain.validity import too_heavy
from perfloom.readers.merge import FEW, Merged, Merging, Origin
from perfloom.store import columns
from perfloom.store.disk import unavailable
from perfloom.workers import processes
from perfloom.workers.read_ahead import read_all
from perfloom.workers.read_files import Reading
from perfloom.workers.read_ranks import read_planned
from perfloom.workers.read_request import Answers, Limits, Request

NO_THREAD = "can't start new thread"
"""What Python says where a thread's stack does not fit into what is left of the address space."""
EXHAUSTED = 3
"""Exit status where the limit on memory was met."""


class _WithoutPandas:
    """pyarrow imports it on the first occasion, which takes longer than reading a small file; nobody needs it here."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """As the import system asks for it."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not used here", name=name)


def main() -> None:
    """Answer one request and end: status 0 with the result, 1 with an error that was told, 3 out of memory."""
    request = Request.from_json(Path(sys.argv[1]).read_text(encoding="utf-8"))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.die_with_parent(signal.SIGKILL, request.parent)
    processes.name_process("perfloom-read")
    answers = Answers(os.dup(1))
    sys.meta_path.insert(0, _WithoutPandas())
    # What a library prints by itself must not get between the answers.
    os.dup2(2, 1)
    os.umask(0o077)
    _limit(request.limits)
    try:
        answers.done(read(request, answers))
    except PerfloomError as error:
        answers.error(error)
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and NO_THREAD not in str(error):
            raise
        answers.give({"error": {"kind": "UnreadableInput", "message": too_much_memory(request.limits)}})
        os._exit(EXHAUSTED)
    except OSError as error:
        answers.error(unavailable(Path(request.out or request.text), error))
        sys.exit(1)


def too_much_memory(limits: Limits) -> str:
    """The message for a recording that needs more memory than it may have."""
    return (
        f"Reading it needs more than {limits.memory_bytes / 1e9:.3g} GB of memory, which is the limit. Record a "
        "shorter time or at a lower frequency, or raise PERFLOOM_READ_MEMORY_BYTES."
    )


def _limit(limits: Limits) -> None:
    cpus = len(os.sched_getaffinity(0))
    wanted = {
        resource.RLIMIT_AS: limits.memory_bytes,
        # The wall clock is the caller's to watch; this one ends what escaped him.
        resource.RLIMIT_CPU: limits.seconds * cpus + 10,
        resource.RLIMIT_FSIZE: max(limits.unpacked_bytes, 1 << 30),
        resource.RLIMIT_CORE: 0,
    }
    for what, value in wanted.items():
        _, hard = resource.getrlimit(what)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))


def read(request: Request, answers: Answers) -> tuple[Path, ...]:
    """Do what the request asks for. Returns the files of text that were written. Raises PerfloomError, OSError."""
    if request.out is None:
        texts: list[Path] = []
        for number, wanted in enumerate(request.inputs):
            reading = Reading(request, answers, wanted, number, len(request.inputs))
            reading.read()
            texts += reading.written
        return tuple(texts)
    with tempfile.TemporaryFile(dir=request.scratch, buffering=0) as file:
        spill = Spill(cast(BinaryIO, file))
        if request.planned is not None:
            written, merged = read_planned(request, answers, spill)
        else:
            written, merged = _read_files(request, answers, spill)
        answers.progress(None, "Stores", now=True)
        profile = replace(merged.profile, meta=told(merged.profile.meta, request.meta or {}))
        columns.write(profile, Path(request.out), merged.pieces)
    return tuple(written)


def _read_files(request: Request, answers: Answers, spill: Spill) -> tuple[list[Path], Merged]:
    """(texts that were written, what is in the files), which are ranks where there are several."""
    count = len(request.inputs)
    merging = Merging(spill, addresses=count <= FEW)
    written: list[Path] = []
    for number, found in enumerate(read_all(request, answers, request.inputs)):
        if found.error is not None:
            raise found.error
        written += found.written
        if found.unpacked is not None and count == 1:
            return read_planned(replace(request, planned=str(found.unpacked)), answers, spill)
        if found.profile is None:
            raise UnreadableInput(f"{request.inputs[number].name} holds all ranks of a job; read it alone.")
        _check_weights(found.profile)
        if count == 1:
            return written, Merged(found.profile, {})
        merging.add(found.profile, Origin(f"rank {number}", number))
    answers.progress(None, "Brings the ranks together", now=True)
    return written, merging.finish()


def _check_weights(profile: Profile) -> None:
    """Refuse a profile whose weights no sum can hold. Those that are read here never are so."""
    if too_heavy(column(profile.samples, "weight")):
        raise UnreadableInput(
            "The weights of the samples add up to more than 2^63, which cannot be right: the file is damaged. "
            "Export it again."
        )


def told(meta: Meta, changes: dict[str, Any]) -> Meta:
    """`meta` with what the caller knows better; reasons are added to those there are."""
    known = {field.name for field in fields(Meta)}
    changes = {name: value for name, value in changes.items() if name in known}
    reasons = tuple(dict.fromkeys((*meta.reasons, *changes.pop("reasons", ()))))
    if not meta.complete:
        changes.pop("complete", None)
    return replace(meta, **changes, reasons=reasons)
