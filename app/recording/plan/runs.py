"""The runs that a job means: one, or one for each group of events, each as often as is to be repeated."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...domain.host_facts import HostFacts
from ...domain.jobs import EventSplitting, JobSpec
from ...domain.targets import Target
from ..recorders import recorder_of
from ..recorders.event_grouping import group_events

RUN_PLACEHOLDER = "{run}"
"""Stands for the number of the run where there are several."""


@dataclass(frozen=True)
class Run:
    """One run of the command. events: empty for the recorder's own choice. repeat: which of several with the same
    events it is, from 0."""

    number: int
    events: tuple[str, ...]
    command: tuple[str, ...]
    environment: dict[str, str]
    repeat: int = 0

    def as_spec(self, spec: JobSpec) -> JobSpec:
        """The job as if this run were all of it."""
        return replace(spec, events=self.events, command=self.command, environment=self.environment)


def plan_runs(spec: JobSpec, target: Target, facts: HostFacts) -> tuple[Run, ...]:
    """The runs of a job, by number."""
    sets: Sequence[tuple[str, ...]] = (spec.events,)
    if spec.splitting is not EventSplitting.ONE_RUN:
        events = recorder_of(spec).events(spec, facts)
        sets = group_events(events, facts, most=spec.events_per_run, counters=target.counters)
    repeats = (spec.repeat or 1) if repeats_as_runs(spec) else 1
    several = len(sets) * repeats > 1
    found = []
    for number in range(len(sets) * repeats):
        command = tuple(with_run_number(word, number) for word in spec.command) if several else spec.command
        environment = (
            {k: with_run_number(v, number) for k, v in spec.environment.items()} if several else spec.environment
        )
        found.append(Run(number, sets[number // repeats], command, environment, number % repeats))
    return tuple(found)


def repeats_as_runs(spec: JobSpec) -> bool:
    """Whether what is to be repeated is started anew each time as a whole. `perf stat -r` would start a rank's program
    a second time, which its launcher knows nothing of; with sudo perf does not start the program; and each repetition
    would run in the same directory."""
    alone = spec.mpi is not None or spec.sudo or spec.fresh_inputs
    return recorder_of(spec).counts and (spec.repeat or 1) > 1 and alone


def with_run_number(text: str, run: int) -> str:
    """A text with the run's number in it where the user wants it."""
    return text.replace(RUN_PLACEHOLDER, str(run))


def submissions(spec: JobSpec, found: Sequence[Run]) -> tuple[tuple[int, ...], ...]:
    """The numbers of the runs that each submission makes: all in one, or each in one of its own at the same time."""
    if spec.splitting is EventSplitting.AT_ONCE:
        return tuple((run.number,) for run in found)
    return (tuple(run.number for run in found),)
