"""Whether the kernel has free huge pages. Only the standard library is imported here: a command asks before it loads
anything else."""

import os
from contextlib import suppress
from pathlib import Path

MIN_FREE_BYTES = 512 << 20
"""Enough for the arrays of most recordings."""
BUDDYINFO = Path("/proc/buddyinfo")
HUGE_PAGE_BYTES = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")


def has_free_huge_pages() -> bool:
    """Whether enough memory is free in blocks of the size of huge pages. Where it is fragmented, the kernel needs more
    time to build them than they save. False where it is unknown."""
    with suppress(OSError, ValueError):
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        huge = int(HUGE_PAGE_BYTES.read_text())
        return count_free_bytes(BUDDYINFO.read_text(), page_bytes, huge) >= MIN_FREE_BYTES
    return False


def count_free_bytes(buddyinfo: str, page_bytes: int, block_bytes: int) -> int:
    """The free bytes in blocks of at least `block_bytes`. buddyinfo: how many blocks of each power of two of pages are
    free, a line for each zone (proc(5))."""
    total = 0
    for line in buddyinfo.splitlines():
        counts = [int(count) for count in line.partition("zone")[2].split()[1:]]
        sizes = [page_bytes << order for order in range(len(counts))]
        total += sum(count * size for count, size in zip(counts, sizes, strict=True) if size >= block_bytes)
    return total
