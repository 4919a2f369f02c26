"""Readers: one file or package per format, each with `sniff` and `read`; `formats` lists them.

Imported on first use: a process that only decompresses a file, or runs perf on it, does not wait for the libraries of
tables.
"""

from typing import TYPE_CHECKING

from ..lazy_names import load_on_use

if TYPE_CHECKING:
    from .formats import HEAD_BYTES, READERS, Reader, describe_clock, describe_formats, detect_format, format_title

__all__ = ["HEAD_BYTES", "READERS", "Reader", "describe_clock", "describe_formats", "detect_format", "format_title"]

__getattr__ = load_on_use(__name__, dict.fromkeys(__all__, "formats"))
