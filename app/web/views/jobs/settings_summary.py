"""The settings of a job, as its page lists them."""

from ....domain.jobs import JOB_FIELDS, JobSpec
from ....domain.targets import LOCAL
from ....recording.fields.relevance import relevant_fields
from ....store import Job
from ..setting_rows import SettingRow, declared_rows


def list_settings(job: Job, spec: JobSpec | None) -> tuple[SettingRow, ...]:
    """The settings of a job. Of environment variables only the names: a value may be a secret."""
    if spec is None:
        rows = [SettingRow("File", str(name), True) for name in job.spec.get("files", ())]
    else:
        rows = list(declared_rows(JOB_FIELDS, spec, relevant_fields(spec, None)))
    if job.host:
        rows.append(SettingRow("Machine" if job.target == LOCAL else "Monitored by", job.host))
    if job.attempt > 1:
        rows.append(SettingRow("Attempt", str(job.attempt)))
    return tuple(rows)
