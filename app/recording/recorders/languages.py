"""Languages whose interpreters name their functions for perf, and what a job sets for it.

perf knows the symbols of files, and reads /tmp/perf-PID.map with the names of machine code that a program made, on the
host of the recording, right after it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from ...domain.jobs import CallGraph, JobSpec, Language, Scope
from . import python_inject, recorder_of
from .findings import PreflightFinding, hint
from .python_names import python_files


@dataclass(frozen=True)
class Interpreter:
    """The interpreter of a language. programs: names of its programs, without a version. oldest: the first version that
    can name functions. version_option: prints the version, which Java does on standard error. paths: search-path
    variables to which the job's directory is prepended. options: by the variable that the interpreter reads them from,
    for a shell between double quotes. They may contain `PLACE`, the job's directory as the interpreter reads it between
    double quotes, and `MARK`. mark: an option that notes the process in the directory `NAMES`; it is left out if the
    directory's name has a character that cannot be quoted. module: the text of `MODULE`. frame_pointers: whether it has
    them, but no unwind tables."""

    title: str
    programs: tuple[str, ...]
    oldest: tuple[int, int]
    paths: tuple[str, ...] = ()
    version_option: str = "--version"
    options: Mapping[str, str] = field(default_factory=dict)
    mark: str = ""
    module: str = ""
    frame_pointers: bool = False


FOLDER = python_inject.FOLDER
"""The variable for the directory where names are kept."""
NAMES, PLACE, MARK = "$pl_names", "$pl_quoted", "$pl_mark"
"""Of the shell that starts a program: see `Interpreter`."""
MODULE = "node-names.cjs"
_MODULE_TEXT = f"""// Loaded by Node.js when it starts.
// Says that this process writes /tmp/perf-PID.map, so that it is removed after it was read.
const fs = require("fs");
try {{
  fs.closeSync(fs.openSync(`${{process.env.{FOLDER}}}/map-${{process.pid}}`, "a", 0o600));
}} catch {{}}
"""
INTERPRETERS: Mapping[Language, Interpreter] = {
    Language.PYTHON: Interpreter("Python", ("python", "torchrun"), python_inject.OLDEST, ("PYTHONPATH",)),
    # With --perf-basic-prof instead, it would also write isolate-…-v8.log into its working directory.
    Language.NODE: Interpreter(
        "Node.js",
        ("node", "nodejs"),
        (12, 0),
        options={
            "NODE_OPTIONS": "--perf-basic-prof-only-functions --interpreted-frames-native-stack "
            rf"--require \"{PLACE}/{MODULE}\""
        },
        module=_MODULE_TEXT,
        frame_pointers=True,
    ),
    # It writes the file when it ends. The log, which stays empty, is created when it starts.
    Language.JAVA: Interpreter(
        "Java",
        ("java",),
        (17, 0),
        options={
            "JAVA_TOOL_OPTIONS": "-XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit"
            f"{MARK}"
        },
        # The only option that Java 8 has, too.
        version_option="-version",
        mark=rf"'-Xlog:startuptime=error:file=\"{NAMES}/map-%p\"'",
        frame_pointers=True,
    ),
}


def interpreter_of(spec: JobSpec) -> Interpreter | None:
    """The interpreter whose functions get names; None without one, or if nothing is sampled or started."""
    applies = recorder_of(spec).samples and spec.scope is not Scope.PROCESS and bool(spec.command)
    return INTERPRETERS.get(spec.language) if applies else None


def language_files(spec: JobSpec) -> dict[str, str]:
    """The texts for the job's directory, by name."""
    interpreter = interpreter_of(spec)
    if interpreter is None:
        return {}
    if interpreter.paths:
        return python_files()
    return {MODULE: interpreter.module} if interpreter.module else {}


def language_variables(spec: JobSpec) -> tuple[str, ...]:
    """The variables of the command, NAME=value, as typed in the job's directory, for display."""
    interpreter = interpreter_of(spec)
    if interpreter is None:
        return ()
    options = [
        f"{name}={words.replace(MARK, '').replace(PLACE, '.').replace(chr(92), '').replace(chr(34), '')}"
        for name, words in interpreter.options.items()
    ]
    return (*(f"{name}=." for name in interpreter.paths), *options, f"{FOLDER}=names")


def language_of(program: str) -> Language | None:
    """The language of an interpreter, by the name or path of its program."""
    name = PurePath(program).name.rstrip("0123456789.")
    return next((language for language, each in INTERPRETERS.items() if name in each.programs), None)


def find_language_problems(spec: JobSpec) -> Iterator[PreflightFinding]:
    """Whether a language would help, and what the call graph hides."""
    interpreter = interpreter_of(spec)
    if interpreter is not None and interpreter.frame_pointers and spec.call_graph is CallGraph.DWARF:
        text = f"{interpreter.title} has no unwind tables: with dwarf, stacks end at the innermost of its functions."
        yield hint("call_graph", text, "Choose fp.")
    if spec.scope is Scope.PROCESS or not spec.command or spec.language is not Language.NONE:
        return
    language = language_of(spec.command[0])
    if language is not None:
        title = INTERPRETERS[language].title
        text = f"Functions of {title} have no names: perf only sees the interpreter’s own."
        yield hint("language", text, f"Choose {title} as language.")
