"""The program that ``perfloom demo`` records: a small text pipeline with the standard library's own tools.

This module says how to start it so that as many names as possible show; ``__main__`` is the program.
"""

from __future__ import annotations

import sys
import sysconfig

SECONDS = 4.0


def names_python() -> bool:
    """Whether a recording of this interpreter can name Python functions (``-X perf``, from 3.12).

    The interpreter then lays a stub of its own under every Python function, which perf resolves through
    /tmp/perf-PID.map.
    """
    return sys.version_info >= (3, 12) and bool(sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE"))


def frame_pointers() -> bool:
    """Whether this interpreter was compiled with frame pointers, as few distributions do."""
    flags = " ".join(str(sysconfig.get_config_var(key) or "") for key in ("CFLAGS", "PY_CORE_CFLAGS"))
    # The last word wins, as it does for the compiler.
    return flags.rfind("-fno-omit-frame-pointer") > flags.rfind("-fomit-frame-pointer")


def command(seconds: float = SECONDS) -> list[str]:
    """The argument list that runs the workload for about `seconds` in this interpreter."""
    names = ["-X", "perf"] if names_python() else []
    return [sys.executable, *names, "-m", "perfloom.workload", "--seconds", f"{seconds:g}"]


def call_graph() -> str:
    """The call-graph mode that suits `command`: ``fp`` or ``dwarf``.

    The stubs of ``-X perf`` carry no unwind tables: only frame pointers lead past them. With dwarf a stack
    begins at the innermost Python function, which still is the better picture than none of their names.
    """
    return "fp" if names_python() and frame_pointers() else "dwarf"


def note() -> str:
    """A sentence or two for the user about the names in the recording."""
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    if not names_python():
        return (
            f"This {version} cannot name Python functions for perf (3.12 and later can): look for what they "
            "call, _PyEval_EvalFrameDefault, deflate, SHA256_Update, sqlite3VdbeExec."
        )
    names = f"This {version} names its functions for perf: look for py::tokenize, py::deflate_documents."
    if frame_pointers():
        return names
    return f"{names} It was compiled without frame pointers, so each stack begins at the innermost of them."
