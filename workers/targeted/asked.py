"""Secrets for a target: typed by whoever sits here, or sealed for this worker in the catalogue."""

from collections.abc import Sequence

from perfloom.domain.targets import Target
from perfloom.store.jobs import Job
from perfloom.workers import secrets
from perfloom.workers.road import Road
from perfloom.workers.transports import Secrets


def secrets_for(road: Road, target: Target, jobs: Sequence[Job]) -> Secrets:
    """Who is asked for secrets of a target, for the sake of these jobs."""
    return road.ask or secrets.secrets_for(road.store, target.name, [job.id for job in jobs])
