#!/usr/bin/env python3
"""Pin what tests and development install: write tools/constraints.txt (`make constraints`).

It pins the newest versions that setup.cfg allows, with the extras dev and test. Users get the ranges of setup.cfg;
tests get these versions, so that a new release of a dependency breaks no test. Run this in the oldest supported Python:
versions that run there also run in later ones.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bootstrap import CONSTRAINTS, OLDEST, ensure_venv

from common import ROOT, VENV, Failure, say

HEADER = """\
# The versions that tests and development install, resolved in Python {python}.
# Written by `make constraints`; setup.cfg has the ranges for users.
"""


def resolved():
    """{name: version} of every package that the extras dev and test need, without Perfloom itself."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        wanted = ["--dry-run", "--ignore-installed", "--report", str(report), f"{ROOT}[dev,test]"]
        if subprocess.call(pip + wanted) != 0:
            raise Failure("pip found no compatible versions (see its message above).")
        packages = [entry["metadata"] for entry in json.loads(report.read_text())["install"]]
    return {package["name"].lower(): package["version"] for package in packages if package["name"] != "perfloom"}


def main():
    try:
        ensure_venv(["dev", "test"])
        python = subprocess.check_output(
            [str(VENV / "bin" / "python"), "-c", "import sys; print(*sys.version_info[:2])"]
        )
        if tuple(map(int, python.split())) != OLDEST:
            raise Failure(
                "Versions are pinned in Python {}.{}, the oldest that is supported; .venv has another: "
                "make clean, then make constraints PYTHON=python{}.{}".format(*OLDEST, *OLDEST)
            )
        versions = resolved()
    except Failure as failure:
        say(str(failure))
        return 1
    lines = [f"{name}=={version}\n" for name, version in sorted(versions.items())]
    CONSTRAINTS.write_text(HEADER.format(python="{}.{}".format(*OLDEST)) + "".join(lines))
    say(f"{len(versions)} versions are pinned in {CONSTRAINTS.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
