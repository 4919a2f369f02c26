"""Names of events whose samples represent the time around them."""

import re

from .event_names import CLOCK_EVENTS, split_modifiers, split_sampling_terms

RUNNING, RUNNABLE, SLEEPING = "running time", "runnable time", "sleeping time"
SLEEPING_BY_WAKER = "sleeping time by waker"
RUNNING_BY_STACK = "running time by stack"
SCHEDULER_EVENTS = frozenset({RUNNING, RUNNABLE, SLEEPING, SLEEPING_BY_WAKER})
"""The events that are computed from the context switches of threads."""
LOCK_WAIT = "lock wait time"
WALL_TIME, CPU_TIME = "wall time", "CPU time"
"""The events of austin: the time since the previous sample, and the part of it in which the thread did not wait."""
SAMPLED_JAVASCRIPT, IDLE = "sampled JavaScript", "idle"
"""The events of V8. IDLE: samples in which nothing ran, which would otherwise dominate the profile of a server."""
IDLE_FUNCTION = "(idle)"
"""The function of V8's samples in which nothing ran."""
IN_ORDER = "order of samples"
"""The clock of a profile without times: time_ns then counts samples, and the profile has no duration."""
_CYCLES = re.compile(r"((cpu|ref)[-_])?cycles|cpu_clk_unhalted\b.*", re.IGNORECASE)
_INSTRUCTIONS = re.compile(r"instructions|inst_retired\b.*", re.IGNORECASE)
_PMU = re.compile(r"[^/]+/(?:event=)?([^/,]+)[^/]*/")


def is_clock(event: str) -> bool:
    """Whether an event of perf counts running time: cpu-clock, task-clock:u, cpu-clock/freq=99/."""
    return _get_base_event(event) in CLOCK_EVENTS


def is_cycles(event: str) -> bool:
    """Whether an event of perf counts cycles: cycles:u, cpu_core/cycles/, cpu/event=cpu-cycles,period=9/."""
    return _CYCLES.fullmatch(_get_base_event(event)) is not None


def is_instructions(event: str) -> bool:
    """Whether an event of perf counts instructions: instructions:u, inst_retired.any."""
    return _INSTRUCTIONS.fullmatch(_get_base_event(event)) is not None


def _get_base_event(event: str) -> str:
    """Without modifiers, sampling terms, and the PMU that counts it."""
    name = split_modifiers(split_sampling_terms(event)[0])[0]
    inside = _PMU.fullmatch(name)
    return inside[1] if inside else name
