"""Every fixture gives the tables and exports that it gave before: a change of code alone changes none of them.

Where a change is wanted: `python -m tests.test_outputs`, and look at what differs (see `tests.outputs`).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.outputs import LARGER, digests, profiles
from tests.support.formats import DATA

KEPT = DATA / "outputs.json"


@pytest.mark.timeout(600)
def test_tables_and_exports_are_as_before() -> None:
    known = json.loads(KEPT.read_text())
    differ = {
        f"{fixture}: {output}"
        for fixture, profile in profiles()
        if fixture not in LARGER
        for output, digest in digests(profile).items()
        if known.get(fixture, {}).get(output) != digest
    }
    assert not differ


def renew(path: Path) -> None:
    """Note what is given now."""
    found = {fixture: digests(profile) for fixture, profile in profiles() if fixture not in LARGER}
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    renew(KEPT)
