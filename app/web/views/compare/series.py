"""What a comparison shows of the run series that its results are from."""

from collections.abc import Sequence
from dataclasses import dataclass

from ....analysis.compare.verdicts import Note
from ....store import Result
from ...pages import with_query
from ...services import current_services
from ..jobs.series import count_missing

PARAMETER = "series"
"""The parameter with the id of a job of the series."""


@dataclass(frozen=True)
class SeriesLinks:
    """Links of a comparison. runs: to the runs of its series, empty without one. again: to the form that runs both
    sides again, empty if one of them was not recorded by a job."""

    runs: str
    again: str


def build_series_links(id: str, base: Result, other: Result) -> SeriesLinks:
    """id: of a job of the series, or empty."""
    jobs = current_services().store.jobs
    found = jobs.find(id) if id else None
    recorded = [jobs.find(result.job_id) if result.job_id else None for result in (base, other)]
    sides = [job.id for job in recorded if job is not None and job.kind == "record"]
    again = ""
    if len(sides) == 2:
        again = with_query("/jobs/series/new", list(zip(("from", "with"), dict.fromkeys(sides), strict=False)))
    return SeriesLinks(f"/jobs/{found.id}/series" if found and found.details.series else "", again)


def list_series_notes(id: str) -> Sequence[Note]:
    """Which runs of a series have no result. id: of a job of the series, or empty; if it was deleted, there are no
    notes."""
    store = current_services().store
    job = store.jobs.find(id) if id else None
    missing = count_missing(store.series.of_job(job)) if job is not None and job.details.series else ""
    return [Note(missing)] if missing else []
