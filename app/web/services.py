"""What the views work with: settings, store and queue, put together once per process by `web.create_app`."""

from dataclasses import dataclass

from flask import current_app

from ..config import Settings
from ..queue import TaskQueue
from ..store import Store


@dataclass(frozen=True)
class AppServices:
    """The parts of the machine behind the pages. is_shared: whether they are for others than the owner of the
    server."""

    settings: Settings
    store: Store
    queue: TaskQueue
    is_shared: bool = False


def current_services() -> AppServices:
    """Those of the application that handles the present request."""
    found: AppServices = current_app.extensions["perfloom"]
    return found
