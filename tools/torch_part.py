"""PyTorch for CPUs, with which a few tests record a real training.

It is no dependency, and too large for every machine. If it is missing, those tests are skipped by name, even with
CI=true: recorded traces and a fake replace it (OPTIONAL in tests/support/parts.py).
"""

import subprocess

from common import VENV, run_patiently, say

# "+cpu" selects the version for CPUs: others download gigabytes for GPUs.
WANTED = "torch==2.13.0+cpu"
INDEX = "https://download.pytorch.org/whl/cpu"
NOT_HAD = VENV / "no-torch"  # records which version could not be installed


def have_torch():
    """Whether `.venv` has any version."""
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    return subprocess.call([str(VENV / "bin" / "python"), "-c", look]) == 0


def ensure_torch():
    """Install it from where pip looks, else from PyTorch's own index. Tried once: a failure is no reason to stop."""
    if have_torch() or (NOT_HAD.exists() and NOT_HAD.read_text() == WANTED):
        return
    say("Installing PyTorch for CPUs into .venv, for a few tests (200 MB)")
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    install = [*pip, "install", "--quiet", "--only-binary", ":all:", "--retries", "1", "--timeout", "15"]
    for index in ([], ["--index-url", INDEX]):
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        if run_patiently([*install, *index, WANTED], **silent) == 0:
            return
    NOT_HAD.write_text(WANTED)
    say("It cannot be had here, and its tests will be skipped. To have them run:")
    say(f"  {VENV / 'bin' / 'python'} -m pip install {WANTED} --index-url {INDEX}")
