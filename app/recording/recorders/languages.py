"""Languages whose interpreters name their functions for perf, and what a job sets for it.

perf knows the symbols of files. The names of functions of an interpreter are read on the host of the recording, right
after it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from ...domain.jobs import JobSpec, Language, Scope
from . import python_inject, recorder_of
from .findings import PreflightFinding, hint
from .python_names import python_files


@dataclass(frozen=True)
class Interpreter:
    """The interpreter of a language. programs: names of its programs, without a version. oldest: the first version that
    can name functions. paths: search-path variables to which the job's directory is prepended. folder: the variable for
    the directory where names are kept."""

    title: str
    programs: tuple[str, ...]
    oldest: tuple[int, int]
    paths: tuple[str, ...]
    folder: str


INTERPRETERS: Mapping[Language, Interpreter] = {
    Language.PYTHON: Interpreter(
        "Python", ("python", "torchrun"), python_inject.OLDEST, ("PYTHONPATH",), python_inject.FOLDER
    ),
}


def interpreter_of(spec: JobSpec) -> Interpreter | None:
    """The interpreter whose functions get names; None without one, or if nothing is sampled or started."""
    applies = recorder_of(spec).samples and spec.scope is not Scope.PROCESS and bool(spec.command)
    return INTERPRETERS.get(spec.language) if applies else None


def language_files(spec: JobSpec) -> dict[str, str]:
    """The texts for the job's directory, by name."""
    return python_files() if interpreter_of(spec) is INTERPRETERS[Language.PYTHON] else {}


def language_variables(spec: JobSpec) -> tuple[str, ...]:
    """The variables of the command, NAME=value, as typed in the job's directory."""
    interpreter = interpreter_of(spec)
    if interpreter is None:
        return ()
    return (*(f"{name}=." for name in interpreter.paths), f"{interpreter.folder}=names")


def language_of(program: str) -> Language | None:
    """The language of an interpreter, by the name or path of its program."""
    name = PurePath(program).name.rstrip("0123456789.")
    return next((language for language, each in INTERPRETERS.items() if name in each.programs), None)


def find_language_problems(spec: JobSpec) -> Iterator[PreflightFinding]:
    """Whether a language would help."""
    if spec.scope is Scope.PROCESS or not spec.command or spec.language is not Language.NONE:
        return
    language = language_of(spec.command[0])
    if language is not None:
        title = INTERPRETERS[language].title
        text = f"Functions of {title} have no names: perf only sees the interpreter’s own."
        yield hint("language", text, f"Choose {title} as language.")
