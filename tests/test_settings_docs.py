"""The reference of settings lists every setting, as it is declared."""

from __future__ import annotations

from pathlib import Path

from perfloom.config import SETTINGS


def test_reference_lists_every_setting(root: Path) -> None:
    page = (root / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{setting.variable}` | {setting.doc} | {setting.default} |" for setting in SETTINGS]
