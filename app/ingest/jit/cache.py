"""The cache of compiled loops: a directory of this user for each version of Perfloom and of the compiler.

Its content is executed, so no other user may write there. NUMBA_CACHE_DIR overrides its path.
"""

import fcntl
import hashlib
import os
import re
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

from ... import __version__

LOOP_MODULES = (
    "ingest/jit/compiler.py",
    "ingest/jit/decorators.py",
    "ingest/jit/hashing.py",
    "ingest/jit/library.py",
    "ingest/jit/linked_code.py",
    "ingest/jit/linker.py",
    "ingest/jit/native.py",
    "ingest/jit/object_code.py",
    "ingest/jit/protobuf_columns.py",
    "ingest/jit/tree_loops.py",
    "ingest/machine_code/elf_image.py",
    "ingest/perf_records/record_loops.py",
    "ingest/trace/arguments.py",
    "ingest/trace/begin_end_pairs.py",
    "ingest/trace/nesting.py",
    "ingest/trace/phases.py",
    "ingest/trace/point_events.py",
    "ingest/trace/samples.py",
    "ingest/trace/slices.py",
    "ingest/trace/tables.py",
    "ingest/trace/tracks.py",
    "ingest/trace_json/scanner.py",
    "ingest/trace_json/simd_compiled.py",
    "ingest/trace_json/string_table.py",
    "ingest/trace_json/values.py",
    "readers/callgrind/kernel.py",
    "readers/llama_trace/lines.py",
    "readers/memory_snapshot/pickle_machine.py",
    "readers/memory_snapshot/stacks.py",
    "readers/perfetto_trace/argument_writer.py",
    "readers/perfetto_trace/packets.py",
    "readers/perfetto_trace/text_interning.py",
    "readers/pprof/stacks.py",
)
"""Modules whose functions are compiled, below the package: another source is another directory."""
LOCK = "lock"
LIBRARY = "loops"
"""The file with the compiled loops (see `library`). If it exists, all loops for reading are in it."""
UNUSED_S = 14 * 24 * 3600
"""Directories of other versions are removed if unused for this long; until then those versions may still be
installed."""
_DIRECTORY_NAME = re.compile(r"[0-9a-f]{16}")


def get_base_folder() -> Path:
    """The directory with the caches of all versions."""
    numba_cache_dir = os.environ.get("NUMBA_CACHE_DIR")
    if numba_cache_dir:
        return Path(numba_cache_dir)
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "perfloom" / "numba"


def get_folder() -> Path:
    """The directory for this version, this Python, this compiler and this kind of CPU. It may not exist."""
    # Imported here, because files that need no compiled loops do not need it.
    from ...domain.tables import NUMERIC_ARGUMENTS

    digest = hashlib.sha256(f"{__version__} {sys.version}".encode())
    for package in ("numba", "llvmlite", "numpy"):
        digest.update(f"{find_version(package)}\n".encode())
    digest.update(identify_cpu())
    for name in LOOP_MODULES:
        digest.update(Path(__file__).parents[2].joinpath(name).read_bytes())
    # Their number is a constant of compiled loops.
    digest.update(repr(NUMERIC_ARGUMENTS).encode())
    return get_base_folder() / digest.hexdigest()[:16]


def find_version(package: str) -> str:
    """The name and version of an installed package; empty if it is not installed."""
    # importlib.metadata takes longer to load than compiled loops.
    for folder in sys.path:
        with suppress(OSError):
            for name in os.listdir(folder or "."):
                if name.startswith(f"{package}-") and name.endswith((".dist-info", ".egg-info")):
                    return name
    from importlib import metadata

    with suppress(metadata.PackageNotFoundError):
        return f"{package} {metadata.version(package)}"
    return ""


def identify_cpu() -> bytes:
    """The model and instruction sets of this CPU: compiled code is for them, and a home directory may be shared by
    hosts with other CPUs. Empty if unknown."""
    lines: dict[bytes, bytes] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_bytes().split(b"\n\n", 1)[0].splitlines():
            name, _, value = line.partition(b":")
            lines[name.strip()] = value
    known = (b"vendor_id", b"cpu family", b"model", b"flags", b"CPU implementer", b"CPU part", b"Features")
    return b"\n".join(lines.get(name, b"") for name in known)


def prepare_folder() -> bool:
    """Make that directory; False if it cannot be created or other users may write to it."""
    try:
        path = get_folder()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except (OSError, RuntimeError):
        return False
    if found.st_uid != os.geteuid() or found.st_mode & 0o022 or not os.access(path, os.W_OK):
        return False
    with suppress(OSError):
        # The modification time is that of its last use.
        os.utime(path)
    return True


def get_library_path() -> Path:
    """The file with the compiled loops. It may not exist."""
    return get_folder() / LIBRARY


def remove_unused() -> None:
    """Remove the directories of other versions that were not used for UNUSED_S."""
    with suppress(OSError, RuntimeError):
        folder = get_folder()
        for path in get_base_folder().iterdir():
            if not _DIRECTORY_NAME.fullmatch(path.name) or path == folder or path.is_symlink():
                continue
            # Other programs may have caches in the same directory.
            if (path / LOCK).is_file() and time.time() - path.stat().st_mtime > UNUSED_S:
                shutil.rmtree(path, ignore_errors=True)


def is_ready() -> bool:
    """Whether all loops for reading were compiled before."""
    try:
        return get_library_path().exists()
    except (OSError, RuntimeError):
        return False


def acquire_lock() -> bool:
    """Lock the compilation of all loops until this process ends. False if another process has the lock, or there is no
    cache."""
    try:
        path = get_folder()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, RuntimeError):
        return False
    return True
