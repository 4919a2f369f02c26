"""Batch systems: one file each, which returns argv and parses output. A new one needs one file and one entry here."""

from ...domain.targets import SchedulerName
from .base import Scheduler
from .lsf import Lsf
from .slurm import Slurm

SCHEDULERS: dict[SchedulerName, Scheduler] = {
    SchedulerName.register(scheduler.name): scheduler for scheduler in (Slurm(), Lsf())
}


def scheduler_of(name: SchedulerName) -> Scheduler | None:
    """The batch system with that name, None for none."""
    return None if name is SchedulerName.NONE else SCHEDULERS[SchedulerName(name)]


def scheduler_title(name: str) -> str:
    """The title of a batch system; the name itself if it is not registered."""
    return next((each.title for known, each in SCHEDULERS.items() if known == name), name)


def field_label(name: SchedulerName, field: str, default: str = "") -> str:
    """The batch system's label of a field of Batch; `default` if it has none."""
    scheduler = scheduler_of(name)
    return (scheduler.fields.get(field) if scheduler else "") or default


__all__ = ["SCHEDULERS", "Scheduler", "field_label", "scheduler_of", "scheduler_title"]
