"""The files of a deleted result take space on the disk as long as a process maps them."""

import urllib.request
from pathlib import Path

import pytest

from perfloom.store import open_store
from tests.web.conftest import ORDINARY, TOKEN
from tests.web.serving import served
from tests.workers.waiting import until


def find_mapping_processes(directory: Path) -> list[str]:
    """The processes that map files of a directory, deleted or not."""
    found = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            if str(directory) in maps.read_text(errors="replace"):
                found.append(maps.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_server_unmaps_a_result_that_another_process_deleted(tmp_path: Path) -> None:
    with served(tmp_path, filled=True) as server:
        results = server.settings.data / "results"
        address = f"{server.url}/results/{ORDINARY}/hotspots"
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {TOKEN}"})
        assert urllib.request.urlopen(request, timeout=60).status == 200
        assert find_mapping_processes(results)
        store = open_store(server.settings)
        store.results.delete(ORDINARY)
        store.close()
        until(lambda: not find_mapping_processes(results), "the server unmaps the files of the deleted result")
