"""The tasks that workers take from the queue. Each takes one id, may come twice or late, and looks before it acts."""

import logging
from functools import cache

from celery import Celery

from perfloom.config import Settings
from perfloom.domain.errors import NotFound, PerfloomError
from perfloom.queue import (
    CHECK_TASK,
    LAUNCH_TASK,
    POLL_TASK,
    READ_TASK,
    TARGET_CHECK_TASK,
    TARGET_TASK,
    TIDY_TASK,
    Queue,
)
from perfloom.store import open_store
from perfloom.workers import steps
from perfloom.workers.local import processes
from perfloom.workers.local.checks import check_json
from perfloom.workers.read import spare
from perfloom.workers.road import Road, open_road
from perfloom.workers.tidying import tidy

log = logging.getLogger(__name__)


def register(app: Celery, settings: Settings) -> None:
    """Make the tasks known to `app`."""

    @cache
    def road() -> Road:
        store = open_store(settings, migrate=False)
        return open_road(settings, store, Queue(settings, store))

    @app.task(name=LAUNCH_TASK)
    def launch(job_id: str) -> None:
        steps.advance(road(), job_id, (LAUNCH_TASK,))

    @app.task(name=READ_TASK)
    def read(job_id: str) -> None:
        try:
            steps.advance(road(), job_id, (READ_TASK,))
        finally:
            spare.begin()
            processes.give_memory_back()

    @app.task(name=TARGET_TASK)
    def at_target(job_id: str) -> None:
        from perfloom.workers.remote import access

        steps.advance(road(), job_id, (TARGET_TASK,))
        access.close_ended(road())

    @app.task(name=POLL_TASK)
    def poll(target: str) -> None:
        from perfloom.workers.remote import access, polling  # Brings the ways to other machines.

        polling.poll(road(), target)
        access.close_ended(road())

    @app.task(name=CHECK_TASK)
    def check(check_id: str) -> None:
        here = road()
        try:
            question = here.store.checks.get(check_id).question
        except NotFound:
            return
        here.store.checks.answer(check_id, check_json(question, here.facts(), settings))

    @app.task(name=TARGET_CHECK_TASK)
    def check_target(check_id: str) -> None:
        from perfloom.workers.remote import checks  # Brings the ways to other machines.

        checks.answer(road().store, check_id)

    @app.task(name=TIDY_TASK)
    def tidy_task() -> None:
        try:
            tidy(road())
        except PerfloomError as error:
            log.warning("tidying up will be tried again: %s", error)
