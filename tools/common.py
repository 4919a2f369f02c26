"""What the set-up programs share."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
REACH = (
    "Behind a proxy set https_proxy, with a certificate of its own PIP_CERT, for a mirror PIP_INDEX_URL, and try again."
)


class Failure(Exception):
    """Set-up cannot go on; the message says what to do."""


def say(text):
    print(text, file=sys.stderr, flush=True)
