"""Capabilities (capabilities(7)) that matter to perf, as the kernel and its tools write them."""

import re

CAPABILITIES = {19: "cap_sys_ptrace", 21: "cap_sys_admin", 34: "cap_syslog", 38: "cap_perfmon"}
"""Bit numbers of <linux/capability.h>."""


def capability_names(bits: int) -> set[str]:
    """The names of those that matter among a set of bits."""
    return {name for bit, name in CAPABILITIES.items() if bits >> bit & 1}


def from_getcap(text: str) -> set[str]:
    """From `getcap FILE`: those that the file brings with it and switches on.

    New: `/usr/bin/perf cap_perfmon,cap_syslog=ep`; up to 2.41: `/usr/bin/perf = cap_syslog,38+ep`, with a number for
    what it has no name for.
    """
    found: set[str] = set()
    for names, _, flags in re.findall(r"(?:^|\s)([a-z0-9_,]+)([=+])([eip]+)(?=\s|$)", text):
        if "e" in flags and "p" in flags:
            for name in names.split(","):
                found |= {CAPABILITIES.get(int(name), "")} if name.isdecimal() else {name}
    return found & set(CAPABILITIES.values())


def from_status(text: str) -> set[str]:
    """From /proc/PID/status of a shell: those that a program started by it would have.

    Root keeps what it has over exec; anybody else only what is ambient.
    """
    root = re.search(r"^Uid:\s*\d+\s+0\b", text, re.M)
    found = dict(re.findall(r"^(CapEff|CapAmb):\s*(\S+)", text, re.M))
    bits = found.get("CapEff" if root else "CapAmb", "0")
    try:
        return capability_names(int(bits, 16))
    except ValueError:
        return set()
