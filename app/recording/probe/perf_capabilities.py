"""Capabilities (capabilities(7)) that affect perf, as the kernel and its tools print them."""

import re

CAPABILITIES = {19: "cap_sys_ptrace", 21: "cap_sys_admin", 34: "cap_syslog", 38: "cap_perfmon"}
"""Bit numbers of <linux/capability.h>."""
NO_PERF_EVENTS = "The kernel of this host is built without performance events (CONFIG_PERF_EVENTS)."


def capability_names(bits: int) -> set[str]:
    """The names of the relevant capabilities in a bit mask."""
    return {name for bit, name in CAPABILITIES.items() if bits >> bit & 1}


def from_getcap(text: str) -> set[str]:
    """From `getcap FILE`: the effective capabilities of the file.

    New: `/usr/bin/perf cap_perfmon,cap_syslog=ep`; up to 2.41: `/usr/bin/perf = cap_syslog,38+ep`, with numbers for
    capabilities without a name.
    """
    found: set[str] = set()
    for names, _, flags in re.findall(r"(?:^|\s)([a-z0-9_,]+)([=+])([eip]+)(?=\s|$)", text):
        if "e" in flags and "p" in flags:
            for name in names.split(","):
                found |= {CAPABILITIES.get(int(name), "")} if name.isdecimal() else {name}
    return found & set(CAPABILITIES.values())


def from_status(text: str) -> set[str]:
    """From /proc/PID/status of a shell: the capabilities of a program that it starts.

    Root keeps its capabilities over exec; other users only ambient ones.
    """
    root = re.search(r"^Uid:\s*\d+\s+0\b", text, re.M)
    found = dict(re.findall(r"^(CapEff|CapAmb):\s*(\S+)", text, re.M))
    bits = found.get("CapEff" if root else "CapAmb", "0")
    try:
        return capability_names(int(bits, 16))
    except ValueError:
        return set()
