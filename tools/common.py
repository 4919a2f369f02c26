"""Shared by the set-up programs."""

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
    """Set-up cannot continue; the message has advice."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_patiently(argv, **options):
    """Run a program that may take minutes; it cannot ask questions, and progress is printed. Returns its exit
    status."""
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
