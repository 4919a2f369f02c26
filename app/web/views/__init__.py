"""The pages: one module for a family of them, each with a Flask blueprint named `blueprint`."""

import importlib
import pkgutil

from flask import Flask


def register(app: Flask) -> None:
    """Register the blueprint of every module in this folder, and in those below it, that has one."""
    for module in sorted(info.name for info in pkgutil.walk_packages(__path__, f"{__name__}.")):
        blueprint = getattr(importlib.import_module(module), "blueprint", None)
        if blueprint is not None:
            app.register_blueprint(blueprint)
