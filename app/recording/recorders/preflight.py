"""Preflight: problems of a job on a host, with advice, before it is queued.

Pure: checks a JobSpec with the facts of a host. `perfloom.workers.local.checks` makes the checks that need the host
itself (does a directory exist?) and returns the same findings.
"""

from collections.abc import Callable, Iterator
from pathlib import PurePath

from ...domain.event_names import (
    CYCLE_EVENTS,
    SOFTWARE_EVENTS,
    get_term,
    is_kernel_event,
    is_unobservable,
    split_modifiers,
    strip_modifiers,
)
from ...domain.host_facts import HostFacts
from ...domain.jobs import CallGraph, JobSpec, Scope
from ...domain.jobs.parts import DEFAULT_STACK_BYTES
from ...domain.units import format_bytes
from . import recorder_of
from .branch_stacks import find_branch_stack_problems
from .event_grammar import STACK_LIMIT, find_event_problem, find_group_problem, parse_number
from .event_grouping import needs_counter
from .events import event_type, is_privileged, is_user_space_only, needs_event_fields, single_events, timed_events
from .findings import PreflightFinding, Severity, error, hint, warning
from .languages import find_language_problems, interpreter_of
from .off_cpu import find_off_cpu_problems
from .perf_record import countable_events
from .permissions import SHOW_KERNEL_SYMBOLS, paranoid_advice, setcap_command

REPEAT_LIMIT = 100
INTERPRETERS = ("python", "torchrun", "perl", "ruby", "node", "bash", "sh")
"""Prefixes of the names of interpreters, whose first argument is a script."""


BURSTY_EVENTS = frozenset(
    (
        "alignment-faults",
        "context-switches",
        "cpu-migrations",
        "cs",
        "emulation-faults",
        "faults",
        "major-faults",
        "migrations",
        "minor-faults",
        "page-faults",
    )
)
"""Events that occur in bursts. perf estimates their period from the last few, and weights each sample by the
estimate."""

DEFAULT_MAX_STACK = 127
"""The default of kernel.perf_event_max_stack."""

KERNEL_UNITS = frozenset({"software", "tracepoint", "breakpoint", "kprobe", "uprobe"})
"""PMUs of the kernel itself: perf accepts their terms, and does not list their events."""

_RUNTIME = frozenset({"sched:*", "sched:sched_stat_runtime", "sched:sched_stat_*"})
"""Events that measure the run time of threads, unless whole CPUs are recorded."""


def preflight(spec: JobSpec, facts: HostFacts | None) -> list[PreflightFinding]:
    """All findings about `spec` before it is queued, errors first, then in the order of the form.

    facts None: no worker has published facts of its host yet, so only the spec is checked.
    """
    description = list(_description(spec))
    if facts is not None and recorder_of(spec).uses_perf:
        for look in _CHECKS:
            description += look(spec, facts)
    order = list(Severity)
    return sorted(description, key=lambda finding: order.index(finding.level))


def _description(spec: JobSpec) -> Iterator[PreflightFinding]:
    """Findings that apply to any host."""
    if spec.scope is Scope.COMMAND and not (spec.command and spec.command[0]):
        yield error("command", "No command to record.", "Enter the program to start, with its arguments.")
    if any("\0" in word for word in spec.command):
        yield error(
            "command", "The command contains a zero byte.", "A zero byte cannot be passed to a program. Remove it."
        )
    yield from _script(spec)
    for name in spec.environment:
        if not name or "=" in name or "\0" in name + spec.environment[name]:
            yield error("environment", f"{name!r} is not a valid variable name.", "Write one NAME=value per line.")
    if spec.scope is Scope.PROCESS and not (spec.pids and all(pid > 0 for pid in spec.pids)):
        yield error("pid", "No process to attach to.", "Enter the PID of a running process.")
    if spec.scope is not Scope.COMMAND and not spec.duration_s and not (spec.scope is Scope.SYSTEM and spec.command):
        until = "the process ends or " if spec.scope is Scope.PROCESS else ""
        yield hint(
            "duration_s", f"The recording has no end until {until}you press Cancel.", "Set a duration to end it."
        )
    if spec.scope is Scope.PROCESS and spec.command:
        yield warning("command", "The command is ignored, as a running process is recorded.", "Remove the command.")
    if spec.duration_s is not None and not 0 < spec.duration_s < float("inf"):
        yield error("duration_s", "The duration must be above 0.", "Enter seconds, or leave it empty.")
    if recorder_of(spec).uses_perf:
        yield from _attributes(spec)
    if recorder_of(spec).only_command and spec.scope is not Scope.COMMAND:
        yield error("scope", f"{recorder_of(spec).label} only records a command.", "Choose a command.")
    if recorder_of(spec).samples:
        yield from _sampling(spec)
        yield from find_language_problems(spec)
    if recorder_of(spec).counts:
        yield from _counting(spec)
    yield from recorder_of(spec).find_problems(spec)


def _script(spec: JobSpec) -> Iterator[PreflightFinding]:
    """A script by its bare name, if the command runs in the job's directory."""
    if spec.cwd is not None or spec.scope is Scope.PROCESS or len(spec.command) < 2:
        return
    program, script = PurePath(spec.command[0]).name, PurePath(spec.command[1])
    bare = bool(script.suffix) and not script.is_absolute() and not spec.command[1].startswith("-")
    if bare and program.startswith(INTERPRETERS) and str(script) not in {PurePath(path).name for path in spec.inputs}:
        text = f"{script} is searched in the job’s directory, which does not contain it."
        yield warning("command", text, "Enter its absolute path or the working directory, or add it as an input file.")


def _sampling(spec: JobSpec) -> Iterator[PreflightFinding]:
    if spec.frequency is not None and spec.period is not None:
        yield error("frequency", "Frequency and period are mutually exclusive.", "Leave one of them empty.")
    for field, value in (("frequency", spec.frequency), ("period", spec.period)):
        if value is not None and value <= 0:
            yield error(field, f"A {field} of {value} records nothing.", "Use a number above 0, or leave it empty.")
    names = {event.partition("/")[0] for event in selected_events(spec)}
    some = spec.scope is not Scope.SYSTEM and not spec.off_cpu
    if some and "sched:sched_switch" in names and not names & _RUNTIME:
        text = "For one program, sched_switch shows when a thread left a CPU, not when it returned."
        yield hint("events", text, "Choose “Time off the CPU”, or record the whole system.")
    if spec.call_graph is CallGraph.DWARF:
        size = spec.stack_bytes
        if size <= 0 or size > STACK_LIMIT:
            advice = f"Use at most {STACK_LIMIT}; {DEFAULT_STACK_BYTES} is typical."
            yield error("stack_bytes", f"perf cannot copy stacks of {size} bytes.", advice)
        rate = spec.frequency or 0
        if rate * size > 16 * 1024 * 1024:
            text = f"{rate} stacks of {size} bytes are up to {format_bytes(rate * size)} per second and busy CPU."
            yield hint("frequency", text, "Lower the frequency or the stack size.")
    interpreter = interpreter_of(spec)
    if spec.call_graph is CallGraph.FP and not (interpreter and interpreter.frame_pointers):
        text = (
            "Frame pointers give broken stacks in programs that are built without them, such as Python, the C library "
            "and most programs of distributions."
        )
        yield hint("call_graph", text, "Build with -fno-omit-frame-pointer, or choose dwarf.")


def _attributes(spec: JobSpec) -> Iterator[PreflightFinding]:
    """Modifiers and terms of events that perf does not support on any host."""
    for typed_event in spec.events:
        if fault := find_group_problem(typed_event):
            yield error("events", *fault)
    for event in selected_events(spec):
        if fault := find_event_problem(event, recorder_of(spec).counts):
            yield error("events", *fault)
            continue
        if is_unobservable(event):
            # For tracepoints, perf stat does not print that only user space was counted: their 0 would look like a
            # count.
            level = Severity.WARNING if strip_modifiers(event) in SOFTWARE_EVENTS else Severity.ERROR
            text = f"{event} is never recorded: it occurs in the kernel, but u selects user space only."
            yield PreflightFinding(level, "events", text, "Remove the u.")
        if parse_number(get_term(event, "max-stack") or "") > DEFAULT_MAX_STACK:
            text = f"{event} is rejected unless kernel.perf_event_max_stack was raised from {DEFAULT_MAX_STACK}."
            yield warning("events", text, f"Use at most {DEFAULT_MAX_STACK}.")


def _counting(spec: JobSpec) -> Iterator[PreflightFinding]:
    if spec.interval_ms is not None and spec.interval_ms < 1:
        yield error("interval_ms", "perf cannot print that often.", "Use 1 ms or more, or leave it empty.")
    elif spec.interval_ms is not None and spec.interval_ms < 100:
        text = "An interval below 100 ms slows the recorded program noticeably."
        yield hint("interval_ms", text, "Use 100 ms or more if that is enough.")
    if spec.repeat is not None and not 1 <= spec.repeat <= REPEAT_LIMIT:
        yield error("repeat", f"perf repeats 1 to {REPEAT_LIMIT} times.", f"Use at most {REPEAT_LIMIT}.")
    if spec.repeat is not None and spec.repeat > 1 and not spec.command:
        yield error("repeat", "No command to repeat.", "Enter a command, or leave the repeats empty.")
    if spec.per_cpu and spec.scope is not Scope.SYSTEM:
        text = "Counts per CPU are only available for the whole system."
        yield warning("per_cpu", text, "Choose the whole system, or turn it off.")


def _perf(spec: JobSpec, facts: HostFacts) -> Iterator[PreflightFinding]:
    if facts.perf is None:
        advice = "Install it: apt-get install linux-perf (Debian), linux-tools-generic (Ubuntu), perf (Fedora)."
        yield error("recorder", facts.perf_problem or f"perf was not found on {facts.host}.", advice)


def _rights(spec: JobSpec, facts: HostFacts) -> Iterator[PreflightFinding]:
    level = facts.paranoid
    if level is None or is_privileged(facts):
        return
    now = f"perf_event_paranoid is {level} on {facts.host}"
    if level >= 3:
        yield error("recorder", f"{now}: only root may use perf.", paranoid_advice(2, facts.perf))
        return
    if spec.scope is Scope.SYSTEM and level > 0:
        yield error("scope", f"{now}: the whole system cannot be recorded.", paranoid_advice(0, facts.perf))
    if spec.per_cpu and spec.scope is not Scope.SYSTEM and recorder_of(spec).counts and level > 0:
        yield error("per_cpu", f"{now}: counts per CPU are not available.", paranoid_advice(0, facts.perf))
    events = selected_events(spec)
    kernel = [event for event in events if set(split_modifiers(event)[1]) & {"k", "h"}]
    if kernel and level >= 2:
        yield error(
            "events",
            f"{now}: {kernel[0]} selects the kernel, which cannot be recorded.",
            paranoid_advice(1, facts.perf),
        )
    traced = [event for event in events if event_type(event, facts) == "tracepoint"]
    if traced and level > -1:
        yield error("events", f"{now}: tracepoints such as {traced[0]} need root.", paranoid_advice(-1, facts.perf))
    if spec.scope is Scope.PROCESS:
        text = f"Only processes of {facts.user or 'the same user'} can be recorded."
        yield hint(
            "pid",
            text,
            "Choose one of them, or grant perf the permission: " + setcap_command(facts.perf),
        )
    hidden = [
        event for event in events if is_kernel_event(event) and not is_unobservable(event) and event not in traced
    ]
    if hidden and level >= 2 and not kernel:
        text = f"{now}: {hidden[0]} is not recorded, as it occurs in the kernel."
        yield warning("events", text, paranoid_advice(1, facts.perf))
    elif level == 2 and not kernel:
        text = f"{now}: what the program does in the kernel is not recorded."
        yield hint("events", text, paranoid_advice(1, facts.perf))


def _events(spec: JobSpec, facts: HostFacts) -> Iterator[PreflightFinding]:
    if facts.perf is None:
        return
    names = {event.name for event in facts.events}
    units = {name.partition("/")[0] for name in names if "/" in name} | KERNEL_UNITS
    for event in selected_events(spec):
        name = strip_modifiers(event)
        group = event_type(event, facts)
        if group in ("hardware", "cache", "raw") and "/" in name and not needs_counter(name, facts):
            # Another PMU than the CPU, with its own counters.
            if names and name.partition("/")[0] not in units:
                text = f"perf list on {facts.host} offers nothing of {name.partition('/')[0]}."
                yield warning("events", text, "Check the spelling. perf rejects unknown events.")
        elif group in ("hardware", "cache", "raw") and facts.hardware_counters is False and name not in names:
            if recorder_of(spec).samples and name in CYCLE_EVENTS:
                text = f"{facts.host} has no hardware counters: perf records cpu-clock instead of {event}."
                yield warning("events", text, "Choose cpu-clock, so that the result names the event correctly.")
            else:
                where = "as in most virtual machines"
                text = f"{event} cannot be measured: {facts.host} has no hardware counters, {where}."
                level = Severity.ERROR if recorder_of(spec).samples else Severity.WARNING
                yield PreflightFinding(level, "events", text, "Choose software events (cpu-clock, page-faults …).")
        elif group == "hardware" and names and name not in names:
            text = f"perf list on {facts.host} does not offer {event}."
            yield error("events", text, "This CPU does not support it. Choose another event from the list.")
        elif group in ("cache", "tracepoint", None) and names and not {name, event} & names and not _pattern(name):
            text = f"perf list on {facts.host} does not offer {event}."
            yield warning("events", text, "Check the spelling. perf rejects unknown events.")


def selected_events(spec: JobSpec) -> list[str]:
    """Each single event of a job, as typed."""
    return [part for event in spec.events for part in single_events(event)]


def _pattern(name: str) -> bool:
    return "*" in name or "?" in name or "{" in name


def samples_by_frequency(event: str, spec: JobSpec) -> bool:
    """Whether an event is sampled by frequency. Its own terms take precedence over the job's settings."""
    return get_term(event, "freq") is not None or (get_term(event, "period") is None and spec.period is None)


def _frequency(spec: JobSpec, facts: HostFacts) -> Iterator[PreflightFinding]:
    if not recorder_of(spec).samples:
        return
    rare = [
        event
        for event in selected_events(spec)
        if strip_modifiers(event) in BURSTY_EVENTS and samples_by_frequency(event, spec)
    ]
    if rare:
        text = f"With a frequency, samples of an event as uneven as {rare[0]} give no total. Only counts are shown."
        yield hint("frequency", text, "Use a period, for example 100, or count it with perf stat.")
    if facts.max_frequency is None:
        return
    most = f"{facts.host} samples at most {facts.max_frequency} times per second"
    advice = f"Use {facts.max_frequency} or less, or raise kernel.perf_event_max_sample_rate as root."
    for event in selected_events(spec):
        if parse_number(get_term(event, "freq") or "") > facts.max_frequency:
            # The kernel rejects a frequency in the event that is too high; perf only lowers that of -F.
            yield error("events", f"{most}: {event} is rejected.", advice)
    if (spec.frequency or 0) > facts.max_frequency:
        yield warning("frequency", f"{most}; perf lowers the frequency of {spec.frequency}.", advice)


def _check_counts(spec: JobSpec, facts: HostFacts) -> Iterator[PreflightFinding]:
    """Finding for events that are sampled and counted in separate runs."""
    events = countable_events(spec, facts) if recorder_of(spec).samples else ()
    if events and spec.sudo:
        text = f"With sudo, events are not also counted: {events[0]} has no total."
        yield hint("sudo", text, "Count it in a job with perf stat.")
        return
    rare = [event for event in events if event_type(event, facts) != "tracepoint"]
    if rare and spec.off_cpu:
        text = f"While the time off the CPU is recorded, events are not also counted: {rare[0]} has no total."
        yield hint("off_cpu", text, "Count it in a separate job.")
    elif rare and needs_event_fields(spec.events, spec.call_graph is not CallGraph.NONE):
        text = f"With tracepoints of the scheduler or locks, events are not also counted: {rare[0]} has no total."
        yield hint("events", text, "Count it in a separate job.")


def _stacks(spec: JobSpec, facts: HostFacts) -> Iterator[PreflightFinding]:
    if not recorder_of(spec).samples or facts.perf is None:
        return
    events = [event for event in selected_events(spec) if get_term(event, "call-graph") == "lbr"]
    if events and (facts.lbr is False or facts.hardware_counters is False):
        text = f"The CPU of {facts.host} does not record call stacks in hardware (LBR), as {events[0]} requires."
        yield error("events", text, "Write call-graph=dwarf, which works everywhere.")
    yield from find_branch_stack_problems(spec, facts)
    if spec.call_graph is CallGraph.LBR:
        hardware = [e for event in timed_events(spec, facts) for e in single_events(event)]
        if facts.lbr is False or facts.hardware_counters is False:
            text = f"The CPU of {facts.host} does not record call stacks in hardware (LBR)."
            yield error("call_graph", text, "Choose dwarf, which works everywhere.")
        elif not all(event_type(event, facts) in ("hardware", "cache", "raw") for event in hardware):
            text = "LBR works only with hardware events."
            yield error("call_graph", text, "Choose hardware events such as cycles, or dwarf.")
    if spec.call_graph is CallGraph.DWARF and facts.options and "--call-graph dwarf" not in facts.options:
        text = f"perf on {facts.host} is built without an unwinder for dwarf."
        yield error("call_graph", text, "Choose fp, or install a perf with libdw or libunwind.")
    if spec.call_graph is CallGraph.DWARF and facts.options and "-z" not in facts.options:
        text = f"perf on {facts.host} cannot compress: each sample takes {spec.stack_bytes} bytes on disk."
        yield hint("call_graph", text, "Record briefly, or lower the frequency.")


def _off_cpu(spec: JobSpec, facts: HostFacts) -> Iterator[PreflightFinding]:
    return find_off_cpu_problems(spec, facts) if recorder_of(spec).samples else iter(())


def _names(spec: JobSpec, facts: HostFacts) -> Iterator[PreflightFinding]:
    """Without access to /proc/kallsyms, kernel symbols are shown as addresses."""
    hidden = (facts.kptr_restrict or 0) >= (2 if facts.root else 1)
    if not hidden or is_user_space_only(facts) or "cap_syslog" in facts.perf_capabilities:
        return
    if recorder_of(spec).samples and facts.perf is not None:
        text = f"kptr_restrict is {facts.kptr_restrict} on {facts.host}: kernel functions have no names."
        yield hint("events", text, SHOW_KERNEL_SYMBOLS)


_CHECKS: tuple[Callable[[JobSpec, HostFacts], Iterator[PreflightFinding]], ...] = (
    _perf,
    _rights,
    _events,
    _frequency,
    _check_counts,
    _stacks,
    _off_cpu,
    _names,
)


__all__ = ["PreflightFinding", "Severity", "preflight"]
