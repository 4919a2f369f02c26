"""The command lines of a job, shown before it is submitted."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

from ...domain.host_facts import HostFacts
from ...domain.jobs import JobSpec
from ...domain.targets import Target, TargetFacts
from ..mpi import base
from ..mpi.registry import mpi_launcher_of
from ..quoting import ShellCode, join
from ..recorders import recorder_of
from ..recorders.languages import language_variables
from ..schedulers import scheduler_of
from .plan_text import recorder_argv, recorder_specs, stat_argv
from .runs import Run, plan_runs, submissions
from .submission import job_name

MAX_RUNS = 20
_OPTION = re.compile(r'\$\{\w+:\+"([^"$]+)"\}')
_VALUE = re.compile(r'\$\{\w+:\+"(?:([\w=-]+))?\$pl_(\w+)"\}')


def preview(spec: JobSpec, target: Target, facts: TargetFacts | None, host: HostFacts) -> str:
    """The command lines, with each layer indented further. host: facts of the host where perf runs.

    Arguments in [brackets] are added only on hosts that need them; RANK is a rank's number, or "all". Raises
    InvalidRequest if the job is not possible there.
    """
    lines: list[str] = []
    found = plan_runs(spec, target, host)
    depth = 0
    if target.ssh is not None:
        lines.append(_ssh(target))
        depth += 1
    shown = 0
    for number, part in enumerate(submissions(spec, found)):
        scheduler = scheduler_of(target.scheduler)
        inner = depth
        if scheduler is not None:
            script = ("/bin/sh", "job.sh", ".", str(number))
            argv = scheduler.submit_command(spec, job_name("JOB", number), script, f"sub{number}.log")
            lines.append("  " * depth + join(argv))
            inner += 1
        for run in (found[one] for one in part):
            if shown == MAX_RUNS:
                return "\n".join((*lines, f"# and {len(found) - shown} more runs"))
            shown += 1
            if len(found) > 1:
                lines.append("  " * inner + _run_title(run, len(found)))
            lines += [
                "  " * (inner + deeper) + line for deeper, line in enumerate(_run(spec, target, facts, host, run))
            ]
    return "\n".join(lines)


def _run_title(run: Run, count: int) -> str:
    return f"# Run {run.number} of {count}" + ("" if run.recorded else ", without recording")


def _ssh(target: Target) -> str:
    assert target.ssh is not None
    ssh = target.ssh
    words = ["ssh", *(["-J", ",".join(ssh.jump)] if ssh.jump else []), *(["-p", str(ssh.port)] if ssh.port else [])]
    return join((*words, f"{ssh.user}@{ssh.host}" if ssh.user else ssh.host))


def _run(spec: JobSpec, target: Target, facts: TargetFacts | None, host: HostFacts, run: Run) -> Iterator[str]:
    if spec.mpi is not None:
        launcher = mpi_launcher_of(spec.mpi.flavour)
        yield (
            f"{join(base.launcher_programs(launcher, spec.mpi, target, facts)[:1])} "
            f"{_plain(launcher.arguments(spec, spec.mpi))}"
        )
    if not run.recorded:
        yield join(run.command)
        return
    place = PurePath(f"run{run.number}", "RANK" if spec.mpi is not None else "all")
    recorder = recorder_of(spec)
    if recorder.injection(spec) is not None:
        yield join(recorder.argv(replace(run.as_spec(spec), command=()), host, place))
    else:
        words = join(recorder_argv(run.as_spec(recorder_specs(spec)), host)).replace('"$pl_out"', str(place))
        yield ("sudo -n " if spec.sudo else "") + words + (" --" if run.command else "")
    if run.command:
        variables = language_variables(spec)
        yield (join(("env", *variables)) + " " if variables else "") + join(run.command)
    if counts := stat_argv(run.as_spec(recorder_specs(spec)), host):
        yield "# Also: " + join(counts).replace('"$pl_out"', str(place))


def _plain(words: base.Arguments) -> str:
    """Words for display; arguments that depend on the host are in brackets."""
    shown = []
    for word in words:
        if isinstance(word, ShellCode):
            text = _OPTION.sub(r"\1", _VALUE.sub(lambda match: (match[1] or "") + match[2].upper(), word.text))
            shown.append(f"[{text}]")
        else:
            shown.append(join((word,)))
    return " ".join(shown)
