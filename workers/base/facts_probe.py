"""Capabilities of this host, by probing it: perf, its options and events, permissions, counters, limits."""

import contextlib
import os
import platform
import pwd
import shutil
import struct
import subprocess
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from perfloom.domain.host_facts import HostFacts, PerfEvent
from perfloom.recording.probe import perf_capabilities, perf_list

from .processes import clean_environment

_TIMEOUT_S = 20.0


def host_name() -> str:
    """The name of this machine in the database."""
    return os.uname().nodename


def probe() -> HostFacts:
    """Everything about this host, now. Takes a second; nothing in it fails where a part is missing."""
    perf, problem, version = find_perf()
    paranoid = _number("/proc/sys/kernel/perf_event_paranoid")
    if perf is not None and paranoid is None:
        perf, problem = None, perf_capabilities.NO_PERF_EVENTS
    capabilities = process_capabilities()
    if perf is not None:
        capabilities |= file_capabilities(perf)
    counters = hardware_counters(perf) if perf else None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return HostFacts(
        host=host_name(),
        checked_at=time.time(),
        os=_os_name(),
        kernel=platform.release(),
        cpu=_cpu_name(),
        cpus=os.cpu_count() or 0,
        memory_bytes=memory,
        user=_user(),
        root=os.geteuid() == 0 and bool({"cap_sys_admin", "cap_perfmon"} & capabilities),
        perf=perf,
        perf_version=version,
        perf_problem=problem,
        perf_capabilities=tuple(sorted(capabilities)),
        paranoid=paranoid,
        kptr_restrict=_number("/proc/sys/kernel/kptr_restrict"),
        max_frequency=_number("/proc/sys/kernel/perf_event_max_sample_rate"),
        mlock_kb=_number("/proc/sys/kernel/perf_event_mlock_kb"),
        hardware_counters=counters,
        lbr=_lbr(),
        options=_record_options(perf) if perf else (),
        stat_options=perf_list.stat_options(_run(perf, "stat", "-h")) if perf else (),
        events=_events(perf) if perf else (),
        limits=_limits(),
    )


def change_marker() -> tuple[object, ...]:
    """Values that are cheap to read and change when the result of `probe` does."""
    perf = shutil.which("perf")
    marks: tuple[object, ...] = ()
    if perf is not None:
        with contextlib.suppress(OSError):
            status = os.stat(perf)
            marks = (perf, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    names = ("perf_event_paranoid", "kptr_restrict", "perf_event_mlock_kb")
    return (*marks, *(_number(f"/proc/sys/kernel/{name}") for name in names))


def refresh_facts(facts: HostFacts) -> HostFacts:
    """The same facts, true now; the kernel lowers the highest frequency by itself."""
    return replace(facts, checked_at=time.time(), max_frequency=_number("/proc/sys/kernel/perf_event_max_sample_rate"))


def find_perf() -> tuple[str | None, str | None, str | None]:
    """(path, why not, version) of a perf that runs. A distribution's `perf` may be a script with none behind it."""
    on_path = shutil.which("perf")
    tools = sorted(Path("/usr/lib").glob("linux-tools/*/perf"), reverse=True)
    problem = None
    for candidate in filter(None, [on_path, *map(str, tools)]):
        text = _run(candidate, "--version")
        if version := perf_list.version(text):
            return candidate, None, version
        first = " ".join(text.split())[:300]
        problem = problem or f"{candidate} exists, but does not run: {first or 'it prints nothing'}"
    return None, problem, None


def _run(*argv: str | None) -> str:
    """The output and errors of a command; empty if it cannot be run."""
    words = [word for word in argv if word is not None]
    plain = {"LC_ALL": "C", "PAGER": "cat", "TERM": "dumb", "COLUMNS": "250"}
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=clean_environment() | plain,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace")


def _record_options(perf: str) -> tuple[str, ...]:
    return perf_list.record_options(_run(perf, "record", "-h"), _run(perf, "version", "--build-options"))


def _events(perf: str) -> tuple[PerfEvent, ...]:
    with contextlib.suppress(ValueError):
        return perf_list.events_from_json(_run(perf, "list", "--json"))
    return perf_list.events_from_text(_run(perf, "list"))


def hardware_counters(perf: str) -> bool | None:
    """Whether this host counts cycles or instructions, by counting them once. None: perf may not be run."""
    for suffix in ("", ":u"):
        words = (perf, "stat", "-x;", "-e", f"cycles{suffix},instructions{suffix}", "--", "true")
        if (counts_hardware_events := perf_list.counts_hardware_events(_run(*words))) is not None:
            return counts_hardware_events
    return None


def process_capabilities() -> set[str]:
    """The capabilities that matter and that a program started from here would have."""
    return perf_capabilities.from_status(Path("/proc/self/status").read_text())


def file_capabilities(program: str) -> set[str]:
    """The capabilities that a program file brings with it, as `setcap …=ep` writes them (capabilities(7))."""
    try:
        data = os.getxattr(os.path.realpath(program), "security.capability")
        magic, low, _, high, _ = struct.unpack_from("<5I", data)
    except (OSError, struct.error):
        return set()
    effective = magic & 1
    return perf_capabilities.capability_names(high << 32 | low) if effective else set()


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def _lbr() -> bool:
    """Whether the CPU keeps call stacks itself: Intel's do, and the kernel says how many entries."""
    places: Iterable[Path] = Path("/sys/bus/event_source/devices").glob("cpu*/caps/branches")
    return "GenuineIntel" in _cpuinfo("vendor_id") and any(_number(str(place)) for place in places)


def _cpuinfo(name: str) -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    except OSError:
        pass
    return ""


def _cpu_name() -> str:
    return _cpuinfo("model name") or _cpuinfo("cpu") or platform.machine()


def _os_name() -> str:
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return "Linux"


def _user() -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())


def _limits() -> dict[str, str]:
    """Other numbers worth showing, as text."""
    limits = {}
    for name, path in (
        ("ptrace_scope", "/proc/sys/kernel/yama/ptrace_scope"),
        ("perf_event_max_stack", "/proc/sys/kernel/perf_event_max_stack"),
        ("perf_cpu_time_max_percent", "/proc/sys/kernel/perf_cpu_time_max_percent"),
        ("nmi_watchdog", "/proc/sys/kernel/nmi_watchdog"),
    ):
        if (value := _number(path)) is not None:
            limits[name] = str(value)
    return limits
