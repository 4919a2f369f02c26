"""Recordings of two events, for formulas such as cycles per instruction."""

from collections.abc import Mapping

import numpy as np

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Meta, Profile

PERIOD = 1_000_000
CPI = {"lookup": 2.0, "parse": 0.8, "emit": 1.2, "hash": 1.0}
INSTRUCTIONS = {"lookup": 0.25, "parse": 0.35, "emit": 0.2, "hash": 0.2}


def record_cycles(
    seed: int, samples: int = 20_000, *, variation: float = 0.02, cpi: Mapping[str, float] = CPI, faults: bool = False
) -> Profile:
    """A run whose functions, called by `main`, have these cycles per instruction: its speed and that of each function
    vary by `variation`. faults: it has no instructions."""
    chance = np.random.default_rng(seed)
    builder = ProfileBuilder("perf script text")
    events = [
        builder.intern_event(name, "count", sampling="period", rate=PERIOD) for name in ("cycles", "instructions")
    ]
    thread = builder.intern_thread(pid=1, tid=1)
    main = builder.intern_frame(builder.intern_function("main", "/bin/server"))
    speed = np.exp(chance.normal(0, variation))
    for name, ratio in cpi.items():
        frame = builder.intern_frame(builder.intern_function(name, "/bin/server"))
        stack = builder.intern_stack([main, frame])
        own = np.exp(chance.normal(0, variation))
        means = samples * INSTRUCTIONS[name] * ratio * speed * own, samples * INSTRUCTIONS[name]
        for event, mean in list(zip(events, means, strict=True))[: 1 if faults else 2]:
            count = int(chance.poisson(mean))
            time = np.sort(chance.integers(0, 10**9, count))
            same = [np.full(count, value) for value in (thread, 0, event, stack, PERIOD)]
            builder.add_samples(time, *same)
    return builder.finish(Meta("perf script text", command="server --once", duration_ns=10**9))
