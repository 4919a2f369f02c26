"""The built-in formulas.

Names are those of perf's events. CPI, IPC and MPKI are defined as in Hennessy and Patterson, Computer Architecture, 1.9
and appendix B. Times are in nanoseconds, so cycles ÷ task-clock is GHz. A formula applies where its events were
measured; of several with the same name, the first such one does.
"""

from ...domain.formulas.formula import Formula

BUILTIN_FORMULAS = (
    Formula("IPC", "instructions / cycles", "", "Instructions per cycle."),
    Formula("CPI", "cycles / instructions", "", "Cycles per instruction."),
    Formula("clock rate", "cycles / task-clock", "GHz", "Cycles per nanosecond of CPU time."),
    Formula("clock rate", "cycles / cpu-clock", "GHz", "Cycles per nanosecond of CPU time."),
    Formula("branch misses", "branch-misses / branches * 100", "%", "Mispredicted branches, of all branches."),
    Formula("branch MPKI", "branch-misses / instructions * 1000", "", "Mispredicted branches per 1,000 instructions."),
    Formula(
        "cache misses", "cache-misses / cache-references * 100", "%", "Misses, of all references to the last cache."
    ),
    Formula("cache MPKI", "cache-misses / instructions * 1000", "", "Misses of the last cache per 1,000 instructions."),
    Formula("LLC load misses", "LLC-load-misses / LLC-loads * 100", "%", "Misses, of all loads from the last cache."),
    Formula(
        "LLC MPKI",
        "LLC-load-misses / instructions * 1000",
        "",
        "Loads that missed the last cache per 1,000 instructions.",
    ),
    Formula(
        "L1D load misses",
        "L1-dcache-load-misses / L1-dcache-loads * 100",
        "%",
        "Misses, of all loads from the L1 data cache.",
    ),
    Formula(
        "L1D MPKI",
        "L1-dcache-load-misses / instructions * 1000",
        "",
        "Loads that missed the L1 data cache per 1,000 instructions.",
    ),
    Formula(
        "L1I MPKI",
        "L1-icache-load-misses / instructions * 1000",
        "",
        "Misses of the L1 instruction cache per 1,000 instructions.",
    ),
    Formula(
        "dTLB load misses", "dTLB-load-misses / dTLB-loads * 100", "%", "Misses, of all loads through the data TLB."
    ),
    Formula(
        "dTLB MPKI",
        "dTLB-load-misses / instructions * 1000",
        "",
        "Loads that missed the data TLB per 1,000 instructions.",
    ),
    Formula(
        "iTLB MPKI",
        "iTLB-load-misses / instructions * 1000",
        "",
        "Misses of the instruction TLB per 1,000 instructions.",
    ),
    Formula(
        "front-end stalls",
        "stalled-cycles-frontend / cycles * 100",
        "%",
        "Cycles in which the front end delivered nothing.",
    ),
    Formula(
        "back-end stalls",
        "stalled-cycles-backend / cycles * 100",
        "%",
        "Cycles in which the back end accepted nothing.",
    ),
    Formula("page faults", "page-faults / task-clock * 1e9", "/s", "Page faults per second of CPU time."),
    Formula("page faults", "page-faults / cpu-clock * 1e9", "/s", "Page faults per second of CPU time."),
    Formula(
        "context switches", "context-switches / task-clock * 1e9", "/s", "Context switches per second of CPU time."
    ),
    Formula("context switches", "context-switches / cpu-clock * 1e9", "/s", "Context switches per second of CPU time."),
)
