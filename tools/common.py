"""What the set-up programs share."""

import subprocess
import sys
import time
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


def run_patiently(argv, **options):
    """The exit status of a program that may take minutes, asks nothing, and is seen to be alive meanwhile."""
    started = time.monotonic()
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, **options) as program:
        while True:
            try:
                return program.wait(timeout=15)
            except subprocess.TimeoutExpired:
                say(f"  … {time.monotonic() - started:.0f} s")
            except BaseException:
                program.terminate()
                raise
