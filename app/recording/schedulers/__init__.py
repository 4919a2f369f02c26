"""Batch systems: one file each, with argv to give and text to read. A new one is one file and one entry here."""

from ...domain.targets import SchedulerName
from .base import Scheduler
from .lsf import Lsf
from .slurm import Slurm

SCHEDULERS: dict[SchedulerName, Scheduler] = {scheduler.name: scheduler for scheduler in (Slurm(), Lsf())}


def scheduler_of(name: SchedulerName) -> Scheduler | None:
    """The batch system of that name, None for none."""
    return SCHEDULERS.get(name)


__all__ = ["SCHEDULERS", "Scheduler", "scheduler_of"]
