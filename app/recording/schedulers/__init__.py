"""Batch systems: one file each, with argv to give and text to read. A new one is one file and one entry here."""

from ...domain.targets import SchedulerName
from .base import Scheduler
from .lsf import Lsf
from .slurm import Slurm

SCHEDULERS: dict[SchedulerName, Scheduler] = {
    SchedulerName.register(scheduler.name): scheduler for scheduler in (Slurm(), Lsf())
}


def scheduler_of(name: SchedulerName) -> Scheduler | None:
    """The batch system of that name, None for none."""
    return None if name is SchedulerName.NONE else SCHEDULERS[SchedulerName(name)]


def scheduler_title(name: str) -> str:
    """The title of a batch system; the name itself for none, and for one that is not registered."""
    return next((each.title for known, each in SCHEDULERS.items() if known == name), name)


def field_label(name: SchedulerName, field: str, default: str = "") -> str:
    """What the batch system calls a field of Batch; `default` where it has no own word for it."""
    scheduler = scheduler_of(name)
    return (scheduler.fields.get(field) if scheduler else "") or default


__all__ = ["SCHEDULERS", "Scheduler", "field_label", "scheduler_of", "scheduler_title"]
