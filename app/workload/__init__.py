"""The program that ``perfloom demo`` records: a small text pipeline with the standard library's own tools.

This module says how to start it so that its functions' names show; ``__main__`` is the program, ``names`` gives its
functions names that perf can see where the interpreter gives none.
"""

from __future__ import annotations

import sys
import sysconfig

from . import symbols

SECONDS = 4.0


def trampolines() -> bool:
    """Whether this interpreter can name Python functions for perf itself (``-X perf``, from 3.12)."""
    return sys.version_info >= (3, 12) and bool(sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE"))


def frame_pointers() -> bool:
    """Whether this interpreter was compiled with frame pointers, as few distributions do."""
    flags = " ".join(str(sysconfig.get_config_var(key) or "") for key in ("CFLAGS", "PY_CORE_CFLAGS"))
    # The last word wins, as it does for the compiler.
    return flags.rfind("-fno-omit-frame-pointer") > flags.rfind("-fomit-frame-pointer")


def _interpreter_names() -> bool:
    """Whether the interpreter reports the names: if stacks past its stubs are complete, or there is no alternative."""
    return trampolines() and (frame_pointers() or not symbols.is_supported())


def command(seconds: float = SECONDS) -> list[str]:
    """The argument list that runs the workload for about `seconds` in this interpreter."""
    perf = ["-X", "perf"] if _interpreter_names() else []
    return [sys.executable, *perf, "-m", "perfloom.workload", "--seconds", f"{seconds:g}"]


def call_graph() -> str:
    """The call-graph mode that suits `command`: ``fp`` or ``dwarf``.

    The interpreter's stubs carry no unwind tables: only frame pointers lead past them. With dwarf a stack then begins
    at the innermost Python function, which still is the better picture than none of their names.
    """
    return "fp" if _interpreter_names() and frame_pointers() else "dwarf"


def note() -> str:
    """A sentence or two for the user about the names in the recording."""
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    look = "look for py::tokenize, py::deflate_documents, py::sort_words"
    if _interpreter_names() and frame_pointers():
        return f"{version} reports its function names to perf: {look}."
    if _interpreter_names():
        return (
            f"{version} reports its function names to perf: {look}. It was compiled without frame pointers, so each "
            "stack begins at the innermost Python function."
        )
    if symbols.is_supported():
        return f"The demo reports its function names to perf: {look}. For other Python programs, perf sees C functions."
    return (
        f"{version} does not report function names to perf (3.12 and later do): look for the C functions "
        "_PyEval_EvalFrameDefault, deflate, SHA256_Update, sqlite3VdbeExec."
    )
