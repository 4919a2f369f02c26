"""Where a user looks for waiting: a link to the time off the CPU, or to the job form that records it."""

from dataclasses import dataclass

from ...analysis.advice.cpu_detectors import lacks_off_cpu
from ...domain.profile import Profile
from ...domain.tables import get_strings
from ...domain.timed_events import SLEEPING
from ..pages import with_query
from ..services import current_services
from .results.result_frame import ResultFrame

PARAMETER = "off_cpu"
"""The parameter of the job form that switches the field on."""


@dataclass(frozen=True)
class OffCpuLink:
    """A sentence, and a link."""

    note: str
    label: str
    url: str


def link_off_cpu_recording(frame: ResultFrame, profile: Profile) -> OffCpuLink | None:
    """A link to the job form that records the time off the CPU too, for a recording of perf that lacks it."""
    if not lacks_off_cpu(profile):
        return None
    job = current_services().store.jobs.find(frame.result.job_id) if frame.result.job_id else None
    source = [("from", job.id)] if job is not None and job.kind == "record" else []
    return OffCpuLink(
        "Only running code was sampled. How long threads waited, and where, was not recorded.",
        "Record the time off the CPU",
        with_query("/jobs/new", [*source, (PARAMETER, "1")]),
    )


def link_off_cpu(frame: ResultFrame, profile: Profile) -> OffCpuLink | None:
    """The same, or the flame graph of the time off the CPU; None if there is neither."""
    if SLEEPING in get_strings(profile.events, "name"):
        url = frame.url("flamegraph", frame.selection.replace(event=SLEEPING))
        return OffCpuLink("", "Flame graph of the time off the CPU", url)
    return link_off_cpu_recording(frame, profile)
