"""Readers: one file or folder a format, each with `sniff` and `read`; `formats` lists them.

Imported at first use: a process that only unpacks a file, or has perf print one, does not wait
for the libraries of tables.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .formats import HEAD_BYTES, READERS, Reader, describe_clock, describe_formats, detect_format, format_title

__all__ = ["HEAD_BYTES", "READERS", "Reader", "describe_clock", "describe_formats", "detect_format", "format_title"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(".formats", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
