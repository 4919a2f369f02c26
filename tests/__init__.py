"""The tests. What they have compiled is kept for the next time, and shared by all processes of theirs."""

import os
from pathlib import Path

os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).resolve().parent.parent / ".cache" / "numba"))
