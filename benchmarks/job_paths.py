"""How long a local job takes with a supervisor, and with the scripts of a plan: from submission to stored.

    python -m benchmarks.job_paths [--jobs 15]

Both run the same job, `perf record -- true` on this machine, alternating: a loaded machine slows both. Each line has
the median, the least and the most, in seconds. No worker is started: this process takes the steps.
"""

import argparse
import io
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from perfloom.config import Settings
from perfloom.domain.jobs import Executor, JobSpec, JobState
from perfloom.store.jobs import Job
from perfloom.workers import claims, job_client


def run_job(settings: Settings, executor: Executor) -> float:
    """Seconds from submission to stored of a job of `true`."""

    def choose(*given: Any, **more: Any) -> Executor:
        return executor

    def ignore(job: Job) -> None:
        """Nothing is shown."""

    with mock.patch.object(claims, "choose_executor", choose):
        job = job_client.record(
            settings, JobSpec(command=("true",), cwd=os.getcwd()), "true", ignore, output=io.BytesIO()
        )
    assert job.state is JobState.STORED and job.details.executor is executor and job.ended, job.reason
    return job.ended - job.created


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=15, help="Jobs of each.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.load(Path(folder), runtime=Path(folder) / "run")
        seconds: dict[Executor, list[float]] = {executor: [] for executor in Executor}
        for executor in Executor:
            run_job(settings, executor)  # What is loaded and written once is no part of the comparison.
        for _ in range(options.jobs):
            for executor, found in seconds.items():
                found.append(run_job(settings, executor))
    for executor, found in seconds.items():
        print(f"{executor:12}{statistics.median(found):8.2f} {min(found):8.2f} {max(found):8.2f}")


if __name__ == "__main__":
    main()
