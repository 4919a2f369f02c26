"""The report of a check, line by line: each is good, a note, or a problem with advice."""

from collections.abc import Callable, Iterator

from ...domain.errors import HostKeyUnknown, PerfloomError, Refused, SecretNeeded, Unreachable
from ...domain.list_text import abbreviate_names
from ...domain.targets import CheckLine, CheckStatus, SchedulerName, Target, TargetFacts
from ...domain.units import NS_PER_S, format_bytes, format_duration
from ..mpi.registry import mpi_title
from ..recorders.events import is_privileged
from ..recorders.permissions import SHOW_KERNEL_SYMBOLS, paranoid_advice, setcap_command
from ..schedulers import scheduler_title
from .probe import SHARED_FILESYSTEMS

MIN_FREE_BYTES = 1 << 30
"""With less free space than this, the report has a note: a recording of some minutes with DWARF stacks fills it."""
MAX_CLOCK_OFFSET_NS = NS_PER_S
"""With a larger clock offset, the report has a note."""
_MAX_LISTED = 8
_INSTALL = "Install it: apt-get install linux-perf (Debian), linux-tools-generic (Ubuntu), perf (Fedora, Red Hat)."
_SHARED = {"ext2/ext3": "ext4", "UNKNOWN (0x7461636c)": "lustre"}


def check_lines(target: Target, facts: TargetFacts) -> tuple[CheckLine, ...]:
    """The lines of a successful check, the most important first."""
    return tuple(line for look in _CHECKS for line in look(target, facts))


def failure_lines(target: Target, error: PerfloomError) -> tuple[CheckLine, ...]:
    """The report of a failed connection: one line."""
    if isinstance(error, HostKeyUnknown):
        return (
            _bad(
                "Connection",
                f"{error.host} presented a host key that is not accepted yet: {error.fingerprint}.",
                "Compare it with the fingerprint from the host's administrator, then accept it.",
            ),
        )
    if isinstance(error, SecretNeeded):
        prompt_texts = "; ".join(prompt.text for prompt in error.prompts) or error.message
        return (_bad("Connection", error.message, f"Check again and enter: {prompt_texts}"),)
    advice = ""
    if isinstance(error, Unreachable) and not isinstance(error, Refused):
        advice = "Make sure that the host is up and its name and port are correct, then check again."
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
    yield _good(title, f"{host.host}, as {host.user or 'an unknown user'}: {what}.")
    if "probe" in facts.problems:
        text = "The probe ended early. Checks that are missing below were not made."
        yield _note("Probe", text, "Check again. If it happens again, look at the process limits there.")


def _modules(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    if not target.modules:
        return
    names = ", ".join(target.modules)
    if problem := facts.problems.get("modules"):
        advice = "Run “module avail” there, and correct the modules of this target."
        yield _bad("Modules", f"{names} cannot be loaded: {_sentence(problem)}", advice)
    else:
        yield _good("Modules", f"{names} can be loaded.")


def _compute(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    """Whether jobs run on other hosts than those where they are submitted."""
    if target.scheduler is SchedulerName.NONE:
        return
    if problem := facts.problems.get("compute"):
        yield _bad("Compute node", _sentence(problem), "Choose another queue for the probe job, or try again later.")
    elif facts.compute is None:
        text = f"No compute node was checked yet. The lines on perf are about {facts.host.host}."
        yield _note("Compute node", text, "Run a probe job. It checks a node through the batch system.")
    else:
        node = facts.compute
        yield _good("Compute node", f"{node.host}: {node.cpus} CPUs, {node.cpu}. The lines on perf are about it.")


def _perf(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    host = facts.recording_host
    if host.perf is None:
        named = f" under the name {target.perf}" if target.perf else ""
        text = host.perf_problem or f"perf was not found on {host.host}{named}."
        yield _bad("perf", _sentence(text), f"{_INSTALL} Or load its module, or set its path in this target.")
        return
    text = f"Version {host.perf_version or 'unknown'} at {host.perf} on {host.host}."
    if "-z" in host.options:
        yield _good("perf", text)
    else:
        yield _note("perf", f"{text} It cannot compress recordings.", "dwarf stacks need much space: record briefly.")


def _rights(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    host = facts.recording_host
    title = "Permissions"
    if host.perf is None:
        return
    sudo = target.sudo and facts.sudo
    if is_privileged(host):
        yield _good(title, f"perf may record everything on {host.host}, including the kernel.")
        return
    level = host.paranoid
    now = f"perf_event_paranoid is {level} on {host.host}"
    if level is None:
        yield _note(title, "The permissions of perf are unknown: /proc/sys/kernel/perf_event_paranoid does not exist.")
    elif level >= 3 and sudo:
        yield _note(title, f"{now}: only root may use perf.", "Choose sudo in the job.")
    elif level >= 3:
        yield _bad(title, f"{now}: only root may use perf.", paranoid_advice(2, host.perf))
    elif level == 2:
        advice = f"To record the kernel, as root: sysctl kernel.perf_event_paranoid=1 — or: {setcap_command(host.perf)}"
        yield _note(title, f"{now}: your processes, in user space only.", advice)
    elif level == 1:
        yield _good(title, f"{now}: your processes, in user space and kernel.")
    else:
        yield _good(title, f"{now}: your processes, the kernel, and whole CPUs.")


def _symbols(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    host = facts.recording_host
    title = "Kernel symbols"
    if host.perf is None:
        return
    if not is_privileged(host) and (host.paranoid or 0) >= 2:
        yield _good(title, "Not needed, as the kernel is not recorded.")
    elif host.kptr_restrict is None:
        yield _note(title, "It is unknown whether kernel functions have names there.")
    elif host.kptr_restrict >= (2 if host.root else 1) and "cap_syslog" not in host.perf_capabilities:
        text = f"kptr_restrict is {host.kptr_restrict} on {host.host}: kernel functions have no names."
        yield _note(title, text, SHOW_KERNEL_SYMBOLS)
    else:
        yield _good(title, "Kernel functions have names.")


def _counters(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    host = facts.recording_host
    title = "Hardware counters"
    if host.perf is None:
        return
    if host.hardware_counters:
        yield _good(title, f"Cycles and instructions can be counted on {host.host}.")
    elif host.hardware_counters is False:
        text = f"{host.host} has none, like most virtual machines. perf uses cpu-clock instead of cycles."
        yield _note(title, text, "Choose software events (cpu-clock, page-faults …), or another machine.")
    else:
        yield _note(title, f"It is unknown whether {host.host} has any, as perf may not be used.")


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
        yield _good("Call graphs", f"With {', '.join(ways)}.")
    else:
        text = f"perf on {host.host} is built without an unwinder for dwarf: only {', '.join(ways)}."
        yield _note("Call graphs", text, "Choose fp in jobs, or install a perf with libdw or libunwind.")


def _mpi(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    title = "MPI"
    found = [facts.versions.get(name) or mpi_title(name, short=True) for name in facts.mpi_launchers]
    shown = "; ".join(
        f"{text} ({program})" if program != text.split(" ")[0] else text
        for text, program in zip(found, facts.mpi_launchers.values(), strict=True)
    )
    mpi = target.mpi
    if mpi is not None and mpi.value not in facts.versions:
        text = f"{mpi_title(mpi, short=True)} was not found on {facts.host.host}" + (
            f", only {shown}." if found else "."
        )
        yield _bad(title, text, "Add its module to this target, or set the name of its launcher.")
    elif found:
        yield _good(title, f"{shown}.")
    else:
        text = f"mpirun, mpiexec and srun were not found on {facts.host.host}."
        yield _note(title, text, "For jobs with several ranks, add the module of an MPI implementation to this target.")


def _pytorch(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    host = facts.recording_host
    title = "PyTorch"
    if host.torch:
        yield _good(title, f"Version {host.torch} of {host.python} on {host.host}.")
        return
    text = f"{host.python} on {host.host} has no PyTorch." if host.python else f"Python was not found on {host.host}."
    advice = "To record PyTorch, start the interpreter of an environment that has it, or add its module to this target."
    yield _note(title, text, advice)


def _scheduler(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    title = "Batch system"
    name = scheduler_title(target.scheduler)
    if target.scheduler is SchedulerName.NONE:
        titles = [scheduler_title(scheduler) for scheduler in facts.schedulers]
        if titles:
            verb = "is" if len(titles) == 1 else "are"
            text = f"{' and '.join(titles)} {verb} installed, but not used by this target."
            advice = "If this is a login node, choose it as the batch system: programs should not run there."
            yield _note(title, text, advice)
        return
    if facts.missing:
        text = f"{', '.join(facts.missing)} of {name} {'is' if len(facts.missing) == 1 else 'are'} not found on PATH."
        advice = "Add their module to this target, or their directory to PATH."
        yield _bad(title, text, advice)
        return
    if problem := facts.problems.get("scheduler"):
        yield _bad(title, _sentence(problem), "Log in there, and check that the batch system responds.")
        return
    yield _good(title, f"{facts.scheduler_version or name} responds.")
    yield from _queues(facts)


def _queues(facts: TargetFacts) -> Iterator[CheckLine]:
    title = "Queues"
    names = [queue.name + (" (default)" if queue.default else "") for queue in facts.queues if queue.open]
    closed = [queue.name for queue in facts.queues if not queue.open]
    if not facts.queues:
        yield _note(title, "No queue is visible to you.", "Ask for the name of your queue, and enter it in the job.")
        return
    text = abbreviate_names(names, _MAX_LISTED) if names else "No queue is open"
    if closed:
        text += f"; closed: {', '.join(closed[:_MAX_LISTED])}"
    if not names:
        yield _bad(title, f"{text}.", "Wait until one is open. A job that is submitted now would also wait.")
    else:
        yield _good(title, f"{text}.")


def _directory(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    title = "Directory"
    if problem := facts.problems.get("directory"):
        where = facts.directory or target.directory
        advice = "Choose a writable directory with several gigabytes of free space."
        yield _bad(title, f"{where + ': ' if where else ''}{_sentence(problem)}", advice)
        return
    if not facts.directory:
        return
    text = f"{facts.directory}{_system(facts)}{_room(facts.free_bytes)}."
    if facts.free_bytes is not None and facts.free_bytes < MIN_FREE_BYTES:
        yield _note(title, text, "Delete files there, or choose another directory: recordings are large.")
    elif facts.runs_programs is False:
        advice = "Input files that are programs need another directory. Other jobs are not affected."
        yield _note(title, f"{text} Programs in it cannot be started (noexec).", advice)
    else:
        yield _good(title, text)


def _check_shared_directory(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    title = "Shared directory"
    if target.scheduler is SchedulerName.NONE:
        return
    if facts.shared:
        yield _good(title, "Login node and compute node share the directory.")
    elif facts.shared is False:
        advice = "Choose a directory that they share: often in your home directory, or below $SCRATCH or /lustre."
        yield _bad(title, f"Compute nodes cannot access {facts.directory}.", advice)
    elif SHARED_FILESYSTEMS.search(facts.file_system):
        yield _note(title, f"Probably shared: it is on {facts.file_system}.", "Run a probe job to be sure.")
    else:
        yield _note(title, "It is unknown whether compute nodes can access it.", "Run a probe job to find out.")


def _scratch(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    title = "Scratch"
    if not target.scratch:
        return
    if target.scheduler is not SchedulerName.NONE and facts.compute is None:
        yield _note(title, f"{target.scratch} is only used on compute nodes.", "Run a probe job to check it there.")
    elif problem := facts.problems.get("scratch"):
        advice = "Ranks record to the job's directory instead. Choose a directory that exists on each host."
        yield _bad(title, f"{facts.scratch or target.scratch}: {_sentence(problem)}", advice)
    else:
        where = facts.scratch or target.scratch
        text = f"{where} on {facts.recording_host.host}{_room(facts.scratch_free_bytes)}."
        if facts.scratch_free_bytes is not None and facts.scratch_free_bytes < MIN_FREE_BYTES:
            yield _note(title, text, "Delete files there: recordings are large.")
        else:
            yield _good(title, text)


def _clock(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    title = "Clock"
    if target.ssh is None:
        return
    if facts.clock_ns is None:
        yield _note(title, "It cannot be compared with the clock here: date prints no fractions of a second.")
        return
    off, error = facts.clock_ns, facts.clock_error_ns or 0
    about = (
        f"{format_duration(abs(off))} {'ahead of' if off > 0 else 'behind'} the clock here, ± {format_duration(error)}"
    )
    if abs(off) <= error:
        about = f"The same as the clock here, ± {format_duration(error)}"
    if abs(off) <= max(error, MAX_CLOCK_OFFSET_NS):
        yield _good(title, f"{about}.")
    else:
        yield _note(title, f"{about}. Perfloom corrects times of results for it.", "Enable NTP there.")


def _sudo(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    if not target.sudo:
        return
    perf = facts.recording_host.perf or facts.host.perf or "/usr/bin/perf"
    if facts.sudo:
        yield _good("sudo", f"sudo can start perf on {facts.recording_host.host}, without a password.")
        return
    if facts.sudo is None:
        yield _note("sudo", "Not checked, as perf was not found.")
        return
    problem = facts.problems.get("sudo", "").removeprefix("sudo: ")
    advice = f"With visudo: {facts.recording_host.user or 'USER'} ALL=(root) NOPASSWD: {perf} — or do not use sudo."
    yield _bad("sudo", f"sudo cannot start perf: {_sentence(problem)}" if problem else "sudo refuses perf.", advice)


def _packing(target: Target, facts: TargetFacts) -> Iterator[CheckLine]:
    if not facts.packers:
        text = "zstd and gzip were not found. Recordings are copied uncompressed."
        yield _note("Compression", text, "Install zstd if copying recordings is slow.")
    else:
        yield _good("Compression", f"With {facts.packers[0]}.")


def _system(facts: TargetFacts) -> str:
    name = _SHARED.get(facts.file_system, facts.file_system)
    return f" on {name}" if name and not name.startswith("UNKNOWN") else ""


def _room(free_bytes: int | None) -> str:
    if free_bytes is None:
        return ""
    return f", {format_bytes(free_bytes)} free"


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


_Look = Callable[[Target, TargetFacts], Iterator[CheckLine]]
_CHECKS: tuple[_Look, ...] = (
    *(_connection, _modules, _scheduler, _compute),
    *(_perf, _rights, _symbols, _counters, _stacks, _sudo),
    *(_mpi, _pytorch, _directory, _check_shared_directory, _scratch, _packing, _clock),
)
