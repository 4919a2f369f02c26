"""The program that ``perfloom demo`` records: a small text pipeline with the standard library's own tools.

This module says how to start it so that as many names as possible show; ``__main__`` is the program.
"""

from __future__ import annotations

import sys
import sysconfig

SECONDS = 4.0


def shows_python_names() -> bool:
    """Whether a recording of this interpreter can name Python functions.

    From 3.12 the interpreter can lay a stub of its own under every Python function (``-X perf``), which perf
    resolves through /tmp/perf-PID.map. The stubs carry no unwind tables, so they are found by frame pointers
    only, and only an interpreter compiled with them has stacks to follow.
    """
    trampoline = sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE")
    flags = " ".join(str(sysconfig.get_config_var(key) or "") for key in ("CFLAGS", "PY_CORE_CFLAGS"))
    return sys.version_info >= (3, 12) and bool(trampoline) and "-fno-omit-frame-pointer" in flags


def command(seconds: float = SECONDS) -> list[str]:
    """The argument list that runs the workload for about `seconds` in this interpreter."""
    names = ["-X", "perf"] if shows_python_names() else []
    return [sys.executable, *names, "-m", "perfloom.workload", "--seconds", f"{seconds:g}"]


def call_graph() -> str:
    """The call-graph mode that suits `command`: ``fp`` where Python names show, else ``dwarf``."""
    return "fp" if shows_python_names() else "dwarf"


def note() -> str:
    """One sentence for the user about the names in the recording."""
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    if shows_python_names():
        return f"This {version} names its functions for perf (-X perf): look for py::tokenize and its siblings."
    if sys.version_info >= (3, 12):
        why = "was compiled without frame pointers, which Python names need"
    else:
        why = "cannot name Python functions for perf (3.12 and later can)"
    return (
        f"This {version} {why}: look for the interpreter's own functions, _PyEval_EvalFrameDefault and those "
        "that it calls in zlib, OpenSSL and SQLite."
    )
