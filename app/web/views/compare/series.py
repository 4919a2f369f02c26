"""What a comparison shows of the run series that its results are from."""

from collections.abc import Sequence
from dataclasses import dataclass

from ....analysis.compare.verdicts import Note
from ....store import Result
from ...pages import with_query
from ...services import current_services
from ..jobs.series import count_missing

PARAMETER = "series"
"""The parameter with the id of the series or of one of its jobs."""


@dataclass(frozen=True)
class SeriesLinks:
    """Links of a comparison. runs: to the runs of its series, empty without one. again: to the form that runs both
    sides again, empty if one of them was not recorded by a job."""

    runs: str
    again: str


def build_series_links(id: str, base: Result, other: Result) -> SeriesLinks:
    """id: of the series or one of its jobs, or empty."""
    jobs = current_services().store.jobs
    series = current_services().store.series.find(id)
    recorded = [jobs.find(result.job_id) if result.job_id else None for result in (base, other)]
    sides = [job.id for job in recorded if job is not None and job.kind == "record"]
    again = ""
    if len(sides) == 2:
        again = with_query("/jobs/series/new", list(zip(("from", "with"), dict.fromkeys(sides), strict=False)))
    return SeriesLinks(f"/jobs/{series.id}/series" if series is not None else "", again)


def list_series_notes(id: str) -> Sequence[Note]:
    """How many runs of a series have no result. id: of the series or one of its jobs, or empty; if all its jobs were
    deleted, there are no notes."""
    series = current_services().store.series.find(id)
    missing = count_missing(series) if series is not None else ""
    return [Note(missing)] if missing else []
