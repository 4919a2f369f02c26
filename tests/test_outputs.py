"""Every fixture yields the same tables and exports as before: refactoring changes none of them.

If a change is intended: run `python -m tests.test_outputs`, and check what differs (see `tests.outputs`).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.outputs import LARGER, digests, profiles
from tests.support.formats import DATA

KEPT = DATA / "outputs.json"


@pytest.mark.timeout(600)
def test_tables_and_exports_are_unchanged() -> None:
    known = json.loads(KEPT.read_text())
    differ = {
        f"{fixture}: {output}"
        for fixture, profile in profiles()
        if fixture not in LARGER
        for output, digest in digests(profile).items()
        if known.get(fixture, {}).get(output) != digest
    }
    assert not differ


def write_digests(path: Path) -> None:
    """Write the digests of the current version."""
    found = {fixture: digests(profile) for fixture, profile in profiles() if fixture not in LARGER}
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    write_digests(KEPT)
