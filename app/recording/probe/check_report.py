"""What a check says, line by line: each good, worth knowing, or what to do."""

from collections.abc import Callable, Iterator

from ...domain.errors import HostKeyUnknown, PerfloomError, Refused, SecretNeeded, Unreachable
from ...domain.jobs import MpiFlavor
from ...domain.list_text import abbreviate_names
from ...domain.targets import CheckLine, CheckStatus, SchedulerName, Target, TargetFacts
from ..recorders.events import is_privileged
from .probe import MPI_TITLES, SHARED_FILESYSTEMS
from .target_text import SCHEDULER_TITLES

MIN_FREE_BYTES = 1 << 30
"""Less than this is worth a word: a recording by dwarf of some minutes fills it."""
MAX_CLOCK_OFFSET_NS = 1_000_000_000
"""A clock that is off by more is worth a word."""
_MAX_LISTED = 8
_INSTALL = "Install it: apt-get install linux-perf (Debian), linux-tools-generic (Ubuntu), perf (Fedora, Red Hat)."
_SHARED = {"ext2/ext3": "ext4", "UNKNOWN (0x7461636c)": "lustre"}


def check_lines(target: Target, facts: TargetFacts) -> tuple[CheckLine, ...]:
    """Everything a check found out, in the order in which it matters."""
    return tuple(line for look in _CHECKS for line in look(target, facts))


def failure_lines(target: Target, error: PerfloomError) -> tuple[CheckLine, ...]:
    """Why a check came to nothing: the one line of a connection that failed."""
    if isinstance(error, HostKeyUnknown):
        return (
            _bad(
                "Connection",
                f"{error.host} shows a key that nobody has accepted yet: {error.fingerprint}.",
                "Compare it with the fingerprint that the host's administrator tells you, then accept it.",
            ),
        )
    if isinstance(error, SecretNeeded):
        wanted = "; ".join(prompt.text for prompt in error.prompts) or error.message
        return (_bad("Connection", error.message, f"Check again and give what is asked for: {wanted}"),)
    advice = ""
    if isinstance(error, Unreachable) and not isinstance(error, Refused):
        advice = "See whether the host is up and its name and port are right, then check again."
    return (_bad("Connection", error.message, advice),)


def _good(title: str, text: str) -> CheckLine:
    return CheckLine(title, CheckStatus.GOOD, text)


def _note(title: str, text: str, advice: str = "") -> CheckLine:
    return CheckLine(title, CheckStatus.NOTE, text, advice)


def _bad(title: str, text: str, advice: str = "") -> CheckLine:
    return CheckLine(title, CheckStatus.BAD, text, advice)


def _connection(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    host = facts.host
    parts = [host.os, f"Linux {host.kernel}" if host.kernel else "", f"{host.cpus} CPUs" if host.cpus else "", host.cpu]
    what = ", ".join(part for part in parts if part)
    title = "This machine" if target.ssh is None else "Connection"
    yield _good(title, f"{host.host}, as {host.user or 'somebody'}: {what}.")
    if "probe" in facts.problems:
        text = "The probe ended before its end; what is missing below was not asked."
        yield _note("Probe", text, "Check again. If it happens each time, look at the limits for processes there.")


def _modules(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    if not target.modules:
        return
    names = ", ".join(target.modules)
    if problem := facts.problems.get("modules"):
        advice = "See what “module avail” lists there, and correct the modules of this target."
        yield _bad("Modules", f"{names} cannot be loaded: {_sentence(problem)}", advice)
    else:
        yield _good("Modules", f"{names} can be loaded.")


def _compute(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    """Jobs of a batch system run elsewhere than where they are submitted."""
    if target.scheduler is SchedulerName.NONE:
        return
    if problem := facts.problems.get("compute"):
        yield _bad("Compute node", _sentence(problem), "Choose another queue for the probe job, or try it again later.")
    elif facts.compute is None:
        text = f"Where jobs run is not known yet: the lines on perf are of {facts.host.host}."
        yield _note("Compute node", text, "Run a probe job: it looks at a node from within the batch system.")
    else:
        node = facts.compute
        yield _good("Compute node", f"{node.host}: {node.cpus} CPUs, {node.cpu}. The lines on perf are of this node.")


def _perf(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    host = facts.recording_host
    if host.perf is None:
        named = f" under the name {target.perf}" if target.perf else ""
        text = host.perf_problem or f"There is no perf on {host.host}{named}."
        yield _bad("perf", _sentence(text), f"{_INSTALL} Or load a module with it, or name its path in this target.")
        return
    text = f"Version {host.perf_version or 'unknown'} at {host.perf} on {host.host}."
    if "-z" in host.options:
        yield _good("perf", text)
    else:
        yield _note(
            "perf", f"{text} It cannot compress recordings.", "Stacks by dwarf take much disk: keep them short."
        )


def _rights(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    host = facts.recording_host
    title = "Rights"
    if host.perf is None:
        return
    sudo = target.sudo and facts.sudo
    if is_privileged(host):
        yield _good(title, f"perf may observe everything on {host.host}, the kernel too.")
        return
    level = host.paranoid
    setcap = f"setcap cap_perfmon,cap_sys_ptrace,cap_syslog=ep {host.perf}"
    now = f"perf_event_paranoid is {level} on {host.host}"
    if level is None:
        yield _note(title, "What perf may do there is not known: /proc/sys/kernel/perf_event_paranoid is not there.")
    elif level >= 3 and sudo:
        yield _note(title, f"{now}: only root may use perf.", "Choose sudo in the job.")
    elif level >= 3:
        advice = f"As root: sysctl kernel.perf_event_paranoid=2 — or give the right to perf alone: {setcap}"
        yield _bad(title, f"{now}: only root may use perf.", advice)
    elif level == 2:
        advice = f"For the kernel's part, as root: sysctl kernel.perf_event_paranoid=1 — or: {setcap}"
        yield _note(title, f"{now}: own programs, without what they do inside the kernel.", advice)
    elif level == 1:
        yield _good(title, f"{now}: own programs, and what they do inside the kernel.")
    else:
        yield _good(title, f"{now}: own programs, the kernel, and whole CPUs.")


def _symbols(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    host = facts.recording_host
    title = "Kernel symbols"
    if host.perf is None:
        return
    if not is_privileged(host) and (host.paranoid or 0) >= 2:
        yield _good(title, "Not needed: the kernel is not recorded.")
    elif host.kptr_restrict is None:
        yield _note(title, "Whether functions of the kernel have names there is not known.")
    elif host.kptr_restrict >= (2 if host.root else 1) and "cap_syslog" not in host.perf_capabilities:
        text = f"kptr_restrict is {host.kptr_restrict} on {host.host}: functions of the kernel have no names."
        yield _note(title, text, "As root: sysctl kernel.kptr_restrict=0")
    else:
        yield _good(title, "Functions of the kernel have names.")


def _counters(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    host = facts.recording_host
    title = "Hardware counters"
    if host.perf is None:
        return
    if host.hardware_counters:
        yield _good(title, f"Cycles and instructions can be counted on {host.host}.")
    elif host.hardware_counters is False:
        text = f"{host.host} has none, as most virtual machines: time is measured by cpu-clock in place of cycles."
        yield _note(title, text, "Choose software events (cpu-clock, page-faults …), or another machine.")
    else:
        yield _note(title, f"Whether {host.host} has any cannot be told: perf may not be used for a test.")


def _stacks(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    host = facts.recording_host
    if host.perf is None:
        return
    ways = ["frame pointers"]
    if "--call-graph dwarf" in host.options:
        ways.insert(0, "dwarf")
    if host.lbr and host.hardware_counters:
        ways.append("lbr")
    if "dwarf" in ways:
        yield _good("Call graphs", f"By {', '.join(ways)}.")
    else:
        text = f"perf on {host.host} is built without what unwinds dwarf stacks: by {', '.join(ways)} alone."
        yield _note("Call graphs", text, "Choose fp in jobs, or install a perf built with libdw or libunwind.")


def _mpi(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    title = "MPI"
    found = [facts.versions.get(name) or MPI_TITLES[MpiFlavor(name)] for name in facts.starters]
    shown = "; ".join(
        f"{text} ({program})" if program != text.split(" ")[0] else text
        for text, program in zip(found, facts.starters.values(), strict=True)
    )
    wanted = target.mpi
    if wanted is not None and wanted.value not in facts.versions:
        text = f"There is no {MPI_TITLES[wanted]} on {facts.host.host}" + (f"; there is {shown}." if found else ".")
        yield _bad(title, text, "Add the module that brings it to this target, or say how its starter is called.")
    elif found:
        yield _good(title, f"{shown}.")
    else:
        text = f"No mpirun, mpiexec or srun is found on {facts.host.host}."
        yield _note(title, text, "For jobs with several ranks, add the module that brings MPI to this target.")


def _pytorch(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    host = facts.recording_host
    title = "PyTorch"
    if host.torch:
        yield _good(title, f"Version {host.torch} of {host.python} on {host.host}.")
        return
    text = f"{host.python} on {host.host} has none." if host.python else f"No Python is found on {host.host}."
    advice = "To record PyTorch, name the interpreter of an environment that has it, or add its module to this target."
    yield _note(title, text, advice)


def _scheduler(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    title = "Batch system"
    name = SCHEDULER_TITLES[target.scheduler]
    if target.scheduler is SchedulerName.NONE:
        others = [SCHEDULER_TITLES[SchedulerName(each)] for each in facts.schedulers]
        if others:
            text = f"{' and '.join(others)} {'is' if len(others) == 1 else 'are'} there, and jobs are started without."
            advice = "On a login node choose it as the batch system of this target: programs do not belong there."
            yield _note(title, text, advice)
        return
    if facts.missing:
        text = f"{', '.join(facts.missing)} of {name} {'is' if len(facts.missing) == 1 else 'are'} not found on PATH."
        advice = "Add the module that brings them to this target, or its directory to PATH: log in there and see."
        yield _bad(title, text, advice)
        return
    if problem := facts.problems.get("scheduler"):
        yield _bad(title, _sentence(problem), "Log in there and see whether the batch system answers you.")
        return
    yield _good(title, f"{facts.scheduler_version or name} answers.")
    yield from _queues(facts)


def _queues(facts: TargetFacts) -> Iterator[CheckLine]:
    title = "Queues"
    names = [queue.name + (" (default)" if queue.default else "") for queue in facts.queues if queue.open]
    closed = [queue.name for queue in facts.queues if not queue.open]
    if not facts.queues:
        yield _note(title, "It lists no queue that you may see.", "Ask which one is for you, and name it in the job.")
        return
    text = abbreviate_names(names, _MAX_LISTED) if names else "None is open"
    if closed:
        text += f"; closed: {', '.join(closed[:_MAX_LISTED])}"
    if not names:
        yield _bad(title, f"{text}.", "Wait until one is opened: a job submitted now would wait, too.")
    else:
        yield _good(title, f"{text}.")


def _directory(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    title = "Directory"
    if problem := facts.problems.get("directory"):
        where = facts.directory or target.directory
        advice = "Choose a directory that you may write to, with some gigabytes of room."
        yield _bad(title, f"{where + ': ' if where else ''}{_sentence(problem)}", advice)
        return
    if not facts.directory:
        return
    text = f"{facts.directory}{_system(facts)}{_room(facts.free_bytes)}."
    if facts.free_bytes is not None and facts.free_bytes < MIN_FREE_BYTES:
        yield _note(title, text, "Make some room, or choose another directory: recordings are large.")
    elif facts.runs_programs is False:
        advice = "Programs that are copied there first need another directory; all others do not mind."
        yield _note(title, f"{text} Programs in it cannot be started (noexec).", advice)
    else:
        yield _good(title, text)


def _shared(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    title = "Shared directory"
    if target.scheduler is SchedulerName.NONE:
        return
    if facts.shared:
        yield _good(title, "Login node and compute node see the same directory.")
    elif facts.shared is False:
        advice = (
            "Choose a directory of this target that all of them see: often in your home, or below $SCRATCH or /lustre."
        )
        yield _bad(title, f"Compute nodes do not see {facts.directory}.", advice)
    elif SHARED_FILESYSTEMS.search(facts.file_system):
        yield _note(title, f"Probably: it is on {facts.file_system}.", "Run a probe job to be sure.")
    else:
        yield _note(title, "Whether compute nodes see it is not known.", "Run a probe job to find out.")


def _scratch(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    title = "Scratch"
    if not target.scratch:
        return
    if target.scheduler is not SchedulerName.NONE and facts.compute is None:
        yield _note(title, f"{target.scratch} is for the compute nodes.", "Run a probe job to see it there.")
    elif problem := facts.problems.get("scratch"):
        advice = "Ranks record into the job's directory in its place. Name a directory that each host has."
        yield _bad(title, f"{facts.scratch or target.scratch}: {_sentence(problem)}", advice)
    else:
        where = facts.scratch or target.scratch
        text = f"{where} on {facts.recording_host.host}{_room(facts.scratch_free_bytes)}."
        if facts.scratch_free_bytes is not None and facts.scratch_free_bytes < MIN_FREE_BYTES:
            yield _note(title, text, "Make some room there: recordings are large.")
        else:
            yield _good(title, text)


def _clock(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    title = "Clock"
    if target.ssh is None:
        return
    if facts.clock_ns is None:
        yield _note(title, "It cannot be compared with ours: date there knows no parts of a second.")
        return
    off, error = facts.clock_ns, facts.clock_error_ns or 0
    about = f"{_time(off)} {'ahead of' if off > 0 else 'behind'} ours, give or take {_time(error)}"
    if abs(off) <= error:
        about = f"The same as ours, give or take {_time(error)}"
    if abs(off) <= max(error, MAX_CLOCK_OFFSET_NS):
        yield _good(title, f"{about}.")
    else:
        yield _note(title, f"{about}. Times of results are put right by that.", "Switch on NTP there.")


def _sudo(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    if not target.sudo:
        return
    perf = facts.recording_host.perf or facts.host.perf or "/usr/bin/perf"
    if facts.sudo:
        yield _good("sudo", f"perf can be started with sudo on {facts.recording_host.host}, without a password.")
        return
    if facts.sudo is None:
        yield _note("sudo", "Not tried, as there is no perf.")
        return
    said = facts.problems.get("sudo", "").removeprefix("sudo: ")
    advice = f"With visudo: {facts.recording_host.user or 'USER'} ALL=(root) NOPASSWD: {perf} — or leave sudo out."
    yield _bad("sudo", f"perf cannot be started with sudo: {_sentence(said)}" if said else "sudo refuses perf.", advice)


def _packing(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    if not facts.packers:
        text = "Neither zstd nor gzip is there: what is recorded travels unpacked."
        yield _note("Compression", text, "Install zstd, if recordings take long to arrive.")
    else:
        yield _good("Compression", f"By {facts.packers[0]}.")


def _system(facts: TargetFacts) -> str:
    name = _SHARED.get(facts.file_system, facts.file_system)
    return f" on {name}" if name and not name.startswith("UNKNOWN") else ""


def _room(free_bytes: int | None) -> str:
    if free_bytes is None:
        return ""
    gigabytes = free_bytes / 1e9
    return f", {gigabytes:,.0f} GB free" if gigabytes >= 10 else f", {gigabytes:.1f} GB free"


def _time(ns: int) -> str:
    value = abs(ns)
    for unit, size in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if value >= size:
            return f"{value / size:,.1f} {unit}" if value < 100 * size else f"{value / size:,.0f} {unit}"
    return f"{value} ns"


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


_Look = Callable[[Target, TargetFacts], Iterator[CheckLine]]
_CHECKS: tuple[_Look, ...] = (
    *(_connection, _modules, _scheduler, _compute),
    *(_perf, _rights, _symbols, _counters, _stacks, _sudo),
    *(_mpi, _pytorch, _directory, _shared, _scratch, _packing, _clock),
)
