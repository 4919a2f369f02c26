"""Reader of reports of Nsight Compute: of the CSV that `ncu` prints of them.

The report itself (.ncu-rep) is a format of which NVIDIA tells nothing and that changes with each version. Nsight
Compute has a module for Python that reads it, `ncu_report`; it is compiled for one version of Python, lies beside `ncu`
in the same installation, and would parse a file from anybody inside of this process. So `ncu` is asked to print the
report, as `perf` is for its recordings (workers/ncu_tool.py); where there is none, its CSV is read as well.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from ..domain.errors import UnreadableInput
from . import nsight_pages

if TYPE_CHECKING:
    from ..domain.profile import Profile

FORMAT = "nsight-compute"
CSV_FORMAT = "nsight-compute-csv"
MAGIC = b"NVR\0"
CHUNK_BYTES = 8 << 20
PAGES: tuple[tuple[str, ...], ...] = (
    ("--page", "raw", "--print-units", "base"),
    ("--page", "details", "--print-details", "all", "--print-metric-name", "label-name", "--print-units", "base"),
    ("--page", "source"),
)
"""What `ncu --import FILE --csv` is asked for, one after the other."""


def by_hand(report: str) -> str:
    """The command of a shell that prints all of a report to read."""
    asked = "; ".join(f"ncu --import {report} --csv {' '.join(words)}" for words in PAGES)
    return f"({asked}) > report.csv"


def sniff_report(head: bytes) -> bool:
    """Whether a file that starts with `head` is a report (.ncu-rep)."""
    return head.startswith(MAGIC)


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is CSV of Nsight Compute; what ncu and the program say may come first."""
    return nsight_pages.sniff(head)


def read_report(stream: BinaryIO, source: str = FORMAT) -> "Profile":
    """The profile in what `ncu` printed of a report. Raises UnreadableInput."""
    profile = read(stream, source)
    return replace(profile, meta=replace(profile.meta, format=FORMAT))


def read(stream: BinaryIO, source: str = CSV_FORMAT) -> "Profile":
    """The profile in CSV of Nsight Compute. `source` names it in messages.

    Raises UnreadableInput where no launch is in it.
    """
    data = b"".join(iter(lambda: stream.read(CHUNK_BYTES), b""))
    if data.startswith(MAGIC):
        raise UnreadableInput(f"{source} is a report of Nsight Compute. Print it as CSV: {by_hand('REPORT.ncu-rep')}")
    # Only here: what it needs is not for every process that knows of formats.
    from .nsight_assembly import assembled

    return assembled(nsight_pages.decoded(data), source, getattr(stream, "defect", None), CSV_FORMAT)
