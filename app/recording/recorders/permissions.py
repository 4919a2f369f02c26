"""Commands that give perf more permissions, for advice."""

SHOW_KERNEL_SYMBOLS = "As root: sysctl kernel.kptr_restrict=0"


def setcap_command(perf: str | None) -> str:
    """The command that gives a perf program the capabilities to observe everything."""
    return f"setcap cap_perfmon,cap_sys_ptrace,cap_syslog=ep {perf or 'perf'}"


def paranoid_advice(level: int, perf: str | None) -> str:
    """Advice to lower perf_event_paranoid to this level."""
    return f"As root: sysctl kernel.perf_event_paranoid={level} — or only for perf: {setcap_command(perf)}"
