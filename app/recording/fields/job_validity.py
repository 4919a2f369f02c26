"""What a JobSpec must fulfil before anything is asked of a machine: which fields count, and the values they may have.

One definition for form, API and command line.
"""

import re
from collections.abc import Mapping
from typing import Any

from ...domain.jobs import JobSpec, Scope
from ...domain.targets import Target
from .events import event_problem
from .placement_validity import placement_problems, target_problems
from .relevance import LOCAL_ONLY, relevant_fields
from .value_checks import bool_error, first_error, number_error, path_error, text_error

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

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def validate_job(spec: JobSpec, targets: Mapping[str, Target] = LOCAL_ONLY, *, complete: bool = True) -> dict[str, str]:
    """An error for each field of the form that cannot be used. Values of any type are looked at, since a spec may
    come from JSON. Empty: nothing is wrong that can be seen without asking the machine.

    targets: those that there are, by name. complete: False lets the fields be empty that a job cannot do without: a
    preset need not name a command.
    """
    target = targets.get(spec.target) if isinstance(spec.target, str) else None
    used = relevant_fields(spec, target) | {"target", "sudo"}
    if not complete:
        used -= {name for name in ("command", "pid") if not getattr(spec, name)}
    messages = [*_messages(spec), *placement_problems(spec), *target_problems(spec, targets)]
    return {name: message for name, message in messages if message is not None and name in used}


def _messages(spec: JobSpec) -> list[tuple[str, str | None]]:
    return [
        ("name", _name(spec.name)),
        ("command", _command(spec)),
        ("cwd", path_error(spec.cwd, "The working directory") if spec.cwd is not None else None),
        ("environment", _environment(spec.environment)),
        ("inputs", first_error(*(path_error(each, "An input file") for each in spec.inputs))),
        ("events", _events(spec.events)),
        ("frequency", _frequency(spec)),
        ("period", number_error(spec.period, 1, MAX_PERIOD, "events between two samples")),
        ("stack_bytes", _stack(spec.stack_bytes)),
        ("pid", _pid(spec)),
        ("per_cpu", bool_error(spec.per_cpu)),
        ("count_hardware", bool_error(spec.count_hardware)),
        ("duration", _duration(spec.duration_s)),
        ("interval", number_error(spec.interval_ms, 1, MAX_INTERVAL_MS, "milliseconds between two readings")),
        ("repeat", number_error(spec.repeat, 1, MAX_REPEAT, "runs")),
    ]


def _name(name: Any) -> str | None:
    if not isinstance(name, str):
        return "The name must be a string."
    if len(name) > MAX_NAME:
        return f"The name has {len(name):,} characters. Use at most {MAX_NAME}."
    if not name.isprintable():
        return "The name contains a nonprintable character. Remove it."
    return None


def _command(spec: JobSpec) -> str | None:
    if not spec.command:
        return None if spec.scope is Scope.SYSTEM else "Enter the command to record, as in python3 -c 'print(1)'."
    if not spec.command[0]:
        return "The first word, the program's name, is empty. Enter the program's name or path."
    return first_error(*(text_error(word, "An argument of the command") for word in spec.command))


def _environment(environment: Any) -> str | None:
    if not isinstance(environment, dict):
        return "Environment variables must be an object that maps names to strings."
    for name, value in environment.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return f"“{str(name)[:60]}” is not a valid variable name. Use letters, digits and _, and no digit first."
        problem = text_error(value, f"The value of {name[:60]}")
        if problem is not None:
            return problem
    return None


def _events(events: tuple[str, ...]) -> str | None:
    if len(events) > MAX_EVENTS:
        return f"The job has {len(events):,} events. Use at most {MAX_EVENTS}."
    return first_error(*map(event_problem, events))


def _frequency(spec: JobSpec) -> str | None:
    if spec.frequency is not None and spec.period is not None:
        return "Frequency and period are mutually exclusive. Use one of them."
    return number_error(spec.frequency, 1, MAX_FREQUENCY_HZ, "samples per second")


def _stack(value: Any) -> str | None:
    if value is None:
        return "Enter the number of bytes of the stack that each sample copies, as in 8192."
    problem = number_error(value, 8, MAX_STACK_BYTES, "bytes of stack")
    if problem is None and value % 8:
        return f"The stack size must be a multiple of 8 bytes. Use {value - value % 8 + 8:,}."
    return problem


def _pid(spec: JobSpec) -> str | None:
    if spec.pid is None:
        return "Enter the PID of the process to attach to, as ps or top shows it."
    return number_error(spec.pid, 1, MAX_PID, "as a process number")


def _duration(seconds: Any) -> str | None:
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return "The time limit must be a number of seconds."
    if not 0.1 <= seconds <= MAX_DURATION_S:
        return "The time limit is out of range. Use 0.1 seconds to 30 days."
    return None
