"""A Celery worker for one of the queues, as a separate process: `celery_app launch|target|read COUNT`."""

import importlib
import logging
import os
import sys
import warnings
from typing import Any

from celery import signals
from celery.apps.worker import Worker
from celery.platforms import SecurityWarning

from perfloom import garbage
from perfloom.config import Settings
from perfloom.queue import LAUNCH_QUEUE, READ_QUEUE, TARGET_QUEUE, celery_app

from . import tasks
from .base import processes
from .base.facts_probe import host_name
from .read import prefork, warmup
from .serve.logs import set_up_logging
from .targets import secrets

QUEUES = {"launch": LAUNCH_QUEUE, "target": TARGET_QUEUE, "read": READ_QUEUE}


def run_worker(settings: Settings, queue: str, count: int) -> int:
    """Run a worker until a signal to end; returns the exit status."""
    app = celery_app(settings)
    tasks.register(app, settings)
    app.finalize()
    if queue == "read":
        importlib.import_module("perfloom.workers.read.reading")
        warmup.start_warmup()
        # Import now, so that the first reading does not wait for it.
        prefork.prefork_reader()
    worker: Any = Worker(
        app=app,
        hostname=f"{queue}-{os.getpid()}@{host_name()}",
        queues=[QUEUES[queue]],
        concurrency=count,
        # Computation is in child processes; threads share connections, secrets and libraries.
        pool="threads",
        optimization="fair",
        loglevel=logging.WARNING,
        quiet=True,
        without_gossip=True,
        without_mingle=True,
    )
    garbage.exclude_existing()
    worker.start()
    return int(worker.exitcode or 0)


@signals.setup_logging.connect
def _keep_logging(**_: object) -> None:
    """Keep Celery from changing the logging."""


def main() -> None:
    """`celery_app launch|target|read COUNT [KEY]`; settings come from environment and descriptor. KEY: a descriptor."""
    processes.disable_dumping()
    queue, count, *keys = sys.argv[1], int(sys.argv[2]), *map(int, sys.argv[3:])
    for key in keys:
        secrets.take_key(key)
    processes.limit_malloc_arenas()
    set_up_logging(bool(os.environ.get("PERFLOOM_VERBOSE")))
    processes.name_process(f"perfloom-{queue}")
    # Tasks are ids as JSON, so running as root is accepted; the user has chosen it.
    warnings.simplefilter("ignore", SecurityWarning)
    sys.exit(run_worker(Settings.load(), queue, count))
