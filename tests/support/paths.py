"""Directories that tests read."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
"""The checkout."""
DATA = TESTS / "data"
ORACLES = ROOT.parent / "shared" / "oracles"
"""Inputs of other tools with their expected answers; may be absent."""
