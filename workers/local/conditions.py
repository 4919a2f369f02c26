"""The conditions under which a program starts: the CPUs that it may use, and the governor of CPU frequencies. Standard
library only, for the supervisor.

Linux: Documentation/filesystems/proc.rst (Cpus_allowed_list), Documentation/admin-guide/pm/cpufreq.rst.
"""

import contextlib
from pathlib import Path

CONDITIONS_FILE = "conditions.json"
CPUS, GOVERNOR = "cpus", "governor"
NONE = "none"
_CPUS = Path("/sys/devices/system/cpu")
_ALLOWED = "Cpus_allowed_list:"


def read_conditions(pid: int, cpus: Path = _CPUS) -> dict[str, str]:
    """What is known about a process, with the keys of state files of ranks. cpus: the kernel's directory of CPUs."""
    found = {}
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        found[CPUS] = next((line.removeprefix(_ALLOWED).strip() for line in lines if line.startswith(_ALLOWED)), "")
    governors = set()
    for path in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor"):
        with contextlib.suppress(OSError):
            governors.add(path.read_text(errors="replace").strip())
    if not governors and cpus.is_dir():
        governors = {NONE}
    found[GOVERNOR] = ", ".join(sorted(governors))
    return {key: value for key, value in found.items() if value}
