"""Services of the views: settings, store and queue, created once per process by `web.create_app`."""

from dataclasses import dataclass

from flask import current_app

from ..config import Settings
from ..queue import TaskQueue
from ..store import Store


@dataclass(frozen=True)
class AppServices:
    """The services. is_shared: whether the server has users other than its owner."""

    settings: Settings
    store: Store
    queue: TaskQueue
    is_shared: bool = False


def current_services() -> AppServices:
    """The services of the current application."""
    found: AppServices = current_app.extensions["perfloom"]
    return found
