"""What is missing to show the source of a function, and what to do about it."""

import numpy as np

from ....analysis.core.functions import base_name, function_id, functions_of
from ....analysis.source.figures import FunctionCode
from ....domain.profile import Profile
from ....domain.schemas.code import Code, CodeStatus
from ....store.files.code_folder import MIN_SAMPLES

COMPILE = (
    "Compile with debug information (gcc, clang and rustc: -g, beside the usual optimization; Cargo: debug = true in "
    "the profile), then record again."
)
PACKAGES = (
    "For code of the distribution, install its package of debug information (Debian, Ubuntu: names that end in -dbgsym "
    "or -dbg, such as libc6-dbg; Fedora, RHEL: dnf debuginfo-install), then record again."
)
NO_CODE = (
    "The machine code of this result is not known. It is read right after a recording of perf, for which binaries are "
    "fetched from the host that recorded. For an import, it is read "
    "from binaries of this machine that have the build ids in perf.data. Import perf.data itself, on the machine that "
    "has the binaries."
)
ADD = "You can add its file below, at Missing files."
_ADDED = (CodeStatus.MISSING, CodeStatus.REBUILT, CodeStatus.NO_SYMBOLS, CodeStatus.NO_LINES)
_STATUS = {
    CodeStatus.MISSING: "{module} was not found when the recording was read.",
    CodeStatus.REBUILT: (
        "{module} was rebuilt after it was recorded: its build id is another one, so that lines would be wrong. Record "
        "the program again."
    ),
    CodeStatus.NO_SYMBOLS: "{module} has no symbols, so that its functions are not known. Link it without -s and "
    "do not strip it.",
    CodeStatus.UNREADABLE: "{module} cannot be read.",
    CodeStatus.KERNEL: "This is code of the kernel. Its lines and instructions are read from vmlinux with debug "
    "information, if its build id is that of the recording: on the machine that reads recordings, install its package "
    "(Debian: linux-image-VERSION-dbg; Ubuntu: linux-image-VERSION-dbgsym; Fedora, RHEL: dnf debuginfo-install "
    "kernel), then record or import again. If the kernel is listed below, at Missing files, you can add its vmlinux "
    "there, or fetch it where servers of debuginfod are set. Modules are read from their files in /lib/modules, if the "
    "recording has their build ids.",
    CodeStatus.NO_FILE: "This code is in no file: it was generated while the program ran, or its file is not known. Of "
    "a just-in-time compiler it is shown if that writes jit-PID.dump (node --perf-prof, python -X perf_jit), and the "
    "program is recorded with -k mono.",
    CodeStatus.NO_LINES: f"{{module}} has no debug information, so that there are no lines. {COMPILE} {PACKAGES}",
}


def explain_missing_code(profile: Profile, reason: str) -> str:
    """Why a result has no machine code, and what to do; empty without samples, for which the page has the reason.

    reason: why reading it failed, empty if it did not.
    """
    if reason:
        reason = reason if reason.endswith(".") else f"{reason}."
        return (
            f"The machine code could not be read: {reason} Read it again, or download the recording, which is one of "
            "the files of this result, and import it again."
        )
    if not profile.samples.num_rows:
        return ""
    if profile.samples.num_rows < MIN_SAMPLES and profile.meta.format.startswith("perf"):
        return f"Machine code is read for recordings with at least {MIN_SAMPLES} samples. Record a longer time."
    return NO_CODE


def explain_function(profile: Profile, code: Code, function: int | str, found: FunctionCode | None) -> list[str]:
    """Sentences about the code of a function. found: its code, None without any."""
    functions = functions_of(profile)
    notes = []
    modules = {functions.module_of(row) for row in function_id(profile, function).tolist()}
    for row in code.objects.to_pylist():
        if row["module"] not in modules:
            continue
        text = _STATUS.get(CodeStatus(row["status"]), "")
        add = ADD if row["status"] in _ADDED and row["build_id"] else ""
        notes.append(" ".join(filter(None, (text.format(module=base_name(row["module"])), row["detail"], add))))
    if found is not None and len(found.rows):
        if not np.any(found.file >= 0) and not any(notes):
            notes.append(f"This function was compiled without debug information. {COMPILE}")
    elif not any(notes):
        notes.append("None of the addresses of this function is in its binary.")
    return [note for note in notes if note]
