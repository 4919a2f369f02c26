"""The pages: one module for a family of them, each with a Flask blueprint named `blueprint`."""

import importlib
import pkgutil

from flask import Flask


def register(app: Flask) -> None:
    """Register the blueprint of every module in this folder that has one."""
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        blueprint = getattr(importlib.import_module(f"{__name__}.{module}"), "blueprint", None)
        if blueprint is not None:
            app.register_blueprint(blueprint)
