"""Readers of reports of Nsight Compute (.ncu-rep), and of the CSV that `ncu` prints of them.

If `ncu` is installed, it prints the report (workers/read/ncu_tool.py), because only it can disassemble instructions.
Otherwise, or if it cannot read a report, the report itself is read.
"""

from typing import TYPE_CHECKING, BinaryIO

from . import csv_tables as nsight_pages
from .csv_tables import CSV_LOSSES
from .format import MAGIC, REPORT_LOSSES

if TYPE_CHECKING:
    from ...domain.profile import Profile

__all__ = [
    "CSV_FORMAT",
    "CSV_LOSSES",
    "FORMAT",
    "PAGES",
    "REPORT_LOSSES",
    "read",
    "read_report",
    "sniff",
    "sniff_report",
]

FORMAT = "nsight-compute"
CSV_FORMAT = "nsight-compute-csv"
CHUNK_BYTES = 8 << 20
PAGES: tuple[tuple[str, ...], ...] = (
    ("--page", "raw", "--print-units", "base"),
    ("--page", "details", "--print-details", "all", "--print-metric-name", "label-name", "--print-units", "base"),
    ("--page", "source"),
)
"""The pages that `ncu --import FILE --csv` prints, one after the other."""


def sniff_report(head: bytes) -> bool:
    """Whether a file that starts with `head` is a report (.ncu-rep)."""
    return head.startswith(MAGIC)


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is CSV of Nsight Compute; output of ncu and the program may precede it."""
    return nsight_pages.sniff(head)


def read_report(stream: BinaryIO, source: str = FORMAT) -> "Profile":
    """The profile of a report, or of the output of `ncu` for it. Raises UnreadableInput."""
    data, defect = _read_all(stream)
    if data.startswith(MAGIC):
        from .report import read_report as read_blocks

        return read_blocks(data, source, FORMAT, defect)
    return _read_text(data, defect, source, FORMAT)


def read(stream: BinaryIO, source: str = CSV_FORMAT) -> "Profile":
    """The profile in CSV of Nsight Compute. `source` names it in messages.

    Raises UnreadableInput if it has no launches.
    """
    return _read_text(*_read_all(stream), source, CSV_FORMAT)


def _read_all(stream: BinaryIO) -> tuple[bytes, str | None]:
    """The content of a stream, and its defect, which is known at its end."""
    data = b"".join(iter(lambda: stream.read(CHUNK_BYTES), b""))
    return data, getattr(stream, "defect", None)


def _read_text(data: bytes, defect: str | None, source: str, format: str) -> "Profile":
    # Imported here, because most processes that list formats do not need its libraries.
    from .profile import build_profile_from_csv

    return build_profile_from_csv(nsight_pages.decode_text(data), source, defect, format)
