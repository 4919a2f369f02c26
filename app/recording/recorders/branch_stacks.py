"""Branch stacks: what perf record -b needs of a job and of a host."""

from collections.abc import Iterator

from ...domain.host_facts import HostFacts
from ...domain.jobs import CallGraph, JobSpec
from .events import event_type, single_events, timed_events
from .findings import PreflightFinding, error, warning
from .off_cpu import events_of_switches

OPTIONS = ("-b", "--branch-any", "-j", "--branch-filter")
"""The options of perf record that record branch stacks."""
_OTHER_TYPES = ("software", "tracepoint", "breakpoint")


def records_branch_stacks(spec: JobSpec) -> bool:
    """Whether a job records branch stacks, by its field or by further arguments of perf."""
    return spec.branch_stacks or any(word.partition("=")[0] in OPTIONS for word in spec.perf_arguments)


def find_branch_stack_problems(spec: JobSpec, facts: HostFacts) -> Iterator[PreflightFinding]:
    """Whether this host can record the branch stacks that a job asks for."""
    if not spec.branch_stacks:
        return
    if facts.hardware_counters is False:
        text = f"{facts.host} has no hardware counters, as most virtual machines: it cannot record branch stacks (LBR)."
        yield error("branch_stacks", text, "Record on a host with hardware counters, or turn it off.")
        return
    if facts.lbr is False and "Intel" in facts.cpu:
        text = f"The kernel of {facts.host} offers no branch records (LBR) of the CPU."
        yield error("branch_stacks", text, "Record on another host, or turn it off.")
    elif facts.lbr is False:
        text = f"It is not known whether the CPU of {facts.host} records branch stacks."
        yield warning("branch_stacks", text, "AMD from Zen 3 on and Arm with BRBE do; else perf rejects the event.")
    events = [one for event in timed_events(spec, facts) for one in single_events(event)]
    wrong = [one for one in (*events, *events_of_switches(spec, facts)) if event_type(one, facts) in _OTHER_TYPES]
    if wrong:
        text = f"Branch stacks work only with hardware events, and {wrong[0]} is none."
        yield error("branch_stacks", text, "Choose hardware events such as cycles, without the time off the CPU.")
    if spec.call_graph is CallGraph.LBR:
        text = "The CPU records either branch stacks or call stacks (lbr)."
        yield error("call_graph", text, "Choose dwarf or fp.")
