"""The runs of a job: one, or one for each group of events, each with its repetitions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...domain.host_facts import HostFacts
from ...domain.jobs import EventSplitting, JobSpec, Scope
from ...domain.targets import Target
from ..recorders import recorder_of
from ..recorders.event_grouping import group_events

RUN_PLACEHOLDER = "{run}"
"""Replaced by the run's number if there are several runs."""


@dataclass(frozen=True)
class Run:
    """One run of the command. events: empty for the recorder's default. repeat: the number of the repetition, from
    0. recorded: false for the run that shows how long the command takes without recording."""

    number: int
    events: tuple[str, ...]
    command: tuple[str, ...]
    environment: dict[str, str]
    repeat: int = 0
    recorded: bool = True

    def as_spec(self, spec: JobSpec) -> JobSpec:
        """The job reduced to this run."""
        return replace(spec, events=self.events, command=self.command, environment=self.environment)


def plan_runs(spec: JobSpec, target: Target, facts: HostFacts) -> tuple[Run, ...]:
    """The runs of a job, by number."""
    sets: Sequence[tuple[str, ...]] = (spec.events,)
    if spec.splitting is not EventSplitting.ONE_RUN:
        events = recorder_of(spec).events(spec, facts)
        sets = group_events(events, facts, most=spec.events_per_run, counters=target.counters)
    repeats = (spec.repeat or 1) if repeats_as_runs(spec) else 1
    count = len(sets) * repeats
    with_baseline = runs_baseline(spec)
    several = count + with_baseline > 1
    found = []
    for number in range(count + with_baseline):
        command = tuple(with_run_number(word, number) for word in spec.command) if several else spec.command
        environment = (
            {k: with_run_number(v, number) for k, v in spec.environment.items()} if several else spec.environment
        )
        events = sets[number // repeats] if number < count else ()
        found.append(Run(number, events, command, environment, number % repeats, number < count))
    return tuple(found)


def runs_baseline(spec: JobSpec) -> bool:
    """Whether the command runs once more without recording."""
    return spec.baseline and spec.scope is Scope.COMMAND and recorder_of(spec).uses_perf


def repeats_as_runs(spec: JobSpec) -> bool:
    """Whether each repetition is a separate run, instead of `perf stat -r`. That would restart a rank's program without
    its launcher; with sudo perf does not start the program; and all repetitions would share one directory."""
    alone = spec.mpi is not None or spec.sudo or spec.fresh_inputs
    return recorder_of(spec).counts and (spec.repeat or 1) > 1 and alone


def with_run_number(text: str, run: int) -> str:
    """A text with the placeholder replaced by the run's number."""
    return text.replace(RUN_PLACEHOLDER, str(run))


def submissions(spec: JobSpec, found: Sequence[Run]) -> tuple[tuple[int, ...], ...]:
    """The run numbers of each submission: one submission for all, or one for each run, at the same time."""
    if spec.splitting is EventSplitting.AT_ONCE:
        return tuple((run.number,) for run in found)
    return (tuple(run.number for run in found),)
