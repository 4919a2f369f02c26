"""Readers: one file or package per format, each with `sniff` and `read`; `formats` lists them.

Imported on first use: a process that only decompresses a file, or runs perf on it, does not wait for the libraries of
tables.
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
