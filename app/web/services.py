"""What the views work with: settings, store and queue, put together once per process by `web.create_app`."""

from dataclasses import dataclass

from flask import current_app

from ..config import Settings
from ..queue import Queue
from ..store import Store


@dataclass(frozen=True)
class Services:
    """The parts of the machine behind the pages. shared: whether they are for others than the owner of the server."""

    settings: Settings
    store: Store
    queue: Queue
    shared: bool = False


def services() -> Services:
    """Those of the application that handles the present request."""
    found: Services = current_app.extensions["perfloom"]
    return found
