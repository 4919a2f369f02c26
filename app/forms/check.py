"""What a JobSpec must fulfil before anything is asked of a machine: which fields count, and the values they may have.

One definition for form, API and command line.
"""

import re
from dataclasses import replace
from typing import Any

from ..domain.jobs import CallGraph, JobSpec, RecorderName, Scope
from .events import event_problem
from .words import LIMIT

MAX_NAME = 200
MAX_EVENTS = 256
MAX_FREQUENCY_HZ = 1_000_000
MAX_STACK_BYTES = 65_528
"""The kernel's limit for one sample's copy of the user stack; the size is rounded up to 8."""
MAX_PID = 4_194_304
MAX_DURATION_S = 30 * 86_400.0
MAX_INTERVAL_MS = 3_600_000
MAX_REPEAT = 100
MAX_PERIOD = 10**15

ALWAYS = frozenset({"name", "target", "recorder", "scope", "events", "duration"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def relevant(spec: JobSpec) -> frozenset[str]:
    """The fields of the form that count for this recorder, scope and call graph."""
    used = set(ALWAYS)
    if spec.scope is Scope.PROCESS:
        used |= {"pid"}
    else:
        used |= {"command", "cwd", "environment", "inputs"}
    if spec.recorder is RecorderName.PERF_RECORD:
        used |= {"sampling", "frequency", "period", "call_graph"}
        if spec.call_graph is CallGraph.DWARF:
            used |= {"stack_bytes"}
    else:
        used |= {"interval"}
        if spec.scope is not Scope.PROCESS:
            used |= {"repeat"}
    if spec.scope is Scope.SYSTEM:
        used |= {"per_cpu"}
    return frozenset(used)


FIELD_OF = {"duration_s": "duration", "interval_ms": "interval"}
"""Names in JobSpec that the form shortens."""


def normalised(spec: JobSpec) -> JobSpec:
    """The spec with every field that does not count at its default."""
    used = relevant(spec)
    plain = JobSpec()
    unused = {name: getattr(plain, name) for name in spec.to_json() if FIELD_OF.get(name, name) not in used}
    return replace(spec, **unused)


def check(spec: JobSpec, *, complete: bool = True) -> dict[str, str]:
    """An error for each field of the form that cannot be used. Values of any type are looked at, since a spec may
    come from JSON. Empty: nothing is wrong that can be seen without asking the machine.

    complete: False lets the fields be empty that a job cannot do without: a preset need not name a command.
    """
    used = relevant(spec)
    if not complete:
        used -= {name for name in ("command", "pid") if not getattr(spec, name)}
    return {name: message for name, message in _messages(spec) if message is not None and name in used}


def _messages(spec: JobSpec) -> list[tuple[str, str | None]]:
    return [
        ("name", _name(spec.name)),
        ("target", None if spec.target == "local" else "There is no such target. Jobs run on “local”."),
        ("command", _command(spec)),
        ("cwd", _path(spec.cwd, "The working directory") if spec.cwd is not None else None),
        ("environment", _environment(spec.environment)),
        ("inputs", next(filter(None, (_path(path, "An input file") for path in spec.inputs)), None)),
        ("events", _events(spec.events)),
        ("frequency", _frequency(spec)),
        ("period", _number(spec.period, 1, MAX_PERIOD, "events between two samples")),
        ("stack_bytes", _stack(spec.stack_bytes)),
        ("pid", _pid(spec)),
        ("per_cpu", None if isinstance(spec.per_cpu, bool) else "This is true or false."),
        ("duration", _duration(spec.duration_s)),
        ("interval", _number(spec.interval_ms, 1, MAX_INTERVAL_MS, "milliseconds between two readings")),
        ("repeat", _number(spec.repeat, 1, MAX_REPEAT, "runs")),
    ]


def _text(value: Any, what: str) -> str | None:
    """What makes a text unfit as an argument, variable or path of a program."""
    if not isinstance(value, str):
        return f"{what} is a text."
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        return (
            f"{what} holds bytes that are no UTF-8, which a job description cannot keep. Rename or link what it names."
        )
    if "\0" in value:
        return f"{what} holds a zero byte, which no program can be given. Remove it."
    if length > LIMIT:
        return f"{what} has {length:,} bytes; the kernel takes {LIMIT:,}. Put the text into a file."
    return None


def _name(name: Any) -> str | None:
    if not isinstance(name, str):
        return "The name is a text."
    if len(name) > MAX_NAME:
        return f"The name has {len(name):,} characters. Use at most {MAX_NAME}."
    if not name.isprintable():
        return "The name holds a character that cannot be shown. Remove it."
    return None


def _command(spec: JobSpec) -> str | None:
    if not spec.command:
        return None if spec.scope is Scope.SYSTEM else "Write the command to record, as in python3 -c 'print(1)'."
    if not spec.command[0]:
        return "The first word, the program's name, is empty. Write the program's name or path."
    return next(filter(None, (_text(word, "A word of the command") for word in spec.command)), None)


def _path(path: Any, what: str) -> str | None:
    problem = _text(path, what)
    if problem is None and not path.startswith("/"):
        return f"{what} “{path[:80]}” is no absolute path. Start it with /."
    if problem is None and len(path) > 4096:
        return f"{what} has a path of {len(path):,} characters; Linux takes 4,096."
    return problem


def _environment(environment: Any) -> str | None:
    if not isinstance(environment, dict):
        return "Environment variables are an object of names and texts."
    for name, value in environment.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return f"“{str(name)[:60]}” cannot name a variable. Use letters, digits and _, no digit first."
        problem = _text(value, f"The value of {name[:60]}")
        if problem is not None:
            return problem
    return None


def _events(events: tuple[str, ...]) -> str | None:
    if len(events) > MAX_EVENTS:
        return f"These are {len(events):,} events. Use at most {MAX_EVENTS} in one job."
    return next(filter(None, map(event_problem, events)), None)


def _number(value: Any, least: int, most: int, what: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        return f"The number of {what} is a whole number."
    if not least <= value <= most:
        return f"{value:,} is out of range. Use {least:,} to {most:,} {what}."
    return None


def _frequency(spec: JobSpec) -> str | None:
    if spec.frequency is not None and spec.period is not None:
        return "Frequency and period exclude each other. Give one of the two."
    return _number(spec.frequency, 1, MAX_FREQUENCY_HZ, "samples a second")


def _stack(value: Any) -> str | None:
    if value is None:
        return "Say how many bytes of the stack each sample copies, as in 8192."
    problem = _number(value, 8, MAX_STACK_BYTES, "bytes of stack")
    if problem is None and value % 8:
        return f"The kernel copies stacks in steps of 8 bytes. Use {value - value % 8 + 8:,}."
    return problem


def _pid(spec: JobSpec) -> str | None:
    if spec.pid is None:
        return "Write the number of the process to attach to (the PID that ps or top shows)."
    return _number(spec.pid, 1, MAX_PID, "as a process number")


def _duration(seconds: Any) -> str | None:
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return "The time limit is a number of seconds."
    if not 0.1 <= seconds <= MAX_DURATION_S:
        return "The time limit is out of range. Use 0.1 seconds to 30 days."
    return None
