"""The published speedscope app: downloaded once with npm in a fixed version, and kept in `.cache`."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.support import paths
from tests.support.parts import missing, require

VERSION = "1.25.0"
SHA512 = "cpf9HWTZf1ijLXBJrk87Ve/54tnYx6rlf0gUThvn3ook6h63hLXVOQiMf44PT+XoV503cPfvfiT5gP5vojp6Ag=="
CACHE = paths.ROOT / ".cache" / "npm"
SECONDS = 120


@functools.cache
def speedscope_app() -> Path:
    """The directory of the built app, with its index.html and file-format-schema.json; skips if it is unavailable."""
    kept = CACHE / f"speedscope-{VERSION}"
    if not kept.exists():
        npm = require("npm")
        with tempfile.TemporaryDirectory() as folder:
            command = [str(npm), "pack", "--silent", f"speedscope@{VERSION}"]
            try:
                subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=SECONDS)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                missing("the npm package speedscope", f"it could not be fetched with npm ({error})")
            (packed,) = Path(folder).iterdir()
            data = packed.read_bytes()
        assert base64.b64encode(hashlib.sha512(data).digest()).decode() == SHA512, "npm gave another file"
        CACHE.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=CACHE))
        # Its hash says what is in it; `filter` came with Python 3.11.4, and later ones warn where it lacks.
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(fresh, **safely)
        try:
            os.rename(fresh, kept)
        except OSError:
            # Another test process was faster.
            assert kept.exists()
    return kept / "package" / "dist" / "release"
