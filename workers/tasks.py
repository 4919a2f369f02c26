"""The tasks that workers take from the queue. Each takes one id, may come twice or late, and checks the job first."""

import logging
from functools import cache

from celery import Celery

from perfloom.config import Settings
from perfloom.domain.errors import NotFound, PerfloomError
from perfloom.queue import (
    CHECK_TASK,
    CODE_TASK,
    LAUNCH_TASK,
    POLL_TASK,
    READ_TASK,
    RECOVERY_TASK,
    TARGET_CHECK_TASK,
    TARGET_TASK,
    TaskQueue,
)
from perfloom.store import open_store

from . import steps
from .base import processes
from .base.context import JobContext, open_context
from .local.checks import check_json
from .read import prefork
from .recovery import recover

log = logging.getLogger(__name__)


def register(app: Celery, settings: Settings) -> None:
    """Register the tasks with `app`."""

    @cache
    def context() -> JobContext:
        store = open_store(settings, migrate=False)
        return open_context(settings, store, TaskQueue(settings, store))

    @app.task(name=LAUNCH_TASK)
    def launch(job_id: str) -> None:
        steps.advance(context(), job_id, (LAUNCH_TASK,))

    @app.task(name=READ_TASK)
    def read(job_id: str) -> None:
        try:
            steps.advance(context(), job_id, (READ_TASK,))
        finally:
            prefork.prefork_reader()
            processes.trim_malloc()

    @app.task(name=TARGET_TASK)
    def at_target(job_id: str) -> None:
        from .targets import access

        steps.advance(context(), job_id, (TARGET_TASK,))
        access.close_finished(context())

    @app.task(name=POLL_TASK)
    def poll(target: str) -> None:
        from .remote import polling  # Imports the transports to other machines.
        from .targets import access

        polling.poll(context(), target)
        access.close_finished(context())

    @app.task(name=CHECK_TASK)
    def check(check_id: str) -> None:
        here = context()
        try:
            question = here.store.checks.get(check_id).question
        except NotFound:
            return
        here.store.checks.answer(check_id, check_json(question, here.facts(), settings))

    @app.task(name=TARGET_CHECK_TASK)
    def check_target(check_id: str) -> None:
        from .remote import checks  # Imports the transports to other machines.

        checks.answer_check(context().store, check_id)

    @app.task(name=CODE_TASK)
    def complete_code(id: str) -> None:
        from . import code_files
        from .targets import access

        code_files.answer_requests(context(), id)
        access.close_finished(context())

    @app.task(name=RECOVERY_TASK)
    def tidy_task() -> None:
        try:
            recover(context())
        except PerfloomError as error:
            log.warning("the recovery will be retried: %s", error)
