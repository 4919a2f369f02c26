"""plan.sh: a job as assignments and functions of sh. The only generated script of a job, with all quoting.

Values that differ between runs are functions of the run's number. A function that provides arguments appends them to
the command in its own arguments: `pl_command 0 exec env` runs `exec env PROGRAM ARGUMENT …`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from ...domain.errors import InvalidRequest
from ...domain.host_facts import HostFacts
from ...domain.jobs import CallGraph, JobSpec, Scope
from ...domain.rank_state import COUNTS_FILE, INCOMPLETE
from ...domain.targets import RESERVED_PREFIXES, Target
from ...ingest.perf_text.fields import BRANCH_FIELD, FIELDS, OPTIONS, SWITCH_OPTIONS, add_tracepoint_field
from ..mpi.base import RankVariables
from ..mpi.registry import (
    Arguments,
    launchers_for_library,
    library_patterns,
    mpi_launcher_of,
    rank_variables,
)
from ..quoting import ShellCode, join, quote, shell_word
from ..recorders import Injection, artifact_patterns, perf_record, recorder_of
from ..recorders.base import perf_program, selection_arguments
from ..recorders.branch_stacks import records_branch_stacks
from ..recorders.events import needs_event_fields
from ..recorders.languages import FOLDER, NAMES, interpreter_of
from ..recorders.torch_inject import RANK_VARIABLES
from ..schedulers import SCHEDULERS
from .path_variables import VARIABLE, expand_path
from .runs import Run, repeats_as_runs
from .symbol_tables import find_least_bytes
from .target_environment import shell_function

STOP_TIMEOUT_S = {False: 2, True: 25}
"""Seconds between a second request to end and SIGKILL. True: for a program that writes the recording itself."""
GRACE_S = 45
"""Seconds until a job that got two requests to end, 20 s apart, is killed."""
_OUT_PLACEHOLDER = PurePath("/the/recording's/own/directory")
"""Replaced by `$pl_out`, the directory of a recording, in the arguments of a recorder."""
_ARTIFACT = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._*-]*", re.ASCII)
_OUT = ShellCode('"$pl_out"')


def plan_text(
    spec: JobSpec,
    facts: HostFacts,
    job_id: str,
    target: Target,
    runs: Sequence[Run],
    parts: Sequence[tuple[int, ...]],
    launchers: Sequence[str],
) -> str:
    """The script. facts: of the host where perf runs. parts: the runs of each submission. launchers: candidates for the
    MPI launcher's program."""
    mpi = spec.mpi
    observed = recorder_specs(spec)
    injection = recorder_of(spec).injection(spec)
    least = find_least_bytes(spec, target, facts)
    values = {
        "id": job_id,
        "flavour": str(mpi.flavour) if mpi else "",
        "every": str(mpi.every) if mpi else "1",
        "only": " ".join(f"{first}-{last}" for first, last in parse_rank_ranges(mpi.only)) if mpi else "",
        "unrecorded": " ".join(str(run.number) for run in runs if not run.recorded),
        "per_host": "1" if mpi and mpi.per_host else "",
        "whole_system": "1" if observed.scope is Scope.SYSTEM else "",
        "sudo": "1" if spec.sudo else "",
        "pid": ",".join(map(str, spec.pids)) if spec.scope is Scope.PROCESS else "",
        "duration": f"{spec.duration_s:.3f}".rstrip("0").rstrip(".") if spec.duration_s else "",
        "has_command": "1" if spec.command else "",
        "fresh": "1" if spec.fresh_inputs else "",
        "keep": "1" if spec.keep_recordings else "",
        "language": spec.language if interpreter_of(spec) else "",
        "artefact": recorder_of(spec).artifacts(spec)[0].name,
        "injects": "1" if injection else "",
        "counts": "1" if any(stat_argv(run.as_spec(observed), facts) for run in runs) else "",
        "stop_timeout": str(STOP_TIMEOUT_S[injection is not None]),
        "grace": str(GRACE_S),
        "perf": perf_program(facts),
        "uses_perf": "1" if recorder_of(spec).uses_perf else "",
        "fields": ",".join(_fields(observed, facts)),
        "options": " ".join((*OPTIONS, *SWITCH_OPTIONS) if spec.off_cpu else OPTIONS),
        "incomplete": INCOMPLETE,
        "tables_from": str(least[0]) if least else "",
        "new_tables_from": str(least[1]) if least else "",
    }
    lines = [
        f"# The plan of job {job_id}. Every value from the user is quoted.",
        "# shellcheck shell=sh",
    ]
    lines += [f"pl_{name}={quote(value)}" for name, value in values.items()]
    lines += [f"pl_cwd={_directory(spec.cwd)}"]
    lines += _list_artifacts(artifact_patterns(spec))
    lines += [f"pl_has_scratch={quote('1' if target.scratch else '')}"]
    lines += shell_function(
        "pl_scratch_path", [f"printf '%s\\n' {shell_word(expand_path(target.scratch))}"] if target.scratch else []
    )
    lines += _by_case("pl_runs_of", {n: f"pl_runs={quote(' '.join(map(str, p)))}" for n, p in enumerate(parts)})
    lines += shell_function(
        "pl_modules", [f"pl_module {quote(_module(name))}" for name in (*target.modules, *spec.modules)]
    )
    lines += _by_run("pl_environment", runs, lambda run: _exports(target.environment | run.environment))
    before = [("PATH", spec.path), ("LD_LIBRARY_PATH", spec.library_path)]
    lines += shell_function("pl_prefixes", [f"pl_prefix {name} {quote(':'.join(d))}" for name, d in before if d])
    lines += shell_function(
        "pl_preload", [f"pl_prefix LD_PRELOAD {quote(':'.join(spec.preload))}"] if spec.preload else []
    )
    lines += shell_function("pl_name_functions", _name_functions(spec))
    lines += _by_run("pl_command", runs, lambda run: _words(_command(run.command)))
    if injection is None:
        lines += _by_run("pl_record", runs, lambda run: _words(recorder_argv(run.as_spec(observed), facts)))
        lines += _by_run("pl_count", runs, lambda run: _words(stat_argv(run.as_spec(observed), facts) or ("false",)))
    else:
        lines += shell_function("pl_inject", _describe_injection(injection))
    if mpi:
        launcher = mpi_launcher_of(mpi.flavour)
        values = {
            "version_pattern": launcher.version_pattern,
            "launcher_title": launcher.label,
            "ranks": str(mpi.ranks),
            "stop_signal": launcher.stop_signal,
            "accepted": " ".join(launcher.accepted_libraries),
        }
        lines += [f"pl_{name}={quote(value)}" for name, value in values.items()]
        lines += shell_function("pl_launchers", [_words(launchers)])
        # Its own variables go first: an mpirun in a batch job inherits those of the batch system.
        lines += shell_function("pl_take_rank", [*map(_take_rank, rank_variables(launcher.rank_variables)), "false"])
        lines += _find_library()
        lines += shell_function("pl_prepare_launcher", launcher.job_script.splitlines())
        lines += _find_allocation()
        lines += shell_function("pl_start", ["shift", _words(launcher.arguments(spec, mpi))])
    return "\n".join(lines) + "\n"


def _list_artifacts(patterns: Sequence[str]) -> list[str]:
    """sh: pl_artifacts DIRECTORY COMMAND …: call it with the files there that are artifacts behind."""
    for pattern in patterns:
        if not _ARTIFACT.fullmatch(pattern):
            raise ValueError(f"{pattern!r} is not the name of an artifact")
    files = " ".join(f'"$pl_in_directory"/{pattern}' for pattern in patterns)
    return shell_function("pl_artifacts", ["pl_in_directory=$1", "shift", f'"$@" {files}'])


def _find_library() -> list[str]:
    """sh: pl_find_library TEXT: the implementation whose library is named there, in pl_linked, and the launchers that
    start its programs, in pl_whose."""
    cases = [
        line
        for pattern, name in library_patterns()
        for line in (f"*{pattern}*)", f"pl_linked={quote(name)} pl_whose={quote(launchers_for_library(name))}", ";;")
    ]
    return shell_function("pl_find_library", ["case $1 in", *cases, "esac"])


def _take_rank(variables: RankVariables) -> str:
    size = ""
    for name in reversed(variables.sizes):
        size = f"${{{name}-{size}}}"
    return f'pl_try "${{{variables.rank}-}}" "{size}" && return'


def _find_allocation() -> list[str]:
    """sh: a function that determines the allocation of the batch system, and fails outside of a batch job."""
    commands: list[str] = []
    for scheduler in SCHEDULERS.values():
        commands += [f'if [ -n "${{{scheduler.job_variable}-}}" ]; then']
        commands += [*(f"    {line}" for line in scheduler.job_script.splitlines()), "    return 0", "fi"]
    return shell_function("pl_find_allocation", [*commands, "false"])


def _fields(spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
    stacks = spec.call_graph is not CallGraph.NONE
    fields = (*FIELDS, BRANCH_FIELD) if recorder_of(spec).samples and records_branch_stacks(spec) else FIELDS
    if recorder_of(spec).samples and needs_event_fields(perf_record.events_to_sample(spec, facts), stacks):
        return add_tracepoint_field(fields, stacks=stacks)
    return fields


def recorder_specs(spec: JobSpec) -> JobSpec:
    """The job as specified for each single recorder."""
    if spec.mpi is not None and spec.mpi.per_host:
        spec = replace(spec, scope=Scope.SYSTEM)
    return replace(spec, repeat=None) if repeats_as_runs(spec) else spec


def recorder_argv(spec: JobSpec, facts: HostFacts) -> Arguments:
    """The recorder's command line, without the user's command. With sudo, perf writes to its standard output."""
    main = recorder_of(spec).artifacts(spec)[0].name
    argv = list(recorder_of(spec).argv(replace(spec, command=()), facts, _OUT_PLACEHOLDER))
    output = str(_OUT_PLACEHOLDER / main)
    if spec.sudo:
        at = argv.index(output)
        argv[at - 1 : at + 1] = ["--log-fd", "1"] if recorder_of(spec).counts else ["-o", "-"]
    return tuple(_with_directory(word) for word in argv)


def _with_directory(word: str) -> str | ShellCode:
    """An argument with `$pl_out` for the placeholder of the recording's directory."""
    before, place, after = word.partition(str(_OUT_PLACEHOLDER))
    return ShellCode(f"{quote(before) if before else ''}{_OUT.text}{quote(after) if after else ''}") if place else word


def stat_argv(spec: JobSpec, facts: HostFacts) -> Arguments:
    """perf stat's command line for events that are counted during the recording, without the process to observe; empty
    if there are none. With sudo nothing is counted: perf stat would need root, too."""
    if not recorder_of(spec).samples or spec.sudo:
        return ()
    events = [word for event in perf_record.counted_events(spec, facts) for word in ("-e", event)]
    out = ShellCode(f"{_OUT.text}/{COUNTS_FILE}")
    return (perf_program(facts), "stat", "-x,", "-o", out, *events, *selection_arguments(spec)) if events else ()


def parse_rank_ranges(only: str) -> tuple[tuple[int, int], ...]:
    """The rank ranges of a text such as "0-3,8", as (first, last). Raises InvalidRequest."""
    found = []
    for piece in only.split(","):
        if not piece.strip() and not only.strip():
            continue
        match = re.fullmatch(r"\s*([0-9]{1,7})\s*(?:-\s*([0-9]{1,7})\s*)?", piece)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise InvalidRequest(f"“{only[:60]}” contains no ranks. Write numbers and ranges, as in 0-3,8.", "only")
        found.append((int(match[1]), int(match[2] or match[1])))
    return tuple(found)


def _directory(cwd: str | None) -> str:
    if not cwd:
        return '"$pl_directory"/work'
    if cwd == "~" or cwd.startswith("~/"):
        return f'"${{HOME-}}"{quote(cwd[1:])}' if cwd[1:] else '"${HOME-}"'
    if not cwd.startswith("/"):
        raise InvalidRequest(
            f"The working directory {cwd[:200]} is not an absolute path. Start it with / or ~/.", "cwd"
        )
    return quote(cwd)


def _command(command: Sequence[str]) -> Sequence[str]:
    if command and command[0].startswith("-"):
        raise InvalidRequest(
            f"{command[0][:200]} looks like an option. Start it with ./ if it is a program.", "command"
        )
    return command


def _module(name: str) -> str:
    if not name or name.startswith("-"):
        raise InvalidRequest(f"“{name[:80]}” is not a valid module name, such as openmpi/4.1.", "modules")
    return name


def _describe_injection(injection: Injection) -> list[str]:
    """sh: set the environment of a program with an injected recorder."""
    lines = [f'pl_prefix {name} "$pl_directory"' for name in injection.paths]
    lines += [f"{name}={quote(value)}; export {name}" for name, value in injection.variables.items()]
    ranks = " ".join(each.rank for each in rank_variables(of_batch_systems=True))
    lines += [f"{RANK_VARIABLES}={quote(ranks)}; export {RANK_VARIABLES}"]
    return [*lines, f"{injection.folder}=$pl_out; export {injection.folder}"]


def _name_functions(spec: JobSpec) -> list[str]:
    """sh: set the environment of a program whose interpreter names its functions. Options follow those of the user."""
    interpreter = interpreter_of(spec)
    if interpreter is None:
        return []
    lines = [f'pl_prefix {name} "$pl_directory"' for name in interpreter.paths]
    if interpreter.mark:
        lines.append(f"case {NAMES} in *[\\'\\\"%]*) pl_mark='' ;; *) pl_mark=\" {interpreter.mark}\" ;; esac")
    lines += [f'{name}="${{{name}:+${name} }}{words}"; export {name}' for name, words in interpreter.options.items()]
    return [*lines, f"{FOLDER}={NAMES}; export {FOLDER}"]


def _exports(environment: Mapping[str, str]) -> str:
    lines = []
    for name, value in environment.items():
        if not VARIABLE.fullmatch(name):
            raise InvalidRequest(
                f"“{name[:60]}” is not a valid variable name. Use letters, digits and _, no digit first.", "environment"
            )
        if name.startswith(RESERVED_PREFIXES):
            raise InvalidRequest(f"The variable {name[:60]} is reserved for Perfloom. Use another name.", "environment")
        # Not `export NAME=value`: some shells split the value at blanks.
        lines.append(f"{name}={quote(value)}; export {name}")
    return "\n".join(lines) or ":"


def _words(words: Iterable[str | ShellCode]) -> str:
    """sh: run the function's own arguments, followed by these words."""
    return f'"$@" {join(words)}'


def _by_run(name: str, runs: Sequence[Run], text: Callable[[Run], str]) -> list[str]:
    return _by_case(name, {run.number: text(run) for run in runs})


def _by_case(name: str, texts: Mapping[int, str]) -> list[str]:
    """sh: a function that runs the text of the number in its first argument. If all texts are equal, it has one."""
    if len(set(texts.values())) == 1:
        return shell_function(name, ["shift", next(iter(texts.values()))])
    cases = [line for number, text in texts.items() for line in (f"{number})", text, ";;")]
    return shell_function(name, ["pl_case=$1", "shift", "case $pl_case in", *cases, "esac"])
