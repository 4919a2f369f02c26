"""Records several runs of two commands, alternating, for a comparison of both."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..domain.errors import JobFailed
from ..domain.jobs import JobSpec, JobState, Side, order_runs
from .record_spec import with_current_directory

if TYPE_CHECKING:
    from ..config import Settings
    from ..domain.profile import Profile

NAME_CHARACTERS = 100


def record_runs(
    settings: "Settings",
    commands: tuple[Sequence[str], Sequence[str]],
    runs: int,
    frequency: int,
    titles: tuple[str, str],
    ids: list[str],
) -> tuple[list[str], list[str]]:
    """The ids of the results of `runs` runs of each command, as pairs. frequency: samples per second. titles: of both
    sides, in the names of results. ids: receives those of all results, at once.

    Each command is run once before, which fills caches; these results are deleted. The order is A, B, B, A, so that a
    machine that becomes slower affects both sides. Raises JobFailed if a run has no result.
    """
    from ..workers import job_client

    warmed = [Side.BASE] if tuple(commands[0]) == tuple(commands[1]) else list(Side)
    order = [list(Side).index(side) for side, _ in order_runs(runs, 1, warmed)]
    found: tuple[list[str], list[str]] = ([], [])
    with open(os.devnull, "wb") as nowhere:
        for number, side in enumerate(order):
            click.echo(f"perfloom: run {number + 1} of {len(order)}", err=True)
            spec = with_current_directory(JobSpec(command=tuple(commands[side]), frequency=frequency))
            name = f"{titles[side]}: {spec.command[0]}"[:NAME_CHARACTERS]
            job = job_client.record(settings, spec, name, lambda job: None, output=nowhere)
            if job.result_id is not None:
                ids.append(job.result_id)
            if job.state is not JobState.STORED or job.result_id is None:
                raise JobFailed(job.reason or f"Run {number + 1} ended in state {job.state}.")
            if number >= len(warmed):
                found[side].append(job.result_id)
    delete_results(settings, ids[: len(warmed)])
    return found


def open_runs(settings: "Settings", ids: Sequence[str]) -> "list[Profile]":
    """The profiles of results. Raises UnreadableInput."""
    from ..store import open_store

    store = open_store(settings)
    try:
        return [store.results.open(id) for id in ids]
    finally:
        store.close()


def delete_results(settings: "Settings", ids: Sequence[str]) -> None:
    """Delete those of these results that exist."""
    from ..store import open_store

    store = open_store(settings)
    try:
        for id in ids:
            if store.results.find(id) is not None:
                store.results.delete(id)
    finally:
        store.close()
