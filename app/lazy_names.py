"""Names of a package that are imported from its modules on first use, so that a command loads only what it needs."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def load_on_use(package: str, module_of: Mapping[str, str]) -> Callable[[str], Any]:
    """`__getattr__` of a package (PEP 562). module_of: the module of each name, relative to the package."""

    def load(name: str) -> Any:
        if name in module_of:
            return getattr(importlib.import_module(f".{module_of[name]}", package), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
