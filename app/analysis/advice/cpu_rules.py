"""The rules for sampled CPU profiles, one row each."""

from . import cpu_detectors
from .model import Rule

CPU_RULES = (
    Rule(
        "few-samples",
        "There are few samples",
        500,
        "",
        "number of samples of the main event",
        "hotspots",
        cpu_detectors.detect_few_samples,
        "Record for longer or at a higher frequency, or repeat the run. Do not compare small shares.",
        triggers_below=True,
    ),
    Rule(
        "unresolved-symbols",
        "Functions have no symbols",
        10,
        "%",
        "share of samples in functions without a symbol",
        "hotspots",
        cpu_detectors.detect_unresolved_symbols,
        "Install the debug symbols of these libraries (Debian: the -dbgsym packages; or set DEBUGINFOD_URLS), do not "
        "strip your program, and let a JIT compiler write a map (perf-PID.map). Then record again.",
    ),
    Rule(
        "cut-off-stacks",
        "Call stacks are incomplete",
        10,
        "%",
        "share of samples whose call stack does not reach the start of its thread",
        "flamegraph",
        cpu_detectors.detect_cut_off_stacks,
        "With frame pointers: build with -fno-omit-frame-pointer, or record with --call-graph dwarf. With dwarf: copy "
        "larger stacks (--stack-bytes 65528). For deep recursion raise kernel.perf_event_max_stack.",
    ),
    Rule(
        "waiting",
        "CPU time is spent waiting",
        10,
        "%",
        "share of samples in locks, sleeps, barriers, spin loops and MPI",
        "flamegraph",
        cpu_detectors.detect_waiting,
        "Find in the flame graph who waits for what. Hold locks for less time or split them, give all ranks and "
        "threads equal work, and overlap communication with computation. Threads that sleep use no CPU time: see the "
        "time off the CPU (perfloom record --off-cpu).",
    ),
    Rule(
        "imbalance",
        "Work is unevenly distributed",
        20,
        "%",
        "how much more one rank or thread computes than the mean, without waiting",
        "matrix",
        cpu_detectors.detect_imbalance,
        "Divide the work of this function into smaller or equal parts. The matrix has all functions by rank and "
        "thread, computing and waiting separated.",
    ),
    Rule(
        "idle-cpus",
        "CPUs are idle",
        50,
        "%",
        "share of the CPU time of the host that the program used",
        "timeline",
        cpu_detectors.detect_idle_cpus,
        "If the work can be divided, use more threads or processes. If threads wait for each other or for I/O, see "
        "the time off the CPU (perfloom record --off-cpu).",
        triggers_below=True,
    ),
)
"""Every rule for CPU profiles, in the order in which pages list them."""
WAITING_RULES = frozenset({"waiting", "idle-cpus"})
"""The rules whose cause may be in the time off the CPU."""
