"""Reader processes ask for huge pages where the kernel has free ones."""

from pathlib import Path

import pytest

from perfloom.workers.base import huge_pages
from perfloom.workers.read.prefork import reader_environment

BUDDYINFO = """\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3
Node 0, zone   Normal   9019  27306  29810  21064   1043    290   1056    711    184     25    {blocks}
Node 1, zone   Normal      1      0      0      0      0      0      0      0      0      2      0
"""
HUGE = 2 << 20


def test_free_blocks_of_the_size_of_huge_pages() -> None:
    assert huge_pages.count_free_bytes(BUDDYINFO.format(blocks=185), 4096, HUGE) == 28 * HUGE + 188 * 2 * HUGE
    assert huge_pages.count_free_bytes(BUDDYINFO.format(blocks=185), 65536, 512 << 20) == 0
    assert huge_pages.count_free_bytes("", 4096, HUGE) == 0


@pytest.mark.parametrize(
    ("buddyinfo", "size", "free"),
    [
        (BUDDYINFO.format(blocks=185), "2097152\n", True),
        (BUDDYINFO.format(blocks=50), "2097152\n", False),
        (BUDDYINFO.format(blocks="x"), "2097152\n", False),
        (BUDDYINFO.format(blocks=185), None, False),
    ],
)
def test_readers_get_huge_pages_if_there_are_some(
    buddyinfo: str, size: str | None, free: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, text in (("BUDDYINFO", buddyinfo), ("HUGE_PAGE_BYTES", size)):
        if text is not None:
            (tmp_path / name).write_text(text)
        monkeypatch.setattr(huge_pages, name, tmp_path / name)
    monkeypatch.setattr("os.sysconf", lambda name: 4096)
    assert huge_pages.has_free_huge_pages() == free
    assert reader_environment()["NUMPY_MADVISE_HUGEPAGE"] == str(int(free))
