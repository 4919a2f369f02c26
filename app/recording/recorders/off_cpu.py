"""Time off the CPU: what perf record observes of context switches, depending on what the host permits.

The kernel's context-switch records (`--switch-events`) need no permission for a user's own processes. The call stack at
which a thread left comes from context-switches, which occurs in the kernel (perf_event_paranoid of 1 or less). The
scheduler's tracepoints also tell the state in which it left, and its waker; they need root. See perf_event_open(2),
`context_switch`, and perf_trace_event_perm in kernel/trace/trace_event_perf.c.
"""

from collections.abc import Iterator

from ...domain.event_names import CACHE_EVENT, HARDWARE_EVENTS, SOFTWARE_EVENTS, split_modifiers, strip_modifiers
from ...domain.host_facts import HostFacts
from ...domain.jobs import CallGraph, JobSpec, Scope
from ...domain.jobs.parts import DEFAULT_HZ
from ...domain.units import format_bytes
from .events import is_privileged, is_user_space_only, single_events, timed_events
from .findings import PreflightFinding, error, hint, warning
from .permissions import paranoid_advice

TRACEPOINTS = ("sched:sched_switch", "sched:sched_waking")
SWITCHES = frozenset({"context-switches", "cs"})
EVERY_SWITCH = "context-switches/period=1/"


def traces_switches(spec: JobSpec, facts: HostFacts) -> bool:
    """Whether the scheduler's tracepoints are recorded: they are permitted, every other event can have its own rate
    (each switch is one sample), and there are call stacks, without which perf prints no fields among other samples."""
    listed = {event.name for event in facts.events}
    permitted = is_privileged(facts) or (facts.paranoid is not None and facts.paranoid < 0)
    return (
        spec.off_cpu
        and permitted
        and spec.call_graph is not CallGraph.NONE
        and listed.issuperset(TRACEPOINTS)
        and all(_has_terms(event) for event in timed_events(spec, facts))
    )


def _has_terms(event: str) -> bool:
    """Whether a rate can be written into an event."""
    name = strip_modifiers(event)
    return name in HARDWARE_EVENTS or name in SOFTWARE_EVENTS or CACHE_EVENT.fullmatch(name) is not None


def events_of_switches(spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
    """The events recorded in addition to those of the job; empty if it does not record time off the CPU, or only the
    records are permitted."""
    if not spec.off_cpu:
        return ()
    if traces_switches(spec, facts):
        return TRACEPOINTS
    if _lacks_stacks(spec, facts) or _selects_switches(spec):
        return ()
    return (EVERY_SWITCH,)


def _lacks_stacks(spec: JobSpec, facts: HostFacts) -> bool:
    return is_user_space_only(facts) and not spec.sudo


def _selects_switches(spec: JobSpec) -> bool:
    names = [strip_modifiers(part) for event in spec.events for part in single_events(event)]
    return not SWITCHES.isdisjoint(names)


def options_of_switches(spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
    """The options of perf record: all switches of the threads, with their CPUs. The tracepoints of whole CPUs have the
    same switches."""
    if not spec.off_cpu:
        return ()
    every = spec.scope is Scope.SYSTEM and traces_switches(spec, facts)
    return ("--sample-cpu",) if every else ("--sample-cpu", "--switch-events")


def with_own_rate(event: str, spec: JobSpec) -> str:
    """An event with the job's rate as a term, because the rate of the command line is for tracepoints."""
    name, modifiers = split_modifiers(event)
    if "/" in event:
        return event
    if name in SWITCHES:
        return f"{name}/period=1/{modifiers}"
    term = f"period={spec.period}" if spec.period is not None else f"freq={spec.frequency or DEFAULT_HZ}"
    return f"{name}/{term}/{modifiers}"


def find_off_cpu_problems(spec: JobSpec, facts: HostFacts) -> Iterator[PreflightFinding]:
    """Which part of the time off the CPU this host permits to record."""
    if not spec.off_cpu or (facts.paranoid is not None and facts.paranoid >= 3 and not is_privileged(facts)):
        return
    if spec.call_graph is CallGraph.LBR and events_of_switches(spec, facts):
        text = "LBR works only with hardware events, and a context switch is none."
        yield error("call_graph", text, "Choose dwarf or fp to record the time off the CPU.")
    if _lacks_stacks(spec, facts):
        text = (
            f"perf_event_paranoid is {facts.paranoid} on {facts.host}: how long threads were off the CPU is recorded, "
            "but not where they left."
        )
        yield warning("off_cpu", text, paranoid_advice(1, facts.perf))
    elif not traces_switches(spec, facts):
        text = "Without tracepoints of the scheduler, wakers and the kind of sleep are not recorded."
        yield hint("off_cpu", text, "As root, perf also records sched:sched_switch and sched:sched_waking.")
    if spec.call_graph is CallGraph.DWARF and not _lacks_stacks(spec, facts):
        text = f"Each context switch copies {format_bytes(spec.stack_bytes)} of stack."
        yield hint("off_cpu", text, "If threads switch more than a few thousand times per second, choose fp.")
