"""The store: profiles as columns on disk, and an SQL database of everything else. `open_store` opens it.

The modules are imported at first access, so that a process that only reads or writes columns does not load the
libraries of the database.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .facade import (
        SORTS,
        Check,
        EventTotal,
        Host,
        Job,
        JobKind,
        Original,
        OriginalFile,
        Preset,
        RecoveryReport,
        Result,
        SealedBox,
        Store,
        StoredTarget,
        open_store,
    )

__all__ = [
    "SORTS",
    "Check",
    "EventTotal",
    "Host",
    "Job",
    "JobKind",
    "Original",
    "OriginalFile",
    "Preset",
    "RecoveryReport",
    "Result",
    "SealedBox",
    "Store",
    "StoredTarget",
    "open_store",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(".facade", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
