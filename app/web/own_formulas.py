"""Formulas of users in analyses: as they are at the time of each request, because other processes change them, too."""

from flask import Flask

from .services import current_services


def register(app: Flask) -> None:
    """Use the formulas of users in every request. They are loaded where a page needs them."""
    app.before_request(lambda: current_services().store.use_formulas())
